"""Exponentials, logarithms, powers and the logistic function, element by element.

On a device they are computed in float32 by `glsl/lib/math/exponential.glsl`, to 2 ulp,
and of float64 by `glsl/lib/double/exponential.glsl`, to 4.
"""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import FLOAT, INTEGER
from ...base.errors import DomainError, DTypeError
from ...base.shape import broadcast_shapes
from ...dispatch.autocast_policy import (
    autocast_float32_on_device,
    autocast_passthrough,
)
from ...dispatch.declare import elementwise
from ...eager.base_tensor import TensorCore
from .binary import mul
from .cast import at_least, cast, converted, result_type
from .compare import eq, logical_and, where
from .complex_numbers import conj_physical, real_of
from .unary import flat

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@autocast_float32_on_device
@elementwise(
    glsl="precise_exp(x)",
    reference=np.exp,
    dtypes=FLOAT,
    fractional=True,
)
def exp(x: Tensor) -> Tensor:
    """Return *e* raised to each element."""


exp.complexes(glsl="complex_exp(x)")


@exp.vjp
def exp_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * out


@elementwise(
    glsl="precise_exp2(x)",
    reference=np.exp2,
    dtypes=FLOAT,
    fractional=True,
)
def exp2(x: Tensor) -> Tensor:
    """Return 2 raised to each element."""


exp2.complexes(glsl="complex_exp(0.693147180559945 * x)")


@exp2.vjp
def exp2_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * out * math.log(2)


@autocast_float32_on_device
@elementwise(
    glsl="precise_expm1(x)",
    reference=np.expm1,
    dtypes=FLOAT,
    fractional=True,
)
def expm1(x: Tensor) -> Tensor:
    """Return exp(x) - 1, accurate for small elements too."""


expm1.complexes(glsl="complex_expm1(x)")


@expm1.vjp
def expm1_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (out + 1.0)


@autocast_float32_on_device
@elementwise(
    glsl="precise_log(x)",
    reference=np.log,
    dtypes=FLOAT,
    fractional=True,
)
def log(x: Tensor) -> Tensor:
    """Return the natural logarithm; log(0) is -inf, of a negative number NaN."""


log.complexes(glsl="complex_log(x)")


@log.vjp
def log_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / x


@autocast_float32_on_device
@elementwise(
    glsl="precise_log2(x)",
    reference=np.log2,
    dtypes=FLOAT,
    fractional=True,
)
def log2(x: Tensor) -> Tensor:
    """Return the logarithm to base 2; of 0 -inf, of a negative number NaN."""


log2.complexes(glsl="complex_log(x) * 1.44269504088896")


@log2.vjp
def log2_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / (x * math.log(2))


@autocast_float32_on_device
@elementwise(
    glsl="precise_log10(x)",
    reference=np.log10,
    dtypes=FLOAT,
    fractional=True,
)
def log10(x: Tensor) -> Tensor:
    """Return the logarithm to base 10; of 0 -inf, of a negative number NaN."""


log10.complexes(glsl="complex_log(x) * 0.434294481903252")


@log10.vjp
def log10_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / (x * math.log(10))


@autocast_float32_on_device
@elementwise(
    glsl="precise_log1p(x)",
    reference=np.log1p,
    dtypes=FLOAT,
    fractional=True,
)
def log1p(x: Tensor) -> Tensor:
    """Return log(1 + x), accurate for small elements too; of -1 -inf, below NaN."""


def _complex_log1p(x: np.ndarray) -> np.ndarray:
    """Return it with the digits near 0 that NumPy loses by adding 1."""
    wide = np.asarray(x, np.complex128)
    real, imaginary = wide.real, wide.imag
    near = (np.abs(real) < 0.5) & (np.abs(imaginary) < 0.5)
    apart = np.where(near, real * (real + 2) + imaginary * imaginary, 0.0)
    found = np.log(1 + wide)
    return np.where(near, 0.5 * np.log1p(apart) + 1j * found.imag, found)


log1p.complexes(glsl="complex_log1p(x)", reference=_complex_log1p)


@log1p.vjp
def log1p_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / (x + 1.0)


