"""Hooks on nodes that are shown in the place of several."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.autograd.tape import show_as
from vkbackend.framework.base.errors import GradError

X = [[1.0, 2.0], [3.0, 5.0]]
WEIGHT = [[1.0, -1.0], [2.0, 0.5], [0.0, 3.0]]
BIAS = [1.0, 2.0, 3.0]


def hooked(module: Any, biased: bool, change: bool, wanted: int | None) -> list[Any]:
    """Return what hooks on the node of a linear function see and make of it."""
    x, weight, bias = (
        module.tensor(each, requires_grad=True) for each in (X, WEIGHT, BIAS)
    )
    y = module.nn.functional.linear(x, weight, bias if biased else None)
    seen: list[Any] = []

    def after(grads: tuple[Any, ...], outer: tuple[Any, ...]) -> Any:
        seen.append([e if e is None else e.tolist() for e in (*grads, *outer)])
        scales = range(2, 2 + len(grads))
        return tuple(g * k for g, k in zip(grads, scales)) if change else None

    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(after)
    removed = y.grad_fn.register_hook(lambda *_: seen.append("removed"))
    removed.remove()
    y.grad_fn.register_hook(lambda grads, outer: seen.append("second"))
    loss = (y * y).sum()
    if wanted is not None:
        found = module.autograd.grad(loss, [(x, weight, bias)[wanted]])
        return [*seen[-1:], *[each.tolist() for each in found]]
    loss.backward(retain_graph=True)
    loss.backward()
    grads = [x.grad, weight.grad, bias.grad]
    return [*seen, *[each if each is None else each.tolist() for each in grads]]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("change", [True, False])
def test_hooks_of_a_linear_function_are_as_in_pytorch(
    biased: bool, change: bool
) -> None:
    expected = hooked(torch, biased, change, None)
    assert hooked(fw, biased, change, None) == expected


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_they_are_called_where_some_gradients_are_wanted(wanted: int) -> None:
    assert hooked(fw, True, False, wanted) == hooked(torch, True, False, wanted)


def hooked_module(module: Any) -> list[Any]:
    layer = module.nn.Linear(2, 3)
    seen: list[Any] = []

    def hook(_: Any, grads: tuple[Any, ...], outer: tuple[Any, ...]) -> None:
        seen.append([tuple(each.shape) for each in (*grads, *outer)])

    layer.register_backward_hook(hook)
    layer(module.tensor(X, requires_grad=True)).sum().backward()
    return seen


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_old_backward_hooks_of_modules_see_what_pytorch_shows() -> None:
    assert hooked_module(fw) == hooked_module(torch)


def test_others_are_refused() -> None:
    x, y = fw.ones(2, requires_grad=True), fw.ones(2, requires_grad=True)
    loss = x * y
    show_as(loss, "OtherBackward0", x)
    with pytest.raises(GradError, match="OtherBackward0 is computed with other"):
        loss.grad_fn.register_hook(print)


NODES = [
    ("FlipBackward0", lambda m, x: m.flip(x, (0,))),
    ("ClampBackward1", lambda m, x: x.clamp(0, 1)),
    ("ClampBackward0", lambda m, x: x.clamp(max=x * 2)),
    ("PdistBackward0", lambda m, x: m.nn.functional.pdist(x)),
    ("RollBackward0", lambda m, x: m.roll(x, 1, 0)),
    ("RepeatBackward0", lambda m, x: x.repeat(2, 1)),
    ("LogaddexpBackward0", lambda m, x: m.logaddexp(x, x * 2)),
    ("IndexAddBackward0", lambda m, x: x.index_add(0, m.tensor([1]), x[:1] * 2)),
    ("TraceBackward0", lambda m, x: x.trace()),
    ("LinalgEighBackward0", lambda m, x: m.linalg.eigh(x)[0]),
    ("CummaxBackward0", lambda m, x: x.cummax(1)[0]),
    ("VarMeanBackward0", lambda m, x: m.var_mean(x)[1]),
    ("SoftshrinkBackward0", lambda m, x: m.nn.functional.softshrink(x)),
    ("CeluBackward0", lambda m, x: m.nn.functional.celu(x)),
    ("CdistBackward0", lambda m, x: m.cdist(x, x * 2)),
    (
        "AvgPool2DBackward0",
        lambda m, x: m.nn.functional.avg_pool2d(x.view(1, 1, 2, 2), 2),
    ),
]


@pytest.mark.parametrize(("name", "function"), NODES)
def test_functions_show_pytorchs_node(name: str, function: Any) -> None:
    found = []
    for module in (fw, torch):
        x = module.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
        node = function(module, x).grad_fn
        inputs = [each and each.name() for each, _ in node.next_functions]
        found.append([node.name(), *inputs])
    assert found[0] == found[1]
    assert found[0][0] == name


def test_an_input_that_is_returned_keeps_its_node() -> None:
    x = fw.ones(2, requires_grad=True) * 2
    assert fw.nan_to_num(x).grad_fn.name() == "NanToNumBackward0"
    assert fw.flip(x, ()).grad_fn.name() in ("FlipBackward0", "MulBackward0")
    assert x.grad_fn.name() == "MulBackward0"


CHAINS: list[Any] = [
    lambda m, x: m.linalg.cholesky(x),
    lambda m, x: m.rsub(x, x * 2),
    lambda m, x: m.diag(x),
    lambda m, x: m.div(x, x * 2, rounding_mode="floor"),
    lambda m, x: m.nextafter(x, x * 2),
    lambda m, x: m.linalg.multi_dot([x, x, x]),
    lambda m, x: m.linalg.multi_dot([x[0], x, x[1]]),
    lambda m, x: m.matrix_power(x, 3),
    lambda m, x: m.nn.functional.pairwise_distance(x, x * 2),
    lambda m, x: m.trapezoid(x),
    lambda m, x: m.trapezoid(x, x * 2),
    lambda m, x: m.cumulative_trapezoid(x, dx=2),
    lambda m, x: m.block_diag(x, x),
    lambda m, x: m.squeeze_copy(x[None], 0),
    lambda m, x: m.fft.fftn(x, (1, 3)),
    lambda m, x: m.fft.rfft2(x, (1, 3)),
    lambda m, x: m.fft.irfftn(x),
    lambda m, x: m.scatter(x, 0, m.tensor([[0, 1]]), x * 2),
    lambda m, x: m.scatter(x[0], 0, m.tensor([0]), 2.0),
    lambda m, x: m.linalg.vecdot(x[0], x[1]),
    lambda m, x: m.fill(x, 2.0),
    lambda m, x: x.index_fill(0, m.tensor([0]), x[0, 0]),
    lambda m, x: m.atleast_2d(x[0]),
    lambda m, x: x.H,
]


def chain(node: Any, depth: int = 6) -> list[Any]:
    """Return the names of nodes behind one, as far as PyTorch's lead too."""
    if node is None or not depth:
        return []
    behind = [chain(each, depth - 1) for each, _ in node.next_functions]
    return [node.name(), *[each for each in behind if each]]


@pytest.mark.parametrize("function", CHAINS)
def test_functions_show_pytorchs_chains(function: Any) -> None:
    found, values = [], []
    for module in (fw, torch):
        x = module.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
        result = function(module, x)
        found.append(chain(result.grad_fn))
        values.append(torch.tensor(result.detach().tolist()))
    assert found[0] == found[1]
    assert torch.allclose(*values)
