"""Python numbers as scalar arguments of kernels."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.dispatch.scalar import (
    is_number_tensor,
    number,
    parts_of,
    scalar_items,
)


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("float32", 3, 3.0),
        ("int8", -128, -128),
        ("int8", np.int64(5), 5),
        ("bool", 0.25, 1),
        ("bool", 0j, 0),
        ("complex64", 1 + 2j, 1 + 2j),
        ("uint8", True, 1),
    ],
)
def test_numbers(dtype: str, value: complex, wanted: complex) -> None:
    assert number("add", DTYPES[dtype], value) == wanted


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int8", 128, "add: 128 is no int8, which holds -128 to 127; cast"),
        ("float32", 2j, "add: 2j is no float32, which is real; use a real"),
        ("float32", 1 << 1024, "add: an integer of 1025 bits is beyond every float"),
    ],
)
def test_numbers_that_a_dtype_has_not(dtype: str, value: complex, message: str) -> None:
    with pytest.raises(DTypeError) as caught:
        number("add", DTYPES[dtype], value)
    assert str(caught.value).startswith(message)


def test_what_is_no_number() -> None:
    with pytest.raises(TypeError, match="add: a list is no operand; use a tensor or"):
        number("add", DTYPES["float32"], [1])


def test_complex_numbers_are_two_arguments() -> None:
    assert parts_of([1 + 2j, 3]) == (1, 2, 3, 0.0)
    items = scalar_items(DTYPES["complex64"], {"y": 1 + 2j})  # type: ignore[dict-item]  # see `number`
    assert items == (("y", 1.0), ("y.imag", 2.0))
    assert scalar_items(DTYPES["float32"], {"y": 2.0}) == (("y", 2.0),)


def test_tensors_that_stand_for_a_number() -> None:
    assert is_number_tensor(fw.tensor(2.0))
    assert not is_number_tensor(fw.tensor([2.0]))
    assert not is_number_tensor(fw.tensor(2.0, requires_grad=True))
    assert not is_number_tensor(2.0)
