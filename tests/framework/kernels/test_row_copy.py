"""Copies of rows with uniform loads: where they pay, and what they copy."""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.codegen.rows import GPU, SOFTWARE, device_info
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import IndexRangeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.kernels import row_copy
from vkbackend.framework.kernels.row_copy import (
    Rows,
    copies_layout,
    copies_rows,
    layout_dispatches,
    row_dispatch,
    rows_of,
)
from vkbackend.framework.ops.movement import concat

ROWS = Rows(100, 4, 3, (300, 100), (600, 200))


def test_only_software_devices_copy_rows() -> None:
    assert copies_rows(SOFTWARE, ROWS)
    assert not copies_rows(GPU, ROWS)
    assert not copies_rows(device_info("software", 16), ROWS)


@pytest.mark.parametrize(
    "rows",
    [ROWS._replace(length=15), ROWS._replace(source=(1 << 23, 100))],
    ids=["short", "far"],
)
def test_rows_that_are_copied_word_by_word(rows: Rows) -> None:
    assert not copies_rows(SOFTWARE, rows)


def test_segments_cover_a_row() -> None:
    step = row_dispatch(SOFTWARE, ROWS, "x", "out")
    assert (step.push["segments"], step.grid) == (2, (24, 1, 1))
    assert step.defines == {"LANES": "8", "ROUNDS": "4"}
    assert step.constants == {"LOCAL_X": 8, "PAIRED": 1}


@pytest.mark.parametrize(
    ("rows", "even"),
    [
        (ROWS, False),
        (ROWS._replace(length=101), True),
        (ROWS._replace(out=(601, 200)), True),
    ],
    ids=["start", "length", "step"],
)
def test_words_are_paired_where_all_places_are_even(rows: Rows, even: bool) -> None:
    step = row_dispatch(SOFTWARE, rows, "x", "out", even)
    assert step.constants["PAIRED"] == 0


DTYPES = ["uint8", "float16", "float32", "int64"]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 99, shape).astype(dtype)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shapes", "dim"),
    [
        ([(5, 33), (5, 16), (5, 64)], 1),
        ([(4, 300, 3), (4, 21, 3), (4, 0, 3)], 1),
        ([(1000,), (37,), (16,)], 0),
    ],
)
def test_joined_rows(
    gpu: GpuDevice,
    dtype: str,
    shapes: list[tuple[int, ...]],
    dim: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(concat, "LEAST_ROWS", 0)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    parts = [numbers(shape, dtype) for shape in shapes]
    found = fw.cat([fw.tensor(part, device=gpu) for part in parts], dim)
    np.testing.assert_array_equal(found.numpy(), np.concatenate(parts, dim))


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "index",
    [
        np.s_[1:],
        np.s_[:, 2:],
        np.s_[..., 1:40],
        np.s_[:, ::3],
        np.s_[..., 2],
        np.s_[0:0],
    ],
    ids=str,
)
def test_regions(gpu: GpuDevice, dtype: str, index: tuple[object, ...]) -> None:
    base = numbers((6, 5, 64), dtype)
    value = base[index] + np.asarray(1, dtype)
    x = fw.tensor(base, device=gpu)
    x[index] = fw.tensor(value, device=gpu)
    base[index] = value
    np.testing.assert_array_equal(x.numpy(), base)


@pytest.mark.core
def test_diagonals(gpu: GpuDevice) -> None:
    x, y = torch.rand(7, 33), torch.rand(6)
    given = (fw.tensor(each.numpy(), device=gpu) for each in (x, y))
    found = fw.diagonal_scatter(*given, 27).numpy()
    np.testing.assert_array_equal(found, torch.diagonal_scatter(x, y, 27).numpy())


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_by_index(gpu: GpuDevice, dtype: str, kind: type) -> None:
    x = numbers((3, 9, 68), dtype)
    index = np.array([8, -9, 0, 3, -1], kind)
    found = fw.tensor(x, device=gpu)[:, fw.tensor(index, device=gpu)]
    np.testing.assert_array_equal(found.numpy(), x[:, index])


@pytest.mark.core
def test_an_index_out_of_range_is_reported(gpu: GpuDevice) -> None:
    x, index = fw.zeros(6, 64, device=gpu), fw.tensor([1, 9, 2], device=gpu)
    with pytest.raises(IndexRangeError, match="index 9 is out of range"):
        fw.index_select(x, 0, index).numpy()


def test_rows_of_a_layout() -> None:
    assert rows_of(Layout((6, 4, 9), (100, 20, 1), 4), 4) == (
        Rows(9, 6, 4, (100, 20), (36, 9)), 1, 0,
    )  # fmt: skip
    # Of bytes, rows and their distances are whole words.
    assert rows_of(Layout((3, 8), (12, 1), 4), 1) == (
        Rows(2, 1, 3, (0, 3), (6, 2)), 1, 0,
    )  # fmt: skip
    for layout in (
        Layout((3, 7), (12, 1), 4),
        Layout((3, 8), (13, 1), 4),
        Layout((3, 8), (12, 1), 2),
        Layout((3, 8), (24, 2), 0),
    ):
        assert rows_of(layout, 1) is None


