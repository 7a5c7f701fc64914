"""The next number that a float dtype has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import bfloat16, float16, float32, float64
from ...base.errors import DTypeError
from ...dispatch.declare import elementwise
from ...eager.base_tensor import need_tensors
from .binary import mul
from .cast import converted, result_type
from .compare import eq, where

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def _next(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.nextafter(x, y))


def _next_half(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    moved = _next(x.astype(np.float16), y.astype(np.float16))
    return np.where(x == y, y, moved)


def _next_bfloat16(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what `bfloat16_neighbour` gives of floats whose lower halves are 0."""
    bits = x.astype(np.float32).view(np.int32) >> 16
    size = bits & 0x7FFF
    place = np.where(bits < 0, -size, size)
    found = place + (y > x) - (y < x)
    negative = (found < 0) | ((found == 0) & (bits < 0))
    made = (np.abs(found) | np.where(negative, 0x8000, 0)).astype(np.uint32) << 16
    moved = np.where(x == y, y, made.astype(np.uint32).view(np.float32))
    return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), moved)


@elementwise(glsl="neighbour(x, y)", reference=_next, dtypes=(float32, float64))
def neighbour(x: Tensor, y: Tensor) -> Tensor:
    """Return `nextafter` of float32 and float64."""


@elementwise(glsl="half_neighbour(x, y)", reference=_next_half, dtypes=(float16,))
def half_neighbour(x: Tensor, y: Tensor) -> Tensor:
    """Return `nextafter` of float16."""


@elementwise(
    glsl="bfloat16_neighbour(x, y)", reference=_next_bfloat16, dtypes=(bfloat16,)
)
def bfloat16_neighbour(x: Tensor, y: Tensor) -> Tensor:
    """Return `nextafter` of bfloat16."""


@neighbour.vjp
def neighbour_vjp(grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return where(eq(x, y), 0.0, grad), mul(grad, 0.0)


half_neighbour.vjp(neighbour_vjp)
bfloat16_neighbour.vjp(neighbour_vjp)
SHORT = {float16: half_neighbour, bfloat16: bfloat16_neighbour}


@shown_as("NextafterBackward0", "x", "y")
def nextafter(x: Tensor, y: Tensor) -> Tensor:
    """Return the next number from `x` towards `y`.

    Parameters
    ----------
    x, y : Tensor, float
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        NaN if either is NaN. Its gradient by `x` is 1, and 0 where both are equal; that
        by `y` is 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the promoted dtype is no float.
    """
    need_tensors("nextafter", x=x, y=y)
    kind = result_type(x, y)
    if kind not in (*SHORT, float32, float64):
        raise DTypeError(f"nextafter: the dtype is {kind.name}; it must be a float one")
    op = SHORT.get(kind, neighbour)
    return op(converted(x, kind), converted(y, kind))
