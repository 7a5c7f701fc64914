"""Stable sort: by radix where that pays, otherwise by rank and merge passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import DType, int32
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import Argument, Dispatch, Scratch
from .linear import linear_dispatch, linear_workgroup
from .radix_sort import RadixSort, has_radix_sort, pays_to_count
from .select import pays_to_select, select_dispatches
from .shader_types import place_defines, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

BLOCK = 256
SOFTWARE_BLOCK = 32
"""Elements per block of the rank sort, which compares all pairs."""

MERGE_WAYS = 8
"""Runs per merge pass for up to `MAX_WAY_KEYS` keys: such kernels are latency-bound, by
each step of a search and by one another. Of 8192 keys two passes took 12 us each, and
the gradient of an embedding with them 147 us, with five passes of two runs each 149
(NVIDIA H200, driver 580.159.04, 2026-11-22)."""

MAX_WAY_KEYS = 1 << 16

MAX_PLACES = 1 << 31
"""Size of a dimension up to which int32 indices suffice."""


def sort_dispatches(
    gpu: DeviceInfo,
    x: TensorSpec,
    most: int,
    descending: bool,
    source: str,
    results: Mapping[str, str],
    places: DType = int32,
) -> list[Dispatch]:
    """Return the dispatches of a stable sort along the middle dimension.

    Elements move along with their places, so that a search reads neighbours.

    Parameters
    ----------
    gpu : DeviceInfo
    x : TensorSpec, shape (outer, count, inner)
    most : int
        Elements of the order that are wanted, the first.
    descending : bool
    source : str
        The node's argument that is sorted.
    results : mapping of str to str
        The node's result for "order", places, and for "values", elements, which may be
        missing.
    places : DType, default int32
        Of the order; int64 is the other.
    """
    wanted = gpu, x, most, descending, source, results, places
    if "values" in results and pays_to_select(gpu, x, most):
        return select_dispatches(*wanted)
    if has_radix_sort(gpu) or pays_to_count(gpu, x, most):
        return RadixSort(*wanted).dispatches()
    outer, count, inner = x.shape
    # A software device is bound by comparisons; an argsort is a step of other ops, and
    # launches as few kernels there as on hardware.
    small = not gpu.target.hides_latency and "values" in results
    lines, span = outer * inner, SOFTWARE_BLOCK if small else BLOCK
    ways = 2 if small or x.numel > MAX_WAY_KEYS else MERGE_WAYS
    run = min(span, most)
    kept = _kept(count, span, run)
    size = 4 * ceil_div(x.dtype.itemsize * lines * kept, 4)
    areas = [Scratch(f"sorted{i}", size) for i in range(2)]
    order = [Scratch(f"places{i}", 4 * lines * kept) for i in range(2)]
    steps: list[Dispatch] = []

    def add(kernel: str, invocations: int, push: Mapping[str, Argument]) -> None:
        to = len(steps) % 2
        out: dict[str, Argument] = {"values": areas[to], "order": order[to]}
        out |= results if span >= count else {}
        out |= {"outer": outer, "count": count, "inner": inner, **push}
        constants = {"DESCENDING": int(descending)}
        constants |= {"WAYS": ways} if kernel == "sort/merge" else {}
        size, defines = linear_workgroup(gpu), storage_defines(x.dtype)
        defines = {**defines, **place_defines(places if span >= count else int32)}
        step = linear_dispatch(kernel, invocations, out, constants, defines, size)
        steps.append(step)

    push: dict[str, Argument] = {"x": source, "block": span, "run": run, "kept": kept}
    add("sort/rank_block", x.numel, push)
    while span < count:
        before, push = kept, {"run": run, "kept": kept}
        span, run = span * ways, min(run * ways, most)
        kept = _kept(count, span, run)
        push |= {"merged_run": run, "merged_kept": kept}
        at = (len(steps) - 1) % 2
        push |= {"runs": areas[at], "places": order[at]}
        add("sort/merge", lines * before, push)
    return steps


def _kept(count: int, span: int, run: int) -> int:
    """Return the number of `count` elements that stay if each `span` keeps `run`."""
    return count // span * run + min(count % span, run)
