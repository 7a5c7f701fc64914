"""Layers that rearrange pixels and channels."""

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


@pytest.mark.parametrize("name", ["PixelShuffle", "PixelUnshuffle", "ChannelShuffle"])
def test_is_as_in_torch(name: str, place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 8, 4, 6)).astype(np.float32)
    compare(getattr(nn, name)(2), getattr(torch.nn, name)(2), x, place)
