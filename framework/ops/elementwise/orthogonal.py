"""Orthogonal polynomials by their recurrences, element by element.

On a device they are computed in float32 by `glsl/lib/math/orthogonal.glsl`; the
reference computes in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

FAMILIES = (
    *("t", "u", "v", "w", "h", "he", "laguerre", "legendre"),
    *(f"shifted {kind}" for kind in "tuvw"),
)
"""In the order of the shader's numbers."""

MOST_DEGREE = 10_000
"""Largest degree of a polynomial: each takes another step of the recurrence."""


def _next(
    kind: str, x: np.ndarray, last: np.ndarray, before: np.ndarray, k: int
) -> np.ndarray:
    """Return the polynomial of degree k + 1 from the two before."""
    if kind == "h":
        return 2 * x * last - 2 * k * before
    if kind == "he":
        return x * last - k * before
    if kind == "laguerre":
        return ((2 * k + 1 - x) * last - k * before) / (k + 1)
    if kind == "legendre":
        return ((2 * k + 1) * x * last - k * before) / (k + 1)
    return 2 * x * last - before


def host_polynomial(x: np.ndarray, n: np.ndarray, family: float) -> np.ndarray:
    """Return orthogonal polynomials, computed in float64."""
    *shifted, kind = FAMILIES[int(family)].split()
    argument, degree = np.broadcast_arrays(np.asarray(x, np.float64), np.trunc(n))
    z = 2 * argument - 1 if shifted else argument
    firsts = {"u": 2 * z, "h": 2 * z, "v": 2 * z - 1, "w": 2 * z + 1, "laguerre": 1 - z}
    before, last = np.ones(z.shape), firsts.get(kind, z)
    result = np.where(degree == 0, before, np.where(degree < 0, 0.0, last))
    result = np.where(degree <= MOST_DEGREE, result, np.nan)
    most = int(np.max(degree, initial=0, where=degree <= MOST_DEGREE))
    with np.errstate(all="ignore"):
        for k in range(1, most):
            before, last = last, _next(kind, z, last, before, k)
            result = np.where(degree == k + 1, last, result)
    return result.astype(x.dtype)


@elementwise(
    glsl="orthogonal_polynomial(x, n, family)",
    reference=host_polynomial,
    dtypes=FLOAT,
    fractional=True,
)
def orthogonal_polynomial(x: Tensor, n: Tensor | float, family: float) -> Tensor:
    """Return orthogonal polynomials of degree `n` of one of `FAMILIES`, by its number.

    A fraction of a degree is cut off. Below 0 the result is 0, above `MOST_DEGREE` and
    of NaN it is NaN. There is no gradient.
    """
