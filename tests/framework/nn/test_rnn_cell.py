"""Recurrent cells beside PyTorch's, with the same parameters."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device

KINDS: dict[str, dict[str, Any]] = {
    "RNNCell": {"nonlinearity": "relu"},
    "LSTMCell": {},
    "GRUCell": {"bias": False},
}


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_is_as_in_torch(
    kind: str, batched: bool, place: Device, rng: np.random.Generator
) -> None:
    theirs = getattr(torch.nn, kind)(3, 5, **KINDS[kind])
    ours = getattr(nn, kind)(3, 5, **KINDS[kind])
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(theirs.state_dict())
    ours.to(place)
    x = rng.normal(size=(2, 3) if batched else (3,)).astype("f4")
    found, expected = fw.tensor(x, device=place), torch.tensor(x)
    hx: Any = None
    twin: Any = None
    for _ in range(5):  # From the fourth on they are replayed.
        hx, twin = ours(found, hx), theirs(expected, twin)
    mine, other = (hx, twin) if kind == "LSTMCell" else ((hx,), (twin,))
    for one, two in zip(mine, other):
        assert_close(one, two.detach().numpy(), scale=20)
    mine[0].sum().backward()
    other[0].sum().backward()
    for one, two in zip(ours.parameters(), theirs.parameters()):
        assert_close(one.grad, two.grad.numpy(), scale=100)


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_are_pytorchs(kind: str) -> None:
    for method in ("__init__", "forward"):
        ours, theirs = (
            inspect.signature(getattr(getattr(space, kind), method)).parameters
            for space in (nn, torch.nn)
        )
        assert [(p.name, p.default) for p in ours.values()] == [
            (p.name, p.default) for p in theirs.values()
        ]


def test_wrong_sizes() -> None:
    with pytest.raises(RuntimeError, match="GRUCell: input is"):
        nn.GRUCell(3, 5)(fw.zeros((2, 4)), fw.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"RNNCell: input is \(1, 2, 3\)"):
        nn.RNNCell(3, 5)(fw.zeros((1, 2, 3)))
