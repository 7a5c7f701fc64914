"""Values of the self-tests: what they are, and that they are exact."""

from typing import Any

import numpy as np
import pytest

from vkbackend.tools.doctor import dtype_cases

SHAPE: dict[str, Any] = {
    **{"m": 16, "n": 8, "k": 32, "scope": "subgroup", "saturating": False},
    **{"a": "float16", "b": "float16", "c": "float32", "result": "float32"},
}


@pytest.mark.parametrize("name", dtype_cases.STORAGE_CASES)
def test_values_are_three_x_and_one(name: str) -> None:
    x, y = dtype_cases.STORAGE_CASES[name].values(37)
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert len(np.unique(x)) > 30
    if name == "bfloat16":
        x, y = ((v.astype(np.uint32) << 16).view(np.float32) for v in (x, y))
    np.testing.assert_array_equal(y, x * x.dtype.type(3) + x.dtype.type(1))


def test_float64_has_digits_that_float32_loses() -> None:
    x, _ = dtype_cases.STORAGE_CASES["float64"].values(37)
    assert (x.astype(np.float32) != x)[1:].all()


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8"])
def test_matrix_values_are_exact(dtype: str) -> None:
    shape = {**SHAPE, "a": dtype, "b": dtype}
    a, b, c, y = dtype_cases.matrix_values(shape)
    assert a.dtype == b.dtype == np.dtype(dtype)
    assert (a.shape, b.shape, c.shape) == ((16, 32), (32, 8), (16, 8))
    np.testing.assert_array_equal(y, a.astype(int) @ b.astype(int) + c)
    assert abs(y).max() < 256


def test_matrix_has_a_name() -> None:
    assert dtype_cases.matrix_name(SHAPE) == "matrix 16x8x32 float16 to float32"
    saturating = {**SHAPE, "saturating": True}
    assert dtype_cases.matrix_name(saturating).endswith("float32 saturating")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"a": "component 7"}, "no kernel for component 7"),
        ({"scope": "workgroup"}, "no kernel for the scope workgroup"),
        ({"c": "float16"}, "no kernel that adds float16 and gives float32"),
        ({"saturating": True}, "no kernel that saturates"),
    ],
)
def test_what_cannot_be_tried_is_said(change: dict[str, Any], reason: str) -> None:
    assert dtype_cases.unknown_matrix({**SHAPE, **change}) == reason
