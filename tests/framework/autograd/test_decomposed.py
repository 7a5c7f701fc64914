"""Hooks between the nodes that PyTorch composes a function of."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.autograd.decomposed import DecomposedNode
from vkbackend.framework.base.errors import GradError

CASES: list[tuple[Any, list[tuple[int, ...]]]] = [
    (lambda m, x: loss(m, x, [0, 2, 1]), [(3, 4)]),
    (lambda m, x: loss(m, x, [0, -100, 1], reduction="none"), [(3, 4)]),
    (lambda m, x: loss(m, x * 2, [0, 2, 1], m.tensor([1.0, 2, 3, 4])), [(3, 4)]),
    (lambda m, x: loss(m, x, [[0, 2], [1, 1]], reduction="none"), [(2, 3, 2)]),
    (lambda m, x: loss(m, x, 2), [(4,)]),
    (lambda m, x, w, b: m.nn.functional.linear(x, w, b), [(2, 3, 4), (5, 4), (5,)]),
    (lambda m, x, w: m.nn.functional.linear(x, w), [(2, 3, 4), (5, 4)]),
    (lambda m, x, w, b: m.nn.functional.linear(x, w, b), [(3, 4), (5, 4), (5,)]),
    (lambda m, x: m.nn.functional.linear(x, x), [(3, 3)]),
    (lambda m, x, y: x @ y, [(2, 3, 4), (4, 5)]),
    (lambda m, x, y: x @ y, [(2, 3, 4), (4,)]),
    (lambda m, x, y: x @ y, [(4,), (4, 5)]),
    (lambda m, x, y: x @ y, [(2, 3, 4), (2, 4, 5)]),
    (lambda m, x: m.nn.functional.softsign(x), [(3,)]),
    (lambda m, x: m.block_diag(x, x * 2, x), [(2, 2)]),
    (lambda m, x: m.addmm(x, x, x), [(2, 2)]),
    (lambda m, x: x @ x, [(3, 3)]),
    (lambda m, x: m.logaddexp(other=x, input=x), [(3,)]),
]


def loss(m: Any, x: Any, labels: Any, weight: Any = None, **options: Any) -> Any:
    return m.nn.functional.cross_entropy(x, m.tensor(labels), weight, **options)


def nodes(node: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the nodes behind one, with it, and how they are reached."""
    if node is None or "Accumulate" in node.name():
        return []
    behind = [
        found
        for at, (each, _) in enumerate(node.next_functions)
        for found in nodes(each, f"{path}{at}.")
    ]
    return [(path + node.name(), node), *behind]


def run(m: Any, case: int, change: bool) -> tuple[list[str], list[np.ndarray]]:
    """Return the nodes' names, and what their hooks see and make of the gradients."""
    function, shapes = CASES[case]
    rng = np.random.default_rng(case)
    given = [
        m.tensor(rng.normal(size=shape).astype(np.float32), requires_grad=True)
        for shape in shapes
    ]
    result, seen = function(m, *given), []

    def hook(name: str, scale: float) -> Any:
        def after(grads: Any, outer: Any) -> Any:
            seen.extend([(name, e.numpy()) for e in (*grads, *outer) if e is not None])
            return tuple(e if e is None else e * scale for e in grads)

        return after

    found = nodes(result.grad_fn)
    for at, (name, node) in enumerate(found):
        node.register_hook(hook(name, 1 + 0.1 * at if change else 1))
    (result * result).sum().backward()
    seen.sort(key=lambda each: each[0])
    arrays = [array for _, array in seen] + [each.grad.numpy() for each in given]
    return [name for name, _ in found] + [name for name, _ in seen], arrays


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_hooks_see_what_they_see_in_pytorch(case: int, change: bool) -> None:
    ours, theirs = (run(module, case, change) for module in (fw, torch))
    assert ours[0] == theirs[0]
    for one, two in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(one, two, 1e-4, 1e-5)


def test_a_node_that_was_given_is_visited() -> None:
    x = fw.ones(2, 3, 4, requires_grad=True)
    out = fw.nn.functional.linear(x, fw.ones(5, 4), fw.ones(5))
    assert isinstance(out.grad_fn._shown(), DecomposedNode)
    inner, seen = out.grad_fn.next_functions[0][0], []
    inner.register_prehook(lambda grads: seen.append(grads[0].shape))
    assert out.grad_fn.next_functions[0][0] is inner
    out.sum().backward()
    assert seen == [(6, 5)]
    assert x.grad.tolist() == [[[5.0] * 4] * 3] * 2


def test_what_was_freed_is_refused() -> None:
    x = fw.ones(2, 3, requires_grad=True)
    out = loss(fw, x * 2, [0, 1])
    log = out.grad_fn.next_functions[0][0]
    out.backward()
    with pytest.raises(GradError, match="freed by a backward"):
        log.register_hook(print)
