"""Reductions of long rows, or of all, in two steps: of shorter rows, and of results."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...base.device import GpuDevice
from ...base.shape import Shape
from ...codegen.ir.reductions import SMALL, RowSpace, fits_one_kernel
from ..view import permute, reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def in_two_steps(
    x: Tensor, dims: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]] | None:
    """Return the dimensions that a reduction takes first, and then; or None.

    They are those of the tensor that is returned before them: `x` in memory order, or
    its elements in other rows, where its own are too short or too long.

    One workgroup of a row kernel cannot reduce a large tensor alone, nor few workgroups
    long rows, but many can reduce parts of them, and compute these on the way: what an
    element-wise op is about to make is never in memory.
    """
    layout, device = x.layout, x.device
    if not isinstance(device, GpuDevice):
        return None
    value = x.array.value
    if value.node is None or not value.node.op.is_elementwise or value.numel <= SMALL:
        return None
    order = layout.memory_order
    if order is None or value.numel != layout.numel:
        return None
    if not _shares_rows(device.gpu.info):
        return None
    if len(dims) != len(layout.shape):
        return _parts_of_rows(x, dims)
    if not layout.is_contiguous:
        x = permute(x, order)
        layout = x.layout
    split = _split(layout.shape)
    columns = 0 if split is None else RowSpace(layout.shape, split).columns
    if columns < SHORT:
        even = even_columns(layout.numel)
        if even > columns:
            return reshape(x, (layout.numel // even, even)), (1,), (0,)
    return None if split is None else (x, dims[split:], dims[:split])


def _parts_of_rows(
    x: Tensor, dims: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]] | None:
    """Return `in_two_steps` of few or very long rows, whose parts are rows first."""
    shape = x.layout.shape
    split = len(shape) - len(dims)
    if not x.layout.is_contiguous or dims != tuple(range(split, len(shape))):
        return None
    space = RowSpace(shape, split)
    even = 0
    if not fits_one_kernel(space):
        even = even_columns(space.columns, space.rows)
    if not 0 < even < space.columns:
        return None
    parts = (*shape[:split], space.columns // even, even)
    return reshape(x, parts), (split + 1,), (split,)


def _split(shape: Shape) -> int | None:
    """Return how many dimensions are those of rows that a kernel should reduce."""
    for split in range(1, len(shape)):
        space = RowSpace(shape, split)
        if space.columns > 1 and fits_one_kernel(space):
            return split
    return None


SHORT = 128
"""Elements of a row below which a matrix of all elements has longer ones, if any."""

LEAST_COLUMNS, MOST_COLUMNS = 256, 8192
"""Elements of the rows of such a matrix, which has a thousand rows in between."""


@functools.lru_cache(maxsize=256)
def even_columns(numel: int, rows: int = 1) -> int:
    """Return the columns of a matrix of all elements; 0 if all would be too short.

    A multiple of 8 where there is one, for loads of vectors. They are as long as those
    of a matrix of `rows` times as many, of which these are a part.
    """
    most = max(LEAST_COLUMNS, min(MOST_COLUMNS, numel * rows >> 10))
    step = 8 if numel % 8 == 0 else 1
    for columns in range(most - most % step, SHORT // 2, -step):
        if numel % columns == 0:
            return columns
    return 0


def _shares_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device has idle workgroups while one reduces a row."""
    return gpu.target.hides_latency and gpu.target.compiles_row_kernels
