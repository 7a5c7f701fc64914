"""Histograms and places of true elements, in the shape that GPUs run them in."""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend import DeviceInfo
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import bool_, int32, int64
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.counting import (
    MOST_COPIES,
    MOST_INVOCATIONS,
    PRIVATE_COUNTS,
    bincount_dispatches,
    nonzero_dispatches,
)

pytestmark = pytest.mark.core


@pytest.fixture(params=["software", "discrete"])
def place(
    request: pytest.FixtureRequest, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GpuDevice]:
    """Return the device, taken for one of each kind."""
    info = dataclasses.replace(gpu.gpu.info, kind=request.param)
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    yield gpu
    fw.eval()


def spec(shape: tuple[int, ...], dtype: fw.dtype) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout.contiguous(shape))


@pytest.mark.parametrize("size", [1, 32, 100, 4095, 4096, 9000])
def test_counts(place: GpuDevice, size: int) -> None:
    draws = np.random.default_rng(size)
    numbers = draws.integers(0, size, 20_011).astype(np.int32)
    numbers[draws.random(numbers.size) < 0.5] = size - 1
    counts = ops.bincount(fw.tensor(numbers, device=place), minlength=size + 3)
    assert counts.tolist() == np.bincount(numbers, minlength=size + 3).tolist()


def test_numbers_that_are_not_counted(place: GpuDevice) -> None:
    x = np.linspace(-3, 3, 6001).astype(np.float32)
    x[[5, 6000]] = np.nan
    found = ops.histc(fw.tensor(x, device=place), 4, -1, 1)
    wanted, _ = np.histogram(x[np.abs(x) <= 1], 4, (-1, 1))
    assert found.tolist() == wanted.tolist()


def test_copies_fit_shared_memory_and_the_numbers(discrete: DeviceInfo) -> None:
    for numel in (100, 5000, 1 << 22, 1 << 30):
        for size in (1, 3, 100, 256, 4095, 4096, 5000, 1 << 20):
            clear, count = bincount_dispatches(
                discrete, spec((numel,), int32), size, int64
            )
            copies = count.constants["PRIVATE"]
            assert copies <= MOST_COPIES
            assert copies * (size | 1) <= count.constants["SLOTS"] <= PRIVATE_COUNTS
            assert (copies > 0) == (numel >= PRIVATE_COUNTS and size <= 4095)
            groups = count.grid[0] * count.grid[1]
            invocations = groups * int(count.constants["LOCAL_X"])
            assert count.push["invocations"] == invocations <= 2 * MOST_INVOCATIONS
            assert not copies or (groups - 1) * size <= numel
            assert clear.constants["PASS"] == 0


@pytest.mark.parametrize("count", [1, 15, 17, 4097, 100_003])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.6, 1.0])
def test_places_of_true_elements(place: GpuDevice, count: int, share: float) -> None:
    mask = np.random.default_rng(count).random(count) < share
    x = fw.tensor(mask, device=place)
    assert ops.nonzero(x).tolist() == np.argwhere(mask).tolist()
    values = np.arange(count, dtype=np.float32)
    chosen = ops.masked_select(fw.tensor(values, device=place), x)
    assert chosen.tolist() == values[mask].tolist()


def test_tiles_are_added_up_by_one_workgroup(discrete: DeviceInfo) -> None:
    steps = nonzero_dispatches(discrete, spec((4096 * 1000,), bool_))
    assert [step.grid for step in steps] == [(1000, 1, 1), (1, 1, 1)]
    assert [step.constants["PASS"] for step in steps] == [0, 1]
