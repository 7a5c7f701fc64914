"""Radix sort: short lines, lines of one workgroup and passes, against PyTorch."""

import dataclasses

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.codegen.rows import GPU, SOFTWARE
from vkbackend.driver.target import LOOP_LIMIT
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import bfloat16, float32, int8, int32, int64
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels import radix_sort
from vkbackend.framework.kernels.radix_sort import (
    RadixSort,
    has_radix_sort,
    pays_to_count,
)

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]


@pytest.fixture
def radix(quads: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device with tiles that are small, so that few elements fill many."""
    if not has_radix_sort(quads.gpu.info):
        pytest.skip("the device has no subgroup votes")
    monkeypatch.setattr(radix_sort, "TILE_ITEMS", 2)
    monkeypatch.setattr(radix_sort, "LINE_ITEMS", 4)
    monkeypatch.setattr(radix_sort, "SHORT_LINE", 16)
    monkeypatch.setattr(radix_sort, "LEAST_RANGED", 1)
    monkeypatch.setattr(radix_sort, "LEAST_HISTOGRAMS", 2)
    monkeypatch.setattr(radix_sort, "BLOCKS_PER_BYTE", 0)
    return quads


@pytest.fixture
def merging(radix: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device with short blocks, which are merged."""
    monkeypatch.setattr(radix_sort, "LINE_ITEMS", 1)
    monkeypatch.setattr(radix_sort, "BLOCKS_PER_BYTE", 1)
    return radix


def sample(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Return numbers of all magnitudes and signs, some of them equal."""
    generator = np.random.default_rng(0)
    if dtype.is_floating_point:
        special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5, -1e-7])
        data = generator.standard_normal(shape) * 2.0 ** generator.integers(
            -9, 9, shape
        )
        odd = generator.random(shape) < 0.3
        data[odd] = generator.choice(special, odd.sum())
        return torch.from_numpy(data).to(dtype)
    if dtype is torch.bool:
        return torch.from_numpy(generator.random(shape) < 0.5)
    limits = torch.iinfo(dtype)
    data = generator.integers(limits.min, limits.max, shape, endpoint=True)
    data[generator.random(shape) < 0.3] = limits.max
    return torch.from_numpy(data).to(dtype)


def check(device: GpuDevice, data: torch.Tensor, dim: int, descending: bool) -> None:
    narrow = data.dtype is torch.bfloat16
    x = fw.tensor((data.float() if narrow else data).numpy(), device=device)
    x = x.to(fw.bfloat16) if narrow else x
    found = ops.sort(x, dim, descending)
    wanted = torch.sort(data, dim=dim, descending=descending, stable=True)
    assert np.array_equal(found.indices.numpy(), wanted.indices.numpy())
    values, expected = found.values.numpy(), wanted.values
    expected = expected.float() if narrow else expected
    assert np.array_equal(values, expected.numpy(), equal_nan=data.is_floating_point())
    if data.is_floating_point():
        signed = ~np.isnan(values)
        signs = np.signbit(expected.numpy())
        assert np.array_equal(np.signbit(values)[signed], signs[signed])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [13, 100, 700])
def test_dtypes(dtype: torch.dtype, count: int, radix: GpuDevice) -> None:
    check(radix, sample(dtype, (3, count)), 1, descending=count == 100)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        *(((1,), 0), ((2, 7, 3), 1), ((97, 5), 0), ((2, 700, 3), 1), ((3000,), 0)),
        # Of whole groups of tiles, whose counts are stored four at a time.
        ((8192,), 0),
    ],
)
def test_layouts(
    shape: tuple[int, ...], dim: int, descending: bool, radix: GpuDevice
) -> None:
    check(radix, sample(torch.float32, shape), dim, descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("blocks", [2, 3, 8])
def test_merged_blocks(
    dtype: torch.dtype, blocks: int, descending: bool, merging: GpuDevice
) -> None:
    blocks = min(blocks, torch.empty(0, dtype=dtype).element_size())
    x = TensorSpec((3, 1, 1), float32)
    keys = RadixSort(merging.gpu.info, x, 1, False, "x", {}, int64)
    # The last block is shorter.
    data = sample(dtype, (3, blocks * keys.line_capacity - 1))
    check(merging, data, 1, descending)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("blocks", [3, 5, 7, 13, 16])
def test_blocks_are_merged_twice(
    dtype: torch.dtype, blocks: int, merging: GpuDevice
) -> None:
    x = TensorSpec((3, 1, 1), float32)
    keys = RadixSort(merging.gpu.info, x, 1, False, "x", {}, int64)
    check(merging, sample(dtype, (3, blocks * keys.line_capacity - 1)), 1, False)
    data = sample(dtype, (2, blocks * keys.line_capacity - 5, 2))
    most = keys.line_capacity + 2
    found = ops.topk(fw.tensor(data.numpy(), device=merging), most, 1)
    wanted = torch.sort(data, dim=1, descending=True, stable=True)
    expected = wanted.values[:, :most].numpy()
    assert np.array_equal(found.values.numpy(), expected, equal_nan=True)
    assert np.array_equal(found.indices.numpy(), wanted.indices[:, :most].numpy())


def test_layouts_of_merged_blocks(merging: GpuDevice) -> None:
    check(merging, sample(torch.float32, (2, 100, 3)), 1, False)
    data = sample(torch.int16, (2, 100, 2))
    found = ops.topk(fw.tensor(data.numpy(), device=merging), 70, 1)
    wanted = torch.sort(data, dim=1, descending=True, stable=True)
    assert np.array_equal(found.values.numpy(), wanted.values[:, :70].numpy())
    assert np.array_equal(found.indices.numpy(), wanted.indices[:, :70].numpy())
    found = ops.argsort(fw.tensor(data.numpy(), device=merging), 1, stable=True)
    assert np.array_equal(found.numpy(), np.argsort(data.numpy(), 1, kind="stable"))


def test_subnormal_numbers_are_merged_by_their_bits(merging: GpuDevice) -> None:
    data = torch.from_numpy(np.arange(200, 0, -1, np.int32).view(np.float32))
    check(merging, data, 0, False)


@pytest.mark.parametrize("count", [11, 90, 600])
def test_first_of_the_order(count: int, radix: GpuDevice) -> None:
    data = sample(torch.int16, (2, count, 2))
    found = ops.topk(fw.tensor(data.numpy(), device=radix), 5, 1)
    wanted = torch.sort(data, dim=1, descending=True, stable=True)
    assert np.array_equal(found.values.numpy(), wanted.values[:, :5].numpy())
    assert np.array_equal(found.indices.numpy(), wanted.indices[:, :5].numpy())


RANGES = {
    "around 0": (-9, 9),
    "equal": (7, 7),
    "of one digit": (1 << 20, (1 << 20) + 255),
    "across words": (-(1 << 31), (1 << 31) + 3),
    "of no sign": (0, 1 << 62),
}


def check_ranges(device: GpuDevice, count: int, dtype: torch.dtype) -> None:
    """Check numbers of narrow ranges, whose order few digits decide."""
    generator = np.random.default_rng(1)
    limits = torch.iinfo(dtype)
    for least, most in RANGES.values():
        if not limits.min <= least <= most <= limits.max:
            continue
        numbers = generator.integers(least, most, (2, count, 2), endpoint=True)
        data = torch.from_numpy(numbers)
        data[0, 0], data[1, -1] = most, least
        for descending in (False, True):
            check(device, data.to(dtype), 1, descending)
        found = ops.topk(fw.tensor(data.to(dtype).numpy(), device=device), 70, 1)
        wanted = torch.sort(data, dim=1, descending=True, stable=True)
        assert np.array_equal(found.indices.numpy(), wanted.indices[:, :70].numpy())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [90, 300])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_narrow_ranges(dtype: torch.dtype, count: int, radix: GpuDevice) -> None:
    check_ranges(radix, count, dtype)


@pytest.mark.parametrize(
    ("count", "kernels"),
    [
        (7, ["short_rows"]),
        (1024, ["radix_rows"]),
        (8193, ["radix_rows", "radix_merge"]),
        (32768, ["radix_rows", "radix_merge"]),
        (32769, ["radix_rows", "radix_merge", "radix_merge"]),
        (131072, ["radix_rows", "radix_merge", "radix_merge"]),
        (131073, ["radix_histogram", "radix_offsets", "radix_scatter"] * 4),
        (1 << 20, ["radix_histogram", "radix_offsets", "radix_scatter"] * 4),
    ],
)
def test_kernels_of_a_length(
    count: int, kernels: list[str], discrete: vkbackend.DeviceInfo
) -> None:
    info = dataclasses.replace(
        discrete, min_subgroup_size=32, max_subgroup_size=32, max_shared_memory=49152
    )
    x = TensorSpec((2, count, 1), float32)
    results = {"values": "values", "order": "indices"}
    steps = RadixSort(info, x, count, False, "x", results, int64).dispatches()
    names = [step.kernel.removeprefix("sort/") for step in steps]
    assert names == kernels


def test_many_lines_are_merged_once(discrete: vkbackend.DeviceInfo) -> None:
    info = dataclasses.replace(
        discrete, min_subgroup_size=32, max_subgroup_size=32, max_shared_memory=49152
    )
    results = {"values": "values", "order": "indices"}
    for lines, kernel in ((16, "sort/radix_merge"), (17, "sort/radix_scatter")):
        x = TensorSpec((lines, 1 << 16, 1), float32)
        sort = RadixSort(info, x, 1 << 16, False, "x", results, int64)
        assert sort.dispatches()[-1].kernel == kernel


def test_whole_numbers_and_narrow_ones_are_merged_once(
    discrete: vkbackend.DeviceInfo,
) -> None:
    results = {"values": "values", "order": "indices"}
    for dtype, ways in ((int32, 4), (bfloat16, 2), (int8, 1)):
        for count, merged in ((ways, ways > 1), (ways + 1, False)):
            sort = RadixSort(
                *(discrete, TensorSpec((64, 1, 1), dtype), 1, False, "x", results),
                int64,
            )
            length = count * sort.line_capacity
            sort = sort._replace(x=TensorSpec((64, length, 1), dtype), most=length)
            names = {step.kernel for step in sort.dispatches()}
            assert ("sort/radix_merge" in names) == merged


def test_few_lines_have_more_blocks(discrete: vkbackend.DeviceInfo) -> None:
    info = dataclasses.replace(
        discrete, min_subgroup_size=32, max_subgroup_size=32, max_shared_memory=49152
    )
    found = []
    for lines in (1, 33, 50, 64, 1024):
        x = TensorSpec((lines, 16384, 1), float32)
        results = {"values": "values", "order": "indices"}
        sort = RadixSort(info, x, 16384, False, "x", results, int64)
        rows, merge = sort.dispatches()
        assert rows.push["block"] == merge.push["block"]
        found.append((rows.push["block"], merge.constants["WAYS"]))
    assert found == [(4096, 4), (4096, 4), (8192, 2), (8192, 2), (8192, 2)]


@pytest.fixture
def chunks(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device with short chunks, if invocations sort chunks on it."""
    least = dict.fromkeys(radix_sort.LEAST_COUNTED, 2)
    monkeypatch.setattr(radix_sort, "LEAST_COUNTED", least)
    monkeypatch.setattr(radix_sort, "LEAST_ELEMENTS", 2)
    monkeypatch.setattr(radix_sort, "LEAST_CHUNK", 16)
    monkeypatch.setattr(radix_sort, "LEAST_RANGED", 1)
    if not pays_to_count(gpu.gpu.info, TensorSpec((1, 99, 1), float32), 99):
        pytest.skip("the device is no software device with 64-bit integers")
    return gpu


CHUNKED = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8),
]


