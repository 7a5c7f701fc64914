"""Transpose copies through shared memory: eligible layouts and launch parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..base.shape import Layout, ceil_div, collapse
from ..ir.kernel_call import MAX_GROUPS, Argument, Dispatch, StridedSpec, fold_grid
from .reduce import MOST_ELEMENTS, WORKGROUP
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

TILE = 64
"""Edge of the square tile of a workgroup, where no edge of the result is shorter."""

LEAST = 16
"""Edge below which most of a tile would be empty."""


class Planes(NamedTuple):
    """Strides of a batched transpose: a layout collapsed to three dimensions.

    Attributes
    ----------
    planes, rows, columns : int
        Sizes of the result, row-major.
    batch, step, line : int
        Elements from one plane, row and column to the next.
    flips_rows, flips_columns : bool
        Whether their order is reversed.
    """

    planes: int
    rows: int
    columns: int
    batch: int
    step: int
    line: int
    flips_rows: bool = False
    flips_columns: bool = False

    @property
    def is_transposed(self) -> bool:
        """Whether rows are the contiguous dimension and a tile would be well filled."""
        return self.step == 1 < self.line and min(self.rows, self.columns) >= LEAST

    @property
    def is_of_pairs(self) -> bool:
        """Whether loads and stores can be vectorised over pairs of elements."""
        apart = self.rows, self.columns, self.line, self.batch
        return self.step == 1 and all(each % 2 == 0 for each in apart)


def planes_of(layout: Layout, flipped: Sequence[int] = ()) -> Planes | None:
    """Return a layout collapsed to planes, with the order of dimensions reversed.

    None beyond three dimensions or 32 bits, or where the order of planes would be.
    """
    marks = [
        tuple(int(at == dim) for at in range(len(layout.shape))) for dim in flipped
    ]
    sizes, (strides, *marked) = collapse(layout.shape, [layout.strides, *marks])
    missing = 3 - len(sizes)
    sizes, strides = (1,) * missing + sizes, (0,) * missing + strides
    reach = 1 + sum((size - 1) * step for size, step in zip(sizes, strides))
    if missing < 0 or sizes[0] > MAX_GROUPS or max(reach, layout.numel) > MOST_ELEMENTS:
        return None
    (planes, rows, columns), (batch, step, line) = sizes, strides
    flips = [False] * missing
    flips += [any(mark[at] for mark in marked) for at in range(3 - missing)]
    if flips[0]:
        return None
    return Planes(planes, rows, columns, batch, step, line, flips[1], flips[2])


def reads_lines(gpu: DeviceInfo) -> bool:
    """Return whether a device coalesces neighbouring loads."""
    return gpu.target.coalesces_loads


def tile_of(rows: int, columns: int, workgroup: int) -> tuple[int, int]:
    """Return rows and columns of a workgroup's tile: long where the result is narrow.

    Examples
    --------
    >>> tile_of(4096, 4096, 256), tile_of(17, 4096, 256), tile_of(4096, 16, 256)
    ((64, 64), (32, 128), (256, 16))
    """
    narrow = max(LEAST, 1 << (min(rows, columns) - 1).bit_length())
    short = min(TILE, narrow)
    long = min(workgroup, TILE * TILE // short)
    return (short, long) if rows <= columns else (long, short)


def transpose_dispatch(
    gpu: DeviceInfo, x: StridedSpec, flipped: Sequence[int] = ()
) -> Dispatch:
    """Return the dispatch that copies a transposed view into row-major order.

    The order of elements is reversed along the `flipped` dimensions.
    """
    planes = planes_of(x.layout, flipped)
    assert planes is not None, f"transposed_copy: {x.layout} has no planes"
    push: dict[str, Argument] = {"x": "x", "out_": "out"}
    push |= {"rows": planes.rows, "columns": planes.columns}
    push |= {"line": planes.line, "batch": planes.batch}
    constants = {"LOCAL_X": min(WORKGROUP, gpu.max_workgroup_invocations)}
    constants |= {"FLIP_ROWS": int(planes.flips_rows)}
    constants |= {"FLIP_COLUMNS": int(planes.flips_columns)}
    if x.dtype.itemsize == 2 and planes.is_of_pairs and x.layout.offset % 2 == 0:
        tiles = ceil_div(planes.rows, 2 * TILE) * ceil_div(planes.columns, TILE)
        grid = fold_grid(tiles, planes.planes)
        return Dispatch("copy/transpose_16bit", grid, push, constants)
    push["step"] = planes.step
    rows, columns = tile_of(planes.rows, planes.columns, constants["LOCAL_X"])
    constants |= {"ROWS": rows, "COLUMNS": columns}
    tiles = ceil_div(planes.rows, rows) * ceil_div(planes.columns, columns)
    return Dispatch(
        "copy/transpose",
        fold_grid(tiles, planes.planes),
        push,
        constants,
        storage_defines(x.dtype),
    )