def test_only_long_rows_of_software_devices_are_copied_alone() -> None:
    layout = Layout((64, 200), (300, 1), 0)
    assert copies_layout(SOFTWARE, layout, 4)
    assert not copies_layout(GPU, layout, 4)
    assert not copies_layout(SOFTWARE, Layout((64, 201), (300, 1), 0), 4)
    assert not copies_layout(SOFTWARE, Layout((640, 20), (300, 1), 0), 4)
    assert not copies_layout(SOFTWARE, Layout((6, 200), (300, 1), 0), 4)
    apart = Layout((2, 3, 4, 200), (20_000, 5000, 700, 1), 8)
    steps = layout_dispatches(SOFTWARE, apart, 4, "x", "out")
    assert [step.push["source"] for step in steps] == [("x", 0), ("x", 80_000)]
    assert [step.push["out_"] for step in steps] == [("out", 0), ("out", 9600)]


@pytest.fixture
def rows(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device, which copies few rows, and short ones, by rows too."""
    monkeypatch.setattr(row_copy, "LEAST_LENGTH", 2)
    monkeypatch.setattr(row_copy, "LEAST_WORDS", 2)
    return gpu


@pytest.mark.parametrize(
    "dtype", ["float32", "uint8", "float16", "int64", "complex64", "bool"]
)
def test_views_in_row_major_order(dtype: str, rows: GpuDevice) -> None:
    host = (np.random.default_rng(0).random((6, 5, 7, 64)) * 99).astype(dtype)
    x = fw.tensor(host, device=rows)
    for view in (
        np.s_[:, 1:, 2:6, 4:],
        np.s_[1:, :, ::2],
        np.s_[..., 3:50],
        np.s_[..., ::2],
        np.s_[1:5, :, 6],
    ):
        assert np.array_equal(x[view].contiguous().numpy(), host[view])
        assert np.array_equal(x[view].reshape(-1).numpy(), host[view].reshape(-1))
        turned = x[view].transpose(0, 1).contiguous().numpy()
        assert np.array_equal(turned, host[view].swapaxes(0, 1))
    assert np.array_equal(x.repeat(2, 1, 3, 1).numpy(), np.tile(host, (2, 1, 3, 1)))


def test_gradients_of_rows(rows: GpuDevice) -> None:
    x = fw.zeros((5, 4, 64), device=rows, requires_grad=True)
    weight = np.arange(4 * 5 * 64, dtype=np.float32).reshape(4, 5, 64)
    x.transpose(0, 1).contiguous().backward(fw.tensor(weight, device=rows))
    np.testing.assert_array_equal(x.grad.numpy(), weight.swapaxes(0, 1))


@pytest.fixture
def vectors(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, which is taken for one that vector loads pay on."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, vec4_loads=True, uniform_loads=False)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(50, 16), (3, 20, 32), (7, 48), (9, 5), (4, 3, 8)])
def test_rows_are_gathered_by_vectors(
    dtype: str, shape: tuple[int, ...], vectors: GpuDevice
) -> None:
    data = numbers(shape, dtype)
    x = fw.tensor(data, device=vectors)
    for dim, size in enumerate(shape):
        rng = np.random.default_rng(dim)
        for start in (0, 1):  # whose rows may begin within a vector
            rows = rng.integers(0, size - start * (dim == 0), 13)
            index = fw.tensor(rows, device=vectors)
            found = fw.index_select(x[start:], dim, index)
            wanted = np.take(data[start:], rows, dim)
            np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("entries", [64, 77])
def test_segments_of_rows_are_gathered(
    entries: int, vectors: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By several entries an invocation; the last segment begins in the one before."""
    for name in ("SEGMENT", "FEW_ENTRIES", "MIN_COPY_ITEMS"):
        monkeypatch.setattr(row_copy, name, 4)
    data = numbers((3, 20, 4 * 15), "float32")
    rows = np.random.default_rng(entries).integers(0, 20, entries)
    index = fw.tensor(rows, device=vectors)
    found = fw.index_select(fw.tensor(data, device=vectors), 1, index)
    np.testing.assert_array_equal(found.numpy(), np.take(data, rows, 1))


def test_a_vector_of_no_row(vectors: GpuDevice) -> None:
    table = fw.rand(10, 8, device=vectors)
    rows = fw.nn.functional.embedding(fw.tensor([3, 10], device=vectors), table)
    with pytest.raises(IndexRangeError, match="index 10 is out of range"):
        rows.numpy()
