"""Softmax, log-softmax and log-sum-exp."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as
from ...base.dtype import FLOAT, SINGLE, DTypeLike, as_dtype, default_dtype, float64
from ...base.shape import TensorSpec, normalize_dim, reduced_dims
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Argument, Dispatch, StridedSpec
from ...kernels.norm import Candidates, softmax_call, softmax_grad_call
from ...kernels.reduce import kept_shape, reduce_dispatches, stateful
from ...kernels.rowwise import (
    FEW_LONG_ROWS,
    FUSED,
    LEAST_SPLIT,
    SPLIT,
    row_composition,
)
from ...kernels.shader_types import check_float, statistic_dtype
from ..elementwise.cast import cast
from ..elementwise.compare import eq, where
from ..elementwise.complex_numbers import _real_part
from ..elementwise.exponential import exp, log
from ..elementwise.unary import abs, lazy_copy
from ..indexing.gather import rows_of
from ..reduce.common import as_dtype_of, in_storage, readable
from ..reduce.minmax import amax
from ..reduce.products import _product_sums
from ..reduce.sum import Dims, finish, reduce_empty, sum, total
from ..view import movedim, reshape
from .normalized import (
    log_softmax_element,
    log_softmax_element_vjp,
    softmax_element,
    softmax_element_vjp,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


# Of doubles a device composes it.
@primitive(dtypes=FLOAT, device_dtypes=SINGLE, typed="x")
def _softmax(x: Tensor, logarithm: bool) -> Tensor:
    """Return softmax along the middle of three dimensions, or its logarithm."""


@_softmax.spec
def _softmax_spec(x: TensorSpec, logarithm: bool) -> TensorSpec:
    return x


@_softmax.kernel
def _softmax_kernel(gpu: DeviceInfo, x: StridedSpec, logarithm: bool) -> Dispatch:
    return softmax_call(gpu, x, logarithm).dispatch()


@_softmax.candidates
def _softmax_candidates(gpu: DeviceInfo, x: StridedSpec, logarithm: bool) -> Candidates:
    return softmax_call(gpu, x, logarithm).candidates()


@_softmax.vjp
def _softmax_vjp(grad: Tensor, out: Tensor, logarithm: bool) -> Tensor:
    rows, inner = out.layout.shape[:2], out.layout.shape[2]
    few = inner == 1 and rows[0] <= FEW_LONG_ROWS and rows[1] >= LEAST_SPLIT
    if few and not is_grad_enabled():
        if row_composition(reshape(out, rows), 1, held=2) == SPLIT:
            flat = reshape(grad, rows), reshape(out, rows)
            return reshape(_split_softmax_vjp(*flat, 1, logarithm), out.layout.shape)
    return _softmax_grad(grad, out, logarithm)


@composite(dtypes=FLOAT)
def _composed_softmax(x: Tensor, dim: int, logarithm: bool) -> Tensor:
    """Return softmax along a dimension, decomposed into ops that fuse."""
    wide = as_dtype_of(x, statistic_dtype(x.dtype))
    shifted = wide - amax(wide, dim, keepdim=True)
    exponentials = exp(shifted)
    sums = sum(exponentials, dim, keepdim=True)
    return as_dtype_of(
        shifted - log(sums) if logarithm else exponentials / sums, x.dtype
    )


@primitive(
    dtypes=FLOAT,
    device_dtypes=SINGLE,
    outputs=("greatest", "total"),
    strided=True,
    typed="x",
)
def _softmax_terms(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the greatest over `dims`, and sums of exponentials of differences from it.

    Dimensions stay with size 1; both are of the dtype of statistics.
    """


@_softmax_terms.spec
def _softmax_terms_spec(
    x: TensorSpec, dims: tuple[int, ...]
) -> tuple[TensorSpec, TensorSpec]:
    kept = TensorSpec(kept_shape(x.shape, dims), statistic_dtype(x.dtype))
    return kept, kept


@_softmax_terms.kernel
def _softmax_terms_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> list[Dispatch]:
    results: dict[str, Argument] = {"greatest": "greatest", "total": "total"}
    chosen = stateful("reduce/logsumexp", x.dtype, 2, results, {}, {"TERMS": "1"})
    return reduce_dispatches(gpu, chosen, x, dims)


