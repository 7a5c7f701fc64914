"""Host data that tensors are made of: their elements in NumPy, and their dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import (
    DType,
    DTypeLike,
    as_dtype,
    complex128,
    default_dtype,
    float64,
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
    if dtype is None and array.dtype == np.float64 and _is_of_numbers(data):
        dtype = default_dtype()
    if dtype is None and array.dtype == np.complex128 and _is_of_numbers(data):
        dtype = default_dtype().to_complex()
    kind = as_dtype(array.dtype if dtype is None else dtype)
    _check_elements(array, kind, isinstance(data, int | list | tuple))
    return array, kind


def _is_of_numbers(data: Any, row: Any = ()) -> bool:
    """Return whether data are Python's numbers, in sequences of any depth."""
    while isinstance(data, list | tuple) and data:
        row, data = data, data[0]
    if isinstance(data, TensorCore):
        return not {getattr(x, "dtype", None) for x in row} & {float64, complex128}
    return not isinstance(data, np.ndarray | np.generic)


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
