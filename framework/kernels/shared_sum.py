"""Launch parameters of sums of rows by index in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import bfloat16, float16, float32, int32, uint32
from ..base.shape import Shape, ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    StridedSpec,
    divisor,
    fold_grid,
)
from .gpu_model import model_of
from .reduce import MOST_ELEMENTS, WORKGROUP
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

DTYPES = (float32, float16, bfloat16, int32, uint32)
"""Of elements whose sums are words."""

CELLS = 8192
"""Most results of a workgroup, in 32 KiB."""

MOST_RANGES = 4
"""Most workgroups that read the same entries, each for its own rows."""

SECTOR = 32
"""Bytes of a memory transaction, which indices beside each other fill."""

LEAST_ENTRIES = 1 << 16
"""Elements of a source from which the workgroups are busy."""

ROWS_PER_ENTRY = 4
"""Rows for each entry, up to which it pays to pass over all of them."""

TOGETHER = 4096
"""Entries, and rows, of the lines that a workgroup takes together."""

ITEMS = 4
"""Entries that an invocation loads at once."""


class Region(NamedTuple):
    """Results of one workgroup, of (outer, rows, inner).

    Attributes
    ----------
    lines : int
        Of outer; several where a region has all rows of each and inner is 1.
    span : int
        Rows, at most.
    columns : int
        Of inner, a power of two.
    """

    lines: int
    span: int
    columns: int

    def grid(self, outer: int, rows: int, inner: int) -> tuple[int, int, int]:
        """Return the number of regions along each dimension."""
        return (
            ceil_div(outer, self.lines),
            ceil_div(rows, self.span),
            ceil_div(inner, self.columns),
        )


def region_of(
    gpu: DeviceInfo, source: Shape, rows: int, index_size: int
) -> Region | None:
    """Return the region of each workgroup; None where that does not pay.

    It does where few workgroups hold all rows of a line, and there are many lines: an
    atomic of a cache takes as long as reading the entry several times.

    Parameters
    ----------
    gpu : DeviceInfo
    source : Shape, (outer, entries, inner)
    rows : int
    index_size : int
        Bytes of an index, of which there is one for each element.
    """
    outer, entries, inner = source
    if not gpu.target.hides_latency or gpu.max_shared_memory < 4 * CELLS:
        return None
    numel, results = outer * entries * inner, outer * rows * inner
    if numel < LEAST_ENTRIES or max(numel, results) > MOST_ELEMENTS:
        return None
    columns = min(1 << (inner - 1).bit_length(), SECTOR // index_size)
    ranges = ceil_div(rows, CELLS // columns)
    if not 0 < ranges <= MOST_RANGES or rows > ROWS_PER_ENTRY * entries:
        return None
    lines, least = 1, model_of(gpu).multiprocessors
    if inner == 1 and ranges == 1:
        most = min(TOGETHER // max(rows, entries), outer // (4 * least))
        lines = 1 << max(0, most.bit_length() - 1)
    region = Region(lines, ceil_div(rows, ranges), columns)
    groups = 1
    for count in region.grid(outer, rows, inner):
        groups *= count
    return region if groups >= least else None


def shared_sum_dispatch(
    gpu: DeviceInfo,
    source: StridedSpec,
    rows: int,
    region: Region,
    base: str | None,
    site: str,
    reading: Mapping[str, int],
) -> Dispatch:
    """Return the dispatch that adds `source` up in shared memory, to `base` if any.

    Parameters
    ----------
    gpu : DeviceInfo
    source : StridedSpec, shape (outer, entries, inner)
    rows : int
    region : Region
    base : str or None
        The node's argument that sums begin with; None for 0.
    site : str
        Of the indices.
    reading : mapping of str to int
        The constants by which they are read.
    """
    outer, entries, inner = source.shape
    groups, ranges, strips = region.grid(outer, rows, inner)
    push: dict[str, Argument] = {"source": "source", "base": base or "source"}
    push |= {"indices": "index", "out_": "out", "error": IndexSlot(site, rows)}
    push |= {"outer": outer, "rows": rows, "entries": entries, "inner": inner}
    push |= {"strips": strips, "ranges": ranges, "span": region.span}
    for k, by in enumerate((ranges, strips, entries)):
        push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(by)
    cells = region.lines * region.span * region.columns
    constants = {"LOCAL_X": WORKGROUP, "LINES": region.lines, **reading}
    constants |= {"HAS_BASE": int(base is not None), "COLUMNS": region.columns}
    constants |= {"CELLS": max(WORKGROUP, 1 << (cells - 1).bit_length())}
    constants["ITEMS"] = ITEMS
    grid, defines = fold_grid(groups * ranges * strips), storage_defines(source.dtype)
    if gpu.target.fast_shuffles and gpu.subgroup_arithmetic:
        defines = {**defines, "MERGES": "1"}
    return Dispatch("index/shared_sum", grid, push, constants, defines)
