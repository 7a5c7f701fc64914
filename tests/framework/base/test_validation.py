"""Sizes and numbers of every kind that users give, and those that are refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.base.validation import (
    MOST,
    as_int,
    as_int_or_ints,
    as_ints,
    as_number,
    as_shape,
    check_numel,
    sizes_of,
)

ONE = fw.tensor(2, "int64")
WRONG: tuple[Any, ...] = ("3", b"3", 2.5, math.nan, None, [[2]], ([2],), {"a": 1}, {2})
WRONG += (fw.tensor(2.5), np.array([[2]]), object(), len, 1j, (2, None), ["2"])
MAKERS = {
    "zeros": lambda size: fw.zeros(size, 2),
    "ones": lambda size: fw.ones((2, size)),
    "empty": lambda size: fw.empty([size]),
    "full": lambda size: fw.full((2, size), 1.0),
    "rand": lambda size: fw.rand((2, size)),
    "randn": lambda size: fw.randn((2, size)),
    "randint": lambda size: fw.randint(0, size),
    "randperm": lambda size: fw.randperm(size),
    "normal": lambda size: fw.normal(0.0, 1.0, (2, size)),
    "eye": lambda size: fw.eye(size),
    "tri": lambda size: fw.tri(2, 2, size),
    "arange": lambda size: fw.arange(0, [size]),
    "linspace": lambda size: fw.linspace(0, 1, size),
    "new_full": lambda size: fw.zeros(2).new_zeros((2, size)),
    "Conv2d": lambda size: nn.Conv2d(2, 4, size),
    "Conv1d": lambda size: nn.Conv1d(size, 4, 1),
    "Linear": lambda size: nn.Linear(2, size),
    "Embedding": lambda size: nn.Embedding(size, 2),
    "LayerNorm": lambda size: nn.LayerNorm((2, size)),
    "BatchNorm2d": lambda size: nn.BatchNorm2d(size),
    "GroupNorm": lambda size: nn.GroupNorm(1, size),
    "MultiheadAttention": lambda size: nn.MultiheadAttention(size, 1),
    "ConstantPad1d": lambda size: nn.ConstantPad1d((1, size), 0.0),
    "Unflatten": lambda size: nn.Unflatten(0, (2, size)),
}


def test_whole_numbers_of_every_kind() -> None:
    for each in (2, np.int64(2), ONE, np.array(2)):
        assert as_int("f: n", each) == 2
        assert as_int_or_ints("f: n", each) == 2
        assert as_ints("f: n", [each, 3]) == as_int_or_ints("f: n", (each, 3)) == (2, 3)
        assert all(type(number) is int for number in as_ints("f: n", [each, 3]))
    assert as_ints("f: n", np.array([2, 3])) == as_ints("f: n", range(2, 4)) == (2, 3)
    assert as_ints("f: n", ()) == ()


def test_as_shape() -> None:
    assert as_shape((2, 3)) == as_shape(([2, 3],)) == as_shape((np.array([2, 3]),))
    assert as_shape((2,)) == (2,)
    assert as_shape(("23",)) == ("23",)
    assert as_shape((ONE,)) == (ONE,)


@pytest.mark.parametrize("value", WRONG, ids=[str(k) for k in range(len(WRONG))])
def test_wrong_kinds(value: object) -> None:
    for read, wanted in (
        (as_int, "an int"),
        (as_ints, "a sequence of ints"),
        (as_int_or_ints, "an int or a sequence of ints"),
    ):
        with pytest.raises(TypeError) as raised:
            read("f: n", value)
        assert str(raised.value) == f"f: n is {value!r}; it must be {wanted}"


@pytest.mark.parametrize("name", MAKERS)
def test_every_maker_refuses_them(name: str) -> None:
    make: Callable[[Any], Any] = MAKERS[name]
    for value in ("3", 2.5, [[3]], {2}, 1j):
        with pytest.raises((TypeError, DTypeError), match=rf"^({name}|dtype): "):
            make(value)
    with pytest.raises((ShapeError, TypeError), match=rf"^{name}: "):
        make(1 << 70)


def test_what_64_bits_do_not_hold() -> None:
    assert as_int("f: n", MOST) == MOST
    with pytest.raises(ShapeError, match=r"^f: n is 9223372036854775808; it must be"):
        as_int("f: n", MOST + 1)
    with pytest.raises(ShapeError, match=r"^f: n is \(1, -9223372036854775808\); its"):
        as_ints("f: n", (1, -MOST - 1))
    check_numel("f", (1 << 31, 1 << 31))
    with pytest.raises(ShapeError, match=r"^f: shape \(2147483648, 4294967296\) has"):
        check_numel("f", (1 << 31, 1 << 32))


def test_sizes_of_new_tensors() -> None:
    assert sizes_of("f", 3) == (3,)
    assert sizes_of("f", [2, 0]) == (2, 0)
    with pytest.raises(ShapeError, match=r"^f: sizes are \(2, -1\); none may be below"):
        sizes_of("f", (2, -1))


def test_numbers() -> None:
    assert (
        as_number("f: x", np.float32(2.5)) == as_number("f: x", fw.tensor(2.5)) == 2.5
    )
    assert type(as_number("f: x", np.int64(2))) is int
    with pytest.raises(TypeError, match=r"^f: x is '2'; it must be a number"):
        as_number("f: x", "2")
    with pytest.raises(ShapeError, match=r"^f: x is inf; it must be finite"):
        as_number("f: x", math.inf)
