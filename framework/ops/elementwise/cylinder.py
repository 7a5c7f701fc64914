"""Bessel functions J, Y and K of orders 0 and 1, and Airy's, element by element.

On a device they are polynomials, of float32 in `glsl/lib/math/cylinder.glsl` and of
float64 in `glsl/lib/double/cylinder.glsl`. The references compute in float64, by series
near 0 and by an integral beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import float32, float64
from ...dispatch.declare import elementwise
from .bessel import over

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

SPACING, NODES = 0.2, 31
"""Of the trapezoidal rule, whose error is below 2^-53 with them."""


def _series(x: np.ndarray, order: int, direction: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of first and second kind over x^2 / 4."""
    q, term = direction * x * x / 4, np.ones(np.shape(x))
    logarithm = np.log(x / 2) + np.euler_gamma
    harmonic = 0.5 * order
    first, second = term, logarithm - harmonic
    for k in range(1, 26):
        term = term * (q / (k * (k + order)))
        harmonic += 0.5 * (1 / k + 1 / (k + 1)) if order else 1 / k
        first = first + term
        second = second + term * (logarithm - harmonic)
    return first, second


def _integral(z: np.ndarray, order: float) -> np.ndarray:
    """Return exp(z) sqrt(z / 2) K(z) for z far from 0, as the integral over s."""
    total = np.full(np.shape(z), 0.5, np.result_type(z))
    for k in range(1, NODES + 1):
        square = (SPACING * k) ** 2
        w = np.sqrt(square / (2 * z))
        top = np.cosh(2 * order * np.arcsinh(w)) if order else 1.0
        total += np.exp(-square) * top / np.sqrt(1 + w * w)
    return SPACING * total


def _oscillating(x: np.ndarray, order: int) -> np.ndarray:
    """Return J + i Y for x of at least 3."""
    sine, cosine = np.sin(x), np.cos(x)
    phase = (cosine + sine) + 1j * (sine - cosine)
    turned = phase * (-1j if order else 1) * _integral(-1j * x, order)
    found: np.ndarray = turned * (2 / np.pi) / np.sqrt(x)
    return found


def _host_j(x: np.ndarray, order: int) -> np.ndarray:
    size = np.abs(x)
    near, far = np.clip(size, 1e-300, 3), np.maximum(size, 3)
    first = _series(near, order, -1)[0]
    if order:
        inner, outer = first * x / 2, np.copysign(1, x) * _oscillating(far, 1).real
    else:
        inner, outer = first, _oscillating(far, 0).real
    return np.where(size < 3, inner, outer)


def _host_y(x: np.ndarray, order: int) -> np.ndarray:
    near, far = np.clip(x, 0, 3), np.maximum(x, 3)
    second = _series(near, order, -1)[1]
    inner = 2 / np.pi * (near * second / 2 - 1 / near if order else second)
    found = np.where(x < 3, inner, _oscillating(far, order).imag)
    return np.where(x == 0, -np.inf, np.where(x > 0, found, np.nan))


def _host_k(x: np.ndarray, order: int, scaled: bool) -> np.ndarray:
    near, far = np.clip(x, 0, 1.5), np.maximum(x, 1.5)
    second = _series(near, order, 1)[1]
    inner = 1 / near + near * second / 2 if order else -second
    outer = np.sqrt(2 / far) * _integral(far, order)
    factor = np.exp(near) if scaled else 1.0, 1.0 if scaled else np.exp(-far)
    found = np.where(x < 1.5, inner * factor[0], outer * factor[1])
    return np.where(x == 0, np.inf, np.where(x > 0, found, np.nan))


