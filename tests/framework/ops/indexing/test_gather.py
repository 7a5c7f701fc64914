"""Rows by index: constants of the shaders, and indices that name no row."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import float32, int64, uint32
from vkbackend.framework.base.errors import IndexRangeError
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.ops.indexing.gather import (
    add_rows,
    checked_rows,
    index_constants,
    put_rows,
    rows_of,
    take_rows,
)
from vkbackend.framework.scheduler.plan import built_plans


def test_how_indices_are_read() -> None:
    signed, unsigned = TensorSpec((3,), int64), TensorSpec((3,), uint32)
    found = [
        list(index_constants(each, from_end).values())
        for each, from_end in ((signed, True), (unsigned, False))
    ]
    assert [*index_constants(signed, True)] == [
        "INDEX_WORDS",
        "INDEX_SIGNED",
        "FROM_END",
    ]
    assert found == [[2, 1, 1], [1, 0, 0]]


def test_rows_count_from_the_front() -> None:
    places = np.array([0, -1, 2], np.int8), np.array([2, 0], np.uint64)
    assert checked_rows(places[0], 3, "", True).tolist() == [0, 2, 2]
    assert checked_rows(places[1], 3, "", True).tolist() == [2, 0]
    assert checked_rows(np.array([[0]]), 1, "", False).tolist() == [[0]]
    assert checked_rows(np.zeros(0, int), 0, "", True).size == 0
    with pytest.raises(IndexRangeError):
        checked_rows(np.array([-1]), 3, "", False)
    for bad in (np.array([3]), np.array([-4]), np.array([1 << 63], np.uint64)):
        with pytest.raises(IndexRangeError, match=rf"^index: {bad[0]} is out of range"):
            checked_rows(bad, 3, "", True)


def test_rows_around_a_dimension() -> None:
    assert rows_of(fw.zeros((2, 3, 5, 7)), 2).shape == (6, 5, 7)
    assert rows_of(fw.zeros(3), 0).shape == (1, 3, 1)


def test_nothing_to_write(place: Device) -> None:
    base = fw.ones((1, 3, 2), device=place)
    index = fw.zeros(0, "int32", place)
    reduce_empty = fw.zeros((1, 0, 2), device=place)
    for write in (put_rows, add_rows):
        written = write(base, index, reduce_empty)
        written[0, 0] = 5
        assert base.tolist() == [[[1, 1]] * 3]
        assert written.tolist() == [[[5, 5], [1, 1], [1, 1]]]
    assert take_rows(base, index).shape == (1, 0, 2)
    assert base.dtype is float32


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_rows_of_whole_words_and_others(dtype: str, place: Device) -> None:
    for inner in (3, 4):
        base = (np.arange(10 * inner) % 7).reshape(2, 5, inner).astype(dtype)
        rows = (10 + np.arange(6 * inner)).reshape(2, 3, inner).astype(dtype)
        found = put_rows(
            *(fw.tensor(each, device=place) for each in (base, np.array([3, -5, 3]))),
            fw.tensor(rows, device=place),
            from_end=True,
        )
        base[:, [3, 0]] = rows[:, [2, 1]]
        np.testing.assert_array_equal(found.numpy(), base)


@pytest.mark.usefixtures("_no_collector")
def test_rows_are_written_in_memory_that_nobody_reads_again(gpu: GpuDevice) -> None:
    for is_read in (False, True):
        base = fw.zeros(2, 4, 3, device=gpu)
        index, rows = fw.tensor([2], device=gpu), fw.ones(2, 1, 3, device=gpu)
        fw.eval()
        buffer = base.array.value.buffer
        changed = base.index_copy(1, index, rows) if is_read else base
        if not is_read:
            base.index_copy_(1, index, rows)
        with built_plans() as plans:
            fw.eval()
        aliases = sum(len(plan.execution_plan.aliases) for plan in plans)
        assert aliases == (not is_read)
        assert (changed.array.value.buffer is buffer) == (not is_read)
        assert changed.sum().item() == 6
        assert base.any() == (not is_read)


@pytest.mark.usefixtures("_no_collector")
def test_rows_of_a_view_begin_as_the_view_does(gpu: GpuDevice) -> None:
    wanted = np.arange(16, dtype=np.float32).reshape(4, 4)
    base, index = fw.tensor(wanted, device=gpu), fw.tensor([2], device=gpu)
    for row in range(2):
        assert base.sum().item() == wanted.sum()
        base[row].index_fill_(0, index, 7)
        wanted[row, 2] = 7
    np.testing.assert_array_equal(base.numpy(), wanted)


@pytest.mark.usefixtures("_no_collector")
def test_rows_are_read_before_they_are_written(gpu: GpuDevice) -> None:
    rows = np.arange(1024, dtype=np.float32).reshape(64, 16)
    base = fw.tensor(rows, device=gpu)
    backwards = fw.tensor(np.arange(64)[::-1].copy(), device=gpu)
    fw.eval()
    base.index_copy_(0, backwards, base)
    np.testing.assert_array_equal(base.numpy(), rows[::-1])


@pytest.mark.parametrize("size", [7, 3000])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint64"])
def test_few_and_many_indices_are_checked_on_the_host(size: int, dtype: str) -> None:
    """In two ways, of which the one for many looks at them apart."""
    rng = np.random.default_rng(size)
    x = rng.standard_normal((5, 11, 3)).astype(np.float32)
    index = rng.integers(0, 11, size).astype(dtype)
    each = rng.integers(0, 11, (5, size, 3)).astype(dtype)
    turned = fw.tensor(x.transpose(2, 1, 0).copy()).permute(2, 1, 0)
    for ours in (fw.tensor(x), turned):
        found = take_rows(ours, fw.tensor(index), "site: rows")
        assert np.array_equal(found.numpy(), x.take(index.astype(int), 1))
        found = take_rows(ours, fw.tensor(each), "site: rows")
        wanted = np.take_along_axis(x, each.astype(int), 1)
        assert np.array_equal(found.numpy(), wanted)
    single = fw.tensor(x[:1, :, :1]), fw.tensor(each[:1, :, :1])
    found = take_rows(*single, "site: rows").numpy()
    wanted = np.take_along_axis(x[:1, :, :1], each[:1, :, :1].astype(int), 1)
    assert np.array_equal(found, wanted)
    for value in (11, -1, -11):
        if value < 0 and dtype[0] == "u":
            continue
        for indices in (index, each):
            bad = indices.copy()
            bad.flat[size // 2] = value
            said = rf"^site: index {value} is out of range: rows has size 11"
            with pytest.raises(IndexRangeError, match=said):
                take_rows(fw.tensor(x), fw.tensor(bad), "site: rows")
            if value < 0:
                found = take_rows(fw.tensor(x), fw.tensor(bad), "site: rows", True)
                ends = np.where(bad < 0, bad + 11, bad)
                wanted = (
                    x.take(ends, 1) if bad.ndim == 1 else np.take_along_axis(x, ends, 1)
                )
                assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("width", [4, 12, 16])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_rows_are_written_by_vectors(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, dtype: str, width: int
) -> None:
    """Where rows and what they are read from begin at one; the last entry wins."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, vec4_loads=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    rng = np.random.default_rng(width)
    base = rng.integers(0, 9, (3, 50, width)).astype(dtype)
    index, source = rng.integers(0, 50, 70), rng.integers(0, 9, (3, 70, width))
    wanted = base.copy()
    for entry, row in enumerate(index):
        wanted[:, row] = source[:, entry]
    shifted = np.concatenate([np.zeros(1), source.ravel()]).astype(dtype)
    given = [
        fw.tensor(each, device=gpu) for each in (base, index, source.astype(dtype))
    ]
    unaligned = fw.tensor(shifted, device=gpu)[1:].reshape(source.shape)
    for rows in (given[2], unaligned):
        found = given[0].index_copy(1, given[1], rows).numpy()
        np.testing.assert_array_equal(found, wanted)
    gpu.plans.clear()


