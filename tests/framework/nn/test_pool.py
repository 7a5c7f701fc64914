"""Pooling layers."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.device import Device


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 3), "stride": (1, 2), "dilation": 2},
    ],
)
def test_max_pool2d(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(3, 2, 7, 9)).astype(np.float32)
    ours, theirs = nn.MaxPool2d(**options), torch.nn.MaxPool2d(**options)
    assert repr(ours) == repr(theirs).replace(", ceil_mode=False", "")
    theirs.extra_repr = ours.extra_repr  # type: ignore[method-assign]
    compare(ours, theirs, x, place)
