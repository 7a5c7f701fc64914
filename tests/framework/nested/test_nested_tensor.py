"""Nested tensors beside PyTorch's."""

import logging
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.sparse_calls import answer
from vkbackend.framework.base.device import CPU, Device

CALLS = """
    list(x.unbind())
    (x.to_padded_tensor(0.0), m.nested.to_padded_tensor(x, -1.0, (3, 4, 4)))
    ((x * 2).values(), (x + x).values(), (x * b).values(), (x * V).values())
    x + y
    (m.relu(x).values(), m.exp(x).values(), m.where(x > 0, x, -x).values())
    (F.linear(x, W, B).values(), (x @ W.t()).values())
    (F.layer_norm(x, (4,)).values(), F.softmax(x, -1).values(), F.gelu(x).values())
    (x.sum(), x.mean(), x.sum(-1).values(), x.sum(1), x.mean(1))
    (x - x.mean(-1, keepdim=True)).values()
    (x.offsets(), x.values(), x[1], x.size(0), x.size(2), x.dim(), len(x), x.numel())
    (x.is_nested, x.layout == m.jagged, x.requires_grad)
    (x.transpose(1, 2).values(), x.unflatten(-1, (2, 2)).values(), x.double().values())
"""


def scope(m: Any, place: Any) -> dict[str, Any]:
    """Return the names of calls."""
    rng = np.random.default_rng(5)

    def made(*shape: int) -> Any:
        return m.tensor(rng.normal(size=shape).astype(np.float32), device=place)

    parts = [made(length, 4) for length in (2, 3, 1)]
    nested = m.nested.nested_tensor
    return {
        "m": m, "F": m.nn.functional, "W": made(5, 4), "B": made(5), "V": made(4),
        "b": made(3, 1, 4), "x": nested(parts, layout=m.jagged),
        "y": nested(parts[::-1], layout=m.jagged),
    }  # fmt: skip


def compare(place: Device) -> None:
    """Compare the calls on a device with PyTorch's."""
    logging.disable(logging.WARNING)
    ours, theirs = scope(fw, place), scope(torch, "cpu")
    logging.disable(logging.NOTSET)
    for line in CALLS.strip().split("\n"):
        expected, found = answer(line.strip(), theirs), answer(line.strip(), ours)
        if expected[0] == "error" == found[0]:
            assert issubclass(found[1], expected[1])
        else:
            assert found == expected, line


def test_calls_are_as_in_torch() -> None:
    compare(CPU)


@pytest.mark.wide
@pytest.mark.device
def test_calls_on_a_device_are_as_in_torch(gpu: Device) -> None:
    compare(gpu)


def test_gradients_are_as_in_torch(place: Device) -> None:
    found = []
    for m, where in ((fw, place), (torch, "cpu")):
        names = scope(m, where)
        parts = [each.detach().requires_grad_() for each in names["x"].unbind()]
        weight = names["W"].requires_grad_()
        x = m.nested.as_nested_tensor(parts, layout=m.jagged)
        hidden = names["F"].linear(x, weight).relu()
        (hidden.to_padded_tensor(0.0) ** 2).sum().backward()
        found.append([each.grad.cpu().numpy() for each in (*parts, weight)])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_what_it_does_not_take_is_refused_by_name() -> None:
    x = scope(fw, CPU)["x"]
    with pytest.raises(NotImplementedError, match=r"concat: the tensor .* is nested"):
        fw.cat([x, x], -1)
    with pytest.raises(RuntimeError, match="its ragged size must be 1"):
        x + fw.ones(3, 2, 4)
