"""Equality, exact and within a tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtype import float32
from ...base.errors import ShapeError
from ...base.shape import broadcast_shapes
from ...dispatch.replayable import replayable
from ..elementwise.binary import add, mul, sub
from ..elementwise.cast import cast, need_one_dtype
from ..elementwise.compare import eq, isfinite, isnan, le, logical_and, logical_or
from ..elementwise.unary import abs
from .minmax import all

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@replayable
def isclose(
    x: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Return where |x - other| is at most atol + rtol * |other|, or both are equal.

    Parameters
    ----------
    x, other : Tensor
        Broadcast with each other.
    rtol, atol : float
        What may be off, relative to `other` and absolute.
    equal_nan : bool, default False
        Whether NaN is close to NaN.

    Returns
    -------
    Tensor, bool
        An infinity is close to itself alone.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or `rtol` or `atol` is below 0.
    DTypeError
        If the dtypes differ.
    """
    need_one_dtype("isclose", x=x, other=other)
    if rtol < 0 or atol < 0:
        raise ShapeError(
            f"isclose: rtol is {rtol}, atol {atol}; neither may be below 0"
        )
    broadcast_shapes("isclose", x.layout.shape, other.layout.shape)
    found = eq(x, other)
    a, b = (t if t.dtype.is_differentiable else cast(t, float32) for t in (x, other))
    within = le(abs(sub(a, b)), add(mul(abs(b), rtol), atol))
    found = logical_or(found, logical_and(within, isfinite(b)))
    if equal_nan:
        found = logical_or(found, logical_and(isnan(a), isnan(b)))
    return found


def allclose(
    x: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Return whether all elements are close; waits for them.

    Parameters
    ----------
    x, other : Tensor
        Of one dtype, and of shapes that broadcast.
    rtol, atol : float, default 1e-5, 1e-8
        What may be off, relative to `other` and absolute.
    equal_nan : bool, default False
        Whether NaN is close to NaN.

    Returns
    -------
    bool
        True of no elements.

    Raises
    ------
    ShapeError, DTypeError
        As `isclose`.
    """
    return bool(_all_close(x, other, rtol, atol, equal_nan).item())


@replayable
def _all_close(
    x: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool
) -> Tensor:
    return all(isclose(x, other, rtol, atol, equal_nan))


def equal(x: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have one shape and equal elements; waits for them.

    Parameters
    ----------
    x, other : Tensor
        Dtypes promote; NaN equals nothing. That integers in the same memory are equal
        is known without them.
    """
    if x.layout.shape != other.layout.shape:
        return False
    dtype = x.array.value.dtype
    exact = dtype is other.array.value.dtype and not dtype.is_differentiable
    if exact and x.is_set_to(other):
        return True
    return bool(_all_equal(x, other).item())


@replayable
def _all_equal(x: Tensor, other: Tensor) -> Tensor:
    return all(eq(x, other))
