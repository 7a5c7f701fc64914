"""Convolution layers."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 1, "bias": False},
        {"stride": (2, 1), "padding": (0, 1), "dilation": 2},
        {"groups": 2},
    ],
)
def test_conv2d(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(3, 4, 7, 9)).astype(np.float32)
    ours = nn.Conv2d(4, 6, (3, 2), **options)
    compare(ours, torch.nn.Conv2d(4, 6, (3, 2), **options), x, place)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": "same", "bias": False},
        {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
    ],
)
def test_conv1d(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(3, 4, 11)).astype(np.float32)
    ours = nn.Conv1d(4, 6, 3, **options)
    compare(ours, torch.nn.Conv1d(4, 6, 3, **options), x, place)


def test_padding_by_name(place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 4, 7, 9)).astype(np.float32)
    theirs = torch.nn.Conv2d(4, 6, (3, 5), padding="same")
    compare(nn.Conv2d(4, 6, (3, 5), padding="same"), theirs, x, place)


def test_conv3d(place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 4, 5, 6, 4)).astype(np.float32)
    options: dict[str, Any] = {"stride": (1, 2, 1), "padding": 1, "groups": 2}
    ours, theirs = (lib.Conv3d(4, 6, 3, **options) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)
    ours, theirs = (lib.ConvTranspose3d(4, 6, 2, **options) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [2, "same"])
def test_padding_modes(
    mode: Any, padding: Any, place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(2, 4, 7)).astype(np.float32)
    options: dict[str, Any] = {"padding": padding, "padding_mode": mode}
    ours, theirs = (lib.Conv1d(4, 6, 4, **options) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)


def test_size_of_a_transposed_convolution(place: Device) -> None:
    options: dict[str, Any] = {"stride": 3, "padding": 1}
    layer = nn.ConvTranspose2d(2, 3, 4, **options).to(place)
    x = fw.zeros((1, 2, 5, 6), device=place)
    for size in ([14, 18], [1, 3, 16, 17]):
        assert layer(x, output_size=size).shape[2:] == tuple(size[-2:])
    with pytest.raises(ShapeError, match=r"\(17, 17\); .* to \[16, 19\]"):
        layer(x, [17, 17])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2d(1, 1, 2, padding="full"), "padding is 'full'"),
        (lambda: nn.Conv2d(1, 1, 2, 2, padding="same"), "a stride of \\(2, 2\\)"),
        (lambda: nn.Conv2d(1, 1, 2, padding_mode="wrap"), "padding_mode is 'wrap'"),
        (
            lambda: nn.ConvTranspose2d(1, 1, 2, padding_mode="reflect"),
            "it must be 'zeros'",
        ),
    ],
)
def test_bad_padding(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_initial_values_are_uniform_within_the_bound() -> None:
    layer = nn.Conv2d(8, 32, 5, groups=2)
    assert layer.bias is not None
    assert 0.09 < np.abs(layer.weight.detach().numpy()).max() <= 0.1
    assert np.abs(layer.bias.detach().numpy()).max() <= 0.1


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="groups is 2, in_channels 3, out_channels 4"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ShapeError, match="Conv2d: kernel_size is 0"):
        nn.Conv2d(1, 1, 0)
    with pytest.raises(ShapeError, match="Conv2d: padding is -1"):
        nn.Conv2d(1, 1, 3, padding=-1)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1, "bias": False},
    {"groups": 2, "dilation": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dims", [1, 2])
def test_transposed_layer(
    dims: int, options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(2, 4, 5, 6)[: dims + 2]).astype(np.float32)
    name = f"ConvTranspose{dims}d"
    theirs = getattr(torch.nn, name)(4, 6, 3, **options)
    compare(getattr(nn, name)(4, 6, 3, **options), theirs, x, place)


def test_initial_values_of_transposed_are_uniform() -> None:
    layer, theirs = (lib.ConvTranspose2d(8, 32, 5, groups=2) for lib in (nn, torch.nn))
    # 1 / sqrt(16 * 25)
    for name, tensor in theirs.state_dict().items():
        found = np.abs(layer.state_dict()[name].numpy()).max()
        assert found <= 0.05
        assert tensor.abs().max() <= 0.05
    assert np.abs(layer.weight.detach().numpy()).max() > 0.049


def test_bad_arguments_of_transposed_are_named() -> None:
    with pytest.raises(ShapeError, match="ConvTranspose1d: groups is 3, in_channels 3"):
        nn.ConvTranspose1d(3, 4, 3, groups=3)
    with pytest.raises(ShapeError, match="ConvTranspose2d: output_padding is -1"):
        nn.ConvTranspose2d(1, 1, 3, output_padding=-1)


def test_lists_of_one_number() -> None:
    shapes = []
    for library in (fw, torch):
        x, functional = library.ones(1, 2, 7, 7), library.nn.functional
        layer = library.nn.Conv2d(2, 3, 3, stride=[2], padding=(1,), dilation=[2])
        kernel = library.ones(3, 2, 3, 3, 3)
        volume = functional.conv3d(library.ones(1, 2, 5, 5, 5), kernel, stride=[2])
        shapes.append((tuple(layer(x).shape), tuple(volume.shape)))
    assert shapes[0] == shapes[1]
    with pytest.raises(ShapeError, match="kernel_size"):
        fw.nn.Conv2d(2, 3, [3])
