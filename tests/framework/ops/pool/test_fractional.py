"""Fractional max pooling: choices, samples of any dtype and range, and its kernels."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.pool.fractional import fractional_max_pool

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_choice_is_as_in_torch(dtype: str, make: Make) -> None:
    """The first of equals, but the last NaN, of windows by samples of any dtype."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (3, 9, 8)).astype(np.float32)
    x[x == 2] = np.nan
    samples = rng.random((3, 2)).astype(dtype)
    values, places = fractional_max_pool(make(x), make(samples), (3, 2), (4, 5), (1, 0))
    twin = torch.from_numpy(x.astype(dtype))[None], torch.from_numpy(samples)[None]
    wanted = F.fractional_max_pool2d(
        twin[0], (3, 2), (4, 5), return_indices=True, _random_samples=twin[1]
    )
    assert_close(values, wanted[0][0].float().numpy(), exact=True)
    assert np.array_equal(places.numpy(), wanted[1][0].numpy())


def test_samples_out_of_range_stay_in_the_image(make: Make) -> None:
    x, samples = make(np.ones((2, 5, 5), np.float32)), make([[9.5, -9.5], [-1e9, 1e9]])
    values, places = fractional_max_pool(x, samples, (2, 2), (3, 3), (1, 0))
    assert values.numpy().tolist() == np.ones((2, 3, 3)).tolist()
    assert places.numpy().min() >= 0
    assert places.numpy().max() < 25


def test_windows_are_one_dispatch(gpu: GpuDevice) -> None:
    x, samples = fw.rand(3, 9, 8, device=gpu), fw.rand(3, 2, device=gpu)
    fw.eval(x, samples)
    before = gpu.gpu.counters.dispatches
    fw.eval(*fractional_max_pool(x, samples, (3, 2), (4, 5), (1, 0)))
    assert gpu.gpu.counters.dispatches == before + 1
