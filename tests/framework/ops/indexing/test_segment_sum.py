"""Sorted order, and what sums are taken in."""

import dataclasses

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.ops.indexing.segment_sum import (
    ATOMIC_KEYS,
    argsort_keys,
    atomic_segment_sum,
    sum_dtype,
    sums_by_atomics,
)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 511, 513, 2049, 4099, 70_001])
def test_equal_keys_keep_their_order(count: int, place: Device) -> None:
    keys = np.random.default_rng(count).integers(-3, 3, count).astype(np.int32)
    found = argsort_keys(fw.tensor(keys, device=place)).numpy()
    assert np.array_equal(found, np.argsort(keys.view(np.uint32), kind="stable"))


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        ("float16", "float32"),
        ("int8", "int32"),
        ("uint16", "uint32"),
        ("int64", "int64"),
    ],
)
def test_narrow_dtypes_are_added_up_in_wide_ones(dtype: str, wide: str) -> None:
    assert sum_dtype(DTYPES[dtype]) is DTYPES[wide]


def test_where_atomics_add_up(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums_by_atomics(gpu, DTYPES["int32"], 1, 1)
    assert not sums_by_atomics(fw.zeros(1).device, DTYPES["int32"], 1, 1)
    target = dataclasses.replace(gpu.gpu.info.target, hides_latency=True)
    monkeypatch.setitem(gpu.gpu.info.__dict__, "target", target)
    many = (gpu, DTYPES["float32"], ATOMIC_KEYS, 1)
    assert sums_by_atomics(*many)
    assert not sums_by_atomics(gpu, DTYPES["float32"], ATOMIC_KEYS - 1, 1)
    fw.use_deterministic_algorithms(True)
    try:
        assert fw.are_deterministic_algorithms_enabled()
        assert not sums_by_atomics(*many)
        assert sums_by_atomics(gpu, DTYPES["int32"], 1, 1)
    finally:
        fw.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
def test_sums_without_an_order(dtype: str, gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    index, source = rng.integers(0, 5, (70, 300)), rng.integers(0, 9, (70, 300))
    base = np.zeros((5, 300), dtype)
    x, by_row = (fw.tensor(each, device=gpu) for each in (base, source.astype(dtype)))
    found = x.scatter_add(0, fw.tensor(index, device=gpu), by_row).numpy()
    wanted = base.copy()
    np.add.at(wanted, (index, np.arange(300)), source.astype(dtype))
    assert np.array_equal(found, wanted)


def test_a_trace_keeps_to_the_mode(gpu: GpuDevice) -> None:
    @fw.jit
    def added(x: fw.Tensor, index: fw.Tensor) -> fw.Tensor:
        modes.append(fw.are_deterministic_algorithms_enabled())
        return fw.zeros(3, device=gpu).scatter_add(0, index, x)

    modes: list[bool] = []
    x, index = fw.ones(4, device=gpu), fw.tensor([0, 1, 1, 2], device=gpu)
    try:
        for mode in (False, False, True, True, False):
            fw.use_deterministic_algorithms(mode)
            assert added(x, index).tolist() == [1, 2, 1]
    finally:
        fw.use_deterministic_algorithms(False)
    assert True in modes


@pytest.mark.parametrize("has_atomics", [True, False])
def test_floats_by_atomics_and_by_exchange(
    has_atomics: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    if has_atomics and not info.float32_atomic_add:
        pytest.skip("the device has no atomics of floats")
    supported = info.supported
    if not has_atomics:
        supported = supported - {"float32_atomic_add"}
    monkeypatch.setitem(info.__dict__, "supported", supported)
    rng = np.random.default_rng(1)
    rows = rng.integers(-1, 7, 5003).astype(np.int32)
    source = rng.integers(-9, 9, (2, 5003, 3)).astype(np.float32)
    wanted = np.zeros((2, 7, 3), np.float32)
    for sums, values in zip(wanted, source):
        np.add.at(sums, rows[rows >= 0], values[rows >= 0])
    with gpu.fresh_plan_cache():
        placed = (fw.tensor(each, device=gpu) for each in (rows, source))
        found = atomic_segment_sum(*placed, 7).numpy()
    assert np.array_equal(found, wanted)