def _host_airy(x: np.ndarray) -> np.ndarray:
    size = np.maximum(np.abs(x), 1.3)
    zeta, scale = 2 / 3 * size * np.sqrt(size), size**-0.25 / np.pi
    above = scale * np.exp(-zeta) * _integral(zeta, 1 / 3)
    turn = np.exp(1j * (np.pi / 4 - zeta))
    below = 2 * scale * (turn * _integral(1j * zeta, 1 / 3)).real
    near = np.clip(x, -2.3, 1.3)
    even, odd = np.full(np.shape(x), 0.35502805388781724), -0.25881940379280680 * near
    total = even + odd
    for m in range(0, 45, 3):
        even = even * near**3 / ((m + 2) * (m + 3))
        odd = odd * near**3 / ((m + 3) * (m + 4))
        total = total + even + odd
    found = np.where(x <= -2.3, below, np.where(x < 1.3, total, above))
    return np.where(np.isfinite(x), found, np.nan)


def _reference(
    function: Callable[..., np.ndarray], *arguments: object
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that computes in float64, whatever it is given."""

    def reference(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = function(np.asarray(x, np.float64), *arguments)
        return found.astype(x.dtype)

    return reference


@elementwise(
    glsl="precise_bessel_j0(x)",
    reference=_reference(_host_j, 0),
    dtypes=(float32, float64),
    fractional=True,
)
def bessel_j0(x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind of order 0."""


@bessel_j0.vjp
def bessel_j0_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return -grad * bessel_j1(x)


@elementwise(
    glsl="precise_bessel_j1(x)",
    reference=_reference(_host_j, 1),
    dtypes=(float32, float64),
    fractional=True,
)
def bessel_j1(x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind of order 1."""


@bessel_j1.vjp
def bessel_j1_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (bessel_j0(x) - over(out, x))


@elementwise(
    glsl="precise_bessel_y0(x)",
    reference=_reference(_host_y, 0),
    dtypes=(float32, float64),
    fractional=True,
)
def bessel_y0(x: Tensor) -> Tensor:
    """Return the Bessel function of the second kind of order 0; NaN below 0."""


@bessel_y0.vjp
def bessel_y0_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return -grad * bessel_y1(x)


@elementwise(
    glsl="precise_bessel_y1(x)",
    reference=_reference(_host_y, 1),
    dtypes=(float32, float64),
    fractional=True,
)
def bessel_y1(x: Tensor) -> Tensor:
    """Return the Bessel function of the second kind of order 1; NaN below 0."""


@bessel_y1.vjp
def bessel_y1_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (bessel_y0(x) - out / x)


@elementwise(
    glsl="precise_k0(x)",
    reference=_reference(_host_k, 0, False),
    dtypes=(float32, float64),
    fractional=True,
)
def modified_bessel_k0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0.

    Infinite at 0, NaN below.
    """


@modified_bessel_k0.vjp
def modified_bessel_k0_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return -grad * modified_bessel_k1(x)


@elementwise(
    glsl="precise_k1(x)",
    reference=_reference(_host_k, 1, False),
    dtypes=(float32, float64),
    fractional=True,
)
def modified_bessel_k1(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind of order 1.

    Infinite at 0, NaN below.
    """


@modified_bessel_k1.vjp
def modified_bessel_k1_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return -grad * (modified_bessel_k0(x) + out / x)


@elementwise(
    glsl="precise_k0e(x)",
    reference=_reference(_host_k, 0, True),
    dtypes=(float32, float64),
    fractional=True,
)
def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    """Return exp(x) times `modified_bessel_k0`, also where that is 0."""


@scaled_modified_bessel_k0.vjp
def scaled_modified_bessel_k0_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (out - scaled_modified_bessel_k1(x))


@elementwise(
    glsl="precise_k1e(x)",
    reference=_reference(_host_k, 1, True),
    dtypes=(float32, float64),
    fractional=True,
)
def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    """Return exp(x) times `modified_bessel_k1`, also where that is 0."""


@scaled_modified_bessel_k1.vjp
def scaled_modified_bessel_k1_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (out - scaled_modified_bessel_k0(x) - out / x)


@elementwise(
    glsl="precise_airy(x)",
    reference=_reference(_host_airy),
    dtypes=(float32, float64),
    fractional=True,
)
def airy_ai(x: Tensor) -> Tensor:
    """Return Airy's function Ai; NaN where `x` is infinite. It has no gradient."""
