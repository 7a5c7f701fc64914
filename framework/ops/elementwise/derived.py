"""Element-wise functions written with others: angles, signs, powers, logarithms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...autograd.tape import show_as, shown_as
from ...base.dtype import (
    FLOAT,
    INTEGER,
    bfloat16,
    bool_,
    complex128,
    float32,
    float64,
    int32,
)
from ...base.errors import DTypeError, ShapeError
from ...base.shape import broadcast_shapes
from ...base.validation import as_int, as_number
from ...dispatch.declare import comparison, elementwise
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore, need_tensors
from ..source import fill_like
from ..view import expand
from .binary import add, div, mul, sub, times_alpha
from .cast import cast, converted, refuse_bool, refuse_complex, result_type
from .clamp import clamp
from .compare import (
    eq,
    ge,
    gt,
    isinf,
    isnan,
    le,
    logical_or,
    lt,
    ne,
    where,
)
from .complex_numbers import _angle, _complex_sign
from .exponential import exp2, log_add_exp2, pow
from .gamma import lgamma
from .trigonometric import normalized_sinc, sin
from .unary import abs, copy, floor, sign, with_zero_gradient

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def _fractional(x: Tensor) -> Tensor:
    return x if x.dtype.is_differentiable else cast(x, float32)


@shown_as("Deg2RadBackward0", "input")
def deg2rad(input: Tensor) -> Tensor:
    """Return angles in radians, given in degrees; integers as float32.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype.
    """
    return mul(_fractional(input), math.pi / 180)


@shown_as("Rad2DegBackward0", "input")
def rad2deg(input: Tensor) -> Tensor:
    """Return angles in degrees, given in radians; integers as float32.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype.
    """
    return mul(_fractional(input), 180 / math.pi)


def positive(input: Tensor) -> Tensor:
    """Return the tensor itself.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but bool.

    Raises
    ------
    DTypeError
        If it is bool.
    """
    if input.dtype is bool_:
        raise DTypeError("positive: `input` is bool; it must be a numeric dtype")
    return input


@shown_as("AngleBackward0", "input")
def angle(input: Tensor) -> Tensor:
    """Return the angle of each number in the complex plane, from -pi to pi.

    Of a real one 0 or pi, and NaN for NaN; integers as float32.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype.
    """
    if input.dtype.is_complex:
        return _angle(input)
    x = _fractional(input)
    zero = abs(mul(where(isinf(x), 0.0, x.detach()), 0.0))
    negative = lt(_comparable(x.detach()), 0.0)
    return where(isnan(x), x, where(negative, math.pi, zero))


def _comparable(x: Tensor) -> Tensor:
    """Return numbers of the same signs, none of which a device takes for 0."""
    wide = cast(x, float32) if x.dtype is bfloat16 else x
    return _lifted(wide) if wide.dtype in _SUBNORMAL else x


def _fill_node(input: Tensor, value: object) -> str:
    return f"FillBackward{int(isinstance(value, TensorCore))}"


@shown_as(_fill_node, "input", "value")
def fill(input: Tensor, value: Tensor | float) -> Tensor:
    """Return a tensor of the shape and dtype of `input` with one value everywhere.

    Parameters
    ----------
    input : Tensor
    value : number or Tensor without dimensions
        Cut to an integer where the dtype is one.

    Raises
    ------
    ShapeError
        If `value` is a tensor with dimensions.
    """
    if not isinstance(value, TensorCore):
        made: Tensor = fill_like(input, tuple(input.layout.shape), value, input.dtype)
        return with_zero_gradient(made, input)
    if value.ndim:
        raise ShapeError(
            f"fill: value is {tuple(value.shape)}; it must have no dimension"
        )
    made = copy(expand(cast(value, input.dtype), tuple(input.layout.shape)))
    return with_zero_gradient(made, input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape.

    Parameters
    ----------
    input, other : Tensor
        Any shapes and dtypes.
    """
    return tuple(input.layout.shape) == tuple(other.layout.shape)