@pytest.mark.core
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", CHUNKED, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"), [((2, 70, 3), 1), ((97, 5), 0), ((1500,), 0)]
)
def test_chunks(
    shape: tuple[int, ...],
    dim: int,
    dtype: torch.dtype,
    descending: bool,
    chunks: GpuDevice,
) -> None:
    check(chunks, sample(dtype, shape), dim, descending)


@pytest.mark.parametrize("descending", [False, True])
def test_chunks_of_bools(descending: bool, chunks: GpuDevice) -> None:
    data = np.random.default_rng(0).random((3, 90)) > 0.5
    found = ops.sort(fw.tensor(data, device=chunks), 1, descending)
    wanted = torch.sort(
        torch.from_numpy(data), dim=1, descending=descending, stable=True
    )
    assert np.array_equal(found.values.numpy(), wanted.values.numpy())
    assert np.array_equal(found.indices.numpy(), wanted.indices.numpy())


@pytest.mark.core
def test_first_of_chunks(chunks: GpuDevice) -> None:
    data = sample(torch.int32, (2, 600, 2))
    found = ops.topk(fw.tensor(data.numpy(), device=chunks), 80, 1)
    wanted = torch.sort(data, dim=1, descending=True, stable=True)
    assert np.array_equal(found.values.numpy(), wanted.values[:, :80].numpy())
    assert np.array_equal(found.indices.numpy(), wanted.indices[:, :80].numpy())


