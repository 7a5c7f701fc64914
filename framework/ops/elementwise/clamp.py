"""Elements between two bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.tape import show_as
from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise
from ...dispatch.scalar import is_rounded, real, rounded
from ...eager.base_tensor import TensorCore
from .compare import clamp_max, clamp_min

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(
    glsl="x < low ? low : x > high ? high : x",
    reference=lambda x, low, high: np.where(x < low, low, np.where(x > high, high, x)),
    dtypes=FLOAT,
)
def _clamp_between(x: Tensor, low: float, high: float) -> Tensor:
    """Return each element, or the nearest of two bounds; NaN stays NaN.

    `low` is 0 or below, `high` 0 or above: see `codegen.ir.subnormal`.
    """


@_clamp_between.vjp
def _clamp_between_vjp(grad: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    out: Tensor = _slope_within(grad, x, low, high)
    show_as(out, "WhereBackward0", grad)
    return out


@elementwise(
    glsl="all(bvec2(x >= low, x <= high)) ? slope : 0",
    reference=lambda slope, x, low, high: np.where((x >= low) & (x <= high), slope, 0),
    dtypes=FLOAT,
)
def _slope_within(slope: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    """Return a gradient, but 0 where `x` is beyond a bound or NaN."""


@_slope_within.vjp
def _slope_within_vjp(
    grad: Tensor, x: Tensor, low: float, high: float
) -> tuple[Tensor, None]:
    return _slope_within(grad, x, low, high), None


# Beside a bound that is no subnormal number, a device may take such elements for 0. So
# these compare floats where those above compare bits.


@elementwise(
    glsl="x > high ? high : x < low ? low : x",
    reference=_clamp_between.numpy_reference,
    dtypes=FLOAT,
)
def _clamp_normal(x: Tensor, low: float, high: float) -> Tensor:
    """Return `_clamp_between` of any bounds that are neither 0 nor subnormal."""


@_clamp_normal.vjp
def _clamp_normal_vjp(grad: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    out: Tensor = _slope_normal(grad, x, low, high)
    show_as(out, "WhereBackward0", grad)
    return out


@elementwise(
    glsl="all(bvec2(x <= high, x >= low)) ? slope : 0",
    reference=_slope_within.numpy_reference,
    dtypes=FLOAT,
)
def _slope_normal(slope: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    """Return `_slope_within` of any bounds that are neither 0 nor subnormal."""


@_slope_normal.vjp
def _slope_normal_vjp(
    grad: Tensor, x: Tensor, low: float, high: float
) -> tuple[Tensor, None]:
    return _slope_normal(grad, x, low, high), None


LEAST_NORMAL = 2.0**-126
"""The least float32 that is not subnormal; of narrower floats none that is, is less."""


def _clamped(x: Tensor, low: float, high: float) -> Tensor | None:
    """Return elements between two bounds of which the first is not above the other.

    None where they need one comparison after the other.
    """
    if abs(low) >= LEAST_NORMAL and abs(high) >= LEAST_NORMAL:
        return _clamp_normal(x, low, high)
    return _clamp_between(x, low, high) if low <= 0 <= high else None


def clamp(
    x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None
) -> Tensor:
    """Return each element, or the nearest bound where it is beyond one.

    Parameters
    ----------
    x : Tensor
        Any dtype but bool.
    min, max : Tensor, number or None
        Bounds, which broadcast with `x`; None stands for no bound. Where `min` is
        larger than `max` the result is `max`.

    Raises
    ------
    TypeError
        If both bounds are None.
    """
    if min is None and max is None:
        raise TypeError("clamp: min and max are both None; give at least one of them")
    kind, numbers = x.dtype, (int, float)
    below, above = type(min) in numbers, type(max) in numbers
    if is_rounded(kind):
        # As they are compared with: PyTorch's bounds are of the tensor's dtype.
        min = rounded(real("clamp", min), kind) if below else min
        max = rounded(real("clamp", max), kind) if above else max
    out: Any = None
    if below and above and kind in FLOAT and min <= max:  # type: ignore[operator]
        out = _clamped(x, min, max)  # type: ignore[arg-type]
    if out is None:
        bounded = x if min is None else clamp_min(x, min)
        out = bounded if max is None else clamp_max(bounded, max)
    bounds = [each if isinstance(each, TensorCore) else None for each in (min, max)]
    if out.grad_node is not None:
        if any(each is not None for each in bounds):
            show_as(out, "ClampBackward0", x, *bounds)
        else:
            show_as(out, "ClampBackward1", x)
    return out
