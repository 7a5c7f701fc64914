"""Gradients of slices: joined where all parts have one, otherwise added up."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.autograd.engine import backward
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.ir.lazy_graph import Node

SHAPE = (4, 6, 5)
CUTS: dict[str, Callable[[Any], list[Any]]] = {
    "unbind": lambda x: list(x.unbind(1)),
    "chunk": lambda x: list(x.chunk(3, 1)),
    "split": lambda x: list(x.split([1, 4, 1], 1)),
    "out of order": lambda x: [x[2:], x[:2]],
    "places": lambda x: [x[:, :, at] for at in (4, 0, 2, 1, 3)],
    "permuted": lambda x: list(x.permute(2, 0, 1).unbind(0)),
    "two dimensions": lambda x: [p for q in x.chunk(2, 0) for p in q.chunk(2, 1)],
    "parts of parts": lambda x: list(x[:, :, 1:].permute(2, 1, 0).unbind(0)),
    "a gap": lambda x: [x[:, :2], x[:, 3:]],
    "an overlap": lambda x: [x[:, :4], x[:, 2:]],
    "the same twice": lambda x: [x[1:], x[1:], x[:1]],
    "with the whole": lambda x: [*x.unbind(0), x.reshape(-1), x.mT],
    "steps": lambda x: [x[:, ::2], x[:, 1::2]],
    "nothing": lambda x: [x[:, :0], x],
}


def sum_of(parts: list[Any]) -> Any:
    """Return a sum to which each part adds in a way of its own."""
    total = 0
    for k, part in enumerate(parts):
        total = total + (part * part * (k + 1)).sum()
    return total


def pair(place: Device, rng: np.random.Generator) -> tuple[fw.Tensor, torch.Tensor]:
    array = rng.normal(size=SHAPE).astype(np.float32)
    mine = fw.tensor(array, device=place, requires_grad=True)
    return mine, torch.tensor(array, requires_grad=True)


@pytest.mark.parametrize("name", CUTS)
def test_gradients_are_pytorchs(
    name: str, place: Device, rng: np.random.Generator
) -> None:
    x, y = pair(place, rng)
    for leaf in (x, y):
        # Of a result, of a leaf, and of a view.
        for root in (leaf * 2, leaf, leaf.transpose(0, 1).transpose(0, 1)):
            sum_of(CUTS[name](root)).backward()
    assert y.grad is not None
    assert_close(x.grad, y.grad.numpy(), scale=4)


@pytest.mark.parametrize("name", CUTS)
def test_second_derivatives_are_pytorchs(
    name: str, place: Device, rng: np.random.Generator
) -> None:
    x, y = pair(place, rng)
    total = sum_of(CUTS[name](x.exp()))
    (found,) = backward([total], [fw.ones_like(total)], inputs=[x], create_graph=True)
    wanted = torch.autograd.grad(sum_of(CUTS[name](y.exp())), [y], create_graph=True)[0]
    assert_close(found, wanted.detach().numpy(), scale=32)
    (found * found).sum().backward()
    (wanted * wanted).sum().backward()
    assert y.grad is not None
    assert_close(x.grad, y.grad.numpy(), scale=32)


def test_hooks_and_inputs_see_whole_gradients(
    place: Device, rng: np.random.Generator
) -> None:
    x, y = pair(place, rng)
    seen: list[Any] = []
    hidden, other = (x * 3).transpose(0, 1), (y * 3).transpose(0, 1)
    hidden.register_hook(lambda grad: seen.append(grad))
    other.register_hook(lambda grad: seen.append(grad))
    total = sum_of(list(hidden.unbind(1)))
    found = backward([total], [fw.ones_like(total)], inputs=[hidden, x])
    wanted = torch.autograd.grad(sum_of(list(other.unbind(1))), [other, y])
    assert_close(seen[0], seen[1].numpy())
    for one, two in zip(found, wanted):
        assert_close(one, two.numpy())


def test_heads_of_attention_are_joined_in_one_kernel(
    gpu: GpuDevice, rng: np.random.Generator
) -> None:
    """The gradients of three views lie as attention wrote them."""
    x = fw.tensor(rng.normal(size=(2, 5, 24)).astype(np.float32), device=gpu)
    x.requires_grad_()
    q, k, v = x.reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    grads = [rng.normal(size=(2, 2, 5, 4)).astype(np.float32) for _ in range(3)]
    fw.eval()
    backward([q, k, v], [fw.tensor(each, device=gpu) for each in grads])
    nodes: list[Node] = gpu.pending
    assert [node.op.name for node in nodes] == ["concat_strided"]
    expected = np.stack(grads).transpose(1, 3, 0, 2, 4).reshape(2, 5, 24)
    np.testing.assert_array_equal(x.grad.numpy(), expected)
