"""Reductions over any dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import Dispatch, Placed
from ..dtype import NUMERIC, float32, int32, uint32
from ..errors import DTypeError, ShapeError
from ..primitive import primitive
from ..shape import Shape, TensorSpec, normalize_dims
from .creation import fill_like
from .elementwise import cast, eq
from .movement import reshape
from .reducing import readable, reduce_dispatches

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor

Dims = int | Sequence[int] | None
WORDS = (float32, int32, uint32)


def _kept(shape: Shape, dims: tuple[int, ...]) -> Shape:
    """Return the shape with 1 in place of the reduced dimensions."""
    return tuple(1 if dim in dims else size for dim, size in enumerate(shape))


def _dropped(shape: Shape, dims: tuple[int, ...]) -> Shape:
    return tuple(size for dim, size in enumerate(shape) if dim not in dims)


def _finish(x: Tensor, out: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Drop the reduced dimensions unless they are to be kept as 1."""
    return out if keepdim else reshape(out, _dropped(x.shape, dims))


def _need_elements(name: str, x: TensorSpec, dims: tuple[int, ...]) -> None:
    if any(x.shape[dim] == 0 for dim in dims):
        raise ShapeError(
            f"{name}: shape {x.shape} has no elements along {dims}; there is no result"
        )


@primitive(dtypes=NUMERIC, device_dtypes=WORDS, strided=True)
def _sum(x: Tensor, dims: tuple[int, ...], scale: float = 1) -> Tensor:
    """Return sums over `dims`, which stay with size 1, times `scale`."""


@_sum.spec
def _sum_spec(x: TensorSpec, dims: tuple[int, ...], scale: float) -> TensorSpec:
    return TensorSpec(_kept(x.shape, dims), x.dtype)


@_sum.kernel
def _sum_kernel(
    gpu: DeviceInfo, x: Placed, dims: tuple[int, ...], scale: float
) -> list[Dispatch]:
    return reduce_dispatches(gpu, "SUM", x, dims, scale)


@_sum.vjp
def _sum_vjp(grad: Tensor, x_spec: TensorSpec, scale: float) -> Tensor:
    scaled = grad if scale == 1 else grad * scale
    return scaled.expand(x_spec.shape)


@_sum.reference
def _sum_reference(x: np.ndarray, dims: tuple[int, ...], scale: float) -> np.ndarray:
    return np.sum(x, axis=dims, keepdims=True, dtype=x.dtype) * x.dtype.type(scale)


