"""Prefix sums and products (scans) along a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as, shown_as
from ...base.dtype import NUMERIC, DTypeLike, as_dtype, bool_, int32
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, normalize_dim
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ...ir.kernel_call import (
    Dispatch,
    StridedSpec,
)
from ...kernels.scan import scan_dispatches
from ..elementwise.binary import mul, sub
from ..elementwise.cast import cast
from ..elementwise.compare import eq, logical_and, logical_xor, where
from ..elementwise.complex_numbers import by_parts
from ..elementwise.unary import lazy_copy, unshared
from ..indexing.gather import rows_of
from ..movement.slice import narrow
from ..source import fill_like
from ..view import reshape
from .common import as_dtype_of, in_storage, whole_dtype

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def _scanned(x: np.ndarray, scan: np.ufunc, reverse: bool) -> np.ndarray:
    """Return a scan of (outer, count, inner) in the dtype of `x`."""
    turned = x[:, ::-1] if reverse else x
    out = scan.accumulate(turned, axis=1, dtype=x.dtype)
    return out[:, ::-1] if reverse else out


@primitive(dtypes=NUMERIC, typed="x")
def _cumsum(x: Tensor, reverse: bool) -> Tensor:
    """Return running sums along the middle of three dimensions."""


@_cumsum.spec
def _cumsum_spec(x: TensorSpec, reverse: bool) -> TensorSpec:
    return x


@_cumsum.kernel
def _cumsum_kernel(gpu: DeviceInfo, x: StridedSpec, reverse: bool) -> list[Dispatch]:
    return scan_dispatches(gpu, x, "sum", reverse)


@_cumsum.vjp
def _cumsum_vjp(grad: Tensor, reverse: bool) -> Tensor:
    return _cumsum(grad, not reverse)


@_cumsum.reference
def _cumsum_reference(x: np.ndarray, reverse: bool) -> np.ndarray:
    return _scanned(x, np.add, reverse)


@primitive(dtypes=NUMERIC, typed="x")
def _cumprod(x: Tensor, reverse: bool) -> Tensor:
    """Return running products along the middle of three dimensions."""


@_cumprod.spec
def _cumprod_spec(x: TensorSpec, reverse: bool) -> TensorSpec:
    return x


@_cumprod.kernel
def _cumprod_kernel(gpu: DeviceInfo, x: StridedSpec, reverse: bool) -> list[Dispatch]:
    return scan_dispatches(gpu, x, "product", reverse)


@_cumprod.vjp
def _cumprod_vjp(grad: Tensor, x: Tensor, out: Tensor, reverse: bool) -> Tensor:
    """Add up, for each element, the products that it is in, without it.

    Before the first 0 of a row that is the product divided by the element; at the first
    0, the products as if it were 1; behind it nothing. That has no right derivative by
    the zeros, so a gradient that is recorded is computed without it.
    """
    if is_grad_enabled():
        return _recorded_cumprod_vjp(grad, x, out, reverse)
    zero = eq(x, 0.0)
    zeros = _cumsum(cast(zero, int32), reverse)
    ahead, first = eq(zeros, 0), logical_and(zero, eq(zeros, 1))
    without = _cumprod(where(first, 1.0, x), reverse)
    at_zero = _cumsum(grad * without, not reverse)
    elsewhere = _cumsum(grad * out, not reverse) / where(zero, 1.0, x)
    return where(ahead, elsewhere, where(first, at_zero, 0.0))


def _recorded_cumprod_vjp(
    grad: Tensor, x: Tensor, out: Tensor, reverse: bool
) -> Tensor:
    """Return the gradient of running products in sums and products alone.

    The sum over j from k on of grad[j] x[k + 1] ... x[j] is that from k + 1 on times
    x[k + 1], plus grad[k].
    """
    total = linear_recurrence(shifted(x, -1, 0.0, reverse), grad, reverse)
    return total * shifted(out, 1, 1.0, reverse)


def linear_recurrence(factor: Tensor, total: Tensor, reverse: bool) -> Tensor:
    """Return sums of which each is `total` and `factor` times the one behind it.

    Along the middle dimension, from its end on, or from its front if `reverse`. Steps
    are taken in doubling strides as in `_complex_running_product`.
    """
    size, stride = factor.shape[1], 1
    while stride < size:
        total = total + factor * shifted(total, -stride, 0.0, reverse)
        factor = factor * shifted(factor, -stride, 0.0, reverse)
        stride *= 2
    return total


def shifted(x: Tensor, by: int, filling: float, reverse: bool) -> Tensor:
    """Return `x` moved along the middle dimension, `filling` where it leaves places.

    Backwards if `by` is below 0, and the other way round if `reverse`.
    """
    from ..movement.concat import cat

    by = -by if reverse else by
    kept = narrow(x, 1, max(-by, 0), x.shape[1] - abs(by))
    shape = (x.shape[0], abs(by), x.shape[2])
    fill = fill_like(x, shape, filling, x.dtype)
    return cat([fill, kept] if by > 0 else [kept, fill], 1)


@_cumprod.reference
def _cumprod_reference(x: np.ndarray, reverse: bool) -> np.ndarray:
    return _scanned(x, np.multiply, reverse)


def _rows(x: Tensor, dim: int) -> Tensor:
    return in_storage(rows_of(x, dim))


def running_product(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """Return running products along `dim`, from the end to the front if `reverse`."""
    out = _cumprod(_rows(x, dim), reverse)
    return as_dtype_of(reshape(out, x.layout.shape), x.dtype)


def _prepared(
    name: str, x: Tensor, dim: int, dtype: DTypeLike | None
) -> tuple[Tensor, int]:
    """Return `x` in the dtype of the result, and the dimension."""
    at = normalize_dim(name, dim, len(x.layout.shape) or 1)
    own = x.array.value.dtype
    if dtype is None:
        return (x if own.is_differentiable else as_dtype_of(x, whole_dtype(x))), at
    return as_dtype_of(x, as_dtype(dtype)), at


@autocast_float32_on_device
@replayable
def cumsum(x: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the sums of all elements up to each, along a dimension.

    Parameters
    ----------
    x : Tensor
    dim : int
    dtype : DType, str or None
        None means the dtype of `x`, or int64 for integers and bools (int32 on devices
        without 64-bit integers).

    Returns
    -------
    Tensor, shape of `x`
        The 2-byte floats are accumulated in float32.
    """
    source, at = _prepared("cumsum", x, dim, dtype)
    if x.numel() == 0 or len(x.layout.shape) == 0:
        return unshared(source, x, "CumsumBackward0")
    if source.dtype.is_complex:
        return by_parts(lambda part: cumsum(part, at), source)
    sums = _cumsum(_rows(source, at), False)
    out = as_dtype_of(reshape(sums, x.layout.shape), source.dtype)
    if out.grad_node is not None:
        show_as(out, "CumsumBackward0", x)
    return out