@_softmax_terms.reference
def _softmax_terms_reference(
    x: np.ndarray, dims: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    greatest = x.max(dims, keepdims=True)
    return greatest, np.exp(x - greatest).sum(dims, keepdims=True)


@composite(dtypes=FLOAT)
def _split_softmax(x: Tensor, dim: int, logarithm: bool) -> Tensor:
    """Return softmax along a dimension, by one reduction and element-wise ops."""
    walked, dims = readable(x, (dim,))
    terms = _softmax_terms(walked, dims)
    # A copy has the reduced dimension last.
    greatest, sums = (movedim(each, dims[0], dim) for each in terms)
    if logarithm:
        out = log_softmax_element(x, greatest, log(sums))
    else:
        out = softmax_element(x, greatest, sums)
    return as_dtype_of(out, x.dtype)


@_split_softmax.vjp
def _split_softmax_vjp(grad: Tensor, out: Tensor, dim: int, logarithm: bool) -> Tensor:
    if is_grad_enabled():
        return _composed_softmax_vjp(grad, out, dim, logarithm)
    kind, wide = out.dtype, statistic_dtype(out.dtype)
    grad = as_dtype_of(grad, kind)
    if logarithm:
        shared = total(grad, (dim,), True, wide)
        return as_dtype_of(log_softmax_element_vjp(grad, out, shared), kind)
    if grad.layout.strides != out.layout.strides:
        grad, out = grad.contiguous(), out.contiguous()
    (one, dims), (other, _) = (readable(each, (dim,)) for each in (grad, out))
    shared = movedim(_product_sums(one, other, dims, wide), dims[0], dim)
    return as_dtype_of(softmax_element_vjp(grad, out, shared), kind)


@_composed_softmax.vjp
def _composed_softmax_vjp(
    grad: Tensor, out: Tensor, dim: int, logarithm: bool
) -> Tensor:
    grad, wide = (as_dtype_of(each, statistic_dtype(out.dtype)) for each in (grad, out))
    if logarithm:
        grad_x = grad - exp(wide) * sum(grad, dim, keepdim=True)
    else:
        grad_x = wide * (grad - sum(grad * wide, dim, keepdim=True))
    return as_dtype_of(grad_x, out.dtype)


@_softmax.reference
def _softmax_reference(x: np.ndarray, logarithm: bool) -> np.ndarray:
    shifted = x - x.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    return shifted - np.log(sums) if logarithm else exponentials / sums


@primitive(dtypes=FLOAT, device_dtypes=SINGLE, typed="y")
def _softmax_grad(incoming: Tensor, y: Tensor, logarithm: bool) -> Tensor:
    """Return the gradient of `_softmax`, whose result is `y`."""


@_softmax_grad.spec
def _softmax_grad_spec(
    incoming: TensorSpec, y: TensorSpec, logarithm: bool
) -> TensorSpec:
    return y


@_softmax_grad.kernel
def _softmax_grad_kernel(
    gpu: DeviceInfo, incoming: StridedSpec, y: StridedSpec, logarithm: bool
) -> Dispatch:
    return softmax_grad_call(gpu, incoming, y, logarithm).dispatch()


@_softmax_grad.candidates
def _softmax_grad_candidates(
    gpu: DeviceInfo, incoming: StridedSpec, y: StridedSpec, logarithm: bool
) -> Candidates:
    return softmax_grad_call(gpu, incoming, y, logarithm).candidates()


@_softmax_grad.vjp
def _softmax_grad_vjp(
    grad: Tensor, incoming: Tensor, y: Tensor, logarithm: bool
) -> tuple[Tensor, Tensor]:
    if logarithm:
        probabilities = exp(y)
        grad_sum = sum(incoming, 1, keepdim=True)
        to_incoming = grad - sum(grad * probabilities, 1, keepdim=True)
        return to_incoming, -grad * probabilities * grad_sum
    shared = sum(incoming * y, 1, keepdim=True)
    to_y = grad * (incoming - shared) - incoming * sum(grad * y, 1, keepdim=True)
    return _softmax_grad(grad, y, logarithm), to_y


@_softmax_grad.reference
def _softmax_grad_reference(
    incoming: np.ndarray, y: np.ndarray, logarithm: bool
) -> np.ndarray:
    if logarithm:
        return incoming - np.exp(y) * incoming.sum(1, keepdims=True)
    return y * (incoming - (incoming * y).sum(1, keepdims=True))


def _softmax_along(
    name: str, x: Tensor, dim: int, dtype: DTypeLike | None, logarithm: bool
) -> Tensor:
    shape = x.layout.shape
    at = normalize_dim(name, dim, len(shape) or 1)
    source = x if dtype is None else as_dtype_of(x, as_dtype(dtype))
    kind = source.dtype
    if kind not in FLOAT:
        check_float(name, source)
    if 0 in shape:
        return lazy_copy(source)
    stored = in_storage(source)
    double = kind is float64 and stored.is_gpu
    composition = row_composition(stored, at) if shape else ""
    if double and not shape:
        out = reshape(_composed_softmax(reshape(stored, (1,)), 0, logarithm), ())
    elif composition == SPLIT:
        out = _split_softmax(stored, at, logarithm)
    elif composition == FUSED or (double and shape):
        out = _composed_softmax(stored, at, logarithm)
    else:
        rows = rows_of(stored, at) if shape else reshape(stored, (1, 1, 1))
        out = reshape(_softmax(rows, logarithm), shape)
    return out if stored is source else as_dtype_of(out, kind)


@autocast_float32_on_device
def softmax(x: Tensor, dim: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """Return exponentials normalised to sum to one along one dimension.

    Computed as exp(x - max) / sum(exp(x - max)), so it does not overflow.

    Parameters
    ----------
    x : Tensor, float
        Unnormalised log-probabilities.
    dim : int, default -1
        Dimension that sums to one.
    dtype : DType, str or None
        To cast to first; None keeps that of `x`.

    Returns
    -------
    Tensor, shape of `x`
        Accumulated in float32 if the dtype is smaller.

    Notes
    -----
    NaN or infinity in a row makes the row NaN, and so does a row of -inf, as in
    PyTorch.
    Gradient: y * (g - sum(g * y)). Source: Milakov and Gimelshein, arXiv:1805.02867.

    Examples
    --------
    >>> from vkbackend.framework import Tensor
    >>> softmax(Tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    out = _softmax_along("softmax", x, dim, dtype, logarithm=False)
    if out.grad_node is not None:
        show_as(out, "SoftmaxBackward0", x)
    return out


@autocast_float32_on_device
def log_softmax(x: Tensor, dim: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """Return the logarithm of `softmax`, which stays finite where that is nearly 0.

    Parameters
    ----------
    x : Tensor, float
        Unnormalised log-probabilities.
    dim : int, default -1
        Dimension along which `softmax` sums to one.
    dtype : DType, str or None
        To cast to first; None keeps that of `x`.

    Returns
    -------
    Tensor, shape of `x`
    """
    out = _softmax_along("log_softmax", x, dim, dtype, logarithm=True)
    if out.grad_node is not None:
        show_as(out, "LogSoftmaxBackward0", x)
    return out


@primitive(
    dtypes=FLOAT,
    device_dtypes=SINGLE,
    strided=True,
    typed="x",
    reduction="logsumexp",
)
def _logsumexp(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return logarithms of sums of exponentials over `dims`, which stay with size 1."""


@_logsumexp.spec
def _logsumexp_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(kept_shape(x.shape, dims), x.dtype)


@_logsumexp.kernel
def _logsumexp_kernel(
    gpu: DeviceInfo, x: StridedSpec, dims: tuple[int, ...]
) -> list[Dispatch]:
    chosen = stateful("reduce/logsumexp", x.dtype, 2, {"out_": "out"}, {})
    return reduce_dispatches(gpu, chosen, x, dims)


@_logsumexp.vjp
def _logsumexp_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * exp(x - where(out == -math.inf, 0.0, out))


@_logsumexp.reference
def _logsumexp_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    greatest = x.max(dims, keepdims=True)
    shift = np.where(np.isfinite(greatest), greatest, 0)
    return np.log(np.exp(x - shift).sum(dims, keepdims=True)) + shift


def _complex_logsumexp(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, -math.inf, x.dtype)
    most = amax(_real_part(x.detach()), dims, True)
    base = where(most.isfinite(), most, 0.0)
    out = log(sum(exp(x - base), dims, True)) + base
    return out if keepdim else sum(out, dims)


@autocast_float32_on_device
def logsumexp(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the logarithm of the sum of exponentials over dimensions.

    Parameters
    ----------
    x : Tensor
        Integers are taken as the default float dtype.
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.

    Notes
    -----
    Does not overflow; of no elements, or of -inf alone, it is -inf, as in PyTorch, and
    gradients to such elements are 0.
    """
    dims = reduced_dims("logsumexp", dim, len(x.layout.shape))
    if x.dtype.is_complex:
        return _complex_logsumexp(x, dims, keepdim)
    if not x.dtype.is_float:
        x = cast(x, default_dtype())
    if x.numel() == 0:
        return reduce_empty(x, dims, keepdim, -math.inf, x.dtype)
    if x.is_gpu and x.dtype is float64:
        # Of doubles there is no kernel.
        greatest = amax(x.detach(), dims, keepdim=True)
        shift = where(eq(abs(greatest), math.inf), 0.0, greatest)
        total = log(sum(exp(x - shift), dims, keepdim=True)) + shift
        return finish(total, x.layout.shape, dims, keepdim)
    made = _logsumexp(*readable(in_storage(x), dims))
    out = finish(as_dtype_of(made, x.dtype), x.layout.shape, dims, keepdim)
    if out.grad_node is not None:
        show_as(out, "LogsumexpBackward0", x)
    return out
