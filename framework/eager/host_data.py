"""Host data that tensors are made of: their elements in NumPy, and their dtype."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..base.dtype import (
    DType,
    DTypeLike,
    as_dtype,
    bool_,
    default_dtype,
    int64,
    promote,
)
from ..base.errors import DTypeError
from .base_tensor import TensorCore


def host_array(data: Any, dtype: DTypeLike | None) -> tuple[np.ndarray, DType]:
    """Return `data` as a NumPy array, and its dtype.

    Python floats have the default dtype.
    """
    if isinstance(data, TensorCore):
        return data.host_copy(), data.dtype if dtype is None else as_dtype(dtype)
    array = np.asarray(data)
    if dtype is None and array.dtype.kind in "fc":
        dtype = _inferred(data)
    kind = as_dtype(array.dtype if dtype is None else dtype)
    _check_elements(array, kind, isinstance(data, int | list | tuple))
    return array, kind


def _inferred(data: Any) -> DType | None:
    """Return the dtype of numbers, or of a sequence of numbers, arrays and tensors.

    Those of its elements promote as dtypes do, where NumPy promotes Python's floats as
    float64. None is for what has a dtype of its own, or elements that are not known.
    """
    if not isinstance(data, list | tuple):
        return _of_numbers().get(type(data))
    numbers, found, left = _of_numbers(), set[DType](), [data]
    while left:
        row = left.pop()
        for kind in set(map(type, row)):
            if kind in numbers:
                found.add(numbers[kind])
                continue
            for each in row:
                if type(each) is not kind:
                    continue
                if isinstance(each, list | tuple):
                    left.append(each)
                elif isinstance(each, np.ndarray | np.generic | TensorCore):
                    found.add(as_dtype(each.dtype))
                else:
                    return None
    # Floats first: uint64 promotes with them, but not with a signed integer.
    ordered = sorted(found, key=lambda each: each.kind in ("int", "uint"))
    return functools.reduce(promote, ordered) if found else default_dtype()


def _of_numbers() -> dict[type, DType]:
    """Return the dtypes of Python's numbers."""
    real = default_dtype()
    return {bool: bool_, int: int64, float: real, complex: real.to_complex()}


def _check_elements(array: np.ndarray, dtype: DType, plain: bool) -> None:
    """Raise `DTypeError` for elements that are no numbers, or that `dtype` cannot hold.

    Integers of arrays wrap; of Python's own, as in PyTorch, negative ones in an
    unsigned dtype.
    """
    kinds = {type(each) for each in array.flat} if array.dtype == object else set()
    if array.dtype.kind not in "biufcO" or not all(map(_is_number, kinds)):
        raise DTypeError(
            f"tensor: {array.dtype} elements cannot become {dtype.name}; give numbers"
        )
    if not dtype.is_complex and (array.dtype.kind == "c" or complex in kinds):
        raise DTypeError(
            f"tensor: complex numbers cannot become {dtype.name}; give their real parts"
        )
    whole = array.dtype.kind in "iu" or (kinds and kinds <= {int})
    if plain and whole and array.size and dtype.kind in ("int", "uint"):
        low, high = dtype.limits
        least, most = int(array.min()), int(array.max())
        if least < (low or -high) or most > high:
            wrong = most if most > high else least
            raise DTypeError(
                f"tensor: {wrong} is no {dtype.name}, which holds {low} to {high}; give"
                " a wider dtype"
            )
    elif kinds:
        try:
            array.astype(dtype.numpy)
        except OverflowError:
            raise DTypeError(
                f"tensor: an integer is beyond every {dtype.name}; give a wider dtype"
            ) from None


def _is_number(kind: type) -> bool:
    number = int | float | complex | np.number | np.bool_
    return issubclass(kind, number)
