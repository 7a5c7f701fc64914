"""Counts of numbers: lengths, weights, ranges."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.reduce.common import whole_dtype

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
@pytest.mark.parametrize("minlength", [0, 50])
def test_bincount(dtype: str, minlength: int, make: Make) -> None:
    data = np.random.default_rng(0).integers(0, 40, 10_007).astype(dtype)
    wanted = torch.bincount(torch.from_numpy(data), minlength=minlength)
    found = ops.bincount(make(data), minlength=minlength)
    assert found.dtype is whole_dtype(found)
    assert_close(found, wanted.numpy().astype(found.dtype.name))
    assert ops.bincount(make(data[:0]), minlength=3).tolist() == [0, 0, 0]


def test_what_was_counted_before_is_counted_at_once(gpu: GpuDevice) -> None:
    """In the submission that finds the largest; anew where that is larger than then."""
    rng = np.random.default_rng(0)
    submits = []
    for most in (300, 300, 299, 40, 600, 600, 1 << 21, 300):
        data = rng.integers(0, most, 5_003).astype(np.int32)
        data[17] = most - 1
        x = fw.tensor(data, device=gpu)
        fw.eval(x)
        before = gpu.gpu.counters.submits
        found = ops.bincount(x)
        fw.eval(found)
        submits.append(gpu.gpu.counters.submits - before)
        assert found.shape == (most,)
        assert_close(found, np.bincount(data).astype(found.dtype.name))
    assert submits[1] == submits[2] == 1 < submits[0]
    bad = fw.tensor(np.full(5_003, -1, np.int32), device=gpu)
    with pytest.raises(ShapeError, match="elements are from -1 to -1"):
        ops.bincount(bad)


def test_weights(make: Make) -> None:
    numbers = make(np.array([3, 1, 3], np.int32))
    weights = make([0.5, 2.0, 1.0], grad=True)
    out = ops.bincount(numbers, weights)
    assert out.tolist() == [0, 2, 0, 1.5]
    out.backward(make([1.0, 2.0, 3.0, 4.0]))
    assert weights.grad.tolist() == [4, 2, 4]


@pytest.mark.parametrize("limits", [(0, 0), (-1, 1.5), (5, 6)])
def test_histc(limits: tuple[float, float], make: Make) -> None:
    data = np.random.default_rng(0).uniform(-2, 2, 10_007).astype(np.float32)
    wanted = torch.histc(torch.from_numpy(data), 13, *limits)
    data[5] = np.nan if limits[0] else data[5]
    found = ops.histc(make(data), 13, *limits).numpy()
    assert np.abs(found - wanted.numpy()).sum() <= 1


def test_ends_of_the_range(make: Make) -> None:
    x = make([0.0, 1.0, 2.0, 3.0, 4.0, -1.0, 9.0])
    assert ops.histc(x, 2, 0, 4).tolist() == [2, 3]
    assert ops.histc(make([2.0, 2.0]), 3).tolist() == [0, 2, 0]
    assert ops.histc(make(np.zeros(0, np.float32)), 3).tolist() == [0, 0, 0]


def test_what_is_read_back(gpu: GpuDevice) -> None:
    x = fw.tensor([1, 2], dtype="int32", device=gpu)
    before = gpu.gpu.counters.host_reads
    ops.histc(x.float(), 5)
    fw.eval()
    assert gpu.gpu.counters.host_reads == before
    ops.bincount(x)
    assert gpu.gpu.counters.host_reads == before + 1
