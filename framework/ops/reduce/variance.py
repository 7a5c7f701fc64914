"""Variance, standard deviation and norms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import show_as, shown_as
from ...base.dtype import FLOAT, DTypeLike, as_dtype, promote
from ...base.errors import DTypeError, ShapeError
from ...base.shape import TensorSpec, broadcast_shapes, normalize_dim, reduced_dims
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import composite, primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Argument, Dispatch, StridedSpec
from ...kernels.reduce import kept_shape, reduce_dispatches, stateful
from ...kernels.shader_types import statistic_dtype
from ..elementwise.cast import converted
from ..elementwise.compare import clamp_min, eq, where
from ..elementwise.complex_numbers import _imaginary_part, _real_part
from ..elementwise.exponential import pow
from ..elementwise.unary import abs, sign, sqrt
from ..view import expand, movedim
from .common import as_dtype_of, in_storage, readable
from .minmax import amax, amin
from .sum import Dims, finish, mean, reduce_empty, sum, total

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def _need_float(name: str, x: Tensor) -> None:
    if not x.dtype.is_float:
        raise DTypeError(
            f"{name}: `x` is {x.dtype.name}; it must be a float dtype;"
            " call x.float() first"
        )


@primitive(dtypes=FLOAT, strided=True, typed="x", reduction="variance")
def _var(x: Tensor, dims: tuple[int, ...], divisor: float) -> Tensor:
    """Return squared distances from the mean over `dims`, summed and divided."""


@_var.spec
def _var_spec(x: TensorSpec, dims: tuple[int, ...], divisor: float) -> TensorSpec:
    return TensorSpec(kept_shape(x.shape, dims), x.dtype)


@_var.kernel
def _var_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], divisor: float
) -> list[Dispatch]:
    results: dict[str, Argument] = {"out_": "out", "scale": _inverse(divisor)}
    chosen = stateful("reduce/variance", x.dtype, 3, results, {})
    return reduce_dispatches(gpu, chosen, x, dims)


def _inverse(divisor: float) -> float:
    return 1.0 / divisor if divisor else math.inf


@_var.vjp
def _var_vjp(grad: Tensor, x: Tensor, dims: tuple[int, ...], divisor: float) -> Tensor:
    return grad * (2.0 * _inverse(divisor)) * (x - mean(x, dims, keepdim=True))


@_var.reference
def _var_reference(x: np.ndarray, dims: tuple[int, ...], divisor: float) -> np.ndarray:
    squares = np.square(x - x.mean(dims, keepdims=True)).sum(dims, keepdims=True)
    return squares * x.dtype.type(_inverse(divisor))


def _correction(
    name: str, dim: Dims, unbiased: bool | None, correction: float | None
) -> tuple[Dims, float]:
    """Return the dimensions and the correction of PyTorch's two forms."""
    if isinstance(dim, bool):
        if unbiased is not None:
            raise TypeError(
                f"{name}: dim is {dim}; it must be an int, a sequence of ints or None"
            )
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(
            f"{name}: unbiased is {unbiased} and correction {correction}; give one of"
            " them"
        )
    if unbiased is not None:
        if not isinstance(unbiased, bool):
            raise TypeError(f"{name}: unbiased is {unbiased!r}; it must be a bool")
        return dim, int(unbiased)
    return dim, 1 if correction is None else correction


