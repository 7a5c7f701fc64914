"""Stream compaction: what is where a mask is true, and its inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import ANY, BOOL, STORED, DType, bool_, int32
from ...base.errors import ShapeError
from ...base.index_checks import UNCHECKED
from ...base.shape import Shape, TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, StridedSpec
from ...kernels.counting import (
    coordinates_dispatch,
    counted_coordinates_dispatches,
    counted_elements_dispatches,
    counted_listing_dispatches,
    counted_runs_dispatches,
    listing_dispatch,
    nonzero_dispatches,
    nonzero_tiles,
    spreading_dispatches,
)
from ...kernels.linear import linear_dispatch
from ...kernels.reduce import need_countable
from ...kernels.row_copy import first_copy
from ...kernels.shader_types import storage_defines
from ..elementwise.compare import where
from ..elementwise.unary import copy
from ..movement.slice import narrow
from ..reduce.common import in_storage
from ..source import fill_like
from .row_index import checked_rows

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

PLACES = (int32,)


@primitive(dtypes=BOOL, outputs=("starts", "total"))
def _nonzero(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many elements are true before each tile of a mask, and of all."""


@_nonzero.spec
def _nonzero_spec(mask: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    if mask.numel >= 1 << 31:
        raise ShapeError(
            f"nonzero: {mask.numel} elements are more than an int32 counts"
        )
    return TensorSpec((nonzero_tiles(mask.numel),), int32), TensorSpec((1,), int32)


@_nonzero.kernel
def _nonzero_kernel(gpu: DeviceInfo, mask: StridedSpec) -> list[Dispatch]:
    return nonzero_dispatches(gpu, mask)


@_nonzero.reference
def _nonzero_reference(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A host needs no tiles.
    starts = np.zeros(nonzero_tiles(mask.size), np.int32)
    return starts, np.array([np.count_nonzero(mask)], np.int32)


@primitive(dtypes={"mask": BOOL, "starts": PLACES})
def _true_coordinates(
    mask: Tensor, starts: Tensor, total: int, shape: Shape, rows: bool, dtype: DType
) -> Tensor:
    """Return the coordinates of true elements, in order.

    `shape` is that of which `mask` is one; the result is (total, dimensions) if `rows`
    are wanted, otherwise (dimensions, total).
    """


@_true_coordinates.spec
def _true_coordinates_spec(
    total: int, shape: Shape, rows: bool, dtype: DType, **_: object
) -> TensorSpec:
    ndim = len(shape)
    return TensorSpec((total, ndim) if rows else (ndim, total), dtype)


@_true_coordinates.kernel
def _true_coordinates_kernel(
    gpu: DeviceInfo,
    mask: StridedSpec,
    total: int,
    shape: Shape,
    rows: bool,
    dtype: DType,
    **_: object,
) -> Dispatch:
    strides = (len(shape), 1) if rows else (1, total)
    return coordinates_dispatch(gpu, mask, shape, strides, dtype)


@_true_coordinates.reference
def _true_coordinates_reference(
    mask: np.ndarray, shape: Shape, rows: bool, dtype: DType, **_: object
) -> np.ndarray:
    places = np.flatnonzero(mask)
    if len(shape) == 1:
        found = places[None]
    else:
        found = np.array(np.unravel_index(places, shape)).reshape(len(shape), -1)
    found = found.astype(dtype.numpy)
    return np.ascontiguousarray(found.T) if rows else found


@primitive(dtypes={"x": STORED, "mask": BOOL, "starts": PLACES}, typed="x")
def _true_elements(x: Tensor, mask: Tensor, starts: Tensor, total: int) -> Tensor:
    """Return the elements where the mask is true, in order."""


@_true_elements.spec
def _true_elements_spec(x: TensorSpec, total: int, **_: object) -> TensorSpec:
    return TensorSpec((total,), x.dtype)


@_true_elements.kernel
def _true_elements_kernel(
    gpu: DeviceInfo, x: StridedSpec, mask: StridedSpec, total: int, **_: object
) -> Dispatch:
    return listing_dispatch(gpu, x, mask, total)


@_true_elements.vjp
def _true_elements_vjp(
    grad: Tensor, mask: Tensor, x_spec: TensorSpec
) -> tuple[Tensor, None, None]:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    return masked_store(zeros, mask, grad, UNCHECKED), None, None


@_true_elements.reference
def _true_elements_reference(
    x: np.ndarray, mask: np.ndarray, **_: object
) -> np.ndarray:
    return np.asarray(x)[mask]


@primitive(dtypes={"x": STORED, "mask": BOOL}, outputs=("elements", "total"), typed="x")
def counted_elements(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the elements where the mask is true, and how many of them are."""


@counted_elements.spec
def counted_elements_spec(
    x: TensorSpec, mask: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    return TensorSpec((mask.numel,), x.dtype), TensorSpec((1,), int32)


@counted_elements.kernel
def counted_elements_kernel(
    gpu: DeviceInfo, x: StridedSpec, mask: StridedSpec
) -> list[Dispatch]:
    return counted_elements_dispatches(gpu, x, mask)


@counted_elements.vjp
def counted_elements_vjp(
    grad: Tensor, mask: Tensor, x_spec: TensorSpec
) -> tuple[Tensor, None]:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    return masked_store(zeros, mask, grad, UNCHECKED), None


@counted_elements.reference
def counted_elements_reference(
    x: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    total = np.array([np.count_nonzero(mask)], np.int32)
    return _padded_elements_reference(x, mask, mask.size), total


@primitive(dtypes=BOOL, outputs=("coordinates", "total"))
def _counted_coordinates(
    mask: Tensor, shape: Shape, rows: bool, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Return the coordinates of true elements, and how many of them are.

    As `_true_coordinates`, but with room for all elements.
    """


@_counted_coordinates.spec
def _counted_coordinates_spec(
    mask: TensorSpec, shape: Shape, rows: bool, dtype: DType
) -> tuple[TensorSpec, TensorSpec]:
    sizes = (mask.numel, len(shape))
    found = TensorSpec(sizes if rows else sizes[::-1], dtype)
    return found, TensorSpec((1,), int32)


@_counted_coordinates.kernel
def _counted_coordinates_kernel(
    gpu: DeviceInfo, mask: StridedSpec, shape: Shape, rows: bool, dtype: DType
) -> list[Dispatch]:
    strides = (len(shape), 1) if rows else (1, mask.numel)
    return counted_coordinates_dispatches(gpu, mask, shape, strides, dtype)


@_counted_coordinates.reference
def _counted_coordinates_reference(
    mask: np.ndarray, shape: Shape, rows: bool, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    found = _true_coordinates_reference(mask, shape, rows, dtype)
    room = [(0, mask.size - found.shape[0 if rows else 1]), (0, 0)]
    total = np.array([np.count_nonzero(mask)], np.int32)
    return np.pad(found, room if rows else room[::-1]), total


@primitive(dtypes={"x": STORED, "mask": BOOL}, typed="x")
def _padded_elements(x: Tensor, mask: Tensor, count: int) -> Tensor:
    """Return `count` elements where the mask is true, or zeros after the last."""


@_padded_elements.spec
def _padded_elements_spec(x: TensorSpec, count: int, **_: object) -> TensorSpec:
    return TensorSpec((count,), x.dtype)


@_padded_elements.kernel
def _padded_elements_kernel(
    gpu: DeviceInfo, x: StridedSpec, mask: StridedSpec, count: int
) -> list[Dispatch]:
    return counted_listing_dispatches(gpu, x, mask, count)


@_padded_elements.vjp
def _padded_elements_vjp(
    grad: Tensor, mask: Tensor, x_spec: TensorSpec
) -> tuple[Tensor, None]:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    return masked_store(zeros, mask, grad, UNCHECKED), None


@_padded_elements.reference
def _padded_elements_reference(
    x: np.ndarray, mask: np.ndarray, count: int
) -> np.ndarray:
    found = np.asarray(x)[mask][:count]
    return np.pad(found, (0, count - len(found)))


@primitive(
    dtypes={"base": STORED, "mask": BOOL, "source": STORED},
    typed="base",
)
def masked_store(base: Tensor, mask: Tensor, source: Tensor, site: str) -> Tensor:
    """Return `base` with elements where the mask is true taken from `source`.

    That is a vector, and `base` has the shape of the mask. `moves_elements` tells
    whether shaders may do that.
    """


@masked_store.spec
def masked_store_spec(base: TensorSpec, **_: object) -> TensorSpec:
    return base


@masked_store.kernel
def masked_store_kernel(
    gpu: DeviceInfo,
    base: StridedSpec,
    mask: StridedSpec,
    source: StridedSpec,
    site: str,
) -> list[Dispatch]:
    begun = first_copy(gpu, "masked_scatter", base, "base", "out")
    return [begun, *spreading_dispatches(gpu, mask, source, site)]


@masked_store.vjp
def masked_store_vjp(
    grad: Tensor,
    mask: Tensor,
    source_spec: TensorSpec,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, None, Tensor | None]:
    grad_base = where(mask, 0, grad) if needs[0] else None
    grad_source = None
    if needs[2]:
        grad_source = _padded_elements(grad, mask, source_spec.shape[0])
    return grad_base, None, grad_source


@masked_store.reference
def masked_store_reference(
    base: np.ndarray, mask: np.ndarray, source: np.ndarray, site: str
) -> np.ndarray:
    out, total = np.array(base), np.count_nonzero(mask)
    if total > source.size:
        checked_rows(np.array([source.size]), source.size, site, False)
    out[mask] = source[:total]
    return out


@primitive(dtypes=ANY)
def run_starts(x: Tensor) -> Tensor:
    """Return whether each element of a vector differs from the one before it.

    The first does; `moves_elements` tells whether shaders may read such elements.
    """


@run_starts.spec
def run_starts_spec(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape, bool_)


@run_starts.kernel
def run_starts_kernel(gpu: DeviceInfo, x: StridedSpec) -> Dispatch:
    need_countable("unique", x)
    push: dict[str, Argument] = {"x": "x", "out_": "out", "count": x.numel}
    defines = storage_defines(x.dtype)
    return linear_dispatch(
        "index/run_starts", ceil_div(x.numel, 4), push, None, defines
    )


@run_starts.reference
def run_starts_reference(x: np.ndarray) -> np.ndarray:
    found = np.ones(x.shape, bool)
    np.not_equal(x[1:], x[:-1], out=found[1:])
    return found


@primitive(dtypes=ANY, outputs=("elements", "total"))
def counted_runs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the elements of a vector where `run_starts` is true, and their number."""


@counted_runs.spec
def counted_runs_spec(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, TensorSpec((1,), int32)


@counted_runs.kernel
def counted_runs_kernel(gpu: DeviceInfo, x: StridedSpec) -> list[Dispatch]:
    return counted_runs_dispatches(gpu, x)


@counted_runs.reference
def counted_runs_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return counted_elements_reference(x, run_starts_reference(x))


FEW = 1 << 14
"""Elements of a mask up to which results keep room for all of them."""

ROOM_SHARE = 256
"""Part of a device's memory that a result may take for a while, which has room for all
elements of a mask, so that one submission gives it and its number."""

LEAST_FILLED = 4
"""What fills a smaller part of its room than one in so many is copied from there."""


def true_elements(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where a mask is true; the host waits for their number.

    `moves_elements` tells whether shaders may move such elements.
    """
    # The gradient of a part of the room would be as large as that.
    if _has_room(mask, 0 if x.requires_grad else x.dtype.itemsize):
        return first_counted(*counted_elements(x, mask))
    starts, total = _nonzero(mask)
    return _true_elements(x, mask, starts, int(total.item()))


def true_coordinates(mask: Tensor, shape: Shape, rows: bool, dtype: DType) -> Tensor:
    """Return coordinates in a shape; the host waits for the number of places.

    They are (places, dimensions) if `rows` are wanted, otherwise the transpose.
    """
    if _has_room(mask, len(shape) * dtype.itemsize):
        found, total = _counted_coordinates(mask, shape, rows, dtype)
        return first_counted(found, total, 0 if rows else 1)
    starts, total = _nonzero(mask)
    return _true_coordinates(mask, starts, int(total.item()), shape, rows, dtype)


def _has_room(mask: Tensor, size: int) -> bool:
    """Return whether results of `size` bytes an element may have room for all.

    Those of many elements may not if it is 0.
    """
    device, numel = mask.device, mask.numel()
    if not isinstance(device, GpuDevice) or numel <= FEW:
        return mask.is_gpu
    heaps = device.gpu.info.heaps
    memory = max((heap.size for heap in heaps if heap.device_local), default=0)
    return 0 < size * numel <= memory // ROOM_SHARE


def first_counted(found: Tensor, total: Tensor, dim: int = 0) -> Tensor:
    """Return as many places of a result with room as were counted; waits for that."""
    count = int(total.item())
    part = narrow(found, dim, 0, count)
    room = found.layout.shape[dim]
    return part if room <= max(FEW, LEAST_FILLED * count) else copy(part)


def is_listed_at_once(x: Tensor) -> bool:
    """Return whether `counted_runs` may list elements of `x`, which has some."""
    listed = x.dtype in ANY and moves_elements(x)
    return listed and 0 < x.numel() and _has_room(x, x.dtype.itemsize)


def moves_elements(x: Tensor) -> bool:
    """Return whether shaders may move elements of `x` one by one."""
    return in_storage(x) is x
