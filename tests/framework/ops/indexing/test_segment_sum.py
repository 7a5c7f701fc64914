"""Sorted order, and what sums are taken in."""

import dataclasses

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import IndexRangeError
from vkbackend.framework.base.index_checks import UNCHECKED
from vkbackend.framework.ops.indexing import segment_sum
from vkbackend.framework.ops.indexing.atomic_scatter import scatter_atomic
from vkbackend.framework.ops.indexing.gather import add_rows
from vkbackend.framework.ops.indexing.segment_sum import (
    ATOMIC_COLUMNS,
    ATOMIC_KEYS,
    argsort_keys,
    sum_dtype,
    sums_by_atomics,
)
from vkbackend.framework.ops.reduce.common import in_storage
from vkbackend.framework.ops.view import reshape


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
    # Few are, if they are of no gradient, where a device has atomics of floats.
    for native in (False, True):
        supported = gpu.gpu.info.supported - {"float32_atomic_add"}
        supported |= {"float32_atomic_add"} if native else set()
        monkeypatch.setitem(gpu.gpu.info.__dict__, "supported", supported)
        few = (gpu, DTYPES["float32"], 100)
        assert sums_by_atomics(*few, 1, False) is native
        assert not sums_by_atomics(*few, ATOMIC_COLUMNS + 1, False)
    fw.use_deterministic_algorithms(True)
    try:
        assert fw.are_deterministic_algorithms_enabled()
        assert not sums_by_atomics(*many)
        assert not sums_by_atomics(*few, 1, False)
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
    rows = rng.integers(0, 7, 5003).astype(np.int32)
    source = rng.integers(-9, 9, (2, 5003, 3)).astype(np.float32)
    wanted = np.ones((2, 7, 3), np.float32)
    for sums, values in zip(wanted, source):
        np.add.at(sums, rows, values)
    with gpu.fresh_plan_cache():
        base, index, given = (
            fw.tensor(each, device=gpu) for each in (np.ones_like(wanted), rows, source)
        )
        found = scatter_atomic(base, index, given, "sum", True, UNCHECKED, False)
        assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i8", "u1"])