def var(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Return the variance over one dimension, several, or all.

    Parameters
    ----------
    x : Tensor, float
    dim : int, sequence of int or None
        None means all.
    unbiased : bool or None
        The older form of `correction`: True means 1, False 0. A bool in the place of
        `dim` is this one, as in PyTorch.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    correction : number or None
        Subtracted from the number of elements before dividing by it: 1, as None means,
        for the unbiased estimate from a sample, 0 for the variance of the elements
        themselves.

    Raises
    ------
    TypeError
        If both `unbiased` and `correction` are given.

    Notes
    -----
    With no more elements than `correction` the result is NaN, or infinite where they
    differ, as in PyTorch. One pass over the data, in which nothing cancels.
    """
    if x.dtype.is_complex:
        parts = _real_part(x), _imaginary_part(x)
        one, two = (
            var(each, dim, unbiased, keepdim, correction=correction) for each in parts
        )
        return one + two
    _need_float("var", x)
    dim, divided = _correction("var", dim, unbiased, correction)
    dims = reduced_dims("var", dim, len(x.layout.shape))
    count = math.prod(x.layout.shape[each] for each in dims)
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, math.nan, x.dtype)
    divisor = max(0.0, count - divided)
    made = _var(*readable(in_storage(x), dims), divisor)
    out = finish(as_dtype_of(made, x.dtype), x.layout.shape, dims, keepdim)
    show_as(out, "VarBackward0", x)
    return out


@replayable
def std(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Return the standard deviation, the root of `var`.

    Parameters
    ----------
    x : Tensor, float or complex
    dim, unbiased, keepdim, correction
        As in `var`, and its errors.

    Returns
    -------
    Tensor
        Of the dtype of `x`, or of its real part. NaN of one element, or infinite, as
        `var` has it. Its gradient is 0 where it is 0 itself, as in PyTorch.
    """
    if x.dtype.is_complex:
        made = var(x, dim, unbiased, keepdim, correction=correction)
        return sqrt(made)
    _need_float("std", x)
    dim, divided = _correction("std", dim, unbiased, correction)
    reduced_dims("std", dim, len(x.layout.shape))
    out: Tensor = _std(var(x, dim, correction=divided, keepdim=keepdim))
    show_as(out, "StdBackward0", x)
    return out


@shown_as("VarMeanBackward0", "x")
@replayable
def var_mean(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean.

    Parameters
    ----------
    x : Tensor, float
    dim, unbiased, keepdim, correction
        As in `var`, and its errors.

    Returns
    -------
    tuple of Tensor
        What `var` and `mean` give.
    """
    dim, divided = _correction("var_mean", dim, unbiased, correction)
    found = var(x, dim, correction=divided, keepdim=keepdim)
    return found, mean(x, dim, keepdim)


@shown_as("StdMeanBackward0", "x")
@replayable
def std_mean(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean.

    Parameters
    ----------
    x : Tensor, float
    dim, unbiased, keepdim, correction
        As in `var`, and its errors.

    Returns
    -------
    tuple of Tensor
        What `std` and `mean` give.
    """
    dim, divided = _correction("std_mean", dim, unbiased, correction)
    found = std(x, dim, correction=divided, keepdim=keepdim)
    return found, mean(x, dim, keepdim)


@composite(dtypes=FLOAT)
def _std(x: Tensor) -> Tensor:
    """Return square roots, with a gradient of 0 at 0."""
    return sqrt(x)


@_std.vjp
def _std_vjp(grad: Tensor, out: Tensor) -> Tensor:
    flat = eq(out, 0.0)
    return where(flat, 0.0, grad * 0.5 / where(flat, 1.0, out))


@composite(dtypes=FLOAT)
def _norm(x: Tensor, p: float, dims: tuple[int, ...]) -> Tensor:
    """Return p-norms over `dims`, which stay with size 1, for finite p."""
    # Powers and their sums leave the range of the 2-byte floats.
    wide = statistic_dtype(x.dtype)
    if p in (0, 1):
        return total(x, dims, True, x.dtype, mapping="abs" if p else "nonzero")
    if p == 2:
        return as_dtype_of(sqrt(total(x, dims, True, wide, mapping="square")), x.dtype)
    powers = pow(abs(as_dtype_of(x, wide)), p)
    return as_dtype_of(pow(total(powers, dims, True, wide), 1.0 / p), x.dtype)


@_norm.vjp
def _norm_vjp(grad: Tensor, x: Tensor, out: Tensor, p: float) -> Tensor:
    """Share the gradient by (|x| / norm)^(p - 1); 0 where x or the norm is 0."""
    if p in (0, 1):
        return grad * (sign(x) * p)
    flat = eq(out, 0.0)
    scaled = x / where(flat, 1.0, out)
    if p != 2:
        zero = eq(x, 0.0)
        scaled = sign(x) * pow(where(zero, 1.0, abs(scaled)), p - 1.0)
    return where(flat, 0.0, grad * scaled)


@autocast_float32_on_device
@replayable
def norm(
    x: Tensor,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the p-norm of the elements over one dimension, several, or all.

    Parameters
    ----------
    x : Tensor, float
    p : number, "fro", "nuc" or None
        The p-th root of the sum of |x|^p; "fro" and None are 2. Infinity gives the
        largest |x|, minus infinity the smallest, 0 how many elements are not 0, "nuc"
        the sum of a matrix's singular values.
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To compute in; None means that of `x`.

    Returns
    -------
    Tensor
        Of that dtype; sums are accumulated in float32.

    Notes
    -----
    The gradient of a norm that is 0 is 0, as in PyTorch. Elements are not scaled, so
    squares beyond the range of the dtype that they are summed in give infinity.
    """
    if x.dtype.is_complex and p != "nuc":
        x = abs(x)
    if dtype is not None:
        x = as_dtype_of(x, as_dtype(dtype))
    if p == "nuc":
        from ...base.validation import as_ints
        from ..linear_algebra import svdvals

        if dim is None and len(x.layout.shape) != 2:
            raise ShapeError(
                f'norm: x is {tuple(x.shape)}; for "nuc" it must be a matrix, or dim'
                " name two dimensions"
            )
        pair = (-2, -1) if dim is None else as_ints("norm: dim", dim)
        matrix = movedim(x, (pair[0], pair[-1]), (-2, -1))
        summed = sum(svdvals(matrix), -1)
        return finish(
            summed, x.layout.shape, reduced_dims("norm", pair, x.ndim), keepdim
        )
    _need_float("norm", x)
    p = "fro" if p is None else p
    if isinstance(p, str) and p != "fro":
        raise ShapeError(f'norm: p is {p!r}; it must be a number, "fro" or "nuc"')
    order = 2.0 if isinstance(p, str) else float(p)
    dims = reduced_dims("norm", dim, len(x.layout.shape))
    if math.isinf(order):
        out = (amax if order > 0 else amin)(abs(x), dims, keepdim)
    elif x.numel() == 0:
        out = reduce_empty(x, dims, keepdim, 0, x.dtype)
    else:
        out = finish(_norm(x, order, dims), x.layout.shape, dims, keepdim)
    if out.grad_node is not None:
        show_as(out, "LinalgVectorNormBackward0", x)
    return out


@autocast_float32_on_device
@replayable
def cosine_similarity(
    x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Tensor:
    """Return the cosines of the angles between vectors along a dimension.

    Parameters
    ----------
    x1, x2 : Tensor, float
        Of shapes that broadcast.
    dim : int, default 1
        Dimension along which the vectors lie.
    eps : float, default 1e-8
        Least norm to divide by.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    shape = broadcast_shapes("cosine_similarity", x1.layout.shape, x2.layout.shape)
    kind = promote(x1.dtype, x2.dtype)
    x1, x2 = converted(x1, kind), converted(x2, kind)
    _need_float("cosine_similarity", x1)
    at = normalize_dim("cosine_similarity", dim, len(shape) or 1)
    x1, x2 = (x if x.layout.shape == shape else expand(x, shape) for x in (x1, x2))
    norms = (clamp_min(norm(each, 2, at, keepdim=True), eps) for each in (x1, x2))
    first, second = norms
    return sum((x1 / first) * (x2 / second), at)
