"""Element-wise operations of one tensor: signs, rounding, roots.

Each is its GLSL expression, compiled alone or as part of a fused kernel, so the two
cannot differ; functions that GLSL does not have are in `glsl/lib/math/`. The 2-byte
floats compute in float32. Results on special values (NaN, infinities, signed zeros,
integer wrap) are NumPy's unless a docstring says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import show_as
from ...base.dtype import ANY, FLOAT, NUMERIC, STORED, DType, bool_, int64
from ...base.shape import Layout, in_memory_order
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import elementwise, movement
from ..source import fill_like
from .complex_numbers import _complex_sign

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(glsl="-x", reference=np.negative, dtypes=NUMERIC)
def neg(x: Tensor) -> Tensor:
    """Return each element with its sign changed; integers wrap."""


neg.complexes(glsl="-x", linear=True)


@neg.vjp
def neg_vjp(grad: Tensor) -> Tensor:
    return -grad


@elementwise(glsl="magnitude(x)", reference=np.abs, dtypes=NUMERIC)
def abs(x: Tensor) -> Tensor:
    """Return each element without its sign; the smallest integer stays as it is."""


@abs.complexes(glsl="complex_magnitude(x)", result=DType.to_real)
def abs_complex_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return _complex_sign(x) * grad


@abs.vjp
def abs_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * sign(x)


def _sign(x: np.ndarray) -> np.ndarray:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


@elementwise(glsl="signum(x)", reference=_sign, dtypes=NUMERIC)
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1 by the sign of each element; 0 for NaN, unlike NumPy."""


@sign.bools
def sign_bools(x: Tensor) -> Tensor:
    return lazy_copy(x)


@sign.vjp
def sign_vjp(grad: Tensor) -> Tensor:
    return flat(grad)


def flat(grad: Tensor) -> Tensor:
    """Return the gradient of a function that is constant almost everywhere."""
    zeros: Tensor = fill_like(grad, grad.layout.shape, 0, grad.dtype)
    return zeros


def of_all(x: Tensor, value: bool) -> Tensor:
    """Return one truth value for each element, in memory order; `x` is not read."""
    out: Tensor = fill_like(x, x.layout.shape, value, bool_)
    kept, _ = in_memory_order([x.layout])
    if kept is not None:
        out.layout = kept
    return out


def with_zero_gradient(result: Tensor, x: Tensor) -> Tensor:
    """Return a result that is constant in `x`, and whose gradient by it is 0."""
    if not x.requires_grad:
        return result
    nothing = (sign(x) if x.dtype.is_float else x) * 0.0
    return result + nothing


@autocast_float32_on_device
@elementwise(glsl="x * x", reference=np.square, dtypes=NUMERIC)
def square(x: Tensor) -> Tensor:
    """Return each element multiplied by itself; integers wrap."""


square.complexes(glsl="complex_product(x, x)")


@square.bools
def square_bools(x: Tensor) -> Tensor:
    whole: Tensor = x.to(int64)
    return whole


@square.vjp
def square_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (x * 2.0)


# Compilers may take no root for negative: neither -0.0 nor its -infinity below.
@elementwise(
    glsl="x == 0 ? x : rounded_root(x)",
    reference=np.sqrt,
    dtypes=FLOAT,
    fractional=True,
)
def sqrt(x: Tensor) -> Tensor:
    """Return the square root; of a negative number NaN."""


sqrt.complexes(glsl="complex_root(x)")


@sqrt.vjp
def sqrt_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * 0.5 / out


@autocast_float32_on_device
@elementwise(
    glsl="x == 0 ? divided(1, x) : inversesqrt(x)",
    reference=lambda x: np.reciprocal(np.sqrt(x)),
    dtypes=FLOAT,
    fractional=True,
)
def rsqrt(x: Tensor) -> Tensor:
    """Return one over the square root."""


rsqrt.complexes(glsl="complex_quotient(vec2(1, 0), complex_root(x))")


@rsqrt.vjp
def rsqrt_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return grad * -0.5 * out * out * out


@autocast_float32_on_device
@elementwise(
    glsl="rounded_quotient(1, x)",
    reference=np.reciprocal,
    dtypes=FLOAT,
    fractional=True,
)
def reciprocal(x: Tensor) -> Tensor:
    """Return one over each element."""


