"""Launch parameters of resampling by long sums, a group of invocations for each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir.kernel_call import Argument, Dispatch, divisor
from .linear import linear_dispatch
from .reduce import WORKGROUP
from .shader_types import storage_defines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vkbackend import DeviceInfo

    from ..base.dtype import DType
    from ..base.shape import Shape

TABLE_HEAD = 2
"""Numbers of a table's row before its weights."""

LEAST_TAPS = 32
"""Taps of a result from which a group of invocations sums them on GPUs: one alone reads
memory that its neighbours do not read, and is one of few."""

TAPS_EACH = 4
"""Taps of an invocation of a group, at least."""


def sums_by_groups(gpu: DeviceInfo, taps: Sequence[int]) -> bool:
    """Return whether a group sums the taps of each result, so many along dimensions."""
    return gpu.target.hides_latency and math.prod(taps) >= LEAST_TAPS


def grouped_sum_dispatch(
    dtype: DType, shape: Shape, tables: Sequence[Shape], names: Sequence[str]
) -> Dispatch:
    """Return the dispatch that resamples the last dimensions by groups.

    Parameters
    ----------
    dtype : DType
    shape : Shape
        Of the elements, (outer, ...), of which up to three dimensions have tables.
    tables : sequence of Shape
        (out_size, width) of the tables of the last dimensions.
    names : sequence of str
        The node's tables.
    """
    dims, outer = len(tables), math.prod(shape[: len(shape) - len(tables)])
    missing = 3 - dims
    sizes = (1,) * missing + shape[len(shape) - dims :]
    outs = (1,) * missing + tuple(size for size, _ in tables)
    widths = (0,) * missing + tuple(width for _, width in tables)
    read = (names[-1],) * missing + tuple(names)
    taps = [width - TABLE_HEAD for _, width in tables]
    group = min(WORKGROUP, 1 << (math.prod(taps) // TAPS_EACH).bit_length() - 1)
    across = min(group, 1 << (taps[-1] - 1).bit_length())
    count = outer * math.prod(outs)
    push: dict[str, Argument] = {"x": "x", "out_": "out", "count": count}
    push |= dict(zip(("layers", "rows", "columns"), sizes))
    push |= dict(zip(("layer_taps", "row_taps", "column_taps"), read))
    for k, (size, width) in enumerate(zip(outs, widths)):
        push |= {f"out_size[{k}]": size, f"width[{k}]": width}
        push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(size)
    constants = {"DIMS": dims, "GROUP": group, "ACROSS": across}
    return linear_dispatch(
        "resample/resample_grouped",
        count * group,
        push,
        constants,
        storage_defines(dtype),
    )
