"""The error function, its complements and its inverse, element by element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise
from .exponential import exp
from .unary import square

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

SLOPE = 2 / math.sqrt(math.pi)
"""Derivative of erf at 0."""

_ERF = np.frompyfunc(math.erf, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def host_erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, which NumPy does not have."""
    return np.asarray(_ERF(x)).astype(x.dtype)


def host_erfc(x: np.ndarray) -> np.ndarray:
    """Return its complement."""
    return np.asarray(_ERFC(x)).astype(x.dtype)


@elementwise(
    glsl="precise_erf(x)",
    reference=host_erf,
    dtypes=FLOAT,
    fractional=True,
)
def erf(x: Tensor) -> Tensor:
    """Return the error function, 2 / sqrt(pi) times the integral of exp(-t * t)."""


@erf.vjp
def erf_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (exp(-square(x)) * SLOPE)


@elementwise(
    glsl="precise_erfc(x)",
    reference=host_erfc,
    dtypes=FLOAT,
    fractional=True,
)
def erfc(x: Tensor) -> Tensor:
    """Return 1 - erf(x), accurate for large elements too."""


@erfc.vjp
def erfc_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (exp(-square(x)) * -SLOPE)


def _host_quantile(size: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return the inverse of `host_erf` at `size`, which is 1 - `rest`, of float64.

    By Halley's method from Winitzki's approximation.
    """
    with np.errstate(all="ignore"):
        logarithm = np.log(rest) + np.log1p(size)
        logarithm = np.where(size < 0.5, np.log1p(-size * size), logarithm)
        half_way = 2 / (np.pi * 0.147) + logarithm / 2
        y = np.sqrt(np.sqrt(half_way**2 - logarithm / 0.147) - half_way)
        for _ in range(3):
            off = np.where(size < 0.5, host_erf(y) - size, rest - host_erfc(y))
            newton = off / SLOPE * np.exp(y * y)
            y = y - newton / (1 + y * newton)
        return np.where(rest == 0, np.inf, np.where(rest > 0, y, np.nan))


def host_erfinv(x: np.ndarray) -> np.ndarray:
    """Return the inverse of `host_erf`."""
    size = np.abs(np.asarray(x, np.float64))
    return np.copysign(_host_quantile(size, 1 - size), x).astype(x.dtype)


def host_ndtri(x: np.ndarray) -> np.ndarray:
    """Return quantiles of the normal distribution."""
    wide = np.asarray(x, np.float64)
    rest = 2 * np.minimum(wide, 1 - wide)
    value = math.sqrt(2) * _host_quantile(1 - rest, rest)
    return np.copysign(value, wide - 0.5).astype(x.dtype)


@elementwise(
    glsl="precise_erfinv(x)",
    reference=host_erfinv,
    dtypes=FLOAT,
    fractional=True,
)
def erfinv(x: Tensor) -> Tensor:
    """Return the inverse of the error function; infinite at 1, NaN beyond.

    Notes
    -----
    Source: Giles, Approximating the erfinv function, 2011, for the variable in which a
    kernel's polynomials are; and Winitzki, A Handy Approximation for the Error Function
    and Its Inverse, 2008, for where the host begins.
    """


@erfinv.vjp
def erfinv_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (exp(square(out)) / SLOPE)


@elementwise(
    glsl="normal_quantile(x)",
    reference=host_ndtri,
    dtypes=FLOAT,
)
def ndtri(x: Tensor) -> Tensor:
    """Return the number below which a normal number is with probability `x`."""


@ndtri.vjp
def ndtri_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (exp(square(out) * 0.5) * math.sqrt(2 * math.pi))


def host_erfcx(x: np.ndarray) -> np.ndarray:
    """Return exp(x^2) times the complement, by Lentz's fraction for large elements."""
    with np.errstate(all="ignore"):
        wide = np.asarray(x, np.float64)
        far = np.where(wide > 5, wide, 5.0)
        fraction = far
        for k in range(60, 0, -1):
            fraction = far + k / 2 / fraction
        near = np.where(wide > 5, 0.0, wide)
        result = np.where(
            wide > 5,
            1 / (np.sqrt(np.pi) * fraction),
            np.exp(near * near) * host_erfc(near),
        )
        return np.where(np.isnan(wide), np.nan, result).astype(x.dtype)


@elementwise(
    glsl="precise_erfcx(x)",
    reference=host_erfcx,
    dtypes=FLOAT,
    fractional=True,
)
def erfcx(x: Tensor) -> Tensor:
    """Return exp(x^2) erfc(x), which is in range where erfc is not."""


@erfcx.vjp
def erfcx_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (x * out * 2.0 - SLOPE)


def host_log_ndtr(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of the share of a normal distribution below `x`."""
    with np.errstate(all="ignore"):
        wide = np.asarray(x, np.float64)
        tail = np.where(wide < -1, wide, -1.0) * -math.sqrt(0.5)
        left = np.log(host_erfcx(tail) / 2) - wide * wide / 2
        near = np.where(wide < -1, -1.0, wide) * math.sqrt(0.5)
        right = np.log1p(host_erfc(near) / -2)
        return np.where(wide < -1, left, right).astype(x.dtype)


@elementwise(
    glsl="log_normal_share(x)",
    reference=host_log_ndtr,
    dtypes=FLOAT,
)
def log_ndtr(x: Tensor) -> Tensor:
    """Return the logarithm of the probability that a normal number is at most `x`."""


@log_ndtr.vjp
def log_ndtr_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (math.sqrt(2 / math.pi) / erfcx(x * -math.sqrt(0.5)))
