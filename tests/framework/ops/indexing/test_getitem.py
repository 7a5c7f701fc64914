"""Indexing as NumPy has it, and what cannot index."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import Row, agree, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.ops.indexing.getitem import region

Make = Callable[..., fw.Tensor]
DATA = np.arange(105, dtype=np.float32).reshape(3, 5, 7)

INDICES: list[Any] = [
    0,
    -1,
    np.int64(2),
    (),
    ...,
    None,
    (..., None, 0),
    (slice(None), None, slice(None, None, 3)),
    (slice(-2, None), slice(None, -1), slice(10)),
    (slice(5, 2),),
    (2, 4, 6),
    (slice(1, 2), ..., slice(1, 2)),
]


@pytest.mark.parametrize("holds", [True, False])
def test_masks_without_dimensions(holds: bool, place: Device) -> None:
    """They choose from a new dimension of one, as in NumPy and PyTorch."""
    mask = fw.tensor(holds, device=place)
    for shape in ((), (2, 3)):
        values = np.arange(6.0, dtype=np.float32)[: max(1, len(shape) * 3)]
        x = fw.tensor(values.reshape(shape), device=place)
        expected = torch.tensor(values.reshape(shape))
        assert x[mask].shape == expected[torch.tensor(holds)].shape
        assert x[mask].tolist() == expected[torch.tensor(holds)].tolist()
        x[mask], expected[torch.tensor(holds)] = 7.0, 7.0
        assert x.tolist() == expected.tolist()
        x[np.array(holds)], expected[torch.tensor(holds)] = 8.0, 8.0
        assert x.tolist() == expected.tolist()
    y = fw.ones((2, 2), device=place)
    y[mask, 0] = 5.0
    assert y.tolist() == ([[5, 5], [1, 1]] if holds else [[1, 1], [1, 1]])


@pytest.mark.parametrize("step", [10**30, -(10**400), 1 << 63, 5, -5])
def test_steps_beyond_a_dimension(step: int, make: Make) -> None:
    assert make(DATA)[:, ::step].tolist() == DATA[:, :: np.sign(step) * 5].tolist()


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index: Any, make: Make) -> None:
    assert_close(make(DATA)[index], DATA[index])


KINDS = "ints, slices, None, Ellipsis and arrays of integers or bools can"


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (3, "index: 3 is out of range: dimension 0 has size 3"),
        ((0, -6), "index: -6 is out of range: dimension 1 has size 5"),
        ((..., ...), "index: only one Ellipsis is possible"),
        ((0, 0, 0, 0), "index: 4 indices for a tensor of shape (3, 5, 7)"),
        (1.0, f"index: 1.0 cannot index; {KINDS}"),
        ("a", f"index: 'a' cannot index; {KINDS}"),
    ],
)
def test_what_cannot_index(index: Any, text: str) -> None:
    kind = TypeError if index == "a" else ShapeError
    with pytest.raises(kind) as raised:
        region(index, (3, 5, 7))
    assert str(raised.value) == text


FIRST = np.array([2, 0, -1])
COLUMN = np.array([[1], [-2]])
MASK = np.arange(15).reshape(3, 5) % 4 == 1
ROW_MASK = np.arange(7) % 3 > 0

ARRAYS: list[Any] = [
    FIRST,
    [1, 2],
    [],
    (FIRST, FIRST),
    (FIRST, slice(None), FIRST),
    (slice(None), COLUMN, FIRST),
    (0, slice(None), FIRST),
    (slice(0, 2), 0, FIRST),
    (FIRST, 0),
    (..., FIRST),
    (FIRST, ..., FIRST),
    (FIRST, None, FIRST),
    (None, FIRST, slice(None, None, -2)),
    (slice(None, None, -1), slice(3, 0, -2)),
    (1, ..., FIRST),
    (0, FIRST, ...),
    (slice(None), [0, 1], [1, 2]),
    MASK,
    (MASK, 1),
    (MASK, None),
    (slice(None), slice(None), ROW_MASK),
    (slice(None, None, -1), slice(None), ROW_MASK),
    (FIRST, slice(None), np.array([True] * 3 + [False] * 4)),
    np.zeros((3, 5), bool),
    (np.array(2),),
]


def on_device(index: Any, place: Device) -> Any:
    """Return an index with its arrays as tensors."""
    if isinstance(index, tuple):
        return tuple(on_device(each, place) for each in index)
    if not isinstance(index, np.ndarray) or index.ndim == 0:
        return index
    return fw.tensor(index, device=place)


PLACES = (np.array([0, 2, 0, 0]), np.array([4, 1, 4, 3]))
PUT = {
    "apart": Row(
        lambda x, i, j, v: ops.index_put(x, (i, j), v),
        lambda x, i, j, v: x.index_put((i, j), v),
        (3, 5, 7),
        (PLACES[0][1:], PLACES[1][1:]),
        ((3, 7),),
    ),
    "added": Row(
        lambda x, i, j, v: ops.index_put(x, (i, None, j), v, accumulate=True),
        lambda x, i, j, v: torch.ops.aten.index_put(x, [i, None, j], v, True),
        (3, 5, 7),
        PLACES,
        ((4, 1),),
        dtypes=("float32", "int64"),
    ),
    "where a mask holds": Row(
        lambda x, m, v: ops.index_put(x, (m,), v, accumulate=True),
        lambda x, m, v: x.index_put((m,), v, accumulate=True),
        (3, 5, 7),
        (np.arange(15).reshape(3, 5) % 4 == 1,),
        ((4, 7),),
        dtypes=("float32", "int64"),
    ),
}


@pytest.mark.parametrize("name", PUT)
def test_index_put(name: str, place: Device) -> None:
    agree(PUT[name], place)


@pytest.mark.parametrize(
    "index",
    [
        (0, slice(None), [0, 1]),
        (0, ..., [[0], [2]]),
        ([0, 1], slice(None), 2),
        (slice(None), 0, [0, 1]),
        ([0, 1], None, 2),
        (1, slice(None), 2),
    ],
    ids=str,
)
def test_an_int_beside_arrays_is_applied_first(index: Any, make: Make) -> None:
    """As in PyTorch, where NumPy takes it as another array; so is a tensor of one."""
    tensors = tuple(fw.tensor(each) if type(each) is int else each for each in index)
    expected = torch.tensor(DATA)[index]
    for each in (index, tensors):
        x, changed = make(DATA), torch.tensor(DATA)
        assert_close(x[each], expected.numpy())
        x[each] = make(np.arange(expected.numel(), dtype=np.float32)).view(
            tuple(expected.shape)
        )
        changed[index] = torch.arange(float(expected.numel())).view(expected.shape)
        assert_close(x, changed.numpy())


def ints_first(data: np.ndarray, index: Any) -> tuple[np.ndarray, Any]:
    """Return the view that the ints of an index choose, and the rest of the index."""
    first: list[Any] = []
    parts = index if isinstance(index, tuple) else (index,)
    for each in parts:
        if type(each) is int or each is Ellipsis:
            first.append(each)
        elif isinstance(each, np.ndarray) and each.dtype == bool:
            first += [slice(None)] * each.ndim
        elif each is not None:
            first.append(slice(None))
    return data[tuple(first)], tuple(each for each in parts if type(each) is not int)


@pytest.mark.parametrize("number", range(len(ARRAYS)))
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16", "float64"])
def test_arrays(number: int, dtype: str, place: Device) -> None:
    need(dtype, place)
    index, data = ARRAYS[number], DATA.astype(dtype)
    x = fw.tensor(data, device=place)
    view, rest = ints_first(data, index)
    expected = view[rest]
    assert_close(x[index], expected, exact=True)
    assert_close(x[on_device(index, place)], expected, exact=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(len(ARRAYS)))
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_assigning(number: int, dtype: str, place: Device) -> None:
    index = ARRAYS[number]
    view, rest = ints_first(DATA, index)
    shape = view[rest].shape
    values = np.arange(200, 200 + np.prod(shape)).reshape(shape)
    for value in (3, values.astype(dtype), values[..., :1].astype(dtype)):
        expected = DATA.astype(dtype)
        view, rest = ints_first(expected, index)
        view[rest] = value
        for each in (index, on_device(index, place)):
            x = fw.tensor(DATA.astype(dtype), device=place)
            x[each] = value
            assert_close(x, expected, exact=True)


def test_assigning_through_a_view(place: Device) -> None:
    expected = DATA.copy()
    expected[1:, ::2].T[FIRST] = -1
    x = fw.tensor(DATA, device=place)
    x[1:, ::2].T[FIRST] = -1
    assert_close(x, expected)


ROWS = {
    "one array": Row(
        lambda x, i: x[:, i, ::2], lambda x, i: x[:, i, ::2], (3, 5, 7), (FIRST,)
    ),
    "two arrays": Row(
        lambda x, i, j: x[i, :, j],
        lambda x, i, j: x[i, :, j],
        (3, 5, 7),
        (FIRST, COLUMN),
    ),
    "mask": Row(lambda x, m: x[m, 1:], lambda x, m: x[m, 1:], (3, 5, 7), (MASK,)),
    "backwards": Row(
        lambda x: x[::-1, 4:0:-2], lambda x: x.flip(0)[:, [4, 2]], (3, 5, 7)
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64"])
def test_dtypes_of_indices(dtype: str, place: Device) -> None:
    index = fw.tensor(np.array([2, 0, 1]), dtype, place)
    assert_close(fw.tensor(DATA, device=place)[index], DATA[[2, 0, 1]])


@pytest.mark.core
@pytest.mark.parametrize(
    ("dtype", "bad"),
    [("int32", -4), ("int32", 3), ("int64", 1 << 32), ("int64", -(1 << 40))],
)
def test_arrays_out_of_range_touch_nothing(
    dtype: str, bad: int, gpu: GpuDevice, unchecked_indices: None
) -> None:
    x = fw.tensor(DATA[:, 0, 0], device=gpu)
    index = fw.tensor(np.array([1, bad, 2]), dtype, gpu)
    assert_close(x[index], np.array([35, np.nan, 70], np.float32))
    assert x.int()[index].tolist() == [35, 0, 70]
    x[index] = -1
    assert x.tolist() == [0, -1, -1]


@pytest.mark.core
def test_what_the_host_must_read(gpu: GpuDevice) -> None:
    x, mask = fw.tensor(DATA, device=gpu), fw.tensor(MASK, device=gpu)
    index = fw.tensor(FIRST, device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    x[mask] = 1
    x[index, :, 0] = x[index, :, 1]
    fw.eval()
    assert (gpu.gpu.counters - before).host_reads == 0
    # The count of true elements decides the shape.
    assert x[mask].shape == (int(MASK.sum()), 7)
    assert (gpu.gpu.counters - before).host_read_bytes == 4


def test_bad_arrays(place: Device) -> None:
    x = fw.tensor(DATA, device=place)
    with pytest.raises(ShapeError) as raised:
        x[fw.ones(4, "bool", place)]
    assert str(raised.value) == (
        "index: a mask is (4,) for dimensions of sizes (3,); they must be equal"
    )
    with pytest.raises(DTypeError) as refused:
        x[fw.ones(3, device=place)]
    assert str(refused.value) == (
        "index: an array is float32; it must be of integers or bools"
    )
    with pytest.raises(ShapeError) as raised:
        x[[0, 3]]
    assert str(raised.value) == "index: 3 is out of range: dimension 0 has size 3"
    with pytest.raises(
        ShapeError, match=r"^index: shapes do not broadcast: \(3,\), \(2,"
    ):
        x[[0, 1, 2], [0, 1]]
    with pytest.raises(ShapeError, match=r"^index: shapes do not broadcast"):
        x[FIRST] = np.ones((2, 5, 7), np.float32)


def test_gradient_of_chosen_elements_has_one() -> None:
    x = fw.tensor(DATA.astype(np.float64), requires_grad=True)
    twin = torch.from_numpy(DATA.astype(np.float64)).requires_grad_()
    (x[FIRST, COLUMN] * x[FIRST, COLUMN]).sum().backward()
    (twin[FIRST, COLUMN] ** 2).sum().backward()
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.numpy(), exact=True)


def test_an_int_that_a_trace_changes(make: Make) -> None:
    """It is applied before arrays also where a trace holds it as a tensor."""

    @fw.jit
    def chosen(x: fw.Tensor, place: int, index: fw.Tensor) -> fw.Tensor:
        return x[place, :, index]

    index = make(np.array([0, 2]))
    for place in (0, 1, 2, 1):
        expected = torch.tensor(DATA)[place, :, [0, 2]]
        assert_close(chosen(make(DATA), place, index), expected.numpy())


@pytest.mark.parametrize("grad", [False, True])
def test_calls_on_other_numbers(grad: bool, gpu: GpuDevice) -> None:
    """From the third on they are replayed."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        data = rng.normal(size=(5, 6, 7)).astype(np.float32)
        i, j = rng.integers(0, 5, 3), rng.integers(0, 5, (2, 3))
        x = fw.tensor(data, device=gpu, requires_grad=grad)
        a, b = (fw.tensor(each, device=gpu) for each in (i, j))
        for mine, wanted in (
            (x[a], data[i]),
            (x[a, b], data[i, j]),
            (x[a, a], data[i, i]),
            (x[:, a], data[:, i]),
            (x[..., b], data[..., j]),
            (x[1:4, None, a], data[1:4, None, i]),
            (x[-1, b], data[-1][j]),
            (x[::2, :, b], data[::2, :, j]),
            (x[a, :, a], data[i, :, i]),
            (x[::-1, a], data[::-1, i]),
        ):
            assert_close(mine, wanted)
        if grad:
            (x[a, b] * x[:2, :3]).sum().backward()
            twin = torch.from_numpy(data).requires_grad_()
            (twin[i, j] * twin[:2, :3]).sum().backward()
            assert twin.grad is not None
            assert_close(x.grad, twin.grad.numpy())
