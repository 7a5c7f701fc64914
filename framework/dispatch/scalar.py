"""Scalar arguments of kernels, from Python numbers."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..base.dtype import DType, bfloat16, decode, encode, float16
from ..base.errors import DTypeError
from ..base.symbolic_number import is_symbolic, live
from ..base.trace_hooks import Changing
from ..eager.base_tensor import TensorCore


def real(name: str, value: Any) -> float:
    """Return a Python number as a scalar argument of a float kernel.

    Raises
    ------
    DTypeError
        If it is an integer beyond the range of floats.
    """
    if type(value) is Changing or is_symbolic(value):
        return value  # type: ignore[no-any-return]  # a float, or stands for one
    try:
        return float(value)
    except OverflowError:
        raise DTypeError(
            f"{name}: an integer of {value.bit_length()} bits is beyond every float;"
            " they hold less than 2^1024"
        ) from None


def _told(value: object) -> str:
    """Return how an error tells a value: by its type where it has many elements."""
    many = isinstance(value, np.ndarray | list | tuple | dict)
    return f"a {type(value).__name__}" if many else repr(value)


def number(name: str, dtype: DType, value: Any) -> float:
    """Return a Python number as a scalar argument of a kernel of `dtype`.

    As bool all but 0 is true.

    Raises
    ------
    TypeError
        If it is no number.
    DTypeError
        If `dtype` is an integer one that cannot hold it, or the number is complex and
        `dtype` is not, nor bool.
    """
    if dtype.is_complex and isinstance(value, complex | np.complexfloating):
        return complex(value)  # type: ignore[return-value]  # see `parts_of`
    if isinstance(value, complex | np.complexfloating):
        if dtype.kind == "bool":
            return int(value != 0)
        raise DTypeError(
            f"{name}: {value} is no {dtype.name}, which is real; use a real number"
        )
    if not isinstance(value, int | float | np.number | np.bool_):
        raise TypeError(
            f"{name}: {_told(value)} is no operand; use a tensor or a real number"
        )
    if dtype.is_differentiable:
        return real(name, value)
    if dtype.kind == "bool":
        return int(value != 0)
    low, high = dtype.limits
    if not low <= value <= high:
        raise DTypeError(
            f"{name}: {value} is no {dtype.name}, which holds {low} to {high};"
            " cast the tensor to a wider dtype first"
        )
    if type(value) is int or is_symbolic(value):
        return value  # type: ignore[return-value]  # an int, or stands for one
    return int(value)


def is_rounded(dtype: DType) -> bool:
    """Return whether numbers that elements are compared with are rounded to a dtype.

    Of other dtypes they are rounded as any scalar is.
    """
    return dtype is float16 or dtype is bfloat16


@functools.lru_cache(maxsize=1024)
def _rounded(value: float, dtype: DType) -> float:
    with np.errstate(over="ignore"):
        return float(decode(encode(np.asarray(value), dtype), dtype))


def rounded(value: float, dtype: DType) -> float:
    """Return the nearest number of a 2-byte float dtype, as PyTorch compares with."""
    # Of equal keys in the cache, 0 and -0 are two numbers.
    if type(value) is Changing or is_symbolic(value) or not value:
        return value
    return _rounded(value, dtype)


def is_number_tensor(value: object) -> bool:
    """Return whether a tensor may stand for a number: one element, no gradient."""
    if not isinstance(value, TensorCore) or value.needs_grad:
        return False
    return not value.layout.shape


def parts_of(numbers: Iterable[complex]) -> tuple[float, ...]:
    """Return the real and imaginary part of each number, as kernels take them."""
    return tuple(part for each in numbers for part in _two_parts(each))


def _two_parts(value: complex) -> tuple[float, float]:
    if isinstance(value, complex):
        return value.real, value.imag
    return value, 0.0


def scalar_items(
    compute: DType, numbers: Mapping[str, float]
) -> tuple[tuple[str, float], ...]:
    """Return scalar arguments of a node by name; of a complex one both parts."""
    if live:
        numbers = {name: _argument(compute, each) for name, each in numbers.items()}
    if not compute.is_complex:
        return tuple(numbers.items())
    names = [(name, f"{name}.imag") for name in numbers]
    pairs = zip(names, map(_two_parts, numbers.values()))
    return tuple(item for two, parts in pairs for item in zip(two, parts))


def _argument(compute: DType, value: Any) -> Any:
    """Return a scalar argument; of a symbolic number one that replays write anew."""
    if not is_symbolic(value):
        return value
    if compute.is_complex:
        return value.concrete()
    return value.dynamic(compute.is_float)
