"""Bits of integers, and logic on bools."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import INTEGER, DType
from vkbackend.framework.base.errors import DTypeError

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_shifts_of_any_length(name: str, dtype: DType, place: Device) -> None:
    need(dtype, place)
    low, high = dtype.limits
    x = np.array([low, low + 1, 1, 2, 100, high], dtype.numpy)[:, None]
    lengths = [0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 100]
    y = np.array(lengths + ([-1, -100] if low else []), dtype.numpy)
    found = getattr(ops, f"bitwise_{name}")(
        fw.tensor(x, device=place), fw.tensor(y, device=place)
    )
    assert_close(found, getattr(np, name)(x, y))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_logic(name: str, make: Make) -> None:
    x, y = np.array([[True], [False]]), np.array([True, False])
    assert_close(getattr(ops, name)(make(x), make(y)), getattr(np, name)(x, y))


def test_fractions_have_no_bits(place: Device) -> None:
    x = fw.tensor([1, 2], "int32", place)
    with pytest.raises(
        DTypeError, match=r"bitwise_and: the operands combine to float32; accepted: bo"
    ):
        ops.bitwise_and(x, 0.5)  # type: ignore[arg-type]


def test_numbers_on_either_side(make: Make) -> None:
    x = make(np.array([5, -6, 7], np.int16))
    assert ops.bitwise_and(x, 3).tolist() == [1, 2, 3]
    assert ops.bitwise_left_shift(1, x).tolist() == [32, 0, 128]
    assert ops.bitwise_not(x).tolist() == [-6, 5, -8]
