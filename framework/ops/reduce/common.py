"""Pre- and post-processing around reduction kernels: dtypes, layouts, empty inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd.engine import is_grad_enabled
from ...base.device import GpuDevice
from ...base.dtype import (
    STORED,
    DType,
    float32,
    int32,
    int64,
    uint32,
    uint64,
)
from ...base.errors import IndexRangeError
from ...base.shape import Layout, Shape, TensorSpec
from ...dispatch.declare import composite
from ...kernels.reduce import MAX_DIMS, split_dims
from ..elementwise.cast import cast
from ..elementwise.compare import eq, where
from ..elementwise.unary import copy
from ..source import arange_like, fill_like
from ..view import permute

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def whole_dtype(x: Tensor) -> DType:
    """Return the dtype of sums of integers and of counts: int64 where there is one.

    On a device without 64-bit integers it is int32, and sums wrap there.
    """
    if x.dtype is uint64:
        return uint64
    device = x.device
    narrow = isinstance(device, GpuDevice) and not device.gpu.info.shader_int64
    return int32 if narrow else int64


def at_places(grad: Tensor, places: Tensor, shape: Shape, dim: int) -> Tensor:
    """Return one element of each line along `dim` where its place is, and zeros.

    An element-wise op, so that it joins the kernels that read it.

    Parameters
    ----------
    grad : Tensor
        Of size 1 along `dim`.
    places : Tensor of int32 or int64, of the shape of `grad`
    shape : tuple of int
        Of the result.
    dim : int
        From the first, at least 0.
    """
    along = (shape[dim], *(1,) * (len(shape) - dim - 1))
    numbers: Tensor = arange_like(grad, along, 0, 1, places.dtype)
    return where(eq(numbers, places), grad, 0.0)


def place_dtype(x: Tensor) -> DType:
    """Return the dtype of positions that users get: int64 where there is one."""
    device = x.device
    narrow = isinstance(device, GpuDevice) and not device.gpu.info.shader_int64
    return int32 if narrow else int64


def stored_places(x: Tensor) -> DType:
    """Return the dtype in which a kernel stores positions in `x`.

    Those that a gradient reads again are int32, which is half as much to read.
    """
    recorded = x.needs_grad and is_grad_enabled() and x.dtype.is_float
    return int32 if recorded else place_dtype(x)


def as_places(places: Tensor) -> Tensor:
    """Return positions in the dtype that users get."""
    return as_dtype_of(places, place_dtype(places))


def in_storage(x: Tensor) -> Tensor:
    """Return the tensor in a dtype that shaders may declare.

    Its own, or the 32-bit one of its kind where the device cannot store it.
    """
    dtype, device = x.array.value.dtype, x.device
    if dtype.itemsize >= 4 or not isinstance(device, GpuDevice):
        return x
    feature = dtype.storage_feature
    if feature is None or getattr(device.gpu.info, feature):
        return x
    return cast(x, {"float": float32, "int": int32}.get(dtype.kind, uint32))


def as_dtype_of(x: Tensor, dtype: DType) -> Tensor:
    """Return the tensor in a dtype; itself if it has it."""
    return x if x.array.value.dtype is dtype else cast(x, dtype)


def readable(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """Return `x` in a layout the shader can index, and its reduced dimensions.

    A tensor with too many separate dimensions is copied, the reduced ones last.
    """
    if not x.is_gpu or _fits(x.layout, dims):
        return x, dims
    kept = tuple(dim for dim in range(len(x.layout.shape)) if dim not in dims)
    return copy(permute(x, kept + dims)), tuple(range(len(kept), len(x.layout.shape)))


def _fits(layout: Layout, dims: tuple[int, ...]) -> bool:
    few = len(layout.shape) <= MAX_DIMS
    return few or all(
        len(side.shape) <= MAX_DIMS for side in split_dims(layout, dims, ordered=True)
    )


@composite(dtypes=STORED)
def empty_result(x: Tensor, shape: Shape, value: float, dtype: DType) -> Tensor:
    """Return the result of an empty tensor: `value`, everywhere."""
    return fill_like(x, shape, value, dtype)


@empty_result.vjp
def empty_result_vjp(grad: Tensor, x_spec: TensorSpec) -> Tensor:
    return fill_like(grad, x_spec.shape, 0, x_spec.dtype)


def need_elements(name: str, x: TensorSpec, dims: tuple[int, ...]) -> None:
    """Raise `IndexRangeError` if there is nothing to reduce."""
    if any(x.shape[dim] == 0 for dim in dims):
        raise IndexRangeError(
            f"{name}: shape {tuple(x.shape)} has no elements along {dims}; there is no"
            " result"
        )
