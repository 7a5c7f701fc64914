"""Validation of sizes, indices and numbers from users, in one place."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Set
from typing import Any

from .errors import ShapeError

MOST = (1 << 63) - 1
"""Largest number of elements, or of anything else, that a user can specify."""

_INT = "an int"
_INTS = "a sequence of ints"
_INTEGERS = frozenset({int})


def as_shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return a shape given as several ints or as one sequence, unchecked."""
    if len(sizes) == 1 and isinstance(sizes[0], Iterable) and not _is_one(sizes[0]):
        return tuple(sizes[0])
    return sizes


def several(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments, of which two ints or more are one sequence."""
    return (given,) if len(given) > 1 else given


def _is_one(value: object) -> bool:
    """Return whether a value counts as no sequence, even if it is iterable."""
    return isinstance(value, str | bytes | Mapping | Set) or (
        getattr(value, "ndim", None) == 0
    )


def as_int(where: str, value: object, wanted: str = _INT) -> int:
    """Return an argument that must be a whole number.

    Parameters
    ----------
    where : str
        The function and its argument, as "narrow: start".
    value : object
    wanted : str
        Expected kind of value, for the message.

    Raises
    ------
    TypeError
        If it is no whole number.
    ShapeError
        If it is beyond what 64 bits hold.
    """
    if type(value) is not int:
        try:
            value = operator.index(value)  # type: ignore[arg-type]  # what is tried
        except (TypeError, ValueError):
            raise TypeError(f"{where} is {value!r}; it must be {wanted}") from None
    if not -MOST <= value <= MOST:
        raise ShapeError(f"{where} is {value}; it must be from {-MOST} to {MOST}")
    return value


def as_ints(where: str, values: object, wanted: str = _INTS) -> tuple[int, ...]:
    """Return an argument that must be a sequence of whole numbers; as `as_int`."""
    if type(values) is tuple and _INTEGERS.issuperset(map(type, values)):
        if values and not -MOST <= min(values) <= max(values) <= MOST:
            raise _too_large(where, values)
        return values
    found: tuple[object, ...] = ()
    try:
        if _is_one(values):
            raise TypeError
        found = tuple(values)  # type: ignore[arg-type]  # what is tried
        numbers = tuple(
            [each if type(each) is int else operator.index(each) for each in found]  # type: ignore[arg-type]  # what is tried
        )
    except (TypeError, ValueError):
        raise TypeError(f"{where} is {values!r}; it must be {wanted}") from None
    if max(map(abs, numbers), default=0) > MOST:
        raise _too_large(where, numbers)
    return numbers


def _too_large(where: str, numbers: tuple[int, ...]) -> ShapeError:
    return ShapeError(
        f"{where} is {numbers}; its numbers must be from {-MOST} to {MOST}"
    )


def as_int_or_ints(where: str, value: object) -> int | tuple[int, ...]:
    """Return an argument that may be one whole number or several; as `as_int`."""
    if type(value) is tuple and _INTEGERS.issuperset(map(type, value)):
        return as_ints(where, value)
    wanted = f"{_INT} or {_INTS}"
    if isinstance(value, Iterable) and not _is_one(value):
        return as_ints(where, value, wanted)
    return as_int(where, value, wanted)


def as_number(where: str, value: object) -> float:
    """Return an argument that must be a finite real number.

    Raises
    ------
    TypeError
        If it is none.
    ShapeError
        If it is infinite or NaN.
    """
    number = value
    if getattr(value, "ndim", None) == 0:
        number = value.item()  # type: ignore[attr-defined]  # of arrays and tensors
    if not isinstance(number, int | float):
        raise TypeError(f"{where} is {value!r}; it must be a number")
    if not -math.inf < number < math.inf:
        raise ShapeError(f"{where} is {number}; it must be finite")
    return number


def sizes_of(name: str, size: object) -> tuple[int, ...]:
    """Return the shape of a new tensor, given as one int or as a sequence.

    Raises
    ------
    TypeError
        If a size is not an int.
    ShapeError
        If one is below 0, or the number of elements exceeds `MOST`.
    """
    given = as_int_or_ints(f"{name}: size", size)
    sizes = (given,) if isinstance(given, int) else given
    if min(sizes, default=0) < 0:
        raise ShapeError(f"{name}: sizes are {sizes}; none may be below 0")
    check_numel(name, sizes)
    return sizes


def check_numel(name: str, shape: tuple[int, ...]) -> None:
    """Raise `ShapeError` if a result's number of elements exceeds `MOST`."""
    if math.prod(shape) > MOST:
        raise ShapeError(
            f"{name}: shape {shape} has {math.prod(shape)} elements; there may be at"
            f" most {MOST}"
        )
