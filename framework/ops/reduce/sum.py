"""Sums, products and counts over any dimensions.

Integers and bools are summed and multiplied as int64, as in PyTorch (uint64 stays), and
as int32 on devices without 64-bit integers. The 2-byte floats are accumulated in
float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as, shown_as
from ...base.dtype import (
    ANY,
    FLOAT,
    DType,
    DTypeLike,
    as_dtype,
    float32,
    float64,
    int64,
)
from ...base.errors import DTypeError
from ...base.shape import Shape, TensorSpec, reduced_dims
from ...dispatch.autocast_policy import (
    autocast_float32,
    autocast_float32_on_device,
    autocast_passthrough,
)
from ...dispatch.declare import composite, primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.reduce import dropped_shape, kept_shape, reduce_dispatches, sum_like
from ...kernels.reduce_variants import reduce_candidates
from ..elementwise.binary import mul
from ..elementwise.cast import cast, refuse_complex
from ..elementwise.compare import eq, ne, where
from ..elementwise.complex_numbers import by_parts
from ..elementwise.unary import unshared
from ..movement.concat import cat
from ..movement.rearrange import pad
from ..movement.slice import narrow, select
from ..view import flatten, permute, reshape, unflatten
from .common import (
    as_dtype_of,
    empty_result,
    in_storage,
    readable,
    whole_dtype,
)
from .scan import running_product
from .two_steps import in_two_steps

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

Dims = int | Sequence[int] | None


def finish(out: Tensor, shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Return the result of reducing a tensor of `shape`, with or without `dims`."""
    return reshape(out, (kept_shape if keepdim else dropped_shape)(shape, dims))


def reduce_empty(
    x: Tensor, dims: tuple[int, ...], keepdim: bool, value: float, dtype: DType
) -> Tensor:
    """Return the reduction of an empty tensor: `value` everywhere."""
    out = empty_result(x, kept_shape(x.layout.shape, dims), value, dtype)
    return finish(out, x.layout.shape, dims, keepdim)


def _need_growth(name: str, x: TensorSpec, dtype: DType) -> None:
    """Assert that the kernel accumulates `x` in `dtype`."""
    wider = float32 if x.dtype.is_float else int64
    grows = dtype is wider and x.dtype.itemsize < wider.itemsize
    assert dtype is x.dtype or grows, f"{name}: no sum of {x.dtype} in {dtype}"


@primitive(dtypes=ANY, strided=True, typed="x", reduction="add")
def _sum(x: Tensor, dims: tuple[int, ...], dtype: DType, scale: float = 1) -> Tensor:
    """Return sums over `dims`, which stay with size 1, times `scale`."""


@_sum.spec
def _sum_spec(
    x: TensorSpec, dims: tuple[int, ...], dtype: DType, scale: float
) -> TensorSpec:
    _need_growth("sum", x, dtype)
    return TensorSpec(kept_shape(x.shape, dims), dtype)


@_sum.kernel
def _sum_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], dtype: DType, scale: float
) -> list[Dispatch]:
    return reduce_dispatches(gpu, sum_like("SUM", x.dtype, dtype, scale), x, dims)


@_sum.candidates
def _sum_candidates(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], dtype: DType, scale: float
) -> dict[str, Callable[[], list[Dispatch]]]:
    return reduce_candidates(gpu, sum_like("SUM", x.dtype, dtype, scale), x, dims)


@_sum.vjp
def _sum_vjp(grad: Tensor, x_spec: TensorSpec, scale: float) -> Tensor:
    scaled = grad if scale == 1 else grad * scale
    return scaled.expand(x_spec.shape)


@_sum.reference
def _sum_reference(
    x: np.ndarray, dims: tuple[int, ...], dtype: DType, scale: float
) -> np.ndarray:
    kind = dtype.arithmetic
    return np.sum(x, axis=dims, keepdims=True, dtype=kind) * kind.type(scale)


@primitive(dtypes=ANY, strided=True, typed="x", reduction="add")
def _mapped_sum(x: Tensor, dims: tuple[int, ...], dtype: DType, mapping: str) -> Tensor:
    """Return sums over `dims`, which stay with size 1, of mapped elements.

    `mapping` is one of `kernels.reduce.MAPS`: "abs", "square", "nonzero"; "number", NaN
    as 0; "is_number", whether it is another; or "zero", whether it is 0. What uses it
    has gradients of its own.
    """


@_mapped_sum.spec
def _mapped_sum_spec(
    x: TensorSpec, dims: tuple[int, ...], dtype: DType, mapping: str
) -> TensorSpec:
    return _sum_spec(x, dims, dtype, 1)


