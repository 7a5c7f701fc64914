"""Sources inside kernels: constants and random numbers that read no memory."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES


@pytest.mark.parametrize(
    "dtype", [name for name in DTYPES if DTYPES[name].itemsize < 8]
)
def test_fill_in_each_dtype(dtype: str, place: Device) -> None:
    like = fw.zeros((3, 1), device=place)
    found = ops.fill_like(like, (5, 7), 1, DTYPES[dtype])
    assert_close(found, np.ones((5, 7), DTYPES[dtype].numpy))


@pytest.mark.core
def test_sources_join_what_reads_them(gpu: GpuDevice) -> None:
    x = fw.ones((37,), device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    noisy = x * ops.fill_like(x, x.shape, 2.0, x.dtype)
    noisy = noisy + ops.random_uniform(x, (1, 2, 3, 4))
    found = noisy.numpy()
    assert (gpu.gpu.counters - before).dispatches == 1
    assert_close(found - 2, ops.random_uniform(fw.ones(37), (1, 2, 3, 4)).numpy())


def test_sources_have_no_gradient(place: Device) -> None:
    x = fw.ones(3, device=place, requires_grad=True)
    made = ops.fill_like(x, x.shape, 2.0, x.dtype)
    drawn = ops.random_uniform(x, (1, 2, 3, 4))
    assert not made.requires_grad
    assert not drawn.requires_grad
    (x * made + drawn).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
