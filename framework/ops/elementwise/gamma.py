"""Gamma function, element by element: its logarithm, derivatives, incomplete integrals.

On a device they are computed in float32 by `glsl/lib/math/gamma.glsl`, in float64 by
`glsl/lib/double/gamma.glsl`; the references compute in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import FLOAT
from ...base.errors import GradError, ShapeError
from ...base.validation import as_int
from ...dispatch.declare import elementwise
from .exponential import exp, log
from .unary import flat

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

_LGAMMA = np.frompyfunc(lambda x: math.lgamma(x) if x > 0 or x % 1 else math.inf, 1, 1)


def host_lgamma(x: np.ndarray) -> np.ndarray:
    """Return log |gamma(x)|, which NumPy does not have."""
    return np.asarray(_LGAMMA(x.astype(np.float64))).astype(x.dtype)


@elementwise(
    glsl="precise_lgamma(x)",
    reference=host_lgamma,
    dtypes=FLOAT,
    fractional=True,
)
def lgamma(x: Tensor) -> Tensor:
    """Return the logarithm of the absolute value of the gamma function.

    Infinite at 0 and at negative whole numbers.
    """


@lgamma.vjp
def lgamma_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * digamma(x)


def host_digamma(x: np.ndarray) -> np.ndarray:
    """Return the derivative of `host_lgamma`."""
    with np.errstate(all="ignore"):
        whole = np.asarray(x, np.float64)
        reflected = whole < 0
        near = whole - np.round(whole)
        result = np.where(reflected, -np.pi / np.tan(np.pi * near), 0.0)
        y = np.where(reflected, 1.0 - whole, whole)
        for _ in range(10):
            step = y < 10
            result -= np.where(step, 1 / y, 0.0)
            y = np.where(step, y + 1, y)
        square = 1 / (y * y)
        tail = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
        result += (
            np.log(y)
            - 0.5 / y
            - square * np.polynomial.polynomial.polyval(square, tail)
        )
        result = np.where(reflected & (near == 0), np.nan, result)
        result = np.where(whole == 0, np.copysign(np.inf, -whole), result)
    return result.astype(x.dtype)


@elementwise(
    glsl="precise_digamma(x)",
    reference=host_digamma,
    dtypes=FLOAT,
    fractional=True,
)
def digamma(x: Tensor) -> Tensor:
    """Return the derivative of `lgamma`.

    NaN at negative whole numbers; at 0 infinite, with the other sign than the zero's.
    """


@digamma.vjp
def digamma_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * trigamma(x)


def _host_trigamma(x: np.ndarray) -> np.ndarray:
    """Return the second derivative of `lgamma`: by recurrence and Stirling's series."""
    with np.errstate(all="ignore"):
        wide = np.asarray(x, np.float64)
        reflected = wide < 0
        y, total = np.where(reflected, 1 - wide, wide), np.zeros(wide.shape)
        for _ in range(10):
            step = y < 10
            total += np.where(step, 1 / (y * y), 0.0)
            y = np.where(step, y + 1, y)
        square = 1 / (y * y)
        tail = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
        series = np.polynomial.polynomial.polyval(square, tail)
        total += 1 / y + square * (0.5 + series / y)
        sine = np.sin(np.pi * (wide - np.round(wide)))
        total = np.where(reflected, (np.pi / sine) ** 2 - total, total)
    return total.astype(x.dtype)


@elementwise(
    glsl="precise_trigamma(x)",
    reference=_host_trigamma,
    dtypes=FLOAT,
    fractional=True,
)
def trigamma(x: Tensor) -> Tensor:
    """Return the second derivative of `lgamma`; infinite at 0 and negative integers."""


@trigamma.vjp
def trigamma_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * polygamma(2, x)


_SHARES = tuple(
    bernoulli / math.factorial(2 * k)
    for k, bernoulli in enumerate(
        (
            1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
            43867 / 798, -174611 / 330, 854513 / 138,
        ),
        1,
    )
)  # fmt: skip
"""Bernoulli's numbers, of even places, over factorials."""


