"""Whether elements are equal, or nearly."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]
NAN, INF = np.nan, np.inf
LEFT = np.array([1, 1, INF, INF, -INF, NAN, NAN, 0, 1], np.float32)
RIGHT = np.array([1, 1.1, INF, 1, INF, NAN, 1, 1e-9, INF], np.float32)


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("rtol", [1e-5, 0.2])
def test_isclose(rtol: float, equal_nan: bool, make: Make) -> None:
    wanted = np.isclose(LEFT, RIGHT, rtol, equal_nan=equal_nan)
    x, y = make(LEFT), make(RIGHT)
    assert_close(ops.isclose(x, y, rtol, equal_nan=equal_nan), wanted)
    theirs = torch.isclose(*map(torch.tensor, (LEFT, RIGHT)), rtol, equal_nan=equal_nan)
    assert_close(ops.isclose(x, y, rtol, equal_nan=equal_nan), theirs.numpy())


def test_of_integers(make: Make) -> None:
    x, y = (make(np.array(each, np.int32)) for each in ([1, 100], [2, 101]))
    assert ops.isclose(x, y, rtol=0.02).tolist() == [False, True]
    assert not ops.allclose(x, y)
    assert ops.allclose(x, x)


def test_equal(make: Make) -> None:
    x = make(RIGHT[:5])
    assert ops.equal(x, x.clone())
    assert not ops.equal(x, x + 1)
    assert not ops.equal(x, x[:4])
    assert not ops.equal(make([NAN]), make([NAN]))
    assert ops.equal(x[:0], x[:0])


def test_the_same_integers_are_equal_without_reading(gpu: GpuDevice) -> None:
    x, y = fw.arange(7, device=gpu), fw.tensor([1.0, float("nan")], device=gpu)
    reads = gpu.gpu.counters.host_reads
    assert ops.equal(x, x.view(7))
    assert gpu.gpu.counters.host_reads == reads
    assert not ops.equal(x[:3], x[1:4])
    assert not ops.equal(y, y)
