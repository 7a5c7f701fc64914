"""Masks and triangles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError, ShapeError

MASK = np.arange(20).reshape(4, 5) % 3 == 1

ROWS = {
    "masked_fill": Row(
        lambda x, m: ops.masked_fill(x, m, 1),
        lambda x, m: x.masked_fill(m, 1),
        (4, 5),
        (MASK,),
    ),
    "masked_select": Row(
        ops.masked_select, lambda x, m: x.masked_select(m), (4, 5), (MASK[0],)
    ),
    "tril": Row(lambda x: ops.tril(x, -1), lambda x: x.tril(-1), (2, 4, 6)),
    "triu": Row(lambda x: ops.triu(x, 1), lambda x: x.triu(1), (2, 4, 6)),
    "all of triu": Row(lambda x: ops.triu(x, -99), lambda x: x.triu(-99), (4, 6)),
    "nothing of tril": Row(lambda x: ops.tril(x, -99), lambda x: x.tril(-99), (4, 6)),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


@pytest.mark.parametrize("shape", [(3, 5, 7), (1,), (), (0, 3), (113,)])
def test_nonzero(shape: tuple[int, ...], place: Device) -> None:
    data = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) % 3
    found = ops.nonzero(fw.tensor(data, device=place))
    expected = np.argwhere(data).astype(np.int32)
    assert np.array_equal(found.numpy(), expected)
    assert found.shape == expected.shape


@pytest.mark.parametrize("shape", [(3, 5, 7), (1,), (), (0, 3)])
def test_nonzero_as_tuple(shape: tuple[int, ...], place: Device) -> None:
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    data[data > 1] %= 3
    x = fw.tensor(data, device=place)
    expected = torch.from_numpy(data).nonzero(as_tuple=True)
    found = ops.nonzero(x, as_tuple=True)
    assert isinstance(found, tuple)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    if shape:
        assert x[found].tolist() == data[data != 0].tolist()


def test_fill_with_a_tensor(place: Device) -> None:
    x, mask = fw.ones(3, device=place), fw.tensor([True, False, True], device=place)
    value = fw.tensor(7.0, device=place)
    assert ops.masked_fill(x, mask, value).tolist() == [7, 1, 7]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: ops.masked_fill(x, x > 0, x),
            ShapeError,
            "masked_fill: value is (2,); it must have no dimension",
        ),
        (
            lambda x: ops.masked_select(x, x),
            DTypeError,
            "flatnonzero: `mask` is float32; accepted: bool",
        ),
        (
            lambda x: ops.tril(x),
            ShapeError,
            "tril: x is (2,); it must have at least 2 dimensions",
        ),
    ],
)
def test_bad_input(
    call: Callable[[fw.Tensor], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        call(fw.ones(2))
    assert str(raised.value) == text


def test_values_that_masked_fill_takes(place: Device) -> None:
    x = fw.tensor([1.0, 2.0, 3.0], device=place)
    one = fw.tensor(-5.0, device=place)
    values: tuple[Any, ...] = np.float32(-5), np.int64(-5), one
    for value in values:
        assert ops.masked_fill(x, x > 1, value).tolist() == [1, -5, -5]
    values = None, "1", [1.0]
    for value in values:
        with pytest.raises(TypeError, match=r"^masked_fill: "):
            ops.masked_fill(x, x > 1, value)
