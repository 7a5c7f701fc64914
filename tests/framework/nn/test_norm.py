"""Layer, group and instance normalisation as layers."""

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
    ("name", "shape", "options"),
    [
        ("LayerNorm", 7, {}),
        ("LayerNorm", (5, 7), {"eps": 0.1, "bias": False}),
        ("LayerNorm", [7], {"elementwise_affine": False}),
        ("RMSNorm", 7, {}),
        ("RMSNorm", (5, 7), {"eps": 0.1}),
        ("RMSNorm", [7], {"elementwise_affine": False}),
    ],
)
def test_is_as_in_torch(
    name: str,
    shape: Any,
    options: dict[str, Any],
    place: Device,
    rng: np.random.Generator,
) -> None:
    ours: nn.Module = getattr(nn, name)(shape, **options)
    theirs: torch.nn.Module = getattr(torch.nn, name)(shape, **options)
    theirs.extra_repr = ours.extra_repr  # type: ignore[method-assign]
    compare(ours, theirs, rng.normal(size=(3, 5, 7)).astype(np.float32), place)


def test_reset() -> None:
    layer = nn.LayerNorm(3)
    with fw.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(5)
    layer.reset_parameters()
    assert layer.state_dict()["weight"].tolist() == [1, 1, 1]
    assert layer.state_dict()["bias"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("options", [{}, {"eps": 0.1}, {"affine": False}])
def test_group_norm_is_as_in_torch(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = nn.GroupNorm(2, 6, **options), torch.nn.GroupNorm(2, 6, **options)
    theirs.extra_repr = ours.extra_repr  # type: ignore[method-assign]
    compare(ours, theirs, rng.normal(size=(3, 6, 5, 2)).astype(np.float32), place)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ShapeError, match="the groups must divide the channels"):
        nn.GroupNorm(4, 6)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("InstanceNorm1d", (5, 3, 7)),
        ("InstanceNorm2d", (4, 3, 2, 5)),
        ("InstanceNorm3d", (3, 2, 1, 5)),
    ],
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


def test_bad_shapes_of_instance_norm_are_named() -> None:
    with pytest.raises(ShapeError) as raised:
        nn.InstanceNorm2d(3)(fw.zeros((2, 3)))
    assert str(raised.value) == (
        "InstanceNorm2d: input is (2, 3); it must be (batch, 3, height, width), or"
        " without batch"
    )


def test_channels_that_are_not_counted() -> None:
    with pytest.warns(UserWarning, match="input has 4 channels, num_features is 3"):
        assert nn.InstanceNorm1d(3)(fw.ones((1, 4, 2))).shape == (1, 4, 2)


@pytest.mark.parametrize("size", [2, 3])
def test_neighbouring_channels(
    size: int, place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(2, 5, 3, 2)).astype(np.float32)
    options: dict[str, Any] = {"alpha": 0.5, "k": 2.0}
    ours, theirs = (lib.LocalResponseNorm(size, **options) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)
    ours, theirs = (lib.CrossMapLRN2d(size, **options) for lib in (nn, torch.nn))
    # PyTorch's gradient of this is of other windows than its result.
    expected = theirs(torch.tensor(x)).numpy()
    assert_close(ours(fw.tensor(x, device=place)), expected, scale=4)