@shown_as("SgnBackward0", "input")
def sgn(input: Tensor) -> Tensor:
    """Return each element divided by its magnitude, 0 of 0; see `sign` of real ones.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype.
    """
    return _complex_sign(input) if input.dtype.is_complex else sign(input)


def signbit(input: Tensor) -> Tensor:
    """Return whether each element is negative, also a zero or NaN with a sign.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but complex.
    """
    if input.dtype is bool_ or input.dtype.kind == "uint":
        return isnan(input)
    if not input.dtype.is_float:
        return lt(input, 0)
    return _has_sign(input)


@comparison(glsl="has_sign(x)", reference=np.signbit, dtypes=FLOAT)
def _has_sign(x: Tensor) -> Tensor:
    """Return whether each element is negative, also a zero or NaN with a sign."""


def _refuse_complex(name: str, x: Tensor) -> None:
    if x.dtype.is_complex:
        raise DTypeError(f"{name}: `input` is {x.dtype.name}; it must be a real dtype")


def isneginf(input: Tensor) -> Tensor:
    """Return whether each element is minus infinity.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but complex; integers never are.
    """
    _refuse_complex("isneginf", input)
    return eq(input, -math.inf) if input.dtype.is_float else isinf(input)


def isposinf(input: Tensor) -> Tensor:
    """Return whether each element is infinity.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but complex; integers never are.
    """
    _refuse_complex("isposinf", input)
    return eq(input, math.inf) if input.dtype.is_float else isinf(input)


