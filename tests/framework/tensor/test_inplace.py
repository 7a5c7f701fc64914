"""Changes in place: what sees them, what does not, and what refuses them."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES, STORED
from vkbackend.framework.base.errors import GradError, ShapeError
from vkbackend.framework.ops.indexing import getitem
from vkbackend.framework.tensor import inplace

Make = Callable[..., fw.Tensor]
DATA = np.arange(12, dtype=np.float32).reshape(3, 4)

CHANGES: dict[str, tuple[Callable[[fw.Tensor], fw.Tensor], Any]] = {
    "copy_": (lambda x: x.copy_(fw.full_like(x, 9)), lambda a: a * 0 + 9),
    "add_": (lambda x: x.add_(2), lambda a: a + 2),
    "sub_": (lambda x: x.sub_(2), lambda a: a - 2),
    "mul_": (lambda x: x.mul_(x), lambda a: a * a),
    "div_": (lambda x: x.div_(2), lambda a: a / 2),
    "fill_": (lambda x: x.fill_(7), lambda a: a * 0 + 7),
    "zero_": (lambda x: x.zero_(), lambda a: a * 0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_returns_the_tensor(name: str, make: Make) -> None:
    change, expected = CHANGES[name]
    x = make(DATA)
    assert change(x) is x
    assert_close(x, expected(DATA))


@pytest.mark.parametrize("name", CHANGES)
def test_views_see_each_other(name: str, make: Make) -> None:
    change, expected = CHANGES[name]
    x = make(DATA)
    view, other = x.T[1:3], x.reshape(2, 6)
    change(view)
    wanted = DATA.copy()
    wanted.T[1:3] = expected(wanted.T[1:3])
    assert_close(x, wanted)
    assert_close(view, wanted.T[1:3])
    assert_close(other, wanted.reshape(2, 6))


@pytest.mark.parametrize("pending", [True, False])
def test_results_from_before_are_kept(pending: bool, make: Make) -> None:
    x = make(DATA)
    doubled, copied = x * 2, x.clone()
    if not pending:
        fw.eval()
    x.zero_()
    x += 1
    assert_close(doubled, DATA * 2)
    assert_close(copied, DATA)
    assert_close(x, DATA * 0 + 1)


def test_copies_do_not_share(make: Make) -> None:
    x, y = make(DATA), make(DATA * 0)
    y.copy_(x)
    x.add_(1)
    assert_close(y, DATA)
    y.zero_()
    assert_close(x, DATA + 1)


INDICES = [
    0,
    (slice(None), -1),
    (slice(None, None, 2), slice(1, 4, 2)),
    (Ellipsis, slice(0, 0)),
    slice(None),
    (1, 2),
    (None, 2, None),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("value", ["number", "tensor", "array"])
def test_setitem(index: Any, value: str, make: Make) -> None:
    x, wanted = make(DATA), DATA.copy()
    new = 50 + np.arange(DATA[index].size, dtype=np.float32).reshape(DATA[index].shape)
    wanted[index] = -1 if value == "number" else new
    x[index] = {"number": -1, "tensor": make(new), "array": new}[value]
    assert_close(x, wanted)


def test_setitem_with_more_leading_ones(make: Make) -> None:
    x = make(DATA)
    row = make(DATA[None, None, 2]).requires_grad_()
    x[0] = row
    x[[1]] = row * 2
    x[0, 0] = make([[7.0]])
    x.sum().backward()
    assert x.tolist() == [[7, 9, 10, 11], [16, 18, 20, 22], [8, 9, 10, 11]]
    assert_close(row.grad, np.array([[[2, 3, 3, 3]]], np.float32))
    with pytest.raises(ShapeError, match="does not fit into"):
        x[0] = make(DATA)


@pytest.mark.parametrize(
    "dtype", [each.name for each in STORED if each is not fw.complex128]
)
def test_setitem_in_each_dtype(dtype: str, place: Device) -> None:
    if DTYPES[dtype].itemsize == 8 and isinstance(place, GpuDevice):
        if not place.gpu.info.shader_int64:
            pytest.skip("the device does not compute in 64 bits")
    data = np.arange(35).reshape(5, 7).astype(DTYPES[dtype].numpy)
    x = fw.tensor(data, dtype, place)
    x[1:4, 2::3] = x[:3, :2]
    wanted = data.copy()
    wanted[1:4, 2::3] = data[:3, :2]
    assert_close(x, wanted)


def test_source_is_cast_and_broadcast(make: Make) -> None:
    x = make(np.zeros((2, 3), np.int32))
    x.copy_(make([1.9, -1.9, 0.0]))
    assert x.tolist() == [[1, -1, 0]] * 2
    assert x.dtype is fw.int32
    x[:, 0].add_(np.array([10, 20], np.int32))
    assert x[:, 0].tolist() == [11, 21]


def test_source_on_another_device(make: Make) -> None:
    x = make([0.0, 0.0])
    x.copy_(fw.tensor([1.0, 2.0]))
    assert x.tolist() == [1, 2]


def test_shape_stays(make: Make) -> None:
    with pytest.raises(ShapeError) as raised:
        make([1.0]).add_(make([1.0, 2.0]))
    assert str(raised.value) == (
        "in place: the result has shape (2,); it does not fit into (1,)"
    )
    with pytest.raises(ShapeError, match="in place: shapes do not broadcast: "):
        make([1.0, 2.0]).copy_(make([1.0, 2.0, 3.0]))


def test_elements_that_share_memory(make: Make) -> None:
    x = make([1.0])
    with pytest.raises(
        ShapeError, match=r"strided_scatter: .* share memory; change a copy"
    ):
        x.expand(3).add_(1)
    assert x.tolist() == [1]


def test_views_of_nothing(make: Make) -> None:
    x = make(DATA)
    for view in (x[1:1, 2:2], x.T[:0], x[:, 4:].expand(5, 3, 0), x[0, :0]):
        view[...] = 5
        view.add_(1)
    assert_close(x, DATA)


def test_leaf_that_requires_a_gradient(make: Make) -> None:
    x = make(DATA, grad=True)
    text = (
        "in place: the tensor is a leaf that requires a gradient, and of shape (3, 4);"
        " change it under no_grad(), or write x = x + y"
    )
    for change, _ in CHANGES.values():
        with pytest.raises(GradError) as raised:
            change(x)
        assert str(raised.value) == text
    with pytest.raises(GradError, match="the tensor is a leaf"):
        x[0] = 1
    with pytest.raises(GradError, match="the tensor is a view of a leaf"):
        x[0].add_(1)
    assert_close(x, DATA)
    with fw.no_grad():
        x.add_(1)
        x[0] = 0
    assert x.requires_grad
    assert x.tolist()[0] == [0, 0, 0, 0]


@pytest.mark.parametrize("way", ["copy_", "add_", "__setitem__"])
def test_source_that_requires_a_gradient(way: str, make: Make) -> None:
    x, y = make(DATA), make(DATA, grad=True)
    index = (0,) if way == "__setitem__" else ()
    getattr(x, way)(*index, y[index])
    assert x.requires_grad
    x.sum().backward()
    wanted = np.ones_like(DATA)
    if index:
        wanted[1:] = 0
    assert_close(y.grad, wanted)


def test_overwritten_saved_tensor(make: Make) -> None:
    y = make(DATA, grad=True).exp()
    y += 1
    with pytest.raises(GradError, match="`out`, which exp saved, was changed in place"):
        y.sum().backward()


def test_saved_tensor_that_the_gradient_does_not_need(make: Make) -> None:
    x = make(DATA, grad=True)
    y = x + 1
    z = y * 2
    y.zero_()
    z.sum().backward()
    assert_close(x.grad, np.full_like(DATA, 2))


def test_many_changes_before_a_read(make: Make) -> None:
    x = make(np.zeros(5, np.float32))
    for k in range(20):
        x.add_(k)
        x[k % 5] = 0
    wanted = np.zeros(5, np.float32)
    for k in range(20):
        wanted += k
        wanted[k % 5] = 0
    assert_close(x, wanted)


FILLS: dict[str, Callable[[fw.Tensor, Any], fw.Tensor]] = {
    "uniform": lambda x, g: inplace.fill_uniform(x, -1.0, 3.0, g),
    "normal": lambda x, g: inplace.fill_normal(x, 1.0, 2.0, g),
    "exponential": lambda x, g: inplace.fill_exponential(x, 1.0, g),
    "bernoulli": lambda x, g: inplace.fill_bernoulli(x, 0.75, g),
    "integers": lambda x, g: inplace.fill_integers(x, -1, 4, g),
}


@pytest.mark.parametrize("name", FILLS)
def test_random_fills(name: str, place: Device) -> None:
    x = fw.zeros((200, 100), device=place)
    view = x[:, ::2]
    assert FILLS[name](view, fw.Generator(3)) is view
    found = x.numpy()
    mean = 0.75 if name == "bernoulli" else 1
    # Of 10,000 draws it has a deviation of 0.02 at most.
    assert abs(found[:, ::2].mean() - mean) < 0.1
    assert (found[:, 1::2] == 0).all()
    FILLS[name](x[:, 1::2], fw.Generator(3))
    assert np.array_equal(x[:, 1::2].numpy(), x[:, ::2].numpy())


@pytest.mark.parametrize(
    ("dtype", "most"), [("int8", 127), ("bool", 1), ("float16", 2048), ("int32", 2**31)]
)
def test_random_integers_of_a_dtype(dtype: str, most: int, place: Device) -> None:
    found = inplace.fill_integers(fw.zeros(5000, dtype, place)).numpy()
    assert found.min() >= 0
    assert 0.9 * most < found.max() <= most


def test_exponential_draws_of_no_rate(place: Device) -> None:
    x = fw.ones(3, device=place)
    for rate in (0, -1.0, float("nan")):
        with pytest.raises(RuntimeError, match=r"^exponential_: lambd is "):
            x.exponential_(rate)
    assert x.tolist() == [1, 1, 1]


def beside(change: Callable[[], object], started: list[threading.Thread]) -> None:
    """Let another thread begin a change, once; it may have to wait for this one."""
    if not started:
        started.append(threading.Thread(target=change))
        started[0].start()
        started[0].join(0.02)


def test_threads_write_places_of_one_storage(
    place: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fw.zeros((3, 2), device=place)
    started: list[threading.Thread] = []
    storage = inplace._storage

    def meanwhile(each: fw.Tensor, new: fw.Tensor) -> fw.Tensor:
        made = storage(each, new)
        beside(lambda: x[2].fill_(7), started)
        return made

    monkeypatch.setattr(inplace, "_storage", meanwhile)
    x[0] = 5.0
    started[0].join()
    assert x.tolist() == [[5, 5], [0, 0], [7, 7]]


def test_threads_write_elements_by_index(
    place: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fw.zeros(4, device=place)
    started: list[threading.Thread] = []
    updated = getitem.updated

    def meanwhile(*args: Any) -> fw.Tensor:
        made = updated(*args)
        beside(lambda: x[3:].fill_(7), started)
        return made

    monkeypatch.setattr(getitem, "updated", meanwhile)
    x[[0, 1]] = 5.0
    started[0].join()
    assert x.tolist() == [5, 5, 0, 7]


def test_threads_change_one_tensor_one_by_one(place: Device) -> None:
    x = fw.ones(2, device=place)
    started: list[threading.Thread] = []

    def doubled(each: fw.Tensor) -> fw.Tensor:
        made = each * 2
        beside(lambda: x.add_(1), started)
        return made

    inplace.change(x, doubled)
    started[0].join()
    assert x.tolist() == [3, 3]