@_mapped_sum.kernel
def _mapped_sum_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], dtype: DType, mapping: str
) -> list[Dispatch]:
    chosen = sum_like("SUM", x.dtype, dtype, mapping=mapping)
    return reduce_dispatches(gpu, chosen, x, dims)


@_mapped_sum.candidates
def _mapped_sum_candidates(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], dtype: DType, mapping: str
) -> dict[str, Callable[[], list[Dispatch]]]:
    chosen = sum_like("SUM", x.dtype, dtype, mapping=mapping)
    return reduce_candidates(gpu, chosen, x, dims)


@_mapped_sum.reference
def _mapped_sum_reference(
    x: np.ndarray, dims: tuple[int, ...], dtype: DType, mapping: str
) -> np.ndarray:
    maps: dict[str, Callable[[np.ndarray], np.ndarray]]
    maps = {"abs": np.abs, "square": np.square, "nonzero": lambda x: x != 0}
    maps |= {"number": lambda x: np.where(x == x, x, 0), "is_number": lambda x: x == x}
    maps["zero"] = lambda x: x == 0
    terms = maps[mapping](x.astype(dtype.arithmetic))
    return np.sum(terms, axis=dims, keepdims=True, dtype=dtype.arithmetic)


def total(
    x: Tensor,
    dims: tuple[int, ...],
    keepdim: bool,
    dtype: DType,
    scale: float = 1,
    mapping: str = "",
) -> Tensor:
    """Return the sum over `dims` as `dtype`; the kernel needs at least one element."""
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, 0, dtype)
    if dtype.kind == "complex":
        real = dtype.to_real()
        return by_parts(lambda part: total(part, dims, keepdim, real, scale), x)
    source = in_storage(x)
    held = source.dtype if source is not x and x.dtype.is_float else dtype
    # Most of what is reduced is in memory.
    pending = source.array.value.node is not None
    left, steps = dims, in_two_steps(source, dims) if pending else None
    if steps is not None:
        source, rows, left = steps
        held = float32 if held.is_float and held.itemsize < 4 else held
        if mapping:
            source, mapping = _mapped_sum(source, rows, held, mapping), ""
        else:
            source = _sum(source, rows, held)
    walked, reduced = readable(source, left)
    if mapping:
        out = _mapped_sum(walked, reduced, held, mapping)
    else:
        out = _sum(walked, reduced, held, scale)
    return finish(as_dtype_of(out, dtype), x.layout.shape, dims, keepdim)


def result_dtype(x: Tensor, dtype: DTypeLike | None) -> DType:
    """Return the dtype of a sum or product: as asked for, or int64 of integers."""
    if dtype is not None:
        return as_dtype(dtype)
    return x.dtype if x.dtype.is_differentiable else whole_dtype(x)


def accumulable(x: Tensor, dtype: DType) -> Tensor:
    """Return `x` as it is accumulated in `dtype`: the kernel widens integers itself."""
    autocast_promote = dtype is int64 and not x.dtype.is_float and x.dtype.itemsize < 8
    return x if autocast_promote else as_dtype_of(x, dtype)