def rsub(input: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """Return other - alpha * input.

    Parameters
    ----------
    input : Tensor, not bool
    other : Tensor or number
        Of a shape that broadcasts; dtypes promote.
    alpha : number, default 1
    """
    need_tensors("rsub", input=input)
    found = sub(other, times_alpha("rsub", other, input, alpha))
    if isinstance(other, TensorCore):
        show_as(found, "RsubBackward0", input, other)
    return found


@shown_as("FmaxBackward0", "input", "other")
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """Return the larger of two elements; of a number and NaN the number.

    Parameters
    ----------
    input, other : Tensor
        Shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    need_tensors("fmax", input=input, other=other)
    return where(logical_or(ge(input, other), isnan(other)), input, other)


@shown_as("FminBackward0", "input", "other")
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """Return the smaller of two elements; of a number and NaN the number.

    Parameters
    ----------
    input, other : Tensor
        Shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    need_tensors("fmin", input=input, other=other)
    return where(logical_or(le(input, other), isnan(other)), input, other)


def _wide_number(value: Any) -> Any:
    """Return a number, infinite ones and NaN too, as a float or complex."""
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(number, complex):
        return number
    if not isinstance(number, int | float):
        raise TypeError(f"float_power: operand is {value!r}; it must be a number")
    return float(number)


def float_power(input: Tensor | complex, exponent: Tensor | complex) -> Tensor:
    """Return powers computed in float64, or of complex numbers in complex128.

    Parameters
    ----------
    input, exponent : Tensor or number, one of them a tensor
        Of shapes that broadcast.

    Returns
    -------
    Tensor, float64 or complex128
        Devices without powers of float64 refuse it.
    """
    pair = (
        cast(each, complex128 if each.dtype.is_complex else float64)
        if isinstance(each, TensorCore)
        else _wide_number(each)
        for each in (input, exponent)
    )
    return pow(*pair)


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Return 0 below 0, 1 above, and the element of `values` at 0; 0 for NaN.

    Parameters
    ----------
    input : Tensor
    values : Tensor, dtype of `input`
        Of a shape that broadcasts.

    Raises
    ------
    DTypeError
        If the dtypes differ.
    """
    if input.dtype is not values.dtype:
        raise DTypeError(
            f"heaviside: input is {input.dtype.name}, values {values.dtype.name}; they"
            " must be the same"
        )
    sized = _comparable(input)
    above = cast(gt(sized, 0), input.dtype)
    return where(eq(sized, 0), values, above)


def _scaled_by_power(x: Tensor, exponent: Tensor) -> Tensor:
    """Return x * 2^exponent by two factors, each of which is in range."""
    wide = float64 if x.dtype is float64 else float32
    least, most = (-2148.0, 2046.0) if wide is float64 else (-298.0, 254.0)
    whole = clamp(cast(exponent, wide), least, most)
    half = floor(mul(whole, 0.5))
    scaled = mul(mul(cast(x, wide), exp2(half)), exp2(sub(whole, half)))
    return cast(scaled, x.dtype)


@shown_as("LdexpBackward0", "input", "other")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Return input * 2^other.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast. Of floats by whole exponents it is exact in the dtype
        of `input`, also where the power alone is out of range.

    Returns
    -------
    Tensor
        float32 if both are of integers or bools.

    Raises
    ------
    DTypeError
        If `input` is of floats and `other` of bools.
    """
    need_tensors("ldexp", input=input, other=other)
    if input.dtype.is_float:
        refuse_bool("ldexp", other=other)
    if input.dtype.is_float and other.dtype in INTEGER:
        return _scaled_by_power(input, other)
    power = exp2(_fractional(other))
    return mul(input, power)


_SUBNORMAL = {float32: (2.0**-126, 24), float64: (2.0**-1022, 54)}
"""By dtype the least number that is not subnormal, and the exponent of what subnormal
ones are multiplied by."""


def _lifted_reference(x: np.ndarray) -> np.ndarray:
    least, shift = _SUBNORMAL[float64 if x.dtype == np.float64 else float32]
    return np.where(np.abs(x) < least, x * x.dtype.type(2.0**shift), x)


@elementwise(glsl="lifted(x)", reference=_lifted_reference, dtypes=(float32, float64))
def _lifted(x: Tensor) -> Tensor:
    """Return numbers, but those that are subnormal times 2^24, or 2^54 in float64."""


@_lifted.vjp
def _lifted_vjp(grad: Tensor, x: Tensor) -> Tensor:
    _, shift = _SUBNORMAL[x.dtype]
    return where(ne(_lifted(x), x), mul(grad, 2.0**shift), grad)


class MantissaExponent(NamedTuple):
    """Parts of numbers: mantissa * 2^exponent."""

    mantissa: Tensor
    exponent: Tensor


@shown_as("FrexpBackward0", "input")
def frexp(input: Tensor) -> MantissaExponent:
    """Return mantissas from 1/2 to 1, with the sign, and exponents as int32.

    Zeros, infinities and NaN have themselves and 0.

    Parameters
    ----------
    input : Tensor, any shape, float
        What is taken apart.

    Raises
    ------
    DTypeError
        If `input` is not of a float dtype.
    """
    if not input.dtype.is_float:
        raise DTypeError(
            f"frexp: `input` is {input.dtype.name}; it must be a float dtype"
        )
    mantissas = _mantissa(input)
    return MantissaExponent(mantissas, _exponent(input, mantissas.detach()))


@elementwise(glsl="mantissa(x)", reference=lambda x: np.frexp(x)[0], dtypes=FLOAT)
def _mantissa(x: Tensor) -> Tensor:
    """Return mantissas from 1/2 to 1, with the sign."""


@elementwise(
    glsl="exponent(x)",
    reference=lambda x, _: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32),
    dtypes=FLOAT,
    result=int32,
)
def _exponent(x: Tensor, mantissas: Tensor) -> Tensor:
    """Return exponents of numbers, with mantissas from 1/2 to 1.

    These are operands for the sake of one kernel that makes both.
    """


@_mantissa.vjp
def _mantissa_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return div(grad, exp2(cast(_exponent(x, x), x.dtype)))


