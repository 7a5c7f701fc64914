"""Layers of transposed convolution."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

OPTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1, "bias": False},
    {"groups": 2, "dilation": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dims", [1, 2])
def test_layer(
    dims: int, options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(2, 4, 5, 6)[: dims + 2]).astype(np.float32)
    name = f"ConvTranspose{dims}d"
    theirs = getattr(torch.nn, name)(4, 6, 3, **options)
    compare(getattr(nn, name)(4, 6, 3, **options), theirs, x, place)


def test_initial_values_are_uniform_within_the_bound() -> None:
    layer, theirs = (lib.ConvTranspose2d(8, 32, 5, groups=2) for lib in (nn, torch.nn))
    # 1 / sqrt(16 * 25)
    for name, tensor in theirs.state_dict().items():
        found = np.abs(layer.state_dict()[name].numpy()).max()
        assert found <= 0.05
        assert tensor.abs().max() <= 0.05
    assert np.abs(layer.weight.detach().numpy()).max() > 0.049


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="ConvTranspose1d: groups is 3, in_channels 3"):
        nn.ConvTranspose1d(3, 4, 3, groups=3)
    with pytest.raises(ShapeError, match="ConvTranspose2d: output_padding is -1"):
        nn.ConvTranspose2d(1, 1, 3, output_padding=-1)
