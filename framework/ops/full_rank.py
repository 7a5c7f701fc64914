"""Pseudo-inverses of matrices of full rank, by LU and QR factors on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import int32
from ..base.trace_hooks import reads_are_refused
from . import triangular
from .elementwise.cast import cast
from .elementwise.compare import logical_not
from .factorization import identity, is_any, turned
from .lu_solution import lu_inverse
from .matmul.matmul import matmul
from .panel_qr import panel_qr, qr_by_kernel, svd_by_kernel
from .reduce.minmax import amax
from .reduce.sum import sum
from .small_factors import is_small
from .view import reshape

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

MARGIN = 2.0
"""By how much the smallest singular value must be above a tolerance at least."""

_BOTH = -2, -1


def full_rank_factors(x: Tensor, atol: float, rtol: float) -> tuple[Tensor, ...] | None:
    """Return matrices whose product is the pseudo-inverse, one or two.

    Or None, where a singular value may be within the tolerances, or the kernels do not
    factorise such matrices, or find the singular values themselves. A flag is read,
    which waits for the device.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    atol, rtol : float
        Absolute tolerance of singular values, and that relative to the largest.
    """
    rows, columns = x.layout.shape[-2:]
    if reads_are_refused() or not triangular.by_kernel(x):
        return None
    if is_small(x) or svd_by_kernel(x):
        return None
    if rows == columns and triangular.lu_by_kernel(x):
        found = triangular.lu(x)
        square, inverse = x, lu_inverse(found.compact, found.order)
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
    return None if is_any(near) else factors


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
