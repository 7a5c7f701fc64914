"""Parametrizations beside PyTorch's."""

import copy
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn


def scale(space: Any, factor: float = 2.0) -> Any:
    """Return a parametrization that multiplies by a number."""

    class Scale(space.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * factor

        def right_inverse(self, x: Any) -> Any:
            return x / factor

    return Scale()


def story(space: Any, library: Any) -> list[Any]:
    """Return what a layer tells while it is parametrized and made plain again."""
    p = space.utils.parametrize
    layer = space.Linear(2, 1, bias=False)
    layer.load_state_dict({"weight": library.ones((1, 2))})
    told: list[Any] = [p.is_parametrized(layer)]
    p.register_parametrization(layer, "weight", scale(space))
    told += [list(layer.state_dict()), type(layer).__name__, layer.weight.tolist()]
    layer.weight = library.full((1, 2), 6.0)
    told += [layer.parametrizations.weight.original.tolist(), layer.weight.tolist()]
    p.register_parametrization(layer, "weight", scale(space, 3.0))
    told += [layer.parametrizations.weight.original.tolist(), layer.weight.tolist()]
    layer(library.ones((1, 2))).sum().backward()
    told += [layer.parametrizations.weight.original.grad.tolist()]
    told += [len(list(layer.parameters())), p.is_parametrized(layer, "weight")]
    with p.cached():
        told.append(layer.weight is layer.weight)
    p.remove_parametrizations(layer, "weight", leave_parametrized=False)
    told += [type(layer).__name__, list(layer.state_dict()), layer.weight.tolist()]
    return told


def test_is_pytorchs() -> None:
    assert story(nn, fw) == story(torch.nn, torch)


def test_copies_are_parametrized_apart() -> None:
    p = nn.utils.parametrize
    layer = p.register_parametrization(nn.Linear(2, 1), "weight", scale(nn))
    twin = copy.deepcopy(layer)
    before = layer.weight.tolist()
    p.remove_parametrizations(twin, "weight")
    assert twin.weight.tolist() == before == layer.weight.tolist()
    assert type(twin) is nn.Linear
    assert p.is_parametrized(layer)


def test_what_is_refused() -> None:
    class Wrong(nn.Module):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return x[0]

    layer = nn.Linear(2, 2)
    register = nn.utils.parametrize.register_parametrization
    with pytest.raises(ValueError, match=r"forward returned float32 \(2,\)"):
        register(layer, "weight", Wrong())
    with pytest.raises(ValueError, match="has no parameter or buffer 'x'"):
        register(layer, "x", Wrong())
    with pytest.raises(ValueError, match="is not parametrized"):
        nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert list(layer.state_dict()) == ["weight", "bias"]
