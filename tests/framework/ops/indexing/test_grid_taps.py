"""Taps of places, beside PyTorch's samples; the rest is in the op table."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import Device
from vkbackend.framework.ops.indexing.grid_taps import MODES, PADDINGS, grid_taps

SIZES = (5, 7), (3, 4, 5), (1, 6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_samples(
    mode: str,
    padding: str,
    aligned: bool,
    size: tuple[int, ...],
    dtype: str,
    place: Device,
) -> None:
    """Places inside, far outside, at edges and nowhere."""
    if mode == "bicubic" and len(size) == 3:
        return
    need(dtype, place)
    rng = np.random.default_rng(0)
    dims = len(size)
    grid = rng.uniform(-1.7, 1.7, (2, 60, dims)).astype(dtype)
    grid[0, :9, 0] = [-1, 1, 0, -3, 3, 100, -100, np.nan, -1e6]
    image = rng.standard_normal((2, 3, *size)).astype(dtype)
    ours = fw.tensor(grid, device=place)
    index, weights = grid_taps(ours, size, mode, padding, aligned)
    index, weights = index.numpy(), weights.numpy()
    flat = image.reshape(2, 3, 1, -1)
    taken = np.take_along_axis(flat, np.maximum(index, 0)[:, None], 3)
    found = np.where(index[:, None] < 0, 0, taken * weights[:, None]).sum(2)
    across = grid.reshape(2, *(1,) * (dims - 1), 60, dims)
    wanted = torch.nn.functional.grid_sample(
        *(torch.from_numpy(each) for each in (image, across)),
        mode=mode,
        padding_mode=padding,
        align_corners=aligned,
    )
    given = np.isfinite(grid).all(-1)[:, None].repeat(3, 1)
    error = 1e-12 if dtype == "float64" else 1e-4
    right = wanted.numpy().reshape(found.shape)
    np.testing.assert_allclose(found[given], right[given], error, 20 * error)


def test_samples_are_those_of_operations(place: Device) -> None:
    """Which gradients by the grid take."""
    rng = np.random.default_rng(0)
    image = fw.tensor(rng.random((2, 3, 6, 7)).astype("f4"), device=place)
    grid = fw.tensor(rng.uniform(-1, 1, (2, 4, 5, 2)).astype("f4"), device=place)
    sample = fw.nn.functional.grid_sample
    for mode in MODES:
        found = sample(image, grid, mode, "zeros", False)
        apart = sample(image, grid.clone().requires_grad_(), mode, "zeros", False)
        np.testing.assert_allclose(found.numpy(), apart.detach().numpy(), 1e-5, 1e-6)
