"""Element-wise operations: each is its GLSL expression.

The expression is compiled alone or as part of a fused kernel, so the two cannot differ.
float16 computes in float32 on a device. Results on special values (NaN, infinities,
signed zeros, integer wrap) are NumPy's unless the docstring says otherwise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..dtype import ANY, BOOL, FLOAT, INT, NUMERIC, DType, float16, float32
from ..primitive import comparison, elementwise
from ..shape import TensorSpec

if TYPE_CHECKING:
    from ..tensor import Tensor

# GLSL has these functions for 32-bit floats only (GLSL 4.60 specification, 8.1 to 8.3).
SINGLE = (float16, float32)
SIGNED = (*INT, *FLOAT)


@elementwise(glsl="-x", reference=np.negative, dtypes=SIGNED)
def neg(x: Tensor) -> Tensor:
    """Return each element with its sign changed."""


@neg.vjp
def neg_vjp(grad: Tensor) -> Tensor:
    return -grad


@elementwise(glsl="abs(x)", reference=np.abs, dtypes=SIGNED)
def abs(x: Tensor) -> Tensor:
    """Return each element without its sign."""


@abs.vjp
def abs_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * sign(x)


@elementwise(glsl="x != x ? x : sign(x)", reference=np.sign, dtypes=FLOAT)
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1 by the sign of each element; NaN stays NaN."""


@sign.vjp
def sign_vjp(grad: Tensor) -> Tensor:
    return grad * 0.0


@elementwise(glsl="exp(x)", reference=np.exp, dtypes=FLOAT, device_dtypes=SINGLE)
def exp(x: Tensor) -> Tensor:
    """Return *e* raised to each element."""


@exp.vjp
def exp_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * out


@elementwise(glsl="log(x)", reference=np.log, dtypes=FLOAT, device_dtypes=SINGLE)
def log(x: Tensor) -> Tensor:
    """Return the natural logarithm; log(0) is -inf, of a negative number NaN."""


@log.vjp
def log_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / x


@elementwise(glsl="sqrt(x)", reference=np.sqrt, dtypes=FLOAT)
def sqrt(x: Tensor) -> Tensor:
    """Return the square root; of a negative number NaN."""


@sqrt.vjp
def sqrt_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * 0.5 / out


@elementwise(
    glsl="inversesqrt(x)",
    reference=lambda x: np.reciprocal(np.sqrt(x)),
    dtypes=FLOAT,
)
def rsqrt(x: Tensor) -> Tensor:
    """Return one over the square root."""


@rsqrt.vjp
def rsqrt_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * -0.5 * out * out * out


@elementwise(glsl="1 / x", reference=np.reciprocal, dtypes=FLOAT)
def reciprocal(x: Tensor) -> Tensor:
    """Return one over each element."""


@reciprocal.vjp
def reciprocal_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return -grad * out * out


@elementwise(glsl="sin(x)", reference=np.sin, dtypes=FLOAT, device_dtypes=SINGLE)
def sin(x: Tensor) -> Tensor:
    """Return the sine of each element, in radians."""


@sin.vjp
def sin_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * cos(x)


@elementwise(glsl="cos(x)", reference=np.cos, dtypes=FLOAT, device_dtypes=SINGLE)
def cos(x: Tensor) -> Tensor:
    """Return the cosine of each element, in radians."""


@cos.vjp
def cos_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return -grad * sin(x)


@elementwise(
    glsl="hyperbolic_tangent(x)",
    reference=np.tanh,
    dtypes=FLOAT,
    device_dtypes=SINGLE,
)
def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of each element."""


@tanh.vjp
def tanh_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (1.0 - out * out)


def _logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@elementwise(
    glsl="logistic(x)", reference=_logistic, dtypes=FLOAT, device_dtypes=SINGLE
)
def sigmoid(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x)), computed so that nothing overflows."""


@sigmoid.vjp
def sigmoid_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * out * (1.0 - out)


@elementwise(
    glsl="x < 0 ? 0 : x", reference=lambda x: np.where(x < 0, 0, x), dtypes=SIGNED
)
def relu(x: Tensor) -> Tensor:
    """Return each element, or 0 where it is negative; NaN stays NaN."""


@relu.vjp
def relu_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return where(out > 0.0, grad, 0.0)


@elementwise(
    glsl="x < 0 ? negative_slope * x : x",
    reference=lambda x, negative_slope: np.where(x < 0, negative_slope * x, x),
    dtypes=FLOAT,
)
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Return each element, multiplied by `negative_slope` where it is negative."""


@leaky_relu.vjp
def leaky_relu_vjp(grad: Tensor, x: Tensor, negative_slope: float) -> Tensor:
    return where(x < 0.0, grad * negative_slope, grad)


@elementwise(glsl="x + y", reference=np.add, dtypes=NUMERIC)
def add(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the sum of two tensors, or of a tensor and a number."""


@add.vjp
def add_vjp(grad: Tensor) -> tuple[Tensor, Tensor]:
    return grad, grad


