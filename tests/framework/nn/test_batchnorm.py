"""Batch normalisation layers."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


def pair(
    name: str, channels: int, options: dict[str, Any]
) -> tuple[nn.Module, torch.nn.Module]:
    ours: nn.Module = getattr(nn, name)(channels, **options)
    theirs: torch.nn.Module = getattr(torch.nn, name)(channels, **options)
    theirs.extra_repr = ours.extra_repr  # type: ignore[method-assign]
    return ours, theirs


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("BatchNorm1d", (5, 3)),
        ("BatchNorm1d", (5, 3, 7)),
        ("BatchNorm2d", (4, 3, 2, 5)),
        ("BatchNorm3d", (2, 3, 2, 1, 5)),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"eps": 0.1, "momentum": 0.3},
        {"momentum": None},
        {"affine": False},
        {"track_running_stats": False},
    ],
)
def test_batch_norm(
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
    if options.get("track_running_stats", True):
        assert ours.state_dict()["num_batches_tracked"].tolist() == 2


def test_the_count_of_batches_stays_on_the_host(place: Device) -> None:
    layer = nn.BatchNorm2d(2).to(place)
    assert not layer.num_batches_tracked.is_gpu
    assert layer.running_mean is not None
    assert layer.running_mean.device is place


def test_the_count_of_batches_is_made_on_the_host(place: Device) -> None:
    """Also where others are made on a device by default, and a replay counts on."""
    with fw.device(place):
        layer = nn.BatchNorm1d(3)
    assert layer.running_mean is not None
    assert layer.running_mean.device == place
    assert layer.num_batches_tracked is not None
    assert not layer.num_batches_tracked.is_gpu
    x, step = fw.ones(4, 3, device=place), fw.jit(layer)
    for _ in range(4):
        step(x)
    assert layer.num_batches_tracked.item() == 4


def test_reset() -> None:
    layer = nn.BatchNorm1d(1)
    fresh = {name: tensor.tolist() for name, tensor in layer.state_dict().items()}
    assert layer.weight is not None
    nn.init.zeros_(layer.weight)
    layer(fw.tensor([[1.0], [5.0]]))
    layer.reset_parameters()
    after = {name: tensor.tolist() for name, tensor in layer.state_dict().items()}
    assert after == fresh


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.BatchNorm2d(3), (2, 3), r"it must be \(batch, 3, height, width\)"),
        (nn.BatchNorm2d(3), (2, 4, 5, 5), r"input is \(2, 4, 5, 5\)"),
        (nn.BatchNorm1d(3), (2, 3, 4, 5), r"\(batch, 3\) or \(batch, 3, length\)"),
    ],
)
def test_bad_shapes_are_named(
    layer: nn.Module, shape: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ShapeError, match=expected):
        layer(fw.zeros(shape))


def test_all_processes_are_one(rng: np.random.Generator) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4)))
    weight = model[1][0].weight
    x = fw.tensor(rng.normal(size=(5, 3)).astype(np.float32))
    expected = model(x).detach().numpy()
    found = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(found[1][0], nn.SyncBatchNorm)
    assert found[1][0].weight is weight
    np.testing.assert_array_equal(found(x).detach().numpy(), expected)
    assert found[1][0].num_batches_tracked.item() == 2


def test_statistics_that_are_no_longer_tracked(place: Device) -> None:
    """PyTorch normalises by the batch then, and leaves the statistics alone."""
    layer = nn.BatchNorm1d(2).to(place)
    layer.track_running_stats = False
    x = fw.tensor([[1.0, 2.0], [3.0, 6.0]], device=place)
    np.testing.assert_allclose(layer(x).detach().numpy(), [[-1, -1], [1, 1]], atol=1e-4)
    assert layer.running_mean.tolist() == [0, 0]


def test_an_empty_batch(place: Device) -> None:
    """Statistics stay, and gradients are 0, as in PyTorch."""
    layer = nn.BatchNorm1d(3).to(place)
    x = fw.zeros((0, 3, 2), device=place, requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert tuple(out.shape) == (0, 3, 2)
    assert layer.running_mean.tolist() == layer.weight.grad.tolist() == [0.0] * 3
    assert layer.running_var.tolist() == [1.0] * 3
    assert layer.num_batches_tracked.item() == 1
    with pytest.raises(ValueError, match="eps is 0; it must be above 0 in training"):
        nn.BatchNorm1d(3, eps=0).to(place)(fw.ones((2, 3), device=place))