@shown_as("Logaddexp2Backward0", "input", "other")
@replayable
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Return log2(2^input + 2^other) without overflow.

    Parameters
    ----------
    input, other : Tensor
        One of them of floats; shapes broadcast, dtypes promote.

    Raises
    ------
    DTypeError
        If neither is of floats.
    """
    need_tensors("logaddexp2", input=input, other=other)
    refuse_complex("logaddexp2", input=input, other=other)
    broadcast_shapes("logaddexp2", input.layout.shape, other.layout.shape)
    kind = result_type(input, other)
    if not kind.is_differentiable:
        raise DTypeError(
            f"logaddexp2: input is {input.dtype.name}, other {other.dtype.name}; one"
            " must be of floats; cast it"
        )
    return log_add_exp2(converted(input, kind), converted(other, kind))


@shown_as("LogitBackward0", "input")
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Return log(input / (1 - input)), the inverse of `sigmoid`.

    Parameters
    ----------
    input : Tensor
        Integers are taken as float32.
    eps : float or None
        Elements are cut to from `eps` to 1 - `eps` first; with None those outside of 0
        to 1 give NaN, 0 and 1 infinities.
    """
    x = _fractional(input)
    if eps is not None:
        eps = as_number("logit: eps", eps)
        # The lower bound comes first where `eps` is above a half, as in PyTorch.
        most = 1.0 - eps
        if eps <= most:
            x = clamp(x, eps, most)
        else:
            x = where(lt(x, eps), clamp(x, eps, eps), clamp(x, most, most))
    return _log_of_odds(x)


@elementwise(
    glsl="log_of_odds(x)", reference=lambda x: np.log(x / (1 - x)), dtypes=FLOAT
)
def _log_of_odds(x: Tensor) -> Tensor:
    """Return log(x / (1 - x))."""


@_log_of_odds.vjp
def _log_of_odds_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    # Beyond 0 and 1 it is NaN, as the result is.
    return where(isnan(out), out, div(grad, mul(x, sub(1.0, x))))


@shown_as("SincBackward0", "input")
def sinc(input: Tensor) -> Tensor:
    """Return sin(pi x) / (pi x), and 1 at 0.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype; integers and bools are converted to the default dtype.
    """
    turns = _fractional(input)
    if not turns.dtype.is_complex:
        return normalized_sinc(turns)
    angle = mul(turns, math.pi)
    zero = eq(angle, 0.0)
    safe = where(zero, 1.0, angle)
    # The parabola has the derivatives of 0.
    near = sub(1.0, mul(mul(angle, angle), 1 / 6))
    return where(zero, near, div(sin(safe), safe))


@shown_as("MvlgammaBackward0", "input")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function.

    Parameters
    ----------
    input : Tensor
    p : int
        Its dimension, at least 1.

    Raises
    ------
    ShapeError
        If `p` is below 1.
    """
    p = as_int("mvlgamma: p", p)
    if p < 1:
        raise ShapeError(f"mvlgamma: p is {p}; it must be at least 1")
    x = _fractional(input)
    total = add(lgamma(x), p * (p - 1) / 4 * math.log(math.pi))
    for k in range(1, p):
        total = add(total, lgamma(sub(x, k / 2)))
    return total


@elementwise(
    glsl="greatest_divisor(x, y)",
    reference=lambda x, y: np.gcd(x, y),
    dtypes=INTEGER,
)
def gcd(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the greatest common divisor of integers, without sign; of 0 and 0 it is 0.

    Parameters
    ----------
    x, y : Tensor, an integer dtype
        Shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


gcd.only_tensors("x", "y")


@elementwise(
    glsl="truncated_quotient(magnitude(x), greatest_divisor(x, y)) * magnitude(y)",
    reference=lambda x, y: np.lcm(x, y),
    dtypes=INTEGER,
)
def _lcm(x: Tensor, y: Tensor) -> Tensor:
    """Return the least common multiple of integers, without sign."""


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """Return the least common multiple of integers, without sign; with 0 it is 0.

    Parameters
    ----------
    input, other : Tensor, an integer dtype
        Shapes broadcast, dtypes promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    need_tensors("lcm", input=input, other=other)
    return _lcm(input, other)
