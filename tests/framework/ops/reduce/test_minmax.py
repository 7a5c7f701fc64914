"""Extremes: special values, ties, where they are, and truth over dimensions."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.errors import ShapeError

Make = Callable[..., fw.Tensor]
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "sum"])
def test_not_a_number_wins(name: str, make: Make) -> None:
    data = np.array([[1, NAN, 3], [NAN, INF, NAN], [-INF, INF, 0]], np.float32)
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(data, 1)
    dtype = np.int64 if name.startswith("arg") else np.float32
    assert_close(getattr(ops, name)(make(data), 1), expected.astype(dtype))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("count", [5, 1000, 20_000])
def test_first_of_equals(name: str, count: int, make: Make) -> None:
    data = np.zeros((2, count), np.float32)
    assert getattr(ops, name)(make(data), 1).tolist() == [0, 0]
    data[1, count // 2 :] = 1 if name == "argmax" else -1
    assert getattr(ops, name)(make(data), 1).tolist() == [0, count // 2]


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_infinite_inputs(name: str, make: Make) -> None:
    for value in (INF, -INF):
        data = np.full((3, 5), value, np.float32)
        assert getattr(ops, name)(make(data), 1).tolist() == [value] * 3


def test_equal_extremes_share_the_gradient(make: Make) -> None:
    x = make([[1.0, 1.0, 0.0], [2.0, 0.0, 0.0]], grad=True)
    x.amax(1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0], [1, 0, 0]]


@pytest.mark.parametrize("name", ["max", "min"])
def test_along_a_dimension(name: str, make: Make) -> None:
    data = np.array([[1, NAN, 3], [4, 4, -INF]], np.float32)
    found = getattr(ops, name)(make(data), 1, keepdim=True)
    assert_close(found.values, getattr(data, name)(1, keepdims=True))
    places = getattr(data, f"arg{name}")(1, keepdims=True)
    assert_close(found.indices, places.astype(np.int64))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("shape", [(100_003,), (3, 20_011), (20_011, 3)])
def test_long(name: str, shape: tuple[int, ...], make: Make) -> None:
    data = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    dim = int(np.argmax(shape))
    found = getattr(ops, name)(make(data), dim)
    assert_close(found.values, getattr(data, name)(dim))
    assert_close(found.indices, getattr(data, f"arg{name}")(dim).astype(np.int64))


def test_the_first_of_equals_gets_the_gradient(make: Make) -> None:
    x = make([[1.0, 1.0, 0.0], [2.0, 0.0, 2.0]], grad=True)
    ops.max(x, 1).values.backward(make([3.0, 5.0]))
    assert x.grad.tolist() == [[3, 0, 0], [5, 0, 0]]


def test_all_elements_or_two_tensors(make: Make) -> None:
    x, y = make([1.0, 5.0]), make([2.0, 3.0])
    assert (ops.max(x).item(), ops.min(x).item()) == (5, 1)
    assert ops.max(x, y).tolist() == [2, 5]
    assert ops.min(x, y).tolist() == [1, 3]
    values, indices = ops.max(make(7.0), 0)
    assert (values.item(), indices.item()) == (7, 0)


@pytest.mark.parametrize("dtype", ["bool", "float32", "float16", "int8", "uint32"])
@pytest.mark.parametrize("name", ["any", "all"])
def test_truth(name: str, dtype: str, make: Make) -> None:
    data = np.array([[0, 0, 0], [0, 2, 0], [1, 1, 2]]).astype(dtype)
    for dim in (None, 0, 1):
        wanted = getattr(torch.from_numpy(data), name)(*([] if dim is None else [dim]))
        assert_close(getattr(ops, name)(make(data), dim), wanted.numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_truth_of_long_rows(dtype: str, make: Make) -> None:
    data = np.zeros((4, 20011), np.float32)
    data[0, 77], data[1], data[2] = 1e-40, 1e-40, NAN
    data[2, 5] = 0
    for given in (make(data), make(data).T):
        x, dim = given.to(dtype), given.shape.index(20011)
        assert ops.any(x, dim).tolist() == [True, True, True, False]
        assert ops.all(x, dim).tolist() == [False, True, False, False]
        assert ops.any(x).item()
        assert not ops.all(x, keepdim=True).item()


def test_truth_of_nothing(make: Make) -> None:
    x = make(np.zeros((2, 0), np.float32))
    assert ops.any(x, 1).tolist() == [False, False]
    assert ops.all(x).item() is True
    assert ops.any(make(np.array([NAN], np.float32))).item() is True


def test_no_elements(make: Make) -> None:
    x = make(np.zeros((0, 3), np.float32), grad=True)
    values, indices = ops.max(x, 1)
    assert (values.shape, indices.shape) == ((0,), (0,))
    values.sum().backward()
    assert x.grad.shape == (0, 3)
    assert ops.argmin(x, 1).shape == (0,)
    with pytest.raises(ShapeError, match="there is no result"):
        ops.max(x, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(1,), (20_011,), (1 << 17,), (300, 70), (70, 300)])
def test_both_extremes(shape: tuple[int, ...], dtype: str, make: Make) -> None:
    data = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    x, y = make(data), torch.from_numpy(data)
    for dim in (None, 0, -1):
        for found, wanted in zip(ops.aminmax(x, dim=dim), torch.aminmax(y, dim=dim)):
            assert np.array_equal(found.numpy(), wanted.numpy())


def test_both_extremes_take_one_pass(device: vkbackend.Device) -> None:
    x = fw.tensor(np.arange(300, dtype="f4"), device=fw.device(device.name))
    fw.eval(x)
    before = device.counters.snapshot()
    fw.eval(*ops.aminmax(x))
    assert (device.counters.snapshot() - before).dispatches == 1


def test_gradients_of_both_extremes(make: Make) -> None:
    x = make([1.0, 3.0, 1.0], grad=True)
    least, greatest = ops.aminmax(x)
    (least * 2 + greatest * 3).backward()
    assert x.grad.tolist() == [1, 3, 1]
    assert [each.isnan().item() for each in ops.aminmax(make([1.0, NAN]))] == [True] * 2
