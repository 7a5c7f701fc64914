"""Special values, promotion and ties of comparisons, choices and bounds."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN, SPECIAL, check_special_pairs, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import UINT, DType

Make = Callable[..., fw.Tensor]

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
}


@pytest.mark.parametrize("name", BINARY)
def test_special_pairs(name: str, make: Make) -> None:
    check_special_pairs(getattr(ops, name), BINARY[name], make)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not"])
def test_special_values(name: str, make: Make) -> None:
    assert_close(getattr(ops, name)(make(SPECIAL)), getattr(np, name)(SPECIAL))


@pytest.mark.parametrize("dtype", UINT, ids=str)
def test_unsigned_comparison(dtype: DType, place: Device) -> None:
    need(dtype, place)
    ends = fw.tensor(np.array(dtype.limits, dtype.numpy), device=place)
    assert (ends > 1).tolist() == [False, True]
    assert ops.clamp_min(ends, 1).tolist() == [1, dtype.limits[1]]


def test_condition_does_not_promote(make: Make) -> None:
    condition = make(np.array([True, False]))
    small = make(np.array([1, 2], np.int8))
    assert ops.where(condition, small, 0).dtype is fw.int8
    assert ops.where(condition, small, 0.5).tolist() == [1, 0.5]
    assert ops.where(condition, 1.0, 0.0).tolist() == [1, 0]


def test_ties_share_the_gradient(make: Make) -> None:
    for name in ("maximum", "minimum"):
        x, y = make([1.0, 2.0], grad=True), make([1.0, 2.0], grad=True)
        getattr(ops, name)(x, y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float64", "int32"]
)
def test_nan_to_num(dtype: str, place: Device) -> None:
    need(fw.zeros(1, dtype=dtype).dtype, place)
    data = torch.tensor([1.0, NAN, INF, -INF, -0.0])
    theirs = (data.nan_to_num(7, 8, 9) if dtype == "int32" else data).to(
        getattr(torch, dtype)
    )
    x = fw.tensor(theirs.double().numpy(), dtype, place)
    for options in ({}, {"nan": 2.0, "posinf": 3.0, "neginf": -4.0}):
        found = ops.nan_to_num(x, **options)
        expected = theirs.nan_to_num(**options)
        assert found.dtype is x.dtype
        np.testing.assert_array_equal(
            found.numpy().astype(np.float64), expected.double().numpy()
        )


def test_bools_take_numbers(place: Device) -> None:
    x = fw.tensor([True, False], device=place)
    assert (x * True).tolist() == (x > False).tolist() == [True, False]
    assert (x < True).tolist() == [False, True]
    assert fw.add(x, x, alpha=False).tolist() == x.clamp(max=True).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "place", ["cpu", pytest.param("gpu", marks=pytest.mark.device)]
)
def test_numbers_are_rounded_to_two_bytes(
    dtype: str, place: str, request: pytest.FixtureRequest
) -> None:
    """As PyTorch's are, in the first call and in those that are known."""
    device = request.getfixturevalue("gpu") if place == "gpu" else "cpu"
    numbers = (0.3, 0.1, 1 / 3, 70.1, 5, 2049, float("nan"), float("inf"))
    given = torch.tensor(numbers).to(getattr(torch, dtype))
    x = fw.tensor(numbers, dtype=dtype, device=device)
    for name, _ in itertools.product(("eq", "ne", "lt", "le", "gt", "ge"), range(2)):
        for number in numbers:
            wanted = getattr(given, name)(number).tolist()
            assert getattr(x, name)(number).tolist() == wanted, (name, number)
    assert (0.3 >= x).tolist() == (0.3 >= given).tolist()