@elementwise(glsl="x - y", reference=np.subtract, dtypes=NUMERIC)
def sub(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the difference of two tensors, or of a tensor and a number."""


@sub.vjp
def sub_vjp(grad: Tensor, needs: tuple[bool, bool]) -> tuple[Tensor, Tensor | None]:
    return grad, -grad if needs[1] else None


@elementwise(glsl="x * y", reference=np.multiply, dtypes=NUMERIC)
def mul(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the product of two tensors, or of a tensor and a number."""


@mul.vjp
def mul_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return grad * y if needs[0] else None, grad * x if needs[1] else None


@elementwise(glsl="x / y", reference=np.true_divide, dtypes=FLOAT)
def _quotient(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the quotient of float tensors."""


@_quotient.vjp
def _quotient_vjp(
    grad: Tensor, y: Tensor | float, out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    scaled = grad / y
    return scaled, -scaled * out if needs[1] else None


def div(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the quotient of two tensors, or of a tensor and a number.

    Integer tensors are divided as float32, as in PyTorch. Division by zero gives
    infinities, and NaN for 0 / 0.
    """
    return _quotient(_as_float(x), _as_float(y))


def _as_float(x: Tensor | float) -> Tensor | float:
    if isinstance(x, (int, float)) or x.dtype.is_float:
        return x
    return cast(x, float32)


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.power(x, y)


@elementwise(glsl="power(x, y)", reference=_power, dtypes=FLOAT, device_dtypes=SINGLE)
def pow(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return `x` raised to `y`; a negative base needs a whole exponent, else NaN."""


@pow.vjp
def pow_vjp(
    grad: Tensor, x: Tensor, y: Tensor, out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    grad_x, grad_y = None, None
    if needs[0] and isinstance(y, int | float):
        # x ** 0 is 1 everywhere, also at 0, where the general rule says 0 * inf.
        grad_x = grad * y * pow(x, y - 1.0) if y else grad * 0.0
    elif needs[0]:
        grad_x = grad * where(y == 0.0, 0.0, y * pow(x, y - 1.0))
    if needs[1] and isinstance(x, int | float) and x <= 0:
        # As in PyTorch: 0 ** y is flat for y >= 0, a negative base has no slope.
        grad_y = grad * (where(y >= 0.0, 0.0, -math.inf) if x == 0 else math.nan)
    elif needs[1] and isinstance(x, int | float):
        grad_y = grad * out * math.log(x)
    elif needs[1]:
        grad_y = grad * where(x == 0.0, 0.0, out * log(x))
    return grad_x, grad_y


@elementwise(
    glsl="x > y || x != x ? x : y",
    reference=np.maximum,
    dtypes=NUMERIC,
)
def maximum(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the larger of two elements; NaN if either is NaN."""


@maximum.vjp
def maximum_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _share(grad, x > y, x == y, needs)


@elementwise(
    glsl="x < y || x != x ? x : y",
    reference=np.minimum,
    dtypes=NUMERIC,
)
def minimum(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the smaller of two elements; NaN if either is NaN."""


@minimum.vjp
def minimum_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _share(grad, x < y, x == y, needs)


def _share(
    grad: Tensor, wins: Tensor, ties: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Give the gradient to the element chosen, half to each where they are equal."""
    half = where(ties, grad * 0.5, 0.0)
    return (
        where(wins, grad, half) if needs[0] else None,
        where(wins, 0.0, grad - half) if needs[1] else None,
    )


@comparison(glsl="x == y", reference=np.equal, dtypes=ANY)
def eq(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements are equal; NaN equals nothing."""


@comparison(glsl="x != y", reference=np.not_equal, dtypes=ANY)
def ne(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements differ; NaN differs from everything."""


@comparison(glsl="x < y", reference=np.less, dtypes=NUMERIC)
def lt(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are smaller."""


@comparison(glsl="x <= y", reference=np.less_equal, dtypes=NUMERIC)
def le(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are smaller or equal."""


@comparison(glsl="x > y", reference=np.greater, dtypes=NUMERIC)
def gt(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are larger."""


@comparison(glsl="x >= y", reference=np.greater_equal, dtypes=NUMERIC)
def ge(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are larger or equal."""


def _where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(condition != 0, x, y)


@elementwise(
    glsl="bool(condition) ? x : y",
    reference=_where,
    dtypes={"condition": BOOL, "x": ANY, "y": ANY},
)
def where(condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return elements of `x` where the condition holds, otherwise of `y`."""


@where.vjp
def where_vjp(
    grad: Tensor, condition: Tensor, needs: tuple[bool, bool, bool]
) -> tuple[None, Tensor | None, Tensor | None]:
    return (
        None,
        where(condition, grad, 0.0) if needs[1] else None,
        where(condition, 0.0, grad) if needs[2] else None,
    )


@elementwise(glsl="x", reference=lambda x: x, dtypes=ANY)
def copy(x: Tensor) -> Tensor:
    """Return the same elements in fresh row-major storage."""


@copy.vjp
def copy_vjp(grad: Tensor) -> Tensor:
    return grad


@elementwise(glsl="x", reference=lambda x: x, dtypes=ANY, result="dtype")
def cast(x: Tensor, dtype: DType) -> Tensor:
    """Return the elements converted to `dtype`; floats are cut towards zero."""


@cast.vjp
def cast_vjp(grad: Tensor, x_spec: TensorSpec) -> Tensor:
    return cast(grad, x_spec.dtype)