@autocast_float32_on_device
@replayable
def sum(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the sum over one dimension, several, or all.

    Parameters
    ----------
    x : Tensor
        The sum of no elements is 0.
    dim : int, sequence of int or None
        Dimensions to sum over; None means all.
    keepdim : bool, default False
        Keep them with size 1.
    dtype : DType, str or None
        To add in; None means the dtype of `x`, or int64 for integers.

    Notes
    -----
    Integers wrap. On a device without 64-bit integers their sum is int32.
    """
    dims = reduced_dims("sum", dim, len(x.layout.shape))
    wanted = result_dtype(x, dtype)
    if not dims:
        node = "SumBackward0" if dim is None else "SumBackward1"
        return unshared(as_dtype_of(x, wanted), x, node)
    out = total(accumulable(x, wanted), dims, keepdim, wanted)
    if out.grad_node is not None:
        show_as(out, "SumBackward0" if dim is None else "SumBackward1", x)
    return out


@autocast_passthrough
@shown_as("NansumBackward0", "x")
@replayable
def nansum(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the sum of all that is not NaN, over one dimension, several, or all.

    Parameters
    ----------
    x : Tensor
        NaN counts as 0.
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To add in; None means the dtype of `x`, or int64 for integers.
    """
    dims = reduced_dims("nansum", dim, len(x.layout.shape))
    refuse_complex("nansum", x=x)
    if not x.dtype.is_float:
        return sum(x, dim, keepdim, dtype=dtype)
    wanted = result_dtype(x, dtype)
    if not dims or not wanted.is_float:
        return sum(where(eq(x, x), x, 0), dim, keepdim, dtype=dtype)
    return finish(
        _number_sum(accumulable(x, wanted), dims), x.layout.shape, dims, keepdim
    )


@composite(dtypes=FLOAT)
def _number_sum(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return sums of all that is not NaN over `dims`, which stay with size 1."""
    return total(x, dims, True, x.dtype, mapping="number")


@_number_sum.vjp
def _number_sum_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * cast(eq(x, x), grad.dtype)


@replayable
def mean(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the arithmetic mean over one dimension, several, or all; NaN if empty.

    Parameters
    ----------
    x : Tensor, float or complex
        Of any dtype, if `dtype` is one of these.
    dim : int, sequence of int or None
        None or an empty sequence means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To compute in; None means the dtype of `x`.

    Raises
    ------
    ShapeError
        If a dimension is named twice.
    DTypeError
        If neither `dtype` nor that of `x` is a float dtype.
    """
    dims = reduced_dims("mean", dim, len(x.layout.shape))
    wanted = x.dtype if dtype is None else as_dtype(dtype)
    if not wanted.is_differentiable:
        raise DTypeError(
            f"mean: `x` is {wanted.name}; it must be a float dtype;"
            " call x.float() first"
        )
    if not dims:
        node = "MeanBackward0" if dim is None else "MeanBackward1"
        return unshared(as_dtype_of(x, wanted), x, node)
    x = as_dtype_of(x, wanted)
    count = math.prod(x.layout.shape[each] for each in dims)
    if count == 0:
        return reduce_empty(x, dims, keepdim, math.nan, wanted)
    out = total(x, dims, keepdim, wanted, 1.0 / count)
    if out.grad_node is not None:
        show_as(out, "MeanBackward0" if dim is None else "MeanBackward1", x)
    return out


@autocast_passthrough
@replayable
def nanmean(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the mean of all that is not NaN, or NaN if there is nothing else.

    Parameters
    ----------
    x : Tensor, float or complex
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To compute in; None means the dtype of `x`.

    Raises
    ------
    DTypeError
        If neither `dtype` nor that of `x` is a float dtype.
    """
    dims = reduced_dims("nanmean", dim, len(x.layout.shape))
    if dtype is not None and not as_dtype(dtype).is_differentiable:
        raise DTypeError(
            f"nanmean: dtype is {as_dtype(dtype).name}; it must be a float one"
        )
    if not x.dtype.is_float:
        return mean(x, dim, keepdim, dtype=dtype)
    sums = nansum(x, dim, keepdim, dtype=dtype)
    if not dims:
        return sums / cast(eq(x, x), sums.dtype)
    numbers = as_dtype_of(x.detach(), sums.dtype)
    return sums / total(numbers, dims, keepdim, sums.dtype, mapping="is_number")


@replayable
def count_nonzero(x: Tensor, dim: Dims = None) -> Tensor:
    """Return how many elements are not 0, over dimensions or all; NaN is not 0.

    Parameters
    ----------
    x : Tensor
    dim : int, sequence of int or None
        None means all; the dimensions are dropped.

    Returns
    -------
    Tensor, int64
        int32 on a device without 64-bit integers. Of no elements 0.
    """
    dims = reduced_dims("count_nonzero", dim, len(x.layout.shape))
    if x.dtype.is_float or x.dtype.itemsize >= 8 or not dims:
        x = ne(x, 0)
    counts = whole_dtype(x)
    if not dims:
        return cast(x, counts)
    return total(accumulable(x, counts), dims, False, counts, mapping="nonzero")


@primitive(dtypes=ANY, strided=True, typed="x", reduction="mul")
def _prod(x: Tensor, dims: tuple[int, ...], dtype: DType) -> Tensor:
    """Return products over `dims`, which stay with size 1."""


@_prod.spec
def _prod_spec(x: TensorSpec, dims: tuple[int, ...], dtype: DType) -> TensorSpec:
    _need_growth("prod", x, dtype)
    return TensorSpec(kept_shape(x.shape, dims), dtype)


@_prod.kernel
def _prod_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], dtype: DType
) -> list[Dispatch]:
    return reduce_dispatches(gpu, sum_like("PROD", x.dtype, dtype), x, dims)


@_prod.vjp
def _prod_vjp(grad: Tensor, x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Multiply by the product of all other elements, which may be 0.

    Of what is not 0 that is the product by the element, if none is 0, and nothing
    otherwise; of the only 0 it is the product of all that are not. That has no right
    derivative by the zeros, so a gradient that is recorded is computed without it.
    """
    if is_grad_enabled():
        return _recorded_prod_vjp(grad, x, dims)
    wide = float64 if x.dtype is float64 else float32
    zeros = _mapped_sum(x, dims, wide, "zero")
    product = mul(as_dtype_of(grad, wide), _factor_prod(x, dims, wide))
    whole, rest = (where(eq(zeros, count), product, 0.0) for count in (0.0, 1.0))
    is_zero = eq(x, 0.0)
    factors = as_dtype_of(where(is_zero, 1.0, x), wide)
    return as_dtype_of(where(is_zero, rest, whole / factors), x.dtype)


def _recorded_prod_vjp(grad: Tensor, x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the gradient in products alone: of what is before and behind."""
    kept = tuple(dim for dim in range(len(x.layout.shape)) if dim not in dims)
    order = kept + dims
    rows = permute(x, order)
    sizes = rows.shape[len(kept) :]
    rows = flatten(rows, len(kept))
    before = running_product(_shifted(rows, 1, 0), len(kept), reverse=False)
    after = running_product(_shifted(rows, 0, 1), len(kept), reverse=True)
    others = unflatten(before * after, len(kept), sizes)
    back = tuple(int(dim) for dim in np.argsort(order))
    return grad * permute(others, back)


@primitive(dtypes=FLOAT, strided=True, typed="x", reduction="mul")
def _factor_prod(
    x: Tensor, dims: tuple[int, ...], dtype: DType, mapping: str = "factor"
) -> Tensor:
    """Return products over `dims`, which stay with size 1, of what is not 0."""


@_factor_prod.spec
def _factor_prod_spec(
    x: TensorSpec, dims: tuple[int, ...], dtype: DType, mapping: str
) -> TensorSpec:
    return _prod_spec(x, dims, dtype)


@_factor_prod.kernel
def _factor_prod_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...], dtype: DType, mapping: str
) -> list[Dispatch]:
    chosen = sum_like("PROD", x.dtype, dtype, mapping=mapping)
    return reduce_dispatches(gpu, chosen, x, dims)


@_factor_prod.reference
def _factor_prod_reference(
    x: np.ndarray, dims: tuple[int, ...], dtype: DType, mapping: str
) -> np.ndarray:
    factors = np.where(x == 0, 1, x).astype(dtype.arithmetic)
    return np.prod(factors, axis=dims, keepdims=True)


def _shifted(rows: Tensor, front: int, back: int) -> Tensor:
    """Return rows with ones added at one end, and as much taken off at the other."""
    inner = narrow(rows, len(rows.layout.shape) - 1, back, rows.layout.shape[-1] - 1)
    return pad(inner, (front, back), value=1)


@_prod.reference
def _prod_reference(x: np.ndarray, dims: tuple[int, ...], dtype: DType) -> np.ndarray:
    return np.prod(x, axis=dims, keepdims=True, dtype=dtype.arithmetic)


def _complex_product(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return products over `dims`, in pairs, of complex numbers."""
    kept = tuple(dim for dim in range(x.ndim) if dim not in dims)
    rows = flatten(permute(x, kept + dims), len(kept))
    while rows.shape[-1] > 1:
        size = rows.shape[-1]
        half = size // 2
        pairs = mul(narrow(rows, -1, 0, half), narrow(rows, -1, half, half))
        rest = [narrow(rows, -1, size - 1, 1)] if size % 2 else []
        rows = cat([pairs, *rest], -1) if rest else pairs
    return select(rows, -1, 0)


@autocast_float32
@replayable
def prod(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the product over one dimension, several, or all; 1 if there is nothing.

    Parameters
    ----------
    x : Tensor
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To multiply in; None means the dtype of `x`, or int64 for integers and bools.

    Notes
    -----
    The gradient is right where elements are 0, too. Integers wrap.
    """
    dims = reduced_dims("prod", dim, len(x.layout.shape))
    wanted = result_dtype(x, dtype)
    if not dims:
        node = "ProdBackward0" if dim is None else "ProdBackward1"
        return unshared(as_dtype_of(x, wanted), x, node)
    x = accumulable(x, wanted)
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, 1, wanted)
    if wanted.is_complex:
        return finish(_complex_product(x, dims), x.shape, dims, keepdim)
    source = in_storage(x)
    held = source.dtype if source is not x and x.dtype.is_float else wanted
    walked, reduced = readable(source, dims)
    made = as_dtype_of(_prod(walked, reduced, held), wanted)
    out = finish(made, x.layout.shape, dims, keepdim)
    if out.grad_node is not None:
        show_as(out, "ProdBackward0" if dim is None else "ProdBackward1", x)
    return out