def _logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@elementwise(
    glsl="logistic(x)",
    reference=_logistic,
    dtypes=FLOAT,
    fractional=True,
)
def sigmoid(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x)), computed so that nothing overflows."""


sigmoid.complexes(
    glsl="complex_quotient(vec2(1, 0), vec2(1, 0) + complex_exp(-x))",
    reference=lambda x: 1 / (1 + np.exp(-x)),
)


@sigmoid.vjp
def sigmoid_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * out * (1.0 - out)


def _log_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@elementwise(glsl="log_logistic(x)", reference=_log_sigmoid, dtypes=FLOAT)
def log_sigmoid(x: Tensor) -> Tensor:
    """Return the logarithm of the sigmoid; close to `x` where that is very small."""


@log_sigmoid.vjp
def log_sigmoid_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * sigmoid(-x)


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    if y.dtype.kind != "i":
        return np.power(x, y)
    # NumPy refuses negative exponents; 1 / x is cut to 0 unless x is 1 or -1.
    odd = np.where(y & 1, x, 1)
    inverse = np.where((x == 1) | (x == -1), odd, 0)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def _refuse_negative(name: str, y: object) -> None:
    """Raise `DomainError` if integers are raised to a negative number."""
    if type(y) is int and y < 0:
        raise DomainError(
            f"{name}: integers are raised to {y}; y must be at least 0, or x of floats"
        )


@autocast_float32_on_device
@elementwise(
    glsl="power(x, y)",
    reference=_power,
    dtypes=(*INTEGER, *FLOAT),
    refuse_integers=_refuse_negative,
)
def pow(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return `x` raised to `y`.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote; not both bool.

    Returns
    -------
    Tensor, of the promoted dtype
        Of floats, a negative base needs a whole exponent, else the result is NaN; 0 to
        the 0 is 1. Integers wrap; a negative exponent in a tensor gives 0, unless the
        base is 1 or -1.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DomainError
        If `y` is a negative integer, and `x` of integers, as in PyTorch.
    """


def _complex_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the power; NumPy's products for whole exponents may leave the range."""
    found = np.power(x, y)
    lost = np.isnan(found) & np.isfinite(x) & np.isfinite(y) & (x != 0)
    if not np.any(lost):
        return found
    return np.where(lost, np.exp(y * np.log(np.where(lost, x, 1))), found)


