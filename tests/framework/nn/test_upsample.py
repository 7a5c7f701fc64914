"""Layers that resize."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"scale_factor": 2}, (2, 3, 5)),
        ({"size": (7, 3)}, (2, 3, 4, 5)),
        ({"scale_factor": (1.5, 2.0), "mode": "bilinear"}, (2, 3, 4, 5)),
        ({"size": 6, "mode": "linear", "align_corners": True}, (2, 3, 5)),
    ],
)
def test_upsample(
    options: dict[str, Any],
    shape: tuple[int, ...],
    place: Device,
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=shape).astype(np.float32)
    compare(nn.Upsample(**options), torch.nn.Upsample(**options), x, place)


@pytest.mark.parametrize("name", ["UpsamplingNearest2d", "UpsamplingBilinear2d"])
def test_images(name: str, place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    ours, theirs = (getattr(lib, name)(scale_factor=2) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)