@pytest.mark.parametrize("from_end", [False, True])
def test_atomics_begin_with_the_base(
    dtype: str, from_end: bool, quads: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of elements and of rows, and their gradients."""
    monkeypatch.setattr(segment_sum, "ATOMIC_KEYS", 1)
    need(np.dtype(dtype).name, quads)
    rng = np.random.default_rng(1)
    base, source = (rng.integers(0, 9, n).astype(dtype) for n in ((6, 5), (70, 5)))
    for index in (rng.integers(0, 6, 70), rng.integers(0, 6, (70, 5))):
        index = index - 6 * from_end
        x, given = (fw.tensor(each, device=quads) for each in (base, source))
        y, right = (torch.from_numpy(each) for each in (base, source))
        if base.dtype.kind == "f":
            for each in (x, given, y, right):
                each.requires_grad_()
        places = fw.tensor(index, device=quads)
        rows, sizes = reshape(x, (1, 6, 5)), (1, 70, 5)
        chosen = reshape(places, sizes) if index.ndim == 2 else places
        parts = reshape(given, sizes)
        found = reshape(add_rows(rows, chosen, parts, "", from_end), (6, 5))
        at = torch.from_numpy(index % 6)
        wanted = (
            y.scatter_add(0, at, right)
            if index.ndim == 2
            else y.index_add(0, at, right)
        )
        assert np.array_equal(found.detach().numpy(), wanted.detach().numpy())
        if base.dtype.kind == "f":
            grad = rng.integers(0, 9, (6, 5)).astype(dtype)
            found.backward(fw.tensor(grad, device=quads))
            wanted.backward(torch.from_numpy(grad))
            for mine, other in ((x, y), (given, right)):
                assert mine.grad is not None
                assert other.grad is not None
                assert np.array_equal(mine.grad.numpy(), other.grad.numpy())


def test_sums_are_added_to_the_base_in_place(
    quads: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_sum, "ATOMIC_KEYS", 1)
    monkeypatch.setattr(segment_sum, "MATCHED_ENTRIES", 0)
    monkeypatch.setattr(segment_sum, "SHARED_ENTRIES", 0)
    x, index = fw.rand(64, 8, device=quads), fw.randint(0, 64, (64, 8), device=quads)
    fw.eval(x, index)
    with quads.gpu.profile() as profile:
        found = x.scatter_add(0, index, x)
        fw.eval()
    names = [span.name.split()[0] for span in profile.spans]
    assert names == ["copy/words", "index/atomic_reduce"]
    del found


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize(
    ("shape", "dim", "count"),
    [
        ((40, 40, 9), 2, 31),
        ((1100, 20), 1, 50),
        ((20, 1100), 0, 50),
        ((2, 9, 600), 1, 9),
    ],
)
def test_each_result_adds_up_its_entries(
    shape: tuple[int, ...],
    dim: int,
    count: int,
    dtype: str,
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of columns apart, and of 2-byte floats; the same as PyTorch in float64."""
    need(dtype, gpu)
    monkeypatch.setattr(segment_sum, "MATCHED_ENTRIES", 0)
    monkeypatch.setattr(segment_sum, "SHARED_ENTRIES", 0)
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, hides_latency=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    rng = np.random.default_rng(1)
    sizes = (*shape[:dim], count, *shape[dim + 1 :])
    base, source = (rng.integers(-9, 9, each) for each in (shape, sizes))
    x, given = (fw.tensor(e, device=gpu, dtype=DTYPES[dtype]) for e in (base, source))
    y, right = (torch.from_numpy(each).double() for each in (base, source))
    seed = rng.integers(-9, 9, shape)
    for each in (x, given, y, right):
        each.requires_grad_()
    with gpu.fresh_plan_cache():
        for index in (rng.integers(0, shape[dim], count), np.full(count, 3)):
            places = fw.tensor(index, device=gpu)
            chosen = torch.from_numpy(index)
            found, wanted = (
                x.index_add(dim, places, given), y.index_add(dim, chosen, right)
            )  # fmt: skip
            assert np.array_equal(
                found.detach().cpu().double().numpy(), wanted.detach()
            )
            found.backward(fw.tensor(seed, device=gpu, dtype=DTYPES[dtype]))
            wanted.backward(torch.from_numpy(seed).double())
            found = x.index_select(dim, places)
            found.backward(given.detach())
            y.index_select(dim, chosen).backward(right.detach())
            for left, other in ((x, y), (given, right)):
                assert left.grad is not None
                assert other.grad is not None
                assert np.array_equal(left.grad.cpu().double().numpy(), other.grad)
                left.grad = other.grad = None


def test_which_results_add_up_their_entries(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info

    def gathers(shape: tuple[int, ...], rows: int, dtype: fw.DType) -> bool:
        x = fw.zeros(shape, dtype=dtype, device=gpu)
        index = fw.zeros(shape[1], dtype=fw.int64, device=gpu)
        return segment_sum.gathers_segments(x, index, rows)

    if not info.target.hides_latency:
        assert not gathers((2048, 50, 1), 50, fw.float32), "a software device"
    target = dataclasses.replace(info.target, hides_latency=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    assert gathers((2048, 50, 1), 50, fw.float32)
    assert not gathers((2048, 50, 1), 3, fw.float32), "many entries a row"
    assert not gathers((8, 50, 1), 50, fw.float32), "few columns"
    assert not gathers((1, 50, 2048), 50, fw.float32), "columns side by side"
    if getattr(info, fw.float16.storage_feature or "", False):
        assert gathers((1, 50, 2048), 50, fw.float16)
    if info.shader_int64:
        assert gathers((1, 50, 2048), 50, fw.int64)


def test_wide_rows_of_8_bytes_take_no_atomics(quads: GpuDevice) -> None:
    need("int64", quads)
    rng = np.random.default_rng(1)
    base, source = (rng.integers(-9, 9, (n, 1030)) for n in (300, 600))
    index = rng.integers(0, 300, 600)
    x, places, given = (fw.tensor(n, device=quads) for n in (base, index, source))
    with quads.gpu.profile() as profile:
        found = x.index_add(0, places, given)
        fw.eval(found)
    names = [span.name.split()[0] for span in profile.spans]
    assert names[-1] == "index/segment_gather"
    np.add.at(base, index, source)
    assert np.array_equal(found.numpy(), base)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64"])
def test_few_entries_are_looked_at_by_each_result(dtype: str, gpu: GpuDevice) -> None:
    need(dtype, gpu)
    rng = np.random.default_rng(1)
    base, source = (rng.integers(-9, 9, n).astype(dtype) for n in ((6, 5), (40, 5)))
    x, given = (fw.tensor(each, device=gpu) for each in (base, source))
    y, right = (torch.from_numpy(each) for each in (base, source))
    for index in (rng.integers(0, 6, 40), rng.integers(0, 6, (40, 5))):
        places = fw.tensor(index, device=gpu, dtype=fw.int32)
        chosen = torch.from_numpy(index)
        call = "index_add" if index.ndim == 1 else "scatter_add"
        fw.eval(x, given, places)
        before = gpu.gpu.counters.snapshot()
        found = getattr(x, call)(0, places, given)
        fw.eval(found)
        launches = (gpu.gpu.counters.snapshot() - before).dispatches
        assert launches == 1 or in_storage(x) is not x
        wanted = getattr(y, call)(0, chosen, right)
        assert np.array_equal(found.numpy(), wanted.numpy())
        if index.ndim == 1 and DTYPES[dtype].is_float:
            leaf, other = x.detach().requires_grad_(), y.clone().requires_grad_()
            leaf[places - 6].backward(given)
            other[chosen - 6].backward(right)
            assert leaf.grad is not None
            assert other.grad is not None
            assert np.array_equal(leaf.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "count", "columns"), [(50, 300, 40), (7, 1, 33), (11, 4097, 5)]
)
def test_sorted_sums_round_once(
    rows: int,
    count: int,
    columns: int,
    dtype: str,
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of 2-byte floats are exact in float32, and need no copy of the source."""
    need(dtype, gpu)
    monkeypatch.setattr(segment_sum, "MATCHED_ENTRIES", 0)
    monkeypatch.setattr(segment_sum, "SHARED_ENTRIES", 0)
    rng = np.random.default_rng(1)
    index, source = rng.integers(0, rows, count), rng.integers(-3, 4, (count, columns))
    wanted = np.zeros((rows, columns))
    np.add.at(wanted, index, source)
    kind = DTYPES[dtype]
    weight = fw.zeros((rows, columns), device=gpu, dtype=kind, requires_grad=True)
    given = fw.tensor(source, device=gpu, dtype=kind)
    places = fw.tensor(index, device=gpu, dtype=fw.int32)
    fw.nn.functional.embedding(places, weight).backward(given)
    assert weight.grad is not None
    right = fw.tensor(wanted).to(kind).float().numpy()
    assert np.array_equal(weight.grad.cpu().float().numpy(), right)


@pytest.mark.parametrize(
    ("shape", "dim", "count"),
    [((40, 8), 0, 300), ((3, 70, 5), 1, 509), ((1, 6), 0, 100), ((9, 20), 1, 65)],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64"])
def test_few_entries_are_matched_in_one_kernel(
    shape: tuple[int, ...], dim: int, count: int, dtype: str, quads: GpuDevice
) -> None:
    """Up to 512 of a GPU where a row has one index; the sums are in their order."""
    need(dtype, quads)
    rng = np.random.default_rng(1)
    sizes = (*shape[:dim], count, *shape[dim + 1 :])
    base, source = (rng.integers(-4, 5, each) for each in (shape, sizes))
    index = rng.integers(0, shape[dim], count)
    index[rng.random(count) < 0.3] = 0
    x, given = (fw.tensor(e, device=quads, dtype=DTYPES[dtype]) for e in (base, source))
    places = fw.tensor(index, device=quads)
    fw.eval(x, given, places)
    with quads.gpu.profile() as profile:
        found = x.index_add(dim, places, given)
        fw.eval(found)
    names = [span.name.split()[0] for span in profile.spans]
    assert names == ["index/match_sum"]
    wanted = torch.from_numpy(base).double()
    wanted.index_add_(dim, torch.from_numpy(index), torch.from_numpy(source).double())
    assert np.array_equal(found.cpu().double().numpy(), wanted.numpy())


def test_matched_entries_out_of_range(quads: GpuDevice) -> None:
    x, source = fw.zeros(40, 8, device=quads), fw.ones(300, 8, device=quads)
    index = fw.tensor([*range(40)] * 7 + [0] * 19 + [40], device=quads)
    with pytest.raises(IndexRangeError, match="40"):
        x.index_add(0, index, source).numpy()


def test_which_entries_are_matched(quads: GpuDevice) -> None:
    def matches(rows: int, entries: int, columns: int, each: bool = False) -> bool:
        source = fw.empty(1, entries, columns, device=quads)
        sizes = (1, entries, columns) if each else (entries,)
        index = fw.empty(*sizes, device=quads, dtype=fw.int32)
        return segment_sum.matches_entries(index, source, rows)

    assert matches(1024, 512, 64)
    assert not matches(1024, 513, 64)
    assert not matches(4096, 512, 64)
    # An index for each element is read by each result.
    assert matches(256, 64, 64, each=True)
    assert not matches(1024, 512, 64, each=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(
    ("shape", "rows", "dim", "most"),
    [
        ((150, 500), 300, 1, 300),
        ((700, 290), 2500, 0, 2500),
        ((2, 260, 301), 99, 1, 99),
        ((3000, 40), 37, 1, 37),
        # Most have one of a few indices.
        ((150, 500), 300, 1, 1),
        ((150, 500), 300, 1, 5),
    ],
)
def test_sums_in_shared_memory(
    shape: tuple[int, ...],
    rows: int,
    dim: int,
    most: int,
    dtype: str,
    quads: GpuDevice,
) -> None:
    """Of lines, of ranges of rows, of strips of columns, and of several short lines."""
    rng = np.random.default_rng(0)
    source = rng.integers(-4, 5, shape).astype(dtype)
    sizes = (*shape[:dim], rows, *shape[dim + 1 :])
    base = rng.integers(-4, 5, sizes).astype(dtype)
    index = rng.integers(0, most, shape)
    given = (fw.tensor(each, device=quads) for each in (base, index, source))
    x, places, values = given
    with fw.profile(quads) as profile:
        found = x.scatter_add(dim, places, values)
        fw.eval(found)
    names = [span.name.split()[0] for span in profile.spans]
    assert names == ["index/shared_sum"]
    wanted = torch.from_numpy(base.astype(np.float64)).scatter_add(
        dim, torch.from_numpy(index), torch.from_numpy(source.astype(np.float64))
    )
    assert np.array_equal(found.cpu().double().numpy(), wanted.numpy())


def test_gradients_by_sums_in_shared_memory(quads: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((160, 450)).astype(np.float32)
    index = rng.integers(0, 450, (160, 450))
    x = fw.tensor(data, device=quads, requires_grad=True)
    x.gather(1, fw.tensor(index, device=quads)).square().sum().backward()
    twin = torch.from_numpy(data).double().requires_grad_()
    twin.gather(1, torch.from_numpy(index)).square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), 1e-5)


def test_no_row_of_sums_in_shared_memory(quads: GpuDevice) -> None:
    x, source = fw.zeros(140, 300, device=quads), fw.ones(140, 500, device=quads)
    index = fw.zeros(140, 500, device=quads, dtype=fw.int64)
    index[77, 3] = 300
    with pytest.raises(IndexRangeError, match="300"):
        x.scatter_add(1, index, source).numpy()
