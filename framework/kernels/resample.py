"""Launch parameters of resampling by long sums, a group of invocations for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..ir.kernel_call import Argument, Dispatch, divisor
from .gpu_model import model_of
from .linear import linear_dispatch
from .reduce import WORKGROUP
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..base.dtype import DType
    from ..base.shape import Shape

TABLE_HEAD = 2
"""Numbers of a table's row before its weights."""

LEAST_TAPS = 32
"""Taps of a result from which a group of invocations may sum them on GPUs."""

TAPS_EACH = 4
"""Taps of an invocation of a group, at least."""

RESIDENT = 2048
"""Invocations that a multiprocessor holds: more of them hide no more latency, and each
finds its window first. 256,000 float32 results of up to 288 taps took 230 us by 64
invocations each and 78 by one, 51,200 of 144 took 26 us by 32 and 15 by one (NVIDIA
H200, 580.159.04, 2026-11-30)."""

SUBGROUP, CACHE_LINE = 32, 128
"""Invocations that load at once, and bytes of a line of the first cache."""

MOST_LINES = 16
"""Lines of one load of a subgroup, of an invocation for each result, up to which the
cache keeps what is left of them for the next loads."""

COALESCING = 8
"""Invocations of a group, at least, where there are more lines: they load a transaction
of float32 together."""

AT_ONCE = 4
"""Elements that an invocation of a group loads at once."""


def group_size(
    gpu: DeviceInfo, itemsize: int, shape: Shape, tables: Mapping[str, Shape]
) -> int:
    """Return how many invocations sum the taps of each result, a power of two.

    So many that the device is full; or more, where results beside each other read lines
    of their own.
    """
    taps = math.prod(width - TABLE_HEAD for _, width in tables.values())
    if not gpu.target.hides_latency or taps < LEAST_TAPS:
        return 1
    outs = [size for size, _ in tables.values()]
    count = math.prod(shape[: len(shape) - len(tables)]) * math.prod(outs)
    wanted = RESIDENT * model_of(gpu).multiprocessors // count
    if _lines(itemsize, shape[-1], outs[-1]) > MOST_LINES:
        wanted = max(wanted, COALESCING)
    most = min(max(wanted, 1), taps // TAPS_EACH, WORKGROUP)
    return 1 << most.bit_length() - 1


def _lines(itemsize: int, columns: int, out_columns: int) -> float:
    """Return the lines that a subgroup of results loads from, an element of each."""
    beside = min(SUBGROUP, out_columns)
    apart = itemsize * columns / out_columns
    return SUBGROUP / beside * min(beside, 1 + (beside - 1) * apart / CACHE_LINE)


def grouped_sum_dispatch(
    gpu: DeviceInfo, dtype: DType, shape: Shape, tables: Mapping[str, Shape]
) -> Dispatch | None:
    """Return the dispatch that resamples the last dimensions by groups.

    None where an invocation for each result is better.

    Parameters
    ----------
    gpu : DeviceInfo
    dtype : DType
    shape : Shape
        Of the elements, (outer, ...), of which up to three dimensions have tables.
    tables : mapping of str to Shape
        (out_size, width) of the tables of the last dimensions, by the node's inputs.
    """
    group = group_size(gpu, dtype.itemsize, shape, tables)
    if group == 1:
        return None
    dims, outer = len(tables), math.prod(shape[: len(shape) - len(tables)])
    missing = 3 - dims
    sizes = (1,) * missing + shape[len(shape) - dims :]
    outs = (1,) * missing + tuple(size for size, _ in tables.values())
    widths = (0,) * missing + tuple(width for _, width in tables.values())
    read = ([*tables][-1],) * missing + tuple(tables)
    count = outer * math.prod(outs)
    push: dict[str, Argument] = {"x": "x", "out_": "out", "count": count}
    push |= dict(zip(("layers", "rows", "columns"), sizes))
    push |= dict(zip(("layer_taps", "row_taps", "column_taps"), read))
    for k, (size, width) in enumerate(zip(outs, widths)):
        push |= {f"out_size[{k}]": size, f"width[{k}]": width}
        push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(size)
    return linear_dispatch(
        "resample/resample_grouped",
        count * group,
        push,
        {"DIMS": dims, "GROUP": group, **_shares(group, [*tables.values()])},
        storage_defines(dtype),
    )


def _shares(group: int, tables: list[Shape]) -> dict[str, int]:
    """Return the constants that share the taps of a result among a group."""
    *others, columns = (width - TABLE_HEAD for _, width in tables)
    across = min(group, 1 << (columns - 1).bit_length())
    rows_each = math.prod(others) * across // group
    rows = 1 << max(1, min(rows_each, AT_ONCE)).bit_length() - 1
    return {"ACROSS": across, "ROWS": rows, "ITEMS": AT_ONCE // rows}
