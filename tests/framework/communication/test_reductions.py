"""Reductions in rank order, against NumPy."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import DType
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.communication.reductions import Reduction


def reduced(name: str, dtype: DType, *arrays: np.ndarray) -> np.ndarray:
    reduction = Reduction("test", name, dtype, len(arrays))
    for _ in range(2):  # it begins anew after the last
        found = [reduction.add(each) for each in arrays]
        assert all(each is None for each in found[:-1])
    assert found[-1] is not None
    return found[-1]


def test_the_order_is_that_of_the_ranks() -> None:
    big, one = np.float32([2**24]), np.float32([1])
    assert reduced("sum", fw.float32, big, one, one)[0] == 2**24
    assert reduced("sum", fw.float32, one, one, big)[0] == 2**24 + 2


def test_short_floats_are_rounded_once() -> None:
    parts = [np.float16([2048]), np.float16([1]), np.float16([1])]
    assert reduced("sum", fw.float16, *parts)[0] == 2050
    assert reduced("mean", fw.float16, np.float16([6e4]), np.float16([6e4]))[0] == 6e4
    bits = [fw.tensor([x], dtype=fw.bfloat16).stored() for x in (256.0, 1.0, 1.0)]
    total = reduced("sum", fw.bfloat16, *bits)
    assert total.tobytes() == fw.tensor([258.0], dtype=fw.bfloat16).stored().tobytes()


def test_names() -> None:
    x, y = np.array([1, -2, 120], np.int8), np.array([3, -5, 120], np.int8)
    expected = {
        "sum": x + y,
        "product": x * y,
        "max": np.maximum(x, y),
        "min": np.minimum(x, y),
        "and": x & y,
        "or": x | y,
        "xor": x ^ y,
    }
    for name, wanted in expected.items():
        np.testing.assert_array_equal(reduced(name, fw.int8, x, y), wanted)
    nan = np.float32([np.nan, 1])
    np.testing.assert_array_equal(reduced("max", fw.float32, nan, nan + 1), nan + 1)
    truth = np.array([True, False]), np.array([True, True])
    assert reduced("sum", fw.bool, *truth).tolist() == [True, True]
    assert reduced("product", fw.bool, *truth).tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("mean", fw.int32),
        ("max", fw.complex64),
        ("xor", fw.float32),
        ("sum", fw.float8_e4m3fn),
    ],
)
def test_dtypes_without(name: str, dtype: DType) -> None:
    with pytest.raises(DTypeError, match=f"{dtype.name}, which has no {name}"):
        Reduction("test", name, dtype, 2)