def sum(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the sum over one dimension, several, or all.

    Parameters
    ----------
    x : Tensor
        Any numeric dtype; the sum of no elements is 0.
    dim : int, sequence of int or None
        Dimensions to sum over; None means all.
    keepdim : bool, default False
        Keep them with size 1.

    Returns
    -------
    Tensor
        Of the dtype of `x`.
    """
    return _total(x, normalize_dims("sum", dim, x.ndim), keepdim, 1)


def _total(x: Tensor, dims: tuple[int, ...], keepdim: bool, scale: float) -> Tensor:
    """Sum over `dims` and scale; the kernel itself needs at least one element."""
    if not dims:
        return x
    if x.numel() == 0:
        out = fill_like(x, _kept(x.shape, dims), 0, x.dtype)
    else:
        out = _sum(readable(x, dims), dims, scale)
    return _finish(x, out, dims, keepdim)


def mean(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the arithmetic mean over one dimension, several, or all; NaN if empty."""
    dims = normalize_dims("mean", dim, x.ndim)
    if not x.dtype.is_float:
        raise DTypeError(
            f"mean: `x` is {x.dtype.name}; it must be a float dtype;"
            " call x.float() first"
        )
    count = math.prod(x.shape[each] for each in dims)
    if count == 0:
        return fill_like(
            x,
            _kept(x.shape, dims) if keepdim else _dropped(x.shape, dims),
            float("nan"),
            x.dtype,
        )
    return _total(x, dims, keepdim, 1.0 / count)


@primitive(dtypes=NUMERIC, device_dtypes=WORDS, strided=True)
def _amax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the largest elements over `dims`, which stay with size 1."""


@primitive(dtypes=NUMERIC, device_dtypes=WORDS, strided=True)
def _amin(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the smallest elements over `dims`, which stay with size 1."""


@_amax.spec
def _amax_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    _need_elements("amax", x, dims)
    return TensorSpec(_kept(x.shape, dims), x.dtype)


@_amin.spec
def _amin_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    _need_elements("amin", x, dims)
    return TensorSpec(_kept(x.shape, dims), x.dtype)


@_amax.kernel
def _amax_kernel(gpu: DeviceInfo, x: Placed, dims: tuple[int, ...]) -> list[Dispatch]:
    return reduce_dispatches(gpu, "MAX", x, dims)


@_amin.kernel
def _amin_kernel(gpu: DeviceInfo, x: Placed, dims: tuple[int, ...]) -> list[Dispatch]:
    return reduce_dispatches(gpu, "MIN", x, dims)


@_amax.vjp
@_amin.vjp
def _extreme_vjp(grad: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Share the gradient evenly among the elements that attain the extreme."""
    chosen = cast(eq(x, out), grad.dtype)
    return chosen * (grad / _sum(chosen, dims))


@_amax.reference
def _amax_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.max(x, axis=dims, keepdims=True)


@_amin.reference
def _amin_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.min(x, axis=dims, keepdims=True)


def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the largest element over dimensions; NaN if there is one.

    The gradient is shared evenly among equal largest elements.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    dims = normalize_dims("amax", dim, x.ndim)
    return _finish(x, _amax(readable(x, dims), dims), dims, keepdim) if dims else x


def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return the smallest element over dimensions; NaN if there is one.

    The gradient is shared evenly among equal smallest elements.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    dims = normalize_dims("amin", dim, x.ndim)
    return _finish(x, _amin(readable(x, dims), dims), dims, keepdim) if dims else x


@primitive(dtypes=NUMERIC, device_dtypes=WORDS, strided=True)
def _argmax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return row-major positions of the largest elements over `dims`, as int32."""


@primitive(dtypes=NUMERIC, device_dtypes=WORDS, strided=True)
def _argmin(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return row-major positions of the smallest elements over `dims`, as int32."""


@_argmax.spec
def _argmax_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    _need_elements("argmax", x, dims)
    return TensorSpec(_kept(x.shape, dims), int32)


@_argmin.spec
def _argmin_spec(x: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    _need_elements("argmin", x, dims)
    return TensorSpec(_kept(x.shape, dims), int32)


@_argmax.kernel
def _argmax_kernel(gpu: DeviceInfo, x: Placed, dims: tuple[int, ...]) -> list[Dispatch]:
    return reduce_dispatches(gpu, "ARGMAX", x, dims)


@_argmin.kernel
def _argmin_kernel(gpu: DeviceInfo, x: Placed, dims: tuple[int, ...]) -> list[Dispatch]:
    return reduce_dispatches(gpu, "ARGMIN", x, dims)


@_argmax.reference
def _argmax_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.argmax(_reduced_last(x, dims), axis=-1)


@_argmin.reference
def _argmin_reference(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return np.argmin(_reduced_last(x, dims), axis=-1)


def _reduced_last(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """Return `x` with the dimensions `dims` moved to the end and joined."""
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    moved = x.transpose(*kept, *dims)
    return moved.reshape(*moved.shape[: len(kept)], -1)


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the position of the largest element along `dim`, or in the flat tensor.

    Returns
    -------
    Tensor, int32
        The first of equal ones; the first NaN if there is one. int32, unlike
        PyTorch's int64, because not every device has 64-bit integers.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    dims = normalize_dims("argmax", dim, x.ndim)
    return _finish(x, _argmax(readable(x, dims), dims), dims, keepdim)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the position of the smallest element along `dim`; see `argmax`."""
    dims = normalize_dims("argmin", dim, x.ndim)
    return _finish(x, _argmin(readable(x, dims), dims), dims, keepdim)
