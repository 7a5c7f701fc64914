"""Selection of the first elements of an order, without sorting the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import DType, int32
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import Argument, BufferOffset, Dispatch, Scratch, fold_grid
from .gpu_model import model_of
from .radix_sort import key_defines
from .reduce import WORKGROUP
from .shader_types import place_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_SELECTED = 1024
"""Elements that a workgroup selects, which it sorts in shared memory."""

LEAST_LINE = 1024
"""Size of lines from which selection pays."""

LEAST_SHARE = 4
"""Elements of a chunk for each that is selected, at least."""

LEAST_CHUNK = 8192
"""Elements that one workgroup selects from, at least, if a line has them."""

WIDE_CHUNK, WIDE_GROUP = 16384, 1024
"""Elements from which a workgroup is as large as this."""

SHARED_MEMORY = 32768
"""Bytes of shared memory that suffice for `MOST_SELECTED` of 8 bytes."""


def pays_to_select(gpu: DeviceInfo, x: TensorSpec, most: int) -> bool:
    """Whether to select the first `most` of (outer, count, inner), and sort them."""
    count = x.shape[1]
    few = most <= MOST_SELECTED and LEAST_SHARE * most <= count
    has_room = gpu.max_shared_memory >= SHARED_MEMORY
    return gpu.target.hides_latency and has_room and few and count >= LEAST_LINE


def select_dispatches(
    gpu: DeviceInfo,
    x: TensorSpec,
    most: int,
    descending: bool,
    source: str,
    results: Mapping[str, str],
    places: DType,
) -> list[Dispatch]:
    """Return the dispatches that find the first `most` in order; see `sort_dispatches`.

    Long lines are split into chunks, for which a workgroup each selects; what they have
    found is selected from likewise.
    """
    outer, count, inner = x.shape
    lines, size = outer * inner, x.dtype.itemsize
    steps: list[Dispatch] = []
    read: dict[str, Argument] = {"x": source, "places": source, "inner": inner}
    while True:
        chunk = _chunk_size(gpu, lines, count, most)
        chunks = ceil_div(count, chunk)
        is_last = chunks == 1
        kept = (chunks - 1) * most + min(most, count - (chunks - 1) * chunk)
        # Levels differ in size, which falls.
        at = 4 * ceil_div(size * lines * kept, 4)
        area = Scratch("selected", at + 4 * lines * kept)
        out: dict[str, Argument] = {"values": area, "order": BufferOffset(area, at)}
        out = {name: results[name] for name in out} if is_last else out
        push = read | out | {"lines": lines, "count": count, "chunks": chunks}
        push |= {"chunk_size": chunk, "most": most, "kept": kept}
        push["inner_out"] = inner if is_last else 1
        group = WIDE_GROUP if chunk >= WIDE_CHUNK else WORKGROUP
        constants = {"LOCAL_X": min(group, gpu.max_workgroup_invocations)}
        constants |= {"SLOTS": 1 << max(1, (most - 1).bit_length())}
        constants |= {"DESCENDING": int(descending), "HAS_PLACES": int(bool(steps))}
        wide = place_defines(places if is_last else int32)
        defines = {**key_defines(x.dtype), **wide}
        grid = fold_grid(lines * chunks)
        steps.append(Dispatch("sort/select_rows", grid, push, constants, defines))
        if is_last:
            return steps
        read = {"x": area, "places": BufferOffset(area, at), "inner": 1}
        count = kept


def _chunk_size(gpu: DeviceInfo, lines: int, count: int, most: int) -> int:
    """Return how many elements of each line a workgroup selects from."""
    wanted = ceil_div(model_of(gpu).full_reduction_groups, lines)
    least = max(LEAST_CHUNK, LEAST_SHARE * most)
    chunks = max(1, min(wanted, count // least))
    return ceil_div(count, chunks)
