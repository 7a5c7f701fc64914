"""Layers that change the shape."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Flatten(), (2, 60)),
        (nn.Flatten(0), (120,)),
        (nn.Flatten(1, 2), (2, 12, 5)),
        (nn.Unflatten(2, (2, -1)), (2, 3, 2, 2, 5)),
    ],
)
def test_flatten(layer: nn.Module, shape: tuple[int, ...]) -> None:
    assert layer(fw.zeros((2, 3, 4, 5))).shape == shape


def test_repr() -> None:
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"
    expected = "Unflatten(dim=1, unflattened_size=(2, 3))"
    assert repr(nn.Unflatten(1, [2, 3])) == expected
