"""Lazy convolutions become convolutions at the first call."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.nn.lazy_layers import check_first_call
from vkbackend.framework import nn

LAYERS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("LazyConv1d", (4, 3), (2, 3, 8)),
    ("LazyConv2d", (4, 3), (3, 5, 5)),
    ("LazyConv3d", (4, 1), (2, 3, 2, 2, 2)),
    ("LazyConvTranspose1d", (4, 3), (2, 3, 8)),
    ("LazyConvTranspose2d", (4, 3), (2, 3, 4, 4)),
    ("LazyConvTranspose3d", (4, 1), (2, 3, 2, 2, 2)),
]


@pytest.mark.parametrize(("name", "args", "shape"), LAYERS)
def test_first_call(name: str, args: Any, shape: tuple[int, ...]) -> None:
    check_first_call(name, args, shape)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="groups must divide them"):
        nn.LazyConv1d(4, 1, groups=2)(fw.ones((1, 3, 2)))
    with pytest.raises(ValueError, match="it must have 4 dimensions"):
        nn.LazyConv2d(4, 1)(fw.ones((3, 2)))