@pow.complexes(glsl="complex_power(x, y)", reference=_complex_power)
def pow_complex_vjp(
    grad: Tensor, x: Tensor, y: Tensor, out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    grad_x, grad_y = None, None
    if needs[0]:
        slope = conj_physical(mul(pow(x, y - 1), y))
        # x ** 0 is 1 everywhere, also at 0, where the general rule says 0 * inf.
        flat_there = eq(y, 0) if isinstance(y, TensorCore) else y == 0
        if isinstance(flat_there, bool):
            grad_x = flat(mul(grad, slope)) if flat_there else mul(grad, slope)
        else:
            grad_x = where(flat_there, 0.0, mul(grad, slope))
    if needs[1] and isinstance(x, TensorCore):
        base = cast(x, out.dtype)
        slope = conj_physical(mul(out, log(where(eq(base, 0), 1.0, base))))
        grad_y = mul(grad, slope)
    elif needs[1]:
        slope = cmath.log(x) if x else 0.0
        grad_y = mul(grad, conj_physical(mul(out, slope)))
    return grad_x, grad_y


@pow.vjp
def pow_vjp(
    grad: Tensor, x: Tensor, y: Tensor, out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    grad_x, grad_y = None, None
    if needs[0] and isinstance(y, int | float):
        # x ** 0 is 1 everywhere, also at 0, where the general rule says 0 * inf.
        grad_x = grad * y * pow(x, y - 1.0) if y else flat(grad)
    elif needs[0]:
        grad_x = where(y == 0.0, 0.0, grad * (y * pow(x, y - 1.0)))
    if needs[1] and isinstance(x, int | float):
        # A negative base has no slope.
        slope = math.log(x) if x > 0 else math.nan if x else -math.inf
        grad_y = grad * (out * slope)
        grad_y = grad_y if x else where(y >= 0.0, 0.0, grad_y)
    elif needs[1]:
        base = at_least(x, grad.dtype)
        # 0 ** y is flat for y >= 0.
        flat_there = logical_and(x == 0.0, y >= 0.0)
        grad_y = where(flat_there, 0.0, grad * (out * log(base)))
    return grad_x, grad_y


def _complex_logaddexp(x: Tensor, y: Tensor) -> Tensor:
    """Return it beside the number with the larger real part, as PyTorch does."""
    first = real_of(x.detach()) >= real_of(y.detach())
    most, least = where(first, x, y), where(first, y, x)
    apart = where(eq(x, y), 0.0, least - most)
    return most + log1p(exp(apart))


@elementwise(glsl="log_add_exp(x, y)", reference=np.logaddexp, dtypes=FLOAT)
def _log_add_exp(x: Tensor, y: Tensor) -> Tensor:
    """Return log(exp(x) + exp(y))."""


@_log_add_exp.vjp
def _log_add_exp_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _shares(grad, where(eq(x, y), 0.0, x - y), needs)


@elementwise(glsl="log_add_exp2(x, y)", reference=np.logaddexp2, dtypes=FLOAT)
def log_add_exp2(x: Tensor, y: Tensor) -> Tensor:
    """Return log2(2^x + 2^y)."""


@log_add_exp2.vjp
def log_add_exp2_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _shares(grad, where(eq(x, y), 0.0, x - y) * math.log(2), needs)


def _shares(
    grad: Tensor, apart: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return what the larger exponential and the other have of a gradient."""
    first = grad * sigmoid(apart) if needs[0] else None
    return first, grad * sigmoid(-apart) if needs[1] else None


@autocast_passthrough
@shown_as("LogaddexpBackward0", "x", "y")
def logaddexp(x: Tensor, y: Tensor) -> Tensor:
    """Return log(exp(x) + exp(y)), which does not overflow.

    Parameters
    ----------
    x, y : Tensor
        One of them of floats; shapes broadcast, dtypes promote.

    Raises
    ------
    TypeError
        If one is no tensor.
    DTypeError
        If neither is of floats.
    """
    for name, each in (("x", x), ("y", y)):
        if not isinstance(each, TensorCore):
            raise TypeError(f"logaddexp: {name} is {each!r}; it must be a tensor")
    broadcast_shapes("logaddexp", x.layout.shape, y.layout.shape)
    if x.dtype.is_complex or y.dtype.is_complex:
        return _complex_logaddexp(x, y)
    kind = result_type(x, y)
    if not kind.is_float:
        raise DTypeError(
            f"logaddexp: x is {x.dtype.name}, y {y.dtype.name}; one must be of floats;"
            " cast it"
        )
    x, y = converted(x, kind), converted(y, kind)
    return _log_add_exp(x, y)


def _host_xlogy(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    zero = (x == 0) & ~np.isnan(other)
    return np.where(zero, x.dtype.type(0), x * np.log(np.where(zero, 1, other)))


@elementwise(
    glsl="x == 0 && other == other ? 0 : x * precise_log(other)",
    reference=_host_xlogy,
    dtypes=FLOAT,
    fractional=True,
)
def xlogy(x: Tensor, other: Tensor) -> Tensor:
    """Return `x` times the logarithm of `other`.

    Parameters
    ----------
    x, other : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote; integers are taken as float32.

    Returns
    -------
    Tensor
        0 where `x` is 0, unless `other` is NaN.
    """


@xlogy.vjp
def xlogy_vjp(
    grad: Tensor, x: Tensor, other: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    flat_there = logical_and(eq(x, 0), other <= 0)
    return (
        grad * where(flat_there, 0.0, log(other)) if needs[0] else None,
        grad * (x / other) if needs[1] else None,
    )


def _host_entropy(x: np.ndarray) -> np.ndarray:
    """Return -x log(x); 0 at 0, minus infinity below."""
    inside = np.where(x > 0, x, 1)
    found = np.where(x > 0, -inside * np.log(inside), np.where(x < 0, -np.inf, x))
    return np.where(x == 0, 0, found).astype(x.dtype)


@elementwise(
    glsl="entropy_term(x)", reference=_host_entropy, dtypes=FLOAT, fractional=True
)
def entropy_term(x: Tensor) -> Tensor:
    """Return -x log(x); 0 at 0, minus infinity below."""


@entropy_term.vjp
def entropy_term_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * -(log(x) + 1.0)


def _host_xlog1py(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    zero = (x == 0) & ~np.isnan(other)
    return np.where(zero, x.dtype.type(0), x * np.log1p(np.where(zero, 1, other)))


@elementwise(
    glsl="x == 0 && other == other ? 0 : x * precise_log1p(other)",
    reference=_host_xlog1py,
    dtypes=FLOAT,
    fractional=True,
)
def xlog1py(x: Tensor, other: Tensor) -> Tensor:
    """Return `x` times log(1 + `other`).

    Parameters
    ----------
    x, other : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote; integers are taken as float32.

    Returns
    -------
    Tensor
        0 where `x` is 0, unless `other` is NaN.
    """


@xlog1py.vjp
def xlog1py_vjp(
    grad: Tensor, x: Tensor, other: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    flat_there = logical_and(eq(x, 0), other <= -1)
    return (
        grad * where(flat_there, 0.0, log1p(other)) if needs[0] else None,
        grad * (x / (other + 1.0)) if needs[1] else None,
    )
