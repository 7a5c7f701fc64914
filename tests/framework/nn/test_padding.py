"""Layers that add elements around signals and images, against PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

SIGNAL, IMAGE, VOLUME = (2, 3, 7), (2, 3, 5, 4), (1, 2, 3, 5, 4)


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("ConstantPad1d", (2, 3.5), SIGNAL),
        ("ConstantPad1d", ((3, -1), -1.5), SIGNAL),
        ("ConstantPad2d", (1, 0.25), IMAGE),
        ("ConstantPad2d", ((1, 2, -1, 3), 2), IMAGE),
        ("ZeroPad1d", ((0, 4),), SIGNAL),
        ("ZeroPad2d", ((1, -2, 0, 3),), IMAGE),
        ("ReflectionPad1d", (6,), SIGNAL),
        ("ReflectionPad2d", ((3, 0, 1, 4),), IMAGE),
        ("ReflectionPad2d", (1,), (3, 5, 4)),
        ("ReplicationPad1d", ((9, 1),), SIGNAL),
        ("ReplicationPad2d", (2,), IMAGE),
        ("ConstantPad3d", ((1, -1, 0, 2, 1, 0), 0.5), VOLUME),
        ("ZeroPad3d", (1,), VOLUME),
        ("ReflectionPad3d", ((1, 2, 0, 1, 1, 1),), VOLUME),
        ("ReplicationPad3d", (2,), VOLUME),
        ("CircularPad1d", ((3, 2),), SIGNAL),
        ("CircularPad2d", (1,), IMAGE),
        ("CircularPad3d", ((1, 2, 0, 1, 1, 1),), VOLUME),
    ],
)
def test_padding(
    name: str,
    arguments: tuple[Any, ...],
    shape: tuple[int, ...],
    place: Device,
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=shape).astype(np.float32)
    compare(
        getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments), x, place
    )


def test_the_number_of_paddings_is_checked() -> None:
    with pytest.raises(ShapeError) as raised:
        nn.ReflectionPad2d((1, 2))
    assert str(raised.value) == (
        "ReflectionPad2d: padding is (1, 2); it must be one number or 4"
    )
    with pytest.raises(ValueError, match="it must be 3-D, or 2-D without a batch"):
        nn.CircularPad1d(1)(fw.ones(2, 3, 4, 5))
