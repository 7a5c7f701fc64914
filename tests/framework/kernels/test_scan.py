"""Passes over chunks: how many levels, and what they carry."""

import dataclasses

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels import scan
from vkbackend.framework.kernels.scan import (
    CHUNK,
    LOOPED_ALONE,
    LOOPED_TILES,
    ONE_RESULT,
    ROW_ITEMS,
    SEGMENT_CHUNK,
    SHORT_ROW,
    WIDE_GROUP,
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


def test_rows_of_a_few_tiles_are_scanned_at_once(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(outer: int, count: int, operation: str = "sum") -> list[Dispatch]:
        shape = (outer, count, 1)
        x = StridedSpec(shape, float32, Layout.contiguous(shape))
        extreme = operation == "max"
        results = {"out_": "out", "places": "places"} if extreme else ONE_RESULT
        return scan_dispatches(discrete, x, operation, results=results)

    wide = WIDE_GROUP * ROW_ITEMS * LOOPED_TILES
    for outer, count, group in (
        *((1, 2049, 512), (1, 8192, 1024), (132, wide, 1024)),
        *((133, 2048, 256), (133, wide // 4, 256)),
    ):
        (only,) = steps(outer, count)
        assert only.push["chunks"] == 1
        assert only.constants["GROUP"] == only.constants["LOCAL_X"] == group
    alone = WIDE_GROUP * ROW_ITEMS * LOOPED_ALONE
    assert len(steps(1, alone)) == 1
    for outer, count in ((1, alone + 1), (132, wide + 1), (133, wide // 4 + 1)):
        assert len(steps(outer, count)) == 3
    # A place beside each element leaves room for half of them.
    assert steps(2, wide // 2, "max")[0].constants["GROUP"] == WIDE_GROUP // 2
    assert len(steps(2, wide // 2 + 1, "max")) == 3
    monkeypatch.setattr(scan, "LOOPED_TILES", 0)
    assert len(steps(1, 2049)) == 3


@pytest.mark.wide
@pytest.mark.parametrize("shuffles", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_wide_groups_scan_as_numpy(
    quads: GpuDevice, shuffles: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shuffles and not quads.gpu.info.subgroup_shuffle:
        pytest.skip("the device has no shuffles")
    if not shuffles:
        info = dataclasses.replace(quads.gpu.info, subgroup_shuffle=False)
        monkeypatch.setattr(quads.gpu, "info", info)
    for shape in ((2, 2049), (1, 8192), (1, 20_001)):
        draw = np.random.default_rng(0)
        data = (draw.integers(-1, 2, shape) * (draw.random(shape) < 0.01)).astype("f")
        x = fw.tensor(data, device=quads).to(dtype)
        found = fw.cumsum(x, 1).float().numpy()
        np.testing.assert_array_equal(found, np.cumsum(data, 1))
        values, places = fw.cummax(x, 1)
        wanted, where = torch.from_numpy(data).cummax(1)
        np.testing.assert_array_equal(values.float().numpy(), wanted.numpy())
        np.testing.assert_array_equal(places.numpy(), where.numpy())
    if dtype != "int32":
        found = fw.logcumsumexp(x, 1).float().numpy()
        wanted = torch.from_numpy(data).double().logcumsumexp(1)
        np.testing.assert_allclose(
            found, wanted.numpy(), 1e-5 if dtype == "float32" else 2.0**-8, 1e-6
        )


def test_carries_of_a_segment_sum_become_fewer(discrete: vkbackend.DeviceInfo) -> None:
    entries = SEGMENT_CHUNK**2
    shape = (2, entries, 3)
    source = StridedSpec(shape, float32, Layout.contiguous(shape))
    zero, *steps = segment_sum_dispatches(discrete, source, 7)
    assert zero.push["count"] == 2 * 7 * 3
    assert [step.push["entries"] for step in steps] == [entries, 2 * SEGMENT_CHUNK, 4]
    assert [step.constants["FIRST"] for step in steps] == [1, 0, 0]
    assert [step.constants["LAST"] for step in steps] == [0, 0, 1]