@pytest.mark.core
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8], ids=str)
def test_chunks_of_narrow_ranges(dtype: torch.dtype, chunks: GpuDevice) -> None:
    check_ranges(chunks, 300, dtype)


def test_ranges_keep_within_the_loops_of_software_devices() -> None:
    results = {"values": "values", "order": "indices"}
    x = TensorSpec((1 << 12, 1 << 15, 1), int64)
    sort = RadixSort(SOFTWARE, x, 1 << 15, False, "x", results, int64)
    first = sort.dispatches()[0]
    groups, size = first.push["groups"], first.constants["LOCAL_X"]
    assert isinstance(groups, int)
    assert x.numel / (groups * size) <= LOOP_LIMIT
    assert groups / size <= LOOP_LIMIT


def test_chunks_keep_within_the_loops_of_software_devices() -> None:
    results = {"values": "values", "order": "indices"}
    for count in (1 << 13, 1 << 17, 1 << 21):
        x = TensorSpec((1, count, 1), float32)
        assert pays_to_count(SOFTWARE, x, count)
        sort = RadixSort(SOFTWARE, x, count, False, "x", results, int64)
        counted, scanned, placed = sort.dispatches()[:3]
        assert counted.constants["CHUNK"] <= LOOP_LIMIT
        assert scanned.push["width"] <= LOOP_LIMIT
        assert placed.constants["IS_FIRST"] == 1
    assert not pays_to_count(SOFTWARE, TensorSpec((1, 1 << 22, 1), float32), 1 << 22)
    assert not pays_to_count(GPU, TensorSpec((1, 1 << 17, 1), float32), 1 << 17)


