"""Activation functions, element by element, and gates made of them.

On a device they are computed in float32 by `glsl/lib/math/`, float64 by
`glsl/lib/double/`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..autograd.engine import is_grad_enabled
from ..autograd.tape import shown_as
from ..base.dtype import FLOAT, NUMERIC
from ..base.errors import ShapeError
from ..base.shape import broadcast_shapes, normalize_dim
from ..dispatch.autocast_policy import (
    autocast_float32_on_device,
    autocast_low_precision,
)
from ..dispatch.declare import elementwise
from ..dispatch.replayable import replayable
from ..kernels.shader_types import check_float
from .elementwise.cast import need_float, need_one_dtype, need_real_float
from .elementwise.compare import where
from .elementwise.complex_numbers import _real_part, conj_physical
from .elementwise.exponential import exp, sigmoid
from .elementwise.special import host_erfc
from .elementwise.trigonometric import tanh
from .elementwise.unary import abs, square
from .movement.slice import narrow
from .source import fill_like
from .view import reshape

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

# Klambauer et al., Self-Normalizing Neural Networks, 2017: mean 0 and variance 1 stay.
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


@elementwise(glsl="slope", reference=lambda slope, x: slope, dtypes=FLOAT)
def _piecewise_grad(slope: Tensor, x: Tensor) -> Tensor:
    """Return a gradient that does not change with `x`, though it depends on it."""


@_piecewise_grad.vjp
def _piecewise_grad_vjp(grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return grad, _no_slope(x)


def _no_slope(x: Tensor) -> Tensor:
    """Return the gradient of what does not change with `x`, though it depends on it."""
    return fill_like(x, x.shape, 0, x.dtype)


def piecewise(grad: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of a piecewise linear function of `x`.

    Its own gradient is zero and not none, as PyTorch has it: an optimizer with momentum
    or weight decay moves a parameter whose gradient is zero.
    """
    if is_grad_enabled() and x.needs_grad:
        return _piecewise_grad(grad, x)
    return grad


