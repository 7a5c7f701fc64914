"""Functions with rules of the user's, beside PyTorch's."""

import weakref
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError


def several_outputs(log: Log) -> None:
    autograd = log.library.autograd

    class Both(autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float, y: Any) -> Any:
            ctx.save_for_backward(x, None, y)
            ctx.factor = factor
            positive = x > 0
            ctx.mark_non_differentiable(positive)
            return x * y * factor, x + y, positive

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any, third: Any) -> Any:
            x, nothing, y = ctx.saved_tensors
            log.add(second, third, nothing, ctx.needs_input_grad)
            return (
                first * y * ctx.factor + second,
                None,
                first * x * ctx.factor + second,
            )

    x, y = log.tensor([1.0, 2.0]), log.tensor([3.0, 4.0])
    product, total, positive = Both.apply(x, 2.0, y)
    log.add(product, total, positive, positive.requires_grad, total.output_nr)
    log.add(product.grad_fn.name(), len(product.grad_fn.next_functions))
    (first,) = autograd.grad(product.sum(), x, create_graph=True)
    log.add(first, autograd.grad(first.sum(), y, retain_graph=True))
    (product.sum() + total.sum()).backward()
    log.add(x.grad, y.grad)
    log.refused(product.sum().backward)
    with log.library.no_grad():
        log.add(Both.apply(x, 2.0, y)[0].requires_grad)
    log.add(Both.apply(x.detach(), 2.0, y.detach())[0].requires_grad)


def setup_context(log: Log) -> None:
    autograd = log.library.autograd

    class Power(autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(x: Any, n: int = 3) -> Any:
            return x**n

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.n = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, output = ctx.saved_tensors
            return grad * output * ctx.n / x, None

    x = log.tensor([2.0])
    (first,) = autograd.grad(Power.apply(x), x, create_graph=True)
    log.add(first, autograd.grad(first, x))


def in_place(log: Log) -> None:
    class Doubled(log.library.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    class Negative(log.library.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return -grad

    x = log.tensor([1.0, 2.0])
    y = x * 1
    first = y[0]
    z = Doubled.apply(y)
    log.add(z is y, z.grad_fn.name(), z)
    (z.sum() + first * 3).backward()
    log.add(x.grad)
    log.refused(lambda: Doubled.apply(x))
    same = Negative.apply(x)
    x.grad = None
    same.sum().backward()
    log.add(same is x, x.grad)


def unmaterialized(log: Log) -> None:
    class Pair(log.library.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            log.add(first, second)
            return second * 2

    x = log.tensor([1.0])
    Pair.apply(x)[1].sum().backward()
    log.add(x.grad)


PROGRAMS = [several_outputs, setup_context, in_place, unmaterialized]


@pytest.mark.parametrize("program", PROGRAMS)
def test_functions_are_those_of_torch(program: object, place: Device) -> None:
    assert_logs_agree(program, place)  # type: ignore[arg-type]  # a function


def refusals(log: Log) -> None:
    def function(backward: Any, save: bool = False) -> Any:
        class Sum(log.library.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(x)
                return x + y

        Sum.backward = staticmethod(backward)
        return Sum

    x, y = log.tensor([1.0, 2.0]), log.tensor([1.0, 2.0])
    wrong_count = function(lambda ctx, grad: grad)
    wrong_shape = function(lambda ctx, grad: (grad.sum().expand(3, 3), None))
    for each in (wrong_count, wrong_shape):
        log.refused(each.apply(x, y).sum().backward)
    extra = function(lambda ctx, grad: (grad, 1, 2))
    log.refused(extra.apply(x, 3.0).sum().backward)
    log.refused(log.library.autograd.Function.apply)
    overwritten = function(lambda ctx, grad: (ctx.saved_tensors[0], None))
    z = x * 1
    result = overwritten.apply(z, y).sum()
    z.add_(1)
    log.refused(result.backward)


def test_refusals_are_those_of_torch() -> None:
    assert_logs_agree(refusals)


def test_once_differentiable_is_refused_the_second_time() -> None:
    class Square(fw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @fw.autograd.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.saved_tensors[0] * 2 * grad

    x = fw.tensor([3.0], requires_grad=True)
    (first,) = fw.autograd.grad(Square.apply(x) ** 2, x, create_graph=True)
    assert first.tolist() == [108]
    with pytest.raises(GradError, match="once_differentiable"):
        fw.autograd.grad(first, x)


def test_functions_are_replayed_under_jit(place: Device) -> None:
    class Triple(fw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    weight = fw.ones(2, device=place, requires_grad=True)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        weight.grad = None
        (Triple.apply(weight) * x).sum().backward()
        return weight.grad * 1

    for k in range(4):
        x = fw.full((2,), float(k), device=place)
        assert step(x).tolist() == [3 * k] * 2


@pytest.mark.usefixtures("_no_collector")
def test_contexts_are_freed_by_reference_count() -> None:
    class Square(fw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * grad

    x = fw.ones(2, requires_grad=True)
    y = Square.apply(x)
    context = weakref.ref(y.grad_fn)
    y.sum().backward()
    del y
    assert context() is None
