"""Small programs on autograd, written for PyTorch: what they return is compared.

Each is given the library in the place of `torch`, and returns tensors, numbers, texts
and what `raised` says, in lists and tuples. They run on the host.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


class Raised:
    """The built-in classes of an error, the first of which PyTorch's must be among."""

    def __init__(self, error: Exception | None) -> None:
        kinds = type(error).__mro__ if error else ()
        self.error = error
        self.names = [e.__name__ for e in kinds if e.__module__ == "builtins"]

    def __repr__(self) -> str:
        return f"{self.error!r} ({self.names})"


def raised(call: Callable[[], Any]) -> Raised:
    """Return the error that a call raises."""
    try:
        call()
    except Exception as error:
        return Raised(error)
    return Raised(None)


def warned(call: Callable[[], Any]) -> list[str]:
    """Return the classes of the warnings that a call gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [each.category.__name__ for each in found]


def ramp(torch: Any, *shape: int, scale: float = 0.25) -> Any:
    """Return a leaf with different numbers."""
    count = 1
    for size in shape:
        count *= size
    made = torch.arange(count, dtype=torch.float32) * scale - 0.7
    return made.reshape(shape).requires_grad_()


# Modes.


def inference_tensors(torch: Any) -> Any:
    weight = ramp(torch, 3)
    with torch.inference_mode():
        made = torch.ones(3)
        product = weight * 2
        view = weight[1:]
        inside = made.add_(1)
        facts = [torch.is_inference(each) for each in (made, product, view, weight)]
    return [
        facts,
        made.is_inference(),
        product.requires_grad,
        inside,
        (made * 2).is_inference(),
        made.clone().is_inference(),
        made[1:].is_inference(),
        made.detach().is_inference(),
        weight.is_inference(),
    ]


def inference_tensors_are_not_saved(torch: Any) -> Any:
    weight = ramp(torch, 3)
    with torch.inference_mode():
        data = torch.ones(3)
    total = (weight + data).sum()  # nothing saved
    total.backward()
    return [
        raised(lambda: weight * data),
        raised(lambda: torch.nn.functional.linear(data, weight[None])),
        weight.grad,
        (weight * data.clone()).sum(),
        data * 3,
    ]


def inference_tensors_are_changed_inside_only(torch: Any) -> Any:
    with torch.inference_mode():
        data = torch.ones(3)
        data.mul_(2)
    plain = torch.zeros(3)
    copied = data.clone()
    out = [
        raised(lambda: data.add_(1)),
        raised(lambda: data.__setitem__(0, 5.0)),
        raised(lambda: data.requires_grad_()),
        raised(lambda: data._version),
        raised(lambda: data.sum().backward()),
    ]
    with torch.inference_mode():
        data.fill_(7)
        plain.copy_(data)
        with torch.inference_mode(False):
            inner = torch.ones(2)
    plain.add_(1)
    return [*out, plain, copied, data * 1, inner.is_inference()]


def inference_mode_as_decorator(torch: Any) -> Any:
    weight = ramp(torch, 3)

    @torch.inference_mode()
    def predict(x: Any) -> Any:
        return x * weight

    out = predict(torch.ones(3))
    return [out.is_inference(), out.requires_grad, torch.is_inference_mode_enabled()]


def grad_modes(torch: Any) -> Any:
    x = ramp(torch, 3)
    with torch.no_grad():
        first = x * 2
        with torch.enable_grad():
            second = x * 2
    with torch.set_grad_enabled(False):
        third = x * 2
    torch.set_grad_enabled(False)
    fourth = x * 2
    torch.set_grad_enabled(True)
    each = (first, second, third, fourth, x * 2)
    return [[t.requires_grad for t in each], [t.is_leaf for t in each]]


def a_generator_under_no_grad(torch: Any) -> Any:
    x = ramp(torch, 3)

    @torch.no_grad()
    def steps() -> Any:
        yield (x * 2).requires_grad
        yield torch.is_grad_enabled()

    found = []
    for each in steps():
        found.append((each, torch.is_grad_enabled()))
    return found


# Versions, views, `data` and `detach`.


def data_has_a_version_of_its_own(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x.exp()
    y.data.mul_(2)
    y.sum().backward()
    z = x.exp()
    z.detach().mul_(2)
    return [x.grad, raised(lambda: z.sum().backward()), y._version, z._version]


def versions(torch: Any) -> Any:
    x = torch.zeros(4)
    seen = [x._version]
    x.add_(1)
    seen.append(x._version)
    x[0] = 3
    view = x[1:]
    view.mul_(2)
    seen += [x._version, view._version, x.detach()._version]
    x.data.add_(1)
    seen += [x._version]
    x.detach().add_(1)
    seen += [x._version, x.clone()._version]
    return [seen, x]


def views_and_bases(torch: Any) -> Any:
    x = ramp(torch, 2, 3)
    y = x * 1
    view = y[0]
    deep = view[1:]
    return [
        x._is_view(),
        y._is_view(),
        view._is_view(),
        view._base is y,
        deep._base is y,
        y.reshape(3, 2)._is_view(),
        y.t()._base is y,
        y.clone()._is_view(),
        y._base is None,
        y.detach()._is_view(),
        y.contiguous() is y,
    ]


def change_of_a_saved_value(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x.sigmoid()
    y.add_(1)
    w = ramp(torch, 3)
    z = w * 2
    product = z * z
    z.zero_()
    fine = ramp(torch, 3)
    kept = fine * 2
    kept.add_(1)
    kept.sum().backward()
    return [
        raised(lambda: y.sum().backward()),
        raised(lambda: product.sum().backward()),
        fine.grad,
    ]


def change_of_leaves(torch: Any) -> Any:
    x = ramp(torch, 3)
    first = raised(lambda: x.add_(1))
    second = raised(lambda: x[1:].add_(1))
    third = raised(lambda: x.__setitem__(0, 1.0))
    with torch.no_grad():
        x.add_(1)
    return [first, second, third, x, x.is_leaf]


def change_of_several_views(torch: Any) -> Any:
    out = []
    for parts in (
        lambda y: y.unbind(0),
        lambda y: y.chunk(2),
        lambda y: y.split(1),
        lambda y: y.split([1, 1]),
        lambda y: torch.unbind(y),
    ):
        y = ramp(torch, 2, 4) * 2
        out.append(raised(lambda parts=parts, y=y: parts(y)[0].mul_(2)))
    plain = torch.ones(2, 4)
    plain.chunk(2)[0].mul_(3)
    with torch.no_grad():
        y = ramp(torch, 2, 4) * 2
        y.chunk(2)[0].mul_(3)
    parts = ramp(torch, 2, 4) * 2
    parts.tensor_split(2)[0].mul_(2)
    torch.hsplit(parts, 2)[1].mul_(3)
    return [out, plain, y, parts]


def changes_through_views(torch: Any) -> Any:
    x = ramp(torch, 3, 4)
    y = x * 2
    y[0].mul_(3)
    y[:, 1] = 0
    y.t()[2].add_(x[:, 0].sum())
    (y * y).sum().backward()
    return [y, x.grad, y.grad_fn is not None]


def change_of_a_view_made_without_grad(torch: Any) -> Any:
    x = ramp(torch, 4) * 1
    with torch.no_grad():
        view = x[:2]
    return [raised(lambda: view.mul_(2)), raised(lambda: view.__setitem__(0, 1.0))]


def change_of_expanded(torch: Any) -> Any:
    x = torch.zeros(3, 1).expand(3, 4)
    return [raised(lambda: x.add_(1)), raised(lambda: x.copy_(torch.ones(3, 4)))]


def requires_grad_rules(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x * 2

    def unset() -> None:
        y.requires_grad = False

    return [
        raised(unset),
        raised(lambda: y.requires_grad_(False)),
        raised(lambda: torch.arange(3).requires_grad_()),
        raised(lambda: torch.ones(3, dtype=torch.int64, requires_grad=True)),
        raised(lambda: y.detach_()),
        y.requires_grad,
        y.is_leaf,
        (x * 0).detach().requires_grad_().is_leaf,
    ]


def grad_rules(torch: Any) -> Any:
    x = ramp(torch, 3)

    def set_grad(value: Any) -> Callable[[], None]:
        def run() -> None:
            x.grad = value

        return run

    kinds = [
        raised(set_grad(torch.ones(4))),
        raised(set_grad(torch.ones(3, dtype=torch.float64))),
        raised(set_grad(3.0)),
        raised(set_grad(torch.ones(3))),
    ]
    kept = x.grad
    (x * 2).sum().backward()
    return [kinds, kept, x.grad is kept, x.grad, raised(lambda: copy.deepcopy(x * 2))]


def backward_rules(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x * x
    total = y.sum()
    total.backward(retain_graph=True)
    total.backward()
    return [
        x.grad,
        raised(lambda: total.backward()),
        raised(lambda: (x * x).backward()),
        raised(lambda: torch.ones(1).backward()),
        raised(lambda: (x * x).backward(torch.ones(2))),
        raised(lambda: (x + 1).sum().backward() or (x + 1).sum().backward()),
        raised(lambda: torch.autograd.backward([], [])),
    ]


def backward_of_several(torch: Any) -> Any:
    x, w = ramp(torch, 3), ramp(torch, 3, scale=0.5)
    first, second = x * w, x + w
    torch.autograd.backward(
        [first, second], [torch.ones(3), torch.full((3,), 2.0)], inputs=[w]
    )
    return [x.grad, w.grad]


# `grad` and higher derivatives.


def grads_of_grads(torch: Any) -> Any:
    x = ramp(torch, 4)
    y = (x.sin() * x**3).sum()
    out = []
    for _ in range(3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        out.append(y.detach())
        y = y.sum()
    return out


def unused_inputs(torch: Any) -> Any:
    x, w = ramp(torch, 3), ramp(torch, 3)
    total = (x * 2).sum()
    return [
        raised(lambda: torch.autograd.grad((x * 2).sum(), [x, w])),
        torch.autograd.grad(total, [x, w], allow_unused=True, retain_graph=True),
        torch.autograd.grad(total, [x, w], materialize_grads=True, retain_graph=True),
        raised(lambda: torch.autograd.grad(total, [torch.ones(3)])),
        raised(
            lambda: torch.autograd.grad(
                total, [x, w], allow_unused=False, materialize_grads=True
            )
        ),
    ]


def batched_grads(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x**2
    return torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)


def grads_of_inner_values(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x * 2
    z = (y**2).sum()
    (inner,) = torch.autograd.grad(z, y, retain_graph=True)
    y.retain_grad()
    z.backward()
    return [inner, y.grad, x.grad, y.retains_grad, y.is_leaf]


def complex_gradients(torch: Any) -> Any:
    x = torch.tensor([1 + 2j, 0.5 - 1j], requires_grad=True)
    loss = (x * x.conj()).real.sum() + x.abs().sum()
    loss.backward()
    return [x.grad, raised(lambda: (x * x).sum().backward())]


def dtypes_of_gradients(torch: Any) -> Any:
    x = ramp(torch, 3)
    half = x.to(torch.float16)
    double = x.double()
    (half.float().sum() + (double * 2).sum() + (x * 3).half().sum()).backward()
    return [x.grad, str(half.dtype), str(double.dtype)]


def integers_are_cut_off(torch: Any) -> Any:
    x = ramp(torch, 4)
    return [
        x.argmax().requires_grad,
        (x > 0).requires_grad,
        x.long().requires_grad,
        x.sort()[1].requires_grad,
        x.sort()[0].requires_grad,
        x.max(0).indices.requires_grad,
        torch.zeros_like(x).requires_grad,
        x.round().requires_grad,
        x.floor().requires_grad,
        x.sign().requires_grad,
    ]


def subgradients(torch: Any) -> Any:
    out = []
    values = [-1.0, 0.0, 1.0, 1.0, 3.0]
    for function in (
        lambda x: x.relu(),
        lambda x: x.abs(),
        lambda x: x.clamp(0, 1),
        lambda x: x.max(),
        lambda x: x.amax(),
        lambda x: x.min(0)[0],
        lambda x: torch.maximum(x, x.new_ones(5)),
        lambda x: x.sign(),
        lambda x: x.sqrt().nan_to_num(),
        lambda x: x.norm(),
        lambda x: x.median(),
        lambda x: x.prod(),
        lambda x: x.cumprod(0),
        lambda x: torch.nn.functional.hardtanh(x),
        lambda x: torch.nn.functional.relu6(x),
        lambda x: torch.nn.functional.leaky_relu(x),
        lambda x: torch.where(x > 0, x, x * 0),
        lambda x: x.pow(0),
        lambda x: x.pow(2.5).nan_to_num(),
        lambda x: x % 2,
        lambda x: torch.atan2(x, x.flip(0)).nan_to_num(),
        lambda x: x.std(),
        lambda x: x.var(correction=0),
        lambda x: x.logsumexp(0),
        lambda x: x.topk(2)[0],
        lambda x: x.kthvalue(2)[0],
        lambda x: x.mode()[0],
        lambda x: x.frac(),
    ):
        x = torch.tensor(values, requires_grad=True)
        function(x).sum().backward()
        out.append(x.grad)
    return out


# Functions of one's own.


def a_function(torch: Any) -> Any:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            out = (x * scale).exp()
            ctx.save_for_backward(out)
            ctx.scale = scale
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (out,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return grad * out * ctx.scale, None

    x = ramp(torch, 3)
    y = Exp.apply(x, 2.0)
    y.sum().backward()
    return [y, x.grad, type(y.grad_fn).__name__, raised(lambda: Exp()(x))]


def a_function_with_setup_context(torch: Any) -> Any:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3, x.detach().round()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, grad: Any, _: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    x = ramp(torch, 3)
    y, rounded = Cube.apply(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return [y, rounded, rounded.requires_grad, first, second]


def a_function_with_jvp(torch: Any) -> Any:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * grad

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return 20 * ctx.saved_tensors[0] * tangent  # not what backward says

    x = ramp(torch, 3).detach()
    return [
        torch.func.jvp(Square.apply, (x,), (torch.ones(3),)),
        torch.func.jvp(lambda x: Square.apply(x.sin()).sum(), (x,), (torch.ones(3),)),
        torch.func.grad(lambda x: Square.apply(x).sum())(x),
    ]


def a_function_once_differentiable(torch: Any) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = ramp(torch, 3)
    (grad,) = torch.autograd.grad(Double.apply(x).sum(), x, create_graph=True)
    return [grad, raised(lambda: (grad * x).sum().backward() or grad.sum().backward())]


def a_function_in_place(torch: Any) -> Any:
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 5

    x = ramp(torch, 3)
    y = x * 2
    z = AddOne.apply(y)
    z.sum().backward()
    return [z, z is y, x.grad, raised(lambda: AddOne.apply(x))]


def functions_that_are_wrong(torch: Any) -> Any:
    def made(answer: Callable[[Any], Any]) -> Any:
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                return x + y

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return answer(grad)

        return Wrong

    def run(answer: Callable[[Any], Any]) -> Raised:
        x, y = ramp(torch, 3), ramp(torch, 3)
        return raised(lambda: made(answer).apply(x, y).sum().backward())

    return [
        run(lambda g: g),
        run(lambda g: (g, g, g)),
        run(lambda g: (g, g, None)),
        run(lambda g: (g, None)),
        run(lambda g: (g[:2], g)),
        run(lambda g: (g, 3.0)),
    ]


def grads_that_are_not_materialized(torch: Any) -> Any:
    seen = []

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append((first is None, second is None))
            return second * 3

    x = ramp(torch, 3)
    Two.apply(x)[1].sum().backward()
    return [x.grad, seen]


def arrays_of_tensors_on_the_tape(torch: Any) -> Any:
    x = ramp(torch, 2)
    with torch.no_grad():
        inside = x.numpy().tolist()
        doubled = x * 2
    return [
        raised(lambda: x.numpy()),
        raised(lambda: (x * 2).numpy()),
        raised(lambda: x.__array__()),
        raised(lambda: np.asarray(x)),
        raised(lambda: np.sin(x)),
        raised(lambda: x.__dlpack__()),
        raised(lambda: torch.from_dlpack(x)),
        raised(lambda: np.array([x[0], x[1]])),
        raised(lambda: torch.nn.Parameter(torch.ones(2)).numpy()),
        inside,
        doubled.numpy().tolist(),
        x.numpy(force=True).tolist(),
        (x * 2).numpy(force=True).tolist(),
        x.detach().numpy().tolist(),
        x.data.numpy().tolist(),
        x.tolist(),
        x[0].item(),
        float(x[0]),
        torch.tensor([x[0], 2.0]),
        torch.tensor([[x.sum()], [x[1]]]),
        torch.tensor(x).requires_grad,
        torch.as_tensor(x) is x,
        type(torch.utils.dlpack.to_dlpack(x)).__name__,
        np.asarray(torch.nn.Linear(2, 3).state_dict()["bias"]).shape,
    ]
