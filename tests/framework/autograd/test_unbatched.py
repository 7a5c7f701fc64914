"""Hooks between a function of batches and the dimension that is added for it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw


def given(library: Any, *shape: int, seed: int = 0) -> Any:
    """Return a tensor that is no leaf, and that only the tape keeps."""
    elements = np.random.default_rng(seed).standard_normal(shape)
    return library.tensor(elements.astype("float32")).requires_grad_() * 1


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "conv1d": lambda t, f: f.conv1d(
        given(t, 2, 5), given(t, 3, 2, 2, seed=1), given(t, 3, seed=2)
    ),
    "conv1d of one tensor": lambda t, f: (
        lambda x: f.conv1d(x, x.unsqueeze(0), padding=1)
    )(given(t, 2, 3)),
    "conv2d": lambda t, f: f.conv2d(given(t, 2, 4, 4), given(t, 3, 2, 2, 2, seed=1)),
    "conv3d": lambda t, f: f.conv3d(given(t, 1, 3, 3, 3), given(t, 2, 1, 2, 2, 2)),
    "conv_transpose1d": lambda t, f: f.conv_transpose1d(
        given(t, 2, 3), given(t, 2, 1, 2, seed=1)
    ),
    "avg_pool1d": lambda t, f: f.avg_pool1d(given(t, 1, 2, 6), 2),
    "max_pool1d": lambda t, f: f.max_pool1d(given(t, 2, 6), 2),
    "max_pool1d with indices": lambda t, f: f.max_pool1d(
        given(t, 1, 2, 6), 3, return_indices=True
    )[0],
    "adaptive_avg_pool1d": lambda t, f: f.adaptive_avg_pool1d(given(t, 2, 6), 2),
    "max_unpool1d": lambda t, f: f.max_unpool1d(
        given(t, 1, 1, 2), t.tensor([[[1, 2]]]), 2
    ),
}


def nodes_of(out: Any) -> list[Any]:
    """Return the nodes behind a result, depth first."""
    found, left = [], [out.grad_fn]
    while left:
        node = left.pop()
        if node is not None and "Accumulate" not in node.name():
            found.append(node)
            left += [each for each, _ in reversed(node.next_functions)]
    return found


def plain(grads: tuple[Any, ...]) -> list[Any]:
    return [None if each is None else np.array(each.tolist()) for each in grads]


def seen(library: Any, function: Any, *, backwards: bool) -> list[Any]:
    """Return what hooks on all nodes see, and what the pass gives after them."""
    out = function(library, library.nn.functional)
    nodes, found = nodes_of(out), []

    def hook(name: str, at: int) -> Any:
        def called(inner: Any, outer: Any) -> Any:
            found.append((at, name, plain(inner), plain(outer)))
            return tuple([None if each is None else each * 2 for each in inner])

        return called

    def before(name: str) -> Any:
        return lambda outer: found.append((-1, name, [], plain(outer)))

    for at, node in enumerate(reversed(nodes) if backwards else nodes):
        node.register_hook(hook(node.name(), at))
        node.register_prehook(before(node.name()))
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    return sorted(found, key=lambda each: (each[0], each[1], str(each[3])))


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    """Compare what hooks have seen."""
    assert [each[:2] for each in found] == [each[:2] for each in wanted]
    for ours, theirs in zip(found, wanted):
        for one, other in zip(ours[2] + ours[3], theirs[2] + theirs[3]):
            assert (one is None) == (other is None), ours[1]
            if other is not None:
                assert one.shape == other.shape, ours[1]
                np.testing.assert_allclose(one, other, 1e-5, 1e-5, err_msg=ours[1])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hooks_see_each_node(name: str, backwards: bool) -> None:
    wanted = seen(torch, FUNCTIONS[name], backwards=backwards)
    found = seen(fw, FUNCTIONS[name], backwards=backwards)
    assert_same(found, wanted)


def test_gradients_of_gradients_pass_the_nodes() -> None:
    def second(library: Any) -> Any:
        x = library.tensor([[1.0, 2.0, 4.0, 3.0]]).requires_grad_()
        weight = library.tensor([[[0.5, -1.0]]]).requires_grad_()
        out = library.nn.functional.conv1d(x, weight)
        out.grad_fn.register_hook(lambda inner, outer: None)
        (first,) = library.autograd.grad((out**2).sum(), x, create_graph=True)
        (first**2).sum().backward()
        return x.grad.tolist(), weight.grad.tolist()

    for ours, theirs in zip(second(fw), second(torch)):
        np.testing.assert_allclose(ours, theirs, 1e-5)