reciprocal.complexes(glsl="complex_quotient(vec2(1, 0), x)")


@reciprocal.vjp
def reciprocal_vjp(grad: Tensor, out: Tensor) -> Tensor:
    return -grad * out * out


@elementwise(glsl="floor(x)", reference=np.floor, dtypes=FLOAT)
def floor(x: Tensor) -> Tensor:
    """Return the largest whole number that is not above each element."""


@floor.integers
def floor_integers(x: Tensor) -> Tensor:
    return lazy_copy(x)


@floor.vjp
def floor_vjp(grad: Tensor) -> Tensor:
    return flat(grad)


@elementwise(glsl="ceil(x)", reference=np.ceil, dtypes=FLOAT)
def ceil(x: Tensor) -> Tensor:
    """Return the smallest whole number that is not below each element."""


@ceil.integers
def ceil_integers(x: Tensor) -> Tensor:
    return lazy_copy(x)


@ceil.vjp
def ceil_vjp(grad: Tensor) -> Tensor:
    return flat(grad)


@elementwise(glsl="nearest_whole(x)", reference=np.rint, dtypes=FLOAT)
def round(x: Tensor) -> Tensor:
    """Return the nearest whole number, the even one of two that are as near.

    The keyword `decimals` rounds to as many decimal places, below 0 to tens and so on.
    """


@round.form
def _round_form(input: Tensor, *, decimals: int = 0) -> Tensor:
    if decimals > 0:
        out = round(input * 10.0**decimals) / 10.0**decimals
    elif decimals < 0:
        out = round(input / 10.0**-decimals) * 10.0**-decimals
    else:
        out = round(input)
    show_as(out, "RoundBackward1", input)
    return out


@round.integers
def round_integers(x: Tensor) -> Tensor:
    return lazy_copy(x)


@round.vjp
def round_vjp(grad: Tensor) -> Tensor:
    return flat(grad)


@elementwise(glsl="whole_part(x)", reference=np.trunc, dtypes=FLOAT)
def trunc(x: Tensor) -> Tensor:
    """Return each element without its fraction."""


@trunc.integers
def trunc_integers(x: Tensor) -> Tensor:
    return lazy_copy(x)


@trunc.vjp
def trunc_vjp(grad: Tensor) -> Tensor:
    return flat(grad)


@elementwise(
    glsl="x - whole_part(x)", reference=lambda x: x - np.trunc(x), dtypes=FLOAT
)
def frac(x: Tensor) -> Tensor:
    """Return the fraction of each element, with its sign; of an infinity NaN."""


@frac.vjp
def frac_vjp(grad: Tensor) -> Tensor:
    return grad


@elementwise(glsl="x", reference=lambda x: x, dtypes=ANY)
def copy(x: Tensor) -> Tensor:
    """Return the same elements in fresh row-major storage."""


copy.complexes(glsl="x", linear=True)
copy.row_major = True


@copy.vjp
def copy_vjp(grad: Tensor) -> Tensor:
    return grad


@movement(dtypes=STORED, shares=False)
def _lazy_copy(x: Tensor) -> Tensor:
    """Return the same elements in another storage, without a kernel."""


@_lazy_copy.layout
def _lazy_copy_layout(layout: Layout) -> Layout:
    return layout


@_lazy_copy.vjp
def _lazy_copy_vjp(grad: Tensor) -> Tensor:
    return grad


def lazy_copy(x: Tensor, node: str = "CloneBackward0") -> Tensor:
    """Return the same elements in row-major storage of their own.

    A kernel copies them only where `x` is not the whole of its storage in that order.
    The graph shows the node as named.
    """
    layout = x.layout
    whole = layout.numel == x.array.value.numel and layout.is_contiguous
    out = _lazy_copy(x) if whole else copy(x)
    show_as(out, node, x)
    return out


def unshared(out: Tensor, x: Tensor, node: str = "CloneBackward0") -> Tensor:
    """Return a result, copied if it lies in the storage of its operand `x`."""
    return lazy_copy(out, node) if out.array is x.array else out
