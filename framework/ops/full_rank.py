"""Inverses of matrices of full rank on devices, and their spectral norms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.dtype import int32
from ..base.shape import TensorSpec
from ..base.trace_hooks import reads_are_refused
from ..dispatch.declare import composite
from ..dispatch.replayable import replayable
from . import triangular
from .elementwise.cast import cast
from .elementwise.compare import eq, logical_not, where
from .factorization import WIDE, identity, singular_values, turned
from .host_checks import largest_flag
from .lu_solution import lu_inverse
from .matmul.matmul import matmul
from .movement.concat import stack
from .movement.slice import select
from .panel_qr import panel_qr, qr_by_kernel, svd_by_kernel
from .reduce.minmax import amax
from .reduce.sum import sum
from .small_factors import is_small
from .view import reshape

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tensor.tensor import Tensor

MARGIN = 2.0
"""By how much the smallest singular value must be above a tolerance at least."""

_BOTH = -2, -1


class FullRank(NamedTuple):
    """What kernels find of matrices (..., m, n) of full rank.

    Attributes
    ----------
    square : Tensor, shape (..., k, k), k the smaller of m and n
        A matrix of the same singular values.
    inverse : Tensor, shape (..., k, k)
        Its inverse.
    factors : tuple of Tensor
        One or two, whose product is the pseudo-inverse.
    """

    square: Tensor
    inverse: Tensor
    factors: tuple[Tensor, ...]


def full_rank(
    x: Tensor,
    atol: float,
    rtol: float,
    finish: Callable[[FullRank], tuple[Tensor, ...]],
) -> tuple[Tensor, ...] | None:
    """Return what `finish` makes of matrices, if no singular value is cut.

    Or None, where one may be within the tolerances, or the kernels do not factorise
    such matrices, or find the singular values themselves. A flag is read, which waits
    for the device; the results are computed in the submission that finds out.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    atol, rtol : float
        Absolute tolerance of singular values, and that relative to the largest.
    finish : callable
        Is given what kernels find of matrices of full rank.
    """
    rows, columns = x.layout.shape[-2:]
    if reads_are_refused() or not triangular.by_kernel(x):
        return None
    if is_small(x) or svd_by_kernel(x):
        return None
    if rows == columns and triangular.lu_by_kernel(x):
        compact = triangular.lu(x)
        square, inverse = x, lu_inverse(compact.compact, compact.order)
        inverse = reshape(inverse, x.layout.shape)
        factors: tuple[Tensor, ...] = (inverse,)
    else:
        tall = x if rows >= columns else turned(x)
        if not qr_by_kernel(tall):
            return None
        q, square = panel_qr(tall)
        one = identity(square, min(rows, columns))
        inverse = triangular.solve(square, one, True, False)
        factors = (inverse, turned(q)) if rows >= columns else (q, turned(inverse))
    least = float(np.finfo(x.dtype.numpy).eps) * min(rows, columns)
    near = _may_be_cut(square, inverse, atol, rtol, least)
    found = finish(FullRank(square, inverse, factors))
    return None if largest_flag(near, *found) else found


@replayable
def _may_be_cut(
    x: Tensor, inverse: Tensor, atol: float, rtol: float, rounding: float
) -> Tensor:
    """Return 1 for square matrices with values near a tolerance, or wrong inverses.

    With a residual F = Y A - I below 1, A^-1 is (I + F)^-1 Y, so that the smallest
    singular value is at least (1 - |F|) / |Y|. Numbers that are not finite, of singular
    matrices among others, compare as near.
    """
    left = matmul(inverse, x) - identity(x, x.layout.shape[-1])
    residual = sum(left * left, _BOTH) ** 0.5
    reach = _frobenius(inverse)
    condition = _spectral_bound(x) * reach
    room = (1.0 - residual) / MARGIN
    apart = (max(rtol, rounding) * condition < room) & (atol * reach < room)
    return cast(logical_not(apart & (residual <= rounding * condition)), int32)


def _frobenius(x: Tensor) -> Tensor:
    """Return the roots of sums of squares, which do not overflow."""
    most = amax(x.abs(), _BOTH, True)
    ratio = x / most
    return amax(most, _BOTH) * sum(ratio * ratio, _BOTH) ** 0.5


def _spectral_bound(x: Tensor) -> Tensor:
    """Return upper bounds of the largest singular values: Schatten 8-norms.

    They are at most the 8th root of the order too large, Frobenius norms the square
    root.
    """
    most = amax(x.abs(), _BOTH, True)
    power = x / most
    for _ in range(2):
        power = matmul(turned(power), power)
    return amax(most, _BOTH) * sum(power * power, _BOTH) ** 0.125


def has_spectral_norm(x: Tensor) -> bool:
    """Return whether `spectral_norm` computes, rather than singular values."""
    return triangular.by_kernel(x) and not is_small(x) and not svd_by_kernel(x)


@replayable
def spectral_norm(x: Tensor) -> Tensor:
    """Return the largest singular values (...) of (..., m, n).

    The Gram matrix is squared until the largest element of its power is that power of
    the largest eigenvalue, but for a rounding. Roundings of later powers count less.
    Powers are divided by that element before they leave the range.
    """
    rows, columns = x.layout.shape[-2:]
    most, least = amax(x.abs(), _BOTH, True), min(rows, columns)
    ratio = _divided(x, most)
    across = turned(ratio)
    power = matmul(across, ratio) if rows >= columns else matmul(ratio, across)
    limits = np.finfo(x.dtype.numpy)
    count = math.ceil(math.log2(max(math.log(least), 1.0) / float(limits.eps))) - 1
    steps = _steps(least, int(limits.maxexp))
    sizes = [(amax(power.abs(), _BOTH, True), 0)]
    while count:
        power = _divided(power, sizes[-1][0])
        number = min(steps, count)
        for _ in range(number):
            power = matmul(power, power)
        sizes.append((amax(power.abs(), _BOTH, True), number))
        count -= number
    size, number = sizes.pop()
    while sizes:
        for _ in range(number):
            size = size**0.5
        each, number = sizes.pop()
        size = each * size
    return amax(most * size**0.5, _BOTH)


def _steps(size: int, exponent: int) -> int:
    """Return how many squarings keep matrices of an order in range.

    Their largest element is 1 at first, and no eigenvalue above the order.
    """
    return max(1, int(math.log2(exponent / math.log2(max(size, 2)))))


def _divided(x: Tensor, size: Tensor) -> Tensor:
    """Return quotients, and zeros as they are."""
    return x / where(eq(size, 0.0), 1.0, size)


@composite(dtypes=WIDE)
def largest_singular_values(x: Tensor) -> Tensor:
    """Return the largest singular values (...) of (..., m, n), without a gradient."""
    if has_spectral_norm(x):
        return spectral_norm(x)
    return amax(singular_values(x), -1)


@largest_singular_values.spec
def largest_singular_values_spec(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape[:-2], x.dtype.to_real())


@composite(dtypes=WIDE, outputs=("largest", "least"))
def extreme_singular_values(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest and the smallest singular values, without a gradient."""
    found = full_rank(x, 0.0, 0.0, _extremes)
    if found is None:
        values = singular_values(x)
        return select(values, -1, 0), select(values, -1, values.layout.shape[-1] - 1)
    largest, least = found
    return largest, least


def _extremes(found: FullRank) -> tuple[Tensor, Tensor]:
    norms = spectral_norm(stack([found.square, found.inverse], 0))
    return select(norms, 0, 0), 1.0 / select(norms, 0, 1)


@extreme_singular_values.spec
def extreme_singular_values_spec(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    each = TensorSpec(x.shape[:-2], x.dtype.to_real())
    return each, each
