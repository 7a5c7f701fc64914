"""Launch parameters of rows reduced by index, a column by each invocation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import DType
from ..base.shape import Shape
from ..ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec, divisor
from .gpu_model import model_of
from .linear import linear_dispatch
from .scatter import OPERATIONS
from .shader_types import acc_size, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_THREADS, LEAST_THREADS = 256, 32
"""Invocations of a workgroup; the fewest are a subgroup."""

SHARED_BYTES, MOST_SHARED_BYTES = 1 << 14, 1 << 15
"""Bytes of a workgroup's results: so that several workgroups are on a multiprocessor,
and at most, for the fewest invocations."""

LEAST_COLUMNS = 128
"""Columns for each multiprocessor, whose loads in flight keep its memory busy."""

ITEMS = 8
"""Entries that an invocation loads at once."""

MOST_ELEMENTS = 1 << 31
"""Elements of a source, or results; two words of an index each have a number."""


def reduces_columns(
    gpu: DeviceInfo, source: Shape, rows: int, dtype: DType, counts: bool = False
) -> bool:
    """Return whether it pays that invocations reduce a column each.

    It does where columns are many, so that each can go through its entries in order,
    and so short that their results fit in shared memory. Neighbours read neighbours.

    Parameters
    ----------
    gpu : DeviceInfo
    source : Shape, (outer, entries, inner)
    rows : int
        Results of a column.
    dtype : DType
    counts : bool, default False
        Whether entries of each result are counted.
    """
    outer, entries, inner = source
    columns, longest = outer * inner, max(rows, entries)
    if not gpu.target.hides_latency or inner < 2 or not rows * entries:
        return False
    if columns < LEAST_COLUMNS * model_of(gpu).multiprocessors:
        return False
    most = min(MOST_SHARED_BYTES, gpu.max_shared_memory)
    fits = LEAST_THREADS * _line(rows) * _cell_size(dtype, counts) <= most
    return fits and columns * longest < MOST_ELEMENTS


def _line(rows: int) -> int:
    """Return the cells of a column, a power of two, so that pipelines are few."""
    return 1 << (rows - 1).bit_length()


def _cell_size(dtype: DType, counts: bool) -> int:
    """Return the bytes of a result, or of it and as many of its count."""
    return acc_size(dtype) * (2 if counts else 1)


def column_reduce_dispatch(
    source: StridedSpec,
    rows: int,
    operation: str,
    base: str | None,
    keeps: bool,
    site: str,
    reading: Mapping[str, int],
    each: bool,
) -> Dispatch:
    """Return the dispatch that reduces rows of `source` by index.

    Parameters
    ----------
    source : StridedSpec, shape (outer, entries, inner)
    rows : int
    operation : str
        One of `OPERATIONS`, or "mean" of floats.
    base : str or None
        The node's argument that results begin with; None for 0, or 1 of products.
    keeps : bool
        Whether elements of `base` stay where nothing goes, and count nowhere else.
    site : str
        Of the indices.
    reading : mapping of str to int
        The constants by which they are read.
    each : bool
        Whether each element has its index, or each row one.
    """
    outer, entries, inner = source.shape
    columns, is_mean = outer * inner, operation == "mean"
    counts, line = keeps or is_mean, _line(rows)
    fitting = SHARED_BYTES // (line * _cell_size(source.dtype, counts))
    threads = max(LEAST_THREADS, min(MOST_THREADS, fitting))
    push: dict[str, Argument] = {"source": "source", "base": base or "source"}
    push |= {"indices": "index", "out_": "out", "error": IndexSlot(site, rows)}
    push |= {"columns": columns, "rows": rows, "entries": entries, "inner": inner}
    push["magic"], push["shift"] = divisor(inner)
    number = OPERATIONS.index("sum" if is_mean else operation)
    constants = {"OPERATION": number, "HAS_BASE": int(base is not None), **reading}
    constants |= {"EACH": int(each), "KEEPS": int(keeps), "ITEMS": ITEMS}
    constants |= {"CELLS": threads * line, "COUNTS": threads * line if counts else 1}
    defines = dict(storage_defines(source.dtype))
    defines |= {"MEAN": "1"} if is_mean else {}
    return linear_dispatch(
        "index/column_reduce", columns, push, constants, defines, threads
    )