@elementwise(
    glsl="any(bvec2(x <= low, x >= high)) ? 0 : slope",
    reference=lambda slope, x, low, high: np.where((x <= low) | (x >= high), 0, slope),
    dtypes=FLOAT,
)
def _slope_between(slope: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    """Return a gradient, but 0 where `x` is at a bound or beyond; at NaN it flows."""


@_slope_between.vjp
def _slope_between_vjp(
    grad: Tensor, x: Tensor, low: float, high: float, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    return _slope_between(grad, x, low, high), _no_slope(x) if needs[1] else None


@elementwise(
    glsl="x <= 0 ? 0 : slope",
    reference=lambda slope, x: np.where(x <= 0, 0, slope),
    dtypes=FLOAT,
)
def _slope_above_zero(slope: Tensor, x: Tensor) -> Tensor:
    """Return a gradient, but 0 where `x` is at most 0; at NaN it flows."""


@_slope_above_zero.vjp
def _slope_above_zero_vjp(
    grad: Tensor, x: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    return _slope_above_zero(grad, x), _no_slope(x) if needs[1] else None


@elementwise(
    glsl="x < 0 ? 0 : x", reference=lambda x: np.where(x < 0, 0, x), dtypes=NUMERIC
)
def relu(x: Tensor) -> Tensor:
    """Return each element, or 0 where it is negative; NaN stays NaN."""


@relu.vjp
def relu_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return _slope_above_zero(grad, out)


@elementwise(
    glsl="x < min_val ? min_val : x > max_val ? max_val : x",
    reference=lambda x, min_val, max_val: np.where(
        x < min_val, min_val, np.where(x > max_val, max_val, x)
    ),
    dtypes=FLOAT,
)
def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return each element, or the nearest bound where it is beyond one.

    No gradient flows at a bound itself, unlike for `clamp`; at NaN it flows.
    """


@hardtanh.vjp
def hardtanh_vjp(grad: Tensor, x: Tensor, min_val: float, max_val: float) -> Tensor:
    return _slope_between(grad, x, min_val, max_val)


@elementwise(
    glsl="all(bvec2(x >= -lambd, x <= lambd)) ? 0 : slope",
    reference=lambda slope, x, lambd: np.where((x >= -lambd) & (x <= lambd), 0, slope),
    dtypes=FLOAT,
)
def _slope_outside(slope: Tensor, x: Tensor, lambd: float) -> Tensor:
    """Return a gradient, but 0 where |x| is at most `lambd`; at NaN it flows."""


@_slope_outside.vjp
def _slope_outside_vjp(
    grad: Tensor, x: Tensor, lambd: float, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    return _slope_outside(grad, x, lambd), _no_slope(x) if needs[1] else None


@elementwise(
    glsl="soft_shrunk(x, lambd)",
    reference=lambda x, lambd: np.where(
        x > lambd, x - lambd, np.where(x < -lambd, x + lambd, np.where(x != x, x, 0))
    ),
    dtypes=FLOAT,
)
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """Return each element moved by `lambd` towards 0, at most to it; NaN stays NaN."""


@softshrink.vjp
def softshrink_vjp(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    return _slope_outside(grad, x, lambd)


def relu6(x: Tensor) -> Tensor:
    """Return each element, but at least 0 and at most 6."""
    check_float("relu6", x)
    return hardtanh(x, 0, 6)


@elementwise(
    glsl="x < 0 ? negative_slope * x : x",
    reference=lambda x, negative_slope: np.where(x < 0, negative_slope * x, x),
    dtypes=FLOAT,
)
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Return each element, multiplied by `negative_slope` where it is negative."""


@leaky_relu.vjp
def leaky_relu_vjp(grad: Tensor, x: Tensor, negative_slope: float) -> Tensor:
    return piecewise(where(x > 0.0, grad, grad * negative_slope), x)


@elementwise(
    glsl="elu_of(x, alpha, scale, input_scale)",
    reference=lambda x, alpha, scale, input_scale: np.where(
        x > 0, scale * x, scale * alpha * np.expm1(np.where(x > 0, 0, x) * input_scale)
    ),
    dtypes=FLOAT,
)
def _elu(x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    """Return scale * x where that is positive, else a saturating exponential."""


@_elu.vjp
def _elu_vjp(
    grad: Tensor, x: Tensor, alpha: float, scale: float, input_scale: float
) -> Tensor:
    slope = exp(x * input_scale) * (scale * alpha * input_scale)
    return grad * where(x > 0.0, scale, slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return each element, or alpha * (exp(x) - 1) where it is negative."""
    check_float("elu", x)
    return _elu(x, alpha, 1.0, 1.0)


def selu(x: Tensor) -> Tensor:
    """Return 1.0507 times each element, or 1.7581 * (exp(x) - 1) where it is negative.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """
    check_float("selu", x)
    return _elu(x, SELU_ALPHA, SELU_SCALE, 1.0)


@shown_as("CeluBackward0", "x")
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return each element, or alpha * (exp(x / alpha) - 1) where it is negative."""
    if alpha == 0:
        raise ValueError("celu: alpha is 0; it must be another number")
    check_float("celu", x)
    return _elu(x, alpha, 1.0, 1.0 / alpha)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * (host_erfc(x * -math.sqrt(0.5)) * 0.5)


@elementwise(
    glsl="normal_gate(x)",
    reference=_gelu,
    dtypes=FLOAT,
)
def _gelu_exact(x: Tensor) -> Tensor:
    """Return each element times the probability that a standard normal is smaller."""


@_gelu_exact.vjp
def _gelu_exact_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * _gelu_grad(x)


NORMAL_HEIGHT = 1 / math.sqrt(2 * math.pi)


def _slope(x: np.ndarray) -> np.ndarray:
    # Beyond 40 exponentials are 0, and of infinity the product with them is none.
    near = np.clip(x, -40, 40)
    density = np.exp(near * near * -0.5) * NORMAL_HEIGHT
    return host_erfc(near * -math.sqrt(0.5)) * 0.5 + near * density


@elementwise(glsl="normal_slope(x)", reference=_slope, dtypes=FLOAT)
def _gelu_grad(x: Tensor) -> Tensor:
    """Return the derivative of the exact `gelu`."""


@_gelu_grad.vjp
def _gelu_grad_vjp(grad: Tensor, x: Tensor) -> Tensor:
    squared = square(x)
    return grad * ((2.0 - squared) * exp(squared * -0.5) * NORMAL_HEIGHT)


GELU_SCALE = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


@elementwise(
    glsl=f"gated(x, {2 * GELU_SCALE!r} * (x + {GELU_CUBIC} * x * x * x))",
    reference=lambda x: (
        0.5 * x * (1 + np.tanh(GELU_SCALE * (x + GELU_CUBIC * x * x * x)))
    ),
    dtypes=FLOAT,
)
def _gelu_tanh(x: Tensor) -> Tensor:
    """Return an approximation of the exact one by the hyperbolic tangent."""


@_gelu_tanh.vjp
def _gelu_tanh_vjp(grad: Tensor, x: Tensor) -> Tensor:
    squared = square(x)
    curve = tanh(x * (squared * GELU_CUBIC + 1.0) * GELU_SCALE)
    slope = (squared * (3 * GELU_CUBIC) + 1.0) * GELU_SCALE
    return grad * ((curve + 1.0) * 0.5 + x * (1.0 - square(curve)) * slope * 0.5)


def gelu(x: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return each element times the probability that a standard normal is smaller.

    Parameters
    ----------
    x : Tensor
        Any float dtype.
    approximate : str, default "none"
        "none" takes the error function, "tanh" an approximation that is off by 5e-4.

    Notes
    -----
    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """
    check_float("gelu", x)
    if approximate == "none":
        return _gelu_exact(x)
    if approximate == "tanh":
        return _gelu_tanh(x)
    raise ShapeError(
        f'gelu: approximate is {approximate!r}; it must be "none" or "tanh"'
    )


@elementwise(
    glsl="gated(x, x)",
    reference=lambda x: x / (1 + np.exp(-x)),
    dtypes=FLOAT,
)
def silu(x: Tensor) -> Tensor:
    """Return each element times its sigmoid; also called swish."""


silu.complexes(
    glsl="complex_quotient(x, vec2(1, 0) + complex_exp(-x))",
    reference=lambda x: x / (1 + np.exp(-x)),
)


@silu.vjp
def silu_vjp(grad: Tensor, x: Tensor) -> Tensor:
    gate = sigmoid(x)
    return grad * gate * (x * (1.0 - gate) + 1.0)


@autocast_float32_on_device
@elementwise(
    glsl="softplus_of(x, beta, threshold)",
    reference=lambda x, beta, threshold: np.where(
        beta * x > threshold, x, np.logaddexp(0, beta * x) / beta
    ),
    dtypes=FLOAT,
)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; `x` where beta * x is above `threshold`."""


@softplus.vjp
def softplus_vjp(grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = x * beta
    return where(scaled > threshold, grad, grad * sigmoid(scaled))


@elementwise(
    glsl="softly_gated(x)",
    reference=lambda x: x * np.tanh(np.logaddexp(0, x)),
    dtypes=FLOAT,
)
def mish(x: Tensor) -> Tensor:
    """Return each element times the hyperbolic tangent of its softplus."""


@mish.vjp
def mish_vjp(grad: Tensor, x: Tensor) -> Tensor:
    gate = tanh(softplus(x))
    return grad * (gate + x * sigmoid(x) * (1.0 - square(gate)))


@elementwise(
    glsl="divided(x, 1 + abs(x))", reference=lambda x: x / (1 + np.abs(x)), dtypes=FLOAT
)
def softsign(x: Tensor) -> Tensor:
    """Return x / (1 + abs(x))."""


@softsign.vjp
def softsign_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad / square(abs(x) + 1.0)


@softsign.complexes(glsl="x / (1 + complex_magnitude(x))")
def softsign_complex_vjp(grad: Tensor, x: Tensor) -> Tensor:
    size = abs(x)
    along = _real_part(grad * conj_physical(x)) / square(size + 1.0)
    return grad / (size + 1.0) - x * (along / where(size == 0, 1.0, size))


@elementwise(
    glsl="x <= -3 ? 0 : x >= 3 ? 1 : raised_sixth(x)",
    reference=lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, (x + 3) / 6)),
    dtypes=FLOAT,
)
def hardsigmoid(x: Tensor) -> Tensor:
    """Return x / 6 + 1 / 2, but at least 0 and at most 1."""


@hardsigmoid.vjp
def hardsigmoid_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return piecewise(where(abs(x) < 3.0, grad * (1 / 6), 0.0), x)


@elementwise(
    glsl="x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6",
    reference=lambda x: np.where(x <= -3, 0, np.where(x >= 3, x, x * (x + 3) / 6)),
    dtypes=FLOAT,
)
def hardswish(x: Tensor) -> Tensor:
    """Return each element times its hardsigmoid."""


@hardswish.vjp
def hardswish_vjp(grad: Tensor, x: Tensor) -> Tensor:
    inner = where(x < 3.0, grad * (x * (1 / 3) + 0.5), grad)
    return where(x <= -3.0, 0.0, inner)


@autocast_low_precision
@shown_as("PreluKernelBackward0", "x", "weight")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """Return each element, or that of its channel's weight times it where negative.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, ...)
    weight : Tensor, shape (channels,), or of one element

    Raises
    ------
    ShapeError
        If there is not one weight, or one for each channel, in one dimension or none.
    """
    need_float("prelu", x=x)
    need_one_dtype("prelu", x=x, weight=weight)
    channels = x.layout.shape[1] if len(x.layout.shape) > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(
            f"prelu: x is {tuple(x.shape)}, weight {tuple(weight.shape)}; there must"
            " be one weight,"
            f" or {channels}"
        )
    shape = (
        (weight.numel(),) + (1,) * (len(x.layout.shape) - 2)
        if len(x.layout.shape) > 1
        else ()
    )
    return where(x > 0, x, reshape(weight, shape) * x)


def swiglu(gate: Tensor, x: Tensor) -> Tensor:
    """Return silu(gate) * x.

    Parameters
    ----------
    gate, x : Tensor
        Float, of shapes that broadcast: two linear maps of one input.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Notes
    -----
    Source: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.
    """
    broadcast_shapes("swiglu", gate.layout.shape, x.layout.shape)
    return silu(gate) * x


@shown_as("GluBackward0", "x")
@replayable
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of a dimension times the sigmoid of the second.

    Raises
    ------
    DTypeError
        If `x` is not of real floats.
    ShapeError
        If its size is odd.

    Notes
    -----
    Source: Dauphin et al., arXiv:1612.08083.
    """
    need_real_float("glu", x=x)
    at = normalize_dim("glu", dim, len(x.layout.shape))
    if x.layout.shape[at] % 2:
        raise ShapeError(
            f"glu: dimension {at} of shape {tuple(x.shape)} has an odd size; it must"
            " be even"
        )
    size = x.layout.shape[at] // 2
    return narrow(x, at, 0, size) * sigmoid(narrow(x, at, size, size))
