"""Circular and hyperbolic functions and their inverses, element by element.

On a device they are computed in float32 by `glsl/lib/math/`, to 4 ulp for arguments of
any size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, float32, promote
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import elementwise
from .cast import at_least, converted
from .compare import eq, where
from .complex_numbers import conj_physical
from .unary import rsqrt, square

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(
    glsl="precise_sin(x)",
    reference=np.sin,
    dtypes=FLOAT,
    fractional=True,
)
def sin(x: Tensor) -> Tensor:
    """Return the sine of each element, in radians; of an infinity NaN."""


sin.complexes(glsl="complex_sin(x)")


@sin.vjp
def sin_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * cos(x)


@elementwise(
    glsl="precise_cos(x)",
    reference=np.cos,
    dtypes=FLOAT,
    fractional=True,
)
def cos(x: Tensor) -> Tensor:
    """Return the cosine of each element, in radians; of an infinity NaN."""


cos.complexes(glsl="complex_cos(x)")


@cos.vjp
def cos_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return -grad * sin(x)


@autocast_float32_on_device
@elementwise(
    glsl="precise_tan(x)",
    reference=np.tan,
    dtypes=FLOAT,
    fractional=True,
)
def tan(x: Tensor) -> Tensor:
    """Return the tangent of each element, in radians; of an infinity NaN."""


tan.complexes(glsl="complex_tan(x)")


@tan.vjp
def tan_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (square(out) + 1.0)


@autocast_float32_on_device
@elementwise(
    glsl="precise_asin(x)",
    reference=np.arcsin,
    dtypes=FLOAT,
    fractional=True,
)
def asin(x: Tensor) -> Tensor:
    """Return the angle, from -pi/2 to pi/2, of a sine; NaN beyond -1 and 1."""


asin.complexes(glsl="complex_asin(x)")


@asin.vjp
def asin_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * rsqrt(1.0 - square(x))


@autocast_float32_on_device
@elementwise(
    glsl="precise_acos(x)",
    reference=np.arccos,
    dtypes=FLOAT,
    fractional=True,
)
def acos(x: Tensor) -> Tensor:
    """Return the angle, from 0 to pi, of a cosine; NaN beyond -1 and 1."""


acos.complexes(glsl="complex_acos(x)")


@acos.vjp
def acos_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return -grad * rsqrt(1.0 - square(x))


@elementwise(
    glsl="precise_atan(x)",
    reference=np.arctan,
    dtypes=FLOAT,
    fractional=True,
)
def atan(x: Tensor) -> Tensor:
    """Return the angle, from -pi/2 to pi/2, of a tangent."""


atan.complexes(glsl="complex_atan(x)")


@atan.vjp
def atan_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / (square(x) + 1.0)


@autocast_float32_on_device
@elementwise(
    glsl="precise_sinh(x)",
    reference=np.sinh,
    dtypes=FLOAT,
    fractional=True,
)
def sinh(x: Tensor) -> Tensor:
    """Return the hyperbolic sine of each element."""


sinh.complexes(glsl="complex_sinh(x)")


@sinh.vjp
def sinh_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * cosh(x)


@autocast_float32_on_device
@elementwise(
    glsl="precise_cosh(x)",
    reference=np.cosh,
    dtypes=FLOAT,
    fractional=True,
)
def cosh(x: Tensor) -> Tensor:
    """Return the hyperbolic cosine of each element."""


cosh.complexes(glsl="complex_cosh(x)")


@cosh.vjp
def cosh_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * sinh(x)


@elementwise(
    glsl="precise_tanh(x)",
    reference=np.tanh,
    dtypes=FLOAT,
    fractional=True,
)
def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of each element."""


tanh.complexes(glsl="complex_tanh(x)")


@tanh.vjp
def tanh_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (1.0 - out * out)


@elementwise(
    glsl="precise_asinh(x)",
    reference=np.arcsinh,
    dtypes=FLOAT,
    fractional=True,
)
def asinh(x: Tensor) -> Tensor:
    """Return the inverse of the hyperbolic sine."""


asinh.complexes(glsl="complex_asinh(x)")


@asinh.vjp
def asinh_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * rsqrt(square(x) + 1.0)


@elementwise(
    glsl="precise_acosh(x)",
    reference=np.arccosh,
    dtypes=FLOAT,
    fractional=True,
)
def acosh(x: Tensor) -> Tensor:
    """Return the inverse of the hyperbolic cosine; NaN below 1."""


@acosh.vjp
def acosh_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * rsqrt(square(x) - 1.0)


@acosh.complexes(glsl="complex_acosh(x)")
def acosh_complex_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * conj_physical(rsqrt(x - 1.0) * rsqrt(x + 1.0))