def host_zeta(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Hurwitz's zeta function by Euler and Maclaurin's formula."""
    with np.errstate(all="ignore"):
        s, q = np.broadcast_arrays(
            np.asarray(x, np.float64), np.asarray(other, np.float64)
        )
        whole, start = np.floor(s) == s, q
        y, total = q.copy(), np.zeros(s.shape)
        is_whole = np.zeros(s.shape, bool)
        while (step := (y < s + 7) & (y > -4096.0) & ~is_whole).any():
            term = np.where(step, y**-s, 0.0)
            total += term
            y = np.where(step, y + 1, y)
            # The rest is less than its integral.
            is_whole |= step & (y > 1) & (term * y <= 2.0**-54 * (s - 1) * total)
        term, rest = y**-s, 0.0
        for k, share in reversed([*enumerate(_SHARES)]):
            rest = share + rest * ((s + 2 * k + 1) / y) * ((s + 2 * k + 2) / y)
        tail = y * term / (s - 1) + term * (0.5 + s / y * rest)
        total = np.where(is_whole, total, total + tail)
        poles = (start <= 0) & (np.floor(start) == start)
        total = np.where((start < 0) & ~whole, np.nan, total)
        total = np.where(poles, np.inf, total)
        total = np.where(s == 1, np.inf, np.where(s > 1, total, np.nan))
    return total.astype(x.dtype)


@elementwise(
    glsl="hurwitz_zeta(x, other)",
    reference=host_zeta,
    dtypes=FLOAT,
    fractional=True,
)
def zeta(x: Tensor, other: Tensor) -> Tensor:
    """Return Hurwitz's zeta function, the sum of (other + k)^-x over k from 0 on.

    Parameters
    ----------
    x, other : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor
        NaN for `x` below 1, infinite at 1 and where a term is.
    """


@zeta.vjp
def zeta_vjp(
    grad: Tensor, x: Tensor, other: Tensor, needs: tuple[bool, bool]
) -> tuple[None, Tensor | None]:
    if needs[0]:
        raise GradError("zeta: there is no gradient by x; detach it")
    return None, grad * -x * zeta(x + 1, other) if needs[1] else None


@shown_as("PolygammaBackward0", "x")
def polygamma(n: int, x: Tensor) -> Tensor:
    """Return the derivative of order `n` of `digamma`.

    Parameters
    ----------
    n : int
        At least 0.
    x : Tensor, float

    Returns
    -------
    Tensor, shape of `x`

    Raises
    ------
    ShapeError
        If `n` is below 0.
    """
    n = as_int("polygamma: n", n)
    if n < 0:
        raise ShapeError(f"polygamma: n is {n}; it must be at least 0")
    if n == 0:
        return digamma(x)
    if n == 1:
        return trigamma(x)
    sign = 1.0 if n % 2 else -1.0
    order: Tensor = flat(x * 1.0) + (n + 1.0)
    return zeta(order, x) * (sign * math.factorial(n))


# From here on the incomplete integrals are those of a bell curve, nearly.
_LARGE_ORDER = 100.0


def _host_incomplete(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper incomplete gamma functions over gamma(a)."""
    with np.errstate(all="ignore"):
        a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
        inner = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        large, is_below = inner & (a > _LARGE_ORDER), x < a + 1
        # The smaller of both, or nearly: the lower one where `is_below`.
        part = np.zeros(a.shape)
        for chosen, compute in (
            (inner & ~large & is_below, _lower_by_series),
            (inner & ~large & ~is_below, _upper_by_fraction),
            (large, _tail_by_quadrature),
        ):
            part[chosen] = compute(a[chosen], x[chosen])
        lower = np.where(is_below, part, 1 - part)
        small = inner & (a < 0.5) & (x < 1.5)
        lower = np.where((x == 0) | np.isinf(a), 0.0, lower)
        lower = np.where(np.isinf(x) | (a == 0), 1.0, lower)
        upper = np.where(inner & ~is_below, part, 1 - lower)
        upper[small] = _upper_by_series(a[small], x[small])
        undefined = (x == 0) & (a == 0) | np.isinf(x) & np.isinf(a)
        undefined |= ~((a >= 0) & (x >= 0))
        return np.where(undefined, np.nan, lower), np.where(undefined, np.nan, upper)


def _incomplete_density(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return x^a exp(-x) / gamma(a + 1)."""
    return np.exp(a * np.log(x) - x - host_lgamma(a + 1))


def _lower_by_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the lower function for x below a + 1."""
    term, total, order = np.ones(a.shape), np.ones(a.shape), a
    while (term > total * 1e-17).any():
        order = order + 1
        term = term * (x / order)
        total = total + term
    return total * _incomplete_density(a, x)


def _upper_by_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the upper function for a below 1/2 and x below 3/2, also where it is tiny.

    Source: NIST, Digital Library of Mathematical Functions, 8.7.3.
    """
    # The logarithm of gamma(1 + a), DLMF 5.7.3
    series = -1.2020569031595942 / 3 + a * (np.pi**4 / 360)
    series = a * (-np.euler_gamma + a * (np.pi**2 / 12 + a * series))
    logarithm = np.where(a < 1e-3, series, host_lgamma(a + 1))
    term, total = np.ones(a.shape), np.zeros(a.shape)
    for n in range(1, 30):
        term = term * (-x / n)
        total = total + term / (a + n)
    exponent = a * np.log(x) - logarithm
    return -np.expm1(exponent) - a * np.exp(exponent) * total


def _upper_by_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the upper function for x from a + 1 on, by Lentz's continued fraction."""
    b, c, change = x + 1 - a, np.full(a.shape, 1e300), np.full(a.shape, np.inf)
    d = fraction = 1 / b
    k = 0
    while (np.abs(change - 1) > 4e-16).any() and k < 1000:
        k += 1
        factor = -k * (k - a)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        change = c * d
        fraction = fraction * change
    return fraction * a * _incomplete_density(a, x)


def _tail_by_quadrature(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the lower function for x below a + 1, else the upper one, of large a.

    The integrand is integrated from x on until it is e^-40 of that at x, by the
    rule of Gauss and Legendre; it is even closer to 0 behind.
    Source: Press and others, Numerical Recipes, 2007, section 6.2.
    """
    top, is_below = a - 1, x < a + 1
    width, away = np.sqrt(top), np.abs(x - top)
    # A bell curve's; above the top the integrand falls more slowly.
    reach = 80 * top / (away + np.sqrt(away * away + 80 * top))
    end = np.where(is_below, np.maximum(x - reach, 0.0), x + 1.5 * reach)
    total = np.zeros(a.shape)
    for node, weight in zip(*np.polynomial.legendre.leggauss(64), strict=True):
        apart = (x + (end - x) * (0.5 + 0.5 * node) - top) / top
        total += weight * np.exp(top * (np.log1p(apart) - apart))
    # Stirling's series of gamma(a)
    inverse = 1 / top
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 / 1260))
    return total * np.abs(end - x) / 2 / (width * np.sqrt(2 * np.pi)) * np.exp(-series)


@elementwise(
    glsl="precise_igamma(x, other)",
    reference=lambda x, other: _host_incomplete(x, other)[0].astype(x.dtype),
    dtypes=FLOAT,
)
def igamma(x: Tensor, other: Tensor) -> Tensor:
    """Return the regularised lower incomplete gamma function.

    The integral of t^(x - 1) exp(-t) from 0 to `other`, over gamma(x).

    Parameters
    ----------
    x, other : Tensor, float
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        NaN where an argument is negative, or both are 0. No gradient by `x`.
    """


igamma.only_tensors("x", "other")


@igamma.vjp
def igamma_vjp(
    grad: Tensor, x: Tensor, other: Tensor, needs: tuple[bool, bool]
) -> tuple[None, Tensor | None]:
    if needs[0]:
        raise GradError("igamma: there is no gradient by x; detach it")
    return None, grad * _density(x, other) if needs[1] else None


def _density(x: Tensor, other: Tensor) -> Tensor:
    return exp((x - 1) * log(other) - other - lgamma(x))


@elementwise(
    glsl="precise_igammac(x, other)",
    reference=lambda x, other: _host_incomplete(x, other)[1].astype(x.dtype),
    dtypes=FLOAT,
)
def igammac(x: Tensor, other: Tensor) -> Tensor:
    """Return the regularised upper incomplete gamma function, 1 - igamma(x, other).

    It is accurate where that is small.

    Parameters
    ----------
    x, other : Tensor, float
        As in `igamma`.
    """


igammac.only_tensors("x", "other")


@igammac.vjp
def igammac_vjp(
    grad: Tensor, x: Tensor, other: Tensor, needs: tuple[bool, bool]
) -> tuple[None, Tensor | None]:
    if needs[0]:
        raise GradError("igammac: there is no gradient by x; detach it")
    return None, grad * -_density(x, other) if needs[1] else None