VIEWS = {
    "broadcast rows": lambda x: x[:1].expand(24, 40),
    "broadcast columns": lambda x: x[:, :1].expand(24, 40),
    "rows apart": lambda x: x[:, 4:],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_elements_of_views_are_taken_in_place(
    name: str, dim: int, dtype: str, gpu: GpuDevice
) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 100, (24, 40)).astype(dtype)
    view = VIEWS[name](fw.tensor(data, device=gpu))
    rows, columns = view.shape
    places = rng.integers(0, view.shape[dim], (rows, columns))
    index = fw.tensor(places, device=gpu)
    fw.eval(view, index)
    before = gpu.gpu.counters.dispatches
    found = fw.gather(view, dim, index)
    fw.eval(found)
    assert gpu.gpu.counters.dispatches == before + 1
    wanted = np.take_along_axis(view.cpu().numpy(), places, dim)
    np.testing.assert_array_equal(found.cpu().numpy(), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_strided_sources_of_several_dimensions(dtype: str, half_place: Device) -> None:
    """Rows, and what is around them, may be several dimensions in memory."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((4, 1, 6, 5)).astype(dtype)
    flat, each = rng.integers(-480, 480, (7, 9)), rng.integers(0, 6, (4, 4, 7, 5))
    rows = rng.integers(0, 6, 3)

    def results(x: Any, make: Callable[[np.ndarray], Any]) -> list[Any]:
        wide = x.expand(4, 4, 6, 5)
        turned = wide.permute(3, 1, 0, 2)
        return [
            turned.take(make(flat)),
            wide.take(make(flat)),
            wide.gather(2, make(each)),
            turned.index_select(3, make(rows)),
            turned[:, make(rows[:2] // 2), make(rows[1:] // 2)],
        ]

    x = fw.tensor(data, device=half_place, requires_grad=True)
    twin = torch.from_numpy(data).requires_grad_()
    found = results(x, lambda index: fw.tensor(index, device=half_place))
    wanted = results(twin, torch.from_numpy)
    for ours, theirs in zip(found, wanted):
        assert np.array_equal(ours.detach().numpy(), theirs.detach().numpy())
    sum(each.float().sum() for each in found).backward()
    sum(each.float().sum() for each in wanted).backward()
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), rtol=1e-2)


@pytest.mark.parametrize("shape", [(5, 7), (3, 7, 4)])
def test_gradients_of_single_elements_join_their_readers(
    shape: tuple[int, ...], gpu: GpuDevice
) -> None:
    """Of one element of each line: where nothing is named, nothing is added."""
    rng = np.random.default_rng(0)
    x = fw.rand(*shape, device=gpu, requires_grad=True)
    places = rng.integers(0, 7, (shape[0], 1, *shape[2:]))
    index = fw.tensor(places, device=gpu)
    seed = rng.integers(1, 9, places.shape).astype(np.float32)
    out, grad = fw.gather(x, 1, index), fw.tensor(seed, device=gpu)
    fw.eval(out, grad)
    with gpu.gpu.profile() as profile:
        (found,) = fw.autograd.grad([out], [x], [grad])
        fw.eval(found * 2.0)
    names = {span.name.split()[0] for span in profile.spans}
    assert names == {"index/flat_offset", "fused/arange_like", "fused/eq_where_mul"}
    wanted = np.zeros(shape, np.float32)
    np.put_along_axis(wanted, places, seed, 1)
    np.testing.assert_array_equal(found.numpy(), wanted)