@elementwise(
    glsl="precise_atanh(x)",
    reference=np.arctanh,
    dtypes=FLOAT,
    fractional=True,
)
def atanh(x: Tensor) -> Tensor:
    """Return the inverse of the hyperbolic tangent; NaN beyond -1 and 1."""


atanh.complexes(glsl="complex_atanh(x)")


@atanh.vjp
def atanh_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / (1.0 - square(x))


@elementwise(
    glsl="precise_atan2(y, x)",
    reference=np.arctan2,
    dtypes=FLOAT,
    fractional=True,
)
def atan2(y: Tensor | float, x: Tensor | float) -> Tensor:
    """Return the angle, from -pi to pi, of the point with coordinates `x` and `y`.

    Parameters
    ----------
    y, x : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote; integers are taken as float32.

    Returns
    -------
    Tensor
        Signs of zeros count: atan2(0, -1) is pi, atan2(-0.0, -1) is -pi. The gradient
        at (0, 0) is 0.
    """


atan2.only_tensors("y", "x")


@atan2.vjp
def atan2_vjp(
    grad: Tensor, y: Tensor, x: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    # Squares of integers may wrap, those of 2-byte floats vanish.
    kind, wide = grad.dtype, promote(grad.dtype, float32)
    grad, y, x = (at_least(each, wide) for each in (grad, y, x))
    squares = x * x + y * y
    # At the origin, where there is no slope, the gradient is 0 as in PyTorch.
    scaled = grad / where(squares == 0.0, 1.0, squares)
    return (
        converted(scaled * x, kind) if needs[0] else None,
        converted(-scaled * y, kind) if needs[1] else None,
    )


@elementwise(
    glsl="precise_hypot(x, y)",
    reference=np.hypot,
    dtypes=FLOAT,
)
def hypot(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return sqrt(x * x + y * y) without overflow.

    Parameters
    ----------
    x, y : Tensor, float
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor
        Infinite if either number is, also with NaN.
    """


hypot.only_tensors("x", "y")


@hypot.vjp
def hypot_vjp(
    grad: Tensor, x: Tensor, y: Tensor, out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    scaled = grad / out
    return scaled * x if needs[0] else None, scaled * y if needs[1] else None


def _host_quotient(x: np.ndarray) -> np.ndarray:
    """Return sin(x) / x, and 1 at 0."""
    with np.errstate(all="ignore"):
        return np.where(x == 0, 1, np.sin(x) / x).astype(x.dtype)


def _host_slope(x: np.ndarray) -> np.ndarray:
    """Return the derivative of `_host_quotient`, near 0 by its series."""
    with np.errstate(all="ignore"):
        square = np.where(np.abs(x) < 1.5, x * x, 0).astype(x.dtype)
        far = (np.cos(x) - np.sin(x) / x) / x
        near = x * np.polynomial.polynomial.polyval(square, _SLOPES)
        return np.where(np.abs(x) < 1.5, near, far).astype(x.dtype)


_SLOPES = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 13)]
"""Coefficients of the derivative of sin(x) / x, over x, in the square of x."""


@elementwise(glsl="sine_quotient(x)", reference=_host_quotient, dtypes=FLOAT)
def sine_quotient(x: Tensor) -> Tensor:
    """Return sin(x) / x, and 1 at 0."""


@sine_quotient.vjp
def sine_quotient_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * _sine_quotient_slope(x)


def _host_sinc(x: np.ndarray) -> np.ndarray:
    """Return sin(pi x) / (pi x); NumPy's multiplies by pi before it reduces."""
    wide = x.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        rest = wide - 2 * np.round(0.5 * wide)
        folded = np.where(np.abs(rest) > 0.5, np.copysign(1, rest) - rest, rest)
        found = np.sin(np.pi * folded) / (np.pi * wide)
        return np.where(wide == 0, 1, found).astype(x.dtype)


@elementwise(glsl="normalized_sinc(x)", reference=_host_sinc, dtypes=FLOAT)
def normalized_sinc(x: Tensor) -> Tensor:
    """Return sin(pi x) / (pi x), and 1 at 0."""


@normalized_sinc.vjp
def normalized_sinc_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (_sine_quotient_slope(x * math.pi) * math.pi)


@elementwise(glsl="sine_quotient_slope(x)", reference=_host_slope, dtypes=FLOAT)
def _sine_quotient_slope(x: Tensor) -> Tensor:
    """Return the derivative of `sine_quotient`."""


@_sine_quotient_slope.vjp
def _sine_quotient_slope_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    zero = eq(x, 0.0)
    twice = where(zero, -2 / 3, out * 2.0 / where(zero, 1.0, x))
    return grad * -(sine_quotient(x) + twice)