@autocast_float32_on_device
@replayable
@shown_as("CumprodBackward0", "x")
def cumprod(x: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the products of all elements up to each, along a dimension.

    Parameters
    ----------
    x : Tensor
    dim : int
    dtype : DType, str or None
        None means the dtype of `x`, or int64 for integers and bools (int32 on devices
        without 64-bit integers).

    Returns
    -------
    Tensor, shape of `x`
        The 2-byte floats are accumulated in float32.

    Notes
    -----
    The gradient is right where elements are 0, too.
    """
    source, at = _prepared("cumprod", x, dim, dtype)
    if x.numel() == 0 or len(x.layout.shape) == 0:
        return unshared(source, x)
    if source.dtype.is_complex:
        return _complex_running_product(source, at)
    return running_product(source, at, reverse=False)


def _complex_running_product(x: Tensor, dim: int) -> Tensor:
    """Return running products of complex numbers, over twice as many in each step.

    Source: Hillis and Steele, "Data Parallel Algorithms", CACM 1986.
    """
    from ..movement.concat import cat

    size, step = x.shape[dim], 1
    while step < size:
        first, rest = narrow(x, dim, 0, step), narrow(x, dim, step, size - step)
        before = narrow(x, dim, 0, size - step)
        x = cat([first, mul(rest, before)], dim)
        step *= 2
    return x


def diff(
    x: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return differences of neighbours along a dimension, taken `n` times.

    Parameters
    ----------
    x : Tensor
        Of at least one dimension; bools differ or not.
    n : int, default 1
        Each time takes one off the size, which ends at 0.
    dim : int, default -1
    prepend, append : Tensor or None
        Put before and behind `x` along the dimension first.

    Raises
    ------
    ShapeError
        If `n` is below 0, or `prepend` or `append` does not fit.
    """
    at, n = normalize_dim("diff", dim, len(x.layout.shape)), as_int("diff: n", n)
    if n < 0:
        raise ShapeError(f"diff: n is {n}; it must be at least 0")
    for name, each in (("prepend", prepend), ("append", append)):
        if each is not None and not isinstance(each, TensorCore):
            raise TypeError(f"diff: {name} is {each!r}; it must be a tensor")
        if each is not None and each.ndim != x.ndim:
            raise ShapeError(
                f"diff: {name} is {tuple(each.shape)}, x {tuple(x.shape)}; it must have"
                " as many dimensions"
            )
    if not n:
        return lazy_copy(x)
    ends = [each for each in (prepend, x, append) if each is not None]
    if len(ends) > 1:
        from ..movement.concat import cat

        x = cat(ends, at)
    times = min(n, x.layout.shape[at])
    if not times:
        return lazy_copy(x)
    for _ in range(times):
        size = x.layout.shape[at] - 1
        later, earlier = narrow(x, at, 1, size), narrow(x, at, 0, size)
        x = logical_xor(later, earlier) if x.dtype is bool_ else sub(later, earlier)
    return x
