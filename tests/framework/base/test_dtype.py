"""The dtype table against NumPy, and promotion against NumPy and PyTorch."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import (
    DTYPES,
    FLOAT,
    FLOAT8,
    INT,
    INTEGER,
    STORED,
    UINT,
    DType,
    as_dtype,
    combined,
    promote,
)
from vkbackend.framework.base.errors import DTypeError

ALL = STORED


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_row_agrees_with_numpy(dtype: DType) -> None:
    assert dtype.itemsize == dtype.storage.itemsize
    kinds = {"b": "bool", "u": "uint", "i": "int", "f": "float", "c": "complex"}
    assert dtype.kind == kinds[dtype.numpy.kind]
    assert dtype.is_float == (dtype in (*FLOAT, *FLOAT8))
    assert repr(dtype) == str(getattr(torch, dtype.name))
    assert (dtype.feature is None) == (dtype.itemsize < 8 or dtype is fw.complex64)


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_limits(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    assert dtype.limits == (info.min, info.max)
    assert DTYPES["bool"].limits == (0, 1)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (fw.float16, fw.float16),
        ("int32", fw.int32),
        (float, fw.float64),
        (int, fw.int64),
        (bool, fw.bool_),
        (np.uint8, fw.uint8),
        (np.dtype("float64"), fw.float64),
        (np.dtype(">i2"), fw.int16),
    ],
)
def test_as_dtype(given: object, dtype: DType) -> None:
    assert as_dtype(given) is dtype  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["float8", "complex32", object, None, 3])
def test_unknown_dtype(given: object) -> None:
    with pytest.raises(DTypeError) as raised:
        as_dtype(given)  # type: ignore[arg-type]
    assert str(raised.value) == (
        f"dtype: {given!r} is unknown; accepted: bool, uint8, uint16, uint32, uint64,"
        " int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64,"
        " complex128, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz"
    )


PAIRS = [
    pytest.param(a, b, id=f"{a.name}-{b.name}")
    for a, b in itertools.product(ALL, ALL)
    if {a.kind, b.kind} != {"int", "uint"} or fw.uint64 not in (a, b)
    # PyTorch promotes none of them with complex numbers.
    if not (a.is_complex or b.is_complex) or not {a, b} & {*UINT[1:]}
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_promotion(a: DType, b: DType) -> None:
    found = promote(a, b)
    assert promote(b, a) is found
    if a.is_differentiable or b.is_differentiable:
        # A float does not grow: PyTorch's rule, since NumPy's makes float64 of int32.
        expected = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
        assert str(expected) == f"torch.{found.name}"
    else:
        assert found.numpy == np.promote_types(a.numpy, b.numpy)


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_no_dtype_holds_both(signed: str) -> None:
    with pytest.raises(DTypeError) as raised:
        promote(DTYPES[signed], fw.uint64)
    assert str(raised.value) == (
        f"promote: no integer holds both {signed} and uint64; cast one of them first"
    )


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (fw.float16, 1.5, fw.float16),
        (fw.float16, 10**6, fw.float16),
        (fw.int8, 1, fw.int8),
        (fw.int8, True, fw.int8),
        (fw.int8, 1.0, fw.float32),
        (fw.int32, np.int64(1), fw.int32),
        (fw.int32, np.float32(1), fw.float32),
        (fw.bool_, True, fw.bool_),
        (fw.bool_, np.True_, fw.bool_),
        (fw.bool_, 1, fw.int64),
        (fw.bool_, 1.0, fw.float32),
    ],
)
def test_promotion_with_a_number(dtype: DType, value: float, expected: DType) -> None:
    assert combined([dtype], numbers=[value]) is expected
    assert combined([], [dtype], [value]) is expected


COMMON = (fw.bool_, fw.uint8, *INT, *FLOAT)
"""What PyTorch has too, with promotion."""

NUMBERS = (True, 3, 0.5)


@pytest.mark.parametrize("dtype", COMMON, ids=str)
def test_result_type_is_that_of_torch(dtype: DType) -> None:
    ours = [fw.zeros(shape, dtype) for shape in ((2,), (), (1, 1), (0,))]
    theirs = [torch.zeros(x.shape, dtype=getattr(torch, dtype.name)) for x in ours]
    for mine, its in zip(ours, theirs):
        for other in COMMON:
            for shape in ((2,), ()):
                x = fw.zeros(shape, other)
                y = torch.zeros(shape, dtype=getattr(torch, other.name))
                expected = torch.result_type(its, y)
                assert str(expected) == f"torch.{fw.result_type(mine, x).name}"
                assert fw.result_type(x, mine) is fw.result_type(mine, x)
        for number in NUMBERS:
            expected = torch.result_type(its, number)
            assert str(expected) == f"torch.{fw.result_type(mine, number).name}"


def test_result_type_of_unsigned_types_that_torch_does_not_promote() -> None:
    vector, scalar = fw.zeros(2, fw.uint16), fw.tensor(1, dtype=fw.int64)
    assert fw.result_type(vector, scalar) is fw.uint16
    assert fw.result_type(vector, fw.zeros(2, fw.int16)) is fw.int32
    assert fw.result_type(fw.zeros(2, fw.uint64), fw.tensor(1.5)) is fw.float32


@pytest.mark.parametrize("a", COMMON, ids=str)
def test_can_cast_and_promote_types(a: DType) -> None:
    for b in COMMON:
        given = getattr(torch, a.name), getattr(torch, b.name)
        assert fw.can_cast(a.name, b) == torch.can_cast(*given)
        assert f"torch.{fw.promote_types(a, b.name).name}" == str(
            torch.promote_types(*given)
        )


def test_a_copy_is_the_same_dtype() -> None:
    assert copy.deepcopy(fw.float32) is fw.float32
    assert pickle.loads(pickle.dumps(fw.int8)) is fw.int8


def test_complex32_is_a_name_only() -> None:
    assert fw.chalf is fw.complex32
    assert fw.complex32.is_complex
    for make in (lambda t: fw.zeros(2, dtype=t), lambda t: fw.ones(2).to(t)):
        with pytest.raises(DTypeError, match="use complex64"):
            make(fw.complex32)
