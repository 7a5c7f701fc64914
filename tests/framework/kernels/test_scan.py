"""Passes over chunks: how many levels, and what they carry."""

import dataclasses

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.scan import (
    CHUNK,
    ROW_ITEMS,
    SEGMENT_CHUNK,
    SHORT_ROW,
    scan_dispatches,
    segment_sum_dispatches,
)
from vkbackend.framework.ops.reduce.scan import _cumprod, _cumsum


@pytest.mark.core
def test_levels_on_a_gpu(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, kind="discrete")
    shape = (1, CHUNK**2 + 1, 2)
    x = StridedSpec(shape, float32, Layout.contiguous(shape))
    steps = scan_dispatches(info, x, "sum", reverse=True)
    assert [step.push["count"] for step in steps] == [
        CHUNK**2 + 1,
        CHUNK + 1,
        2,
        65,
        4097,
    ]
    assert [step.constants["REVERSE"] for step in steps] == [1, 0, 0, 0, 1]
    assert steps[2].push["out_"] == steps[3].push["carry"]


@pytest.mark.parametrize("shuffles", [False, True])
def test_contiguous_rows_are_scanned_by_groups(
    quads: GpuDevice, shuffles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shuffles and not quads.gpu.info.subgroup_shuffle:
        pytest.skip("the device has no shuffles")
    if not shuffles:
        info = dataclasses.replace(quads.gpu.info, subgroup_shuffle=False)
        monkeypatch.setattr(quads.gpu, "info", info)
    for shape in ((1, SHORT_ROW + 1), (70, 100), (3, 2049), (1, 70_001)):
        data = np.random.default_rng(0).integers(-8, 9, shape).astype(np.int32)
        x = fw.tensor(data, device=quads)
        found = np.cumsum(data, 1, dtype=np.int32)
        np.testing.assert_array_equal(
            _cumsum(x[..., None], False).numpy()[..., 0], found
        )
        found = np.cumsum(data[:, ::-1], 1, dtype=np.int32)[:, ::-1]
        np.testing.assert_array_equal(
            _cumsum(x[..., None], True).numpy()[..., 0], found
        )
    halves = fw.full((1, 300, 1), 2.0, device=quads, dtype=fw.float16)
    assert _cumprod(halves, False).numpy()[0, :20, 0].tolist() == [
        min(2.0**k, np.inf) if k < 16 else np.inf for k in range(1, 21)
    ]


def test_few_long_rows_are_scanned_in_chunks(discrete: vkbackend.DeviceInfo) -> None:
    for outer, count, steps in ((1, 1 << 24, 3), (4096, 4096, 1), (1, 2048, 1)):
        shape = (outer, count, 1)
        x = StridedSpec(shape, float32, Layout.contiguous(shape))
        found = scan_dispatches(discrete, x, "sum")
        assert len(found) == steps
        assert found[-1].push["chunks"] * found[-1].push["chunk_size"] >= count
    shape = (1 << 20, 64, 1)
    x = StridedSpec(shape, float32, Layout.contiguous(shape))
    (only,) = scan_dispatches(discrete, x, "sum")
    assert only.constants["GROUP"] * ROW_ITEMS == 64  # no invocation is idle


def test_carries_of_a_segment_sum_become_fewer(discrete: vkbackend.DeviceInfo) -> None:
    entries = SEGMENT_CHUNK**2
    shape = (2, entries, 3)
    source = StridedSpec(shape, float32, Layout.contiguous(shape))
    zero, *steps = segment_sum_dispatches(discrete, source, 7)
    assert zero.push["count"] == 2 * 7 * 3
    assert [step.push["entries"] for step in steps] == [entries, 2 * SEGMENT_CHUNK, 4]
    assert [step.constants["FIRST"] for step in steps] == [1, 0, 0]
    assert [step.constants["LAST"] for step in steps] == [0, 0, 1]