@pytest.mark.parametrize(
    ("tiles", "group", "each"),
    [(1, 1, 1), (33, 16, 4), (700, 256, 4), (1024, 256, 4), (5000, 256, 4)],
)
def test_offsets_of_any_number_of_tiles(
    gpu: GpuDevice, tiles: int, group: int, each: int
) -> None:
    """Those that an invocation has at once, fewer, and more, in several rounds."""
    rows, device = 7, gpu.gpu
    counts = np.random.default_rng(0).integers(0, 2048, (rows, tiles)).astype(np.uint32)
    held, totals = device.allocate(counts.nbytes), device.allocate(4 * rows)
    device.upload(counts, held)
    constants = {"LOCAL_X": 256, "GROUP": group, "EACH": each, "RANGED": 0}
    pipeline = device.pipeline("sort/radix_offsets", constants=constants)
    arguments = {"counts": held, "totals": totals, "range": held}
    arguments |= {"rows": rows, "tiles": tiles, "shift": 0}
    batch = device.batch()
    grid = (-(-rows // (256 // group)), 1, 1)
    batch.dispatch(pipeline, grid, arguments, [held], [held, totals])
    batch.submit()
    found = np.frombuffer(device.read(held), np.uint32).reshape(rows, tiles)
    np.testing.assert_array_equal(found, counts.cumsum(1) - counts)
    assert (
        np.frombuffer(device.read(totals), np.uint32).tolist() == counts.sum(1).tolist()
    )
