"""Layers that normalise each channel of each sample."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.layers import compare
from tests.framework.nn.test_batchnorm import pair
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.parametrize(
    ("name", "size"),
    [("InstanceNorm1d", (5, 3, 7)), ("InstanceNorm2d", (4, 3, 2, 5))],
)
@pytest.mark.parametrize(
    "options",
    [{}, {"affine": True, "eps": 0.1}, {"track_running_stats": True, "momentum": 0.3}],
)
def test_instance_norm(
    name: str,
    size: tuple[int, ...],
    options: dict[str, Any],
    place: Device,
    rng: np.random.Generator,
) -> None:
    x = rng.normal(1, 2, size).astype(np.float32)
    ours, theirs = pair(name, 3, options)
    compare(ours, theirs, x, place)
    ours.eval(), theirs.eval()
    expected = theirs(torch.tensor(x)).detach().numpy()
    assert_close(ours(fw.tensor(x, device=place)), expected, scale=4)


def test_bad_shapes_are_named() -> None:
    with pytest.raises(ShapeError) as raised:
        nn.InstanceNorm2d(3)(fw.zeros((2, 3, 4)))
    assert str(raised.value) == (
        "InstanceNorm2d: x is (2, 3, 4); it must be (batch, 3, height, width)"
    )
