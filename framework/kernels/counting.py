"""Counts: histograms of numbers, and places of true elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import DType, int64
from ..base.index_checks import UNCHECKED
from ..base.shape import Shape, ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    Scratch,
    StridedSpec,
    fold_grid,
)
from .linear import linear_dispatch, linear_workgroup, zeros_dispatch
from .reduce import SOFTWARE_WORKGROUP, need_countable
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

NUMBERS = 16
"""Numbers that an invocation of a histogram counts at least, where there are many."""

MOST_INVOCATIONS = 1 << 18
"""Invocations of a histogram, which count on beyond that."""

PRIVATE_COUNTS = 4096
"""Counts in shared memory that all copies of a small histogram take together: 16 KiB,
as much as every device has (Vulkan 1.0, limits table)."""

MOST_COPIES = 32
"""Copies of a histogram: one for each invocation of a subgroup."""

NONZERO_ELEMENTS = 16
"""Elements of a mask per invocation, as `index/mask_tile.glsl` has them."""

ADDED_TILES, SOFTWARE_ADDED_TILES = 4096, 64
"""Tiles of a mask up to which each adds up the counts of those before it, which takes
one launch less: of 4096 they read 32 MiB in all, from a cache."""

MOST_COORDINATES = 8
"""Dimensions of a mask whose true elements a kernel gives the coordinates of."""


def bincount_dispatches(
    gpu: DeviceInfo, numbers: StridedSpec, size: int, counts: DType
) -> list[Dispatch]:
    """Return the dispatches that count the numbers from 0 to `size` - 1.

    `counts` is int32, or int64, whose upper words stay 0.

    Where it fits, each workgroup has copies of the histogram in shared memory, whose
    sums it adds to the result. A software device has no use for them.
    """
    need_countable("bincount", numbers)
    workgroup = linear_workgroup(gpu)
    numel = numbers.numel
    shares = ceil_div(numel, NUMBERS)
    copies, slots = 0, 1
    if gpu.target.fast_shared_memory and (size | 1) <= PRIVATE_COUNTS <= numel:
        copies = min(MOST_COPIES, PRIVATE_COUNTS // (size | 1))
        copies = 1 << copies.bit_length() - 1
        slots = 1 << (copies * (size | 1) - 1).bit_length()
        # A workgroup adds no more counts to the result than half its numbers.
        shares = min(shares, ceil_div(numel * workgroup, 2 * size))
    groups = ceil_div(min(shares, MOST_INVOCATIONS), workgroup)
    grid = fold_grid(groups)
    invocations = grid[0] * grid[1] * workgroup
    push: dict[str, Argument] = {"numbers": "numbers", "out_": "out"}
    push |= {"numel": numel, "size": size, "invocations": invocations}
    kernel = "sort/bincount"
    step = counts.itemsize // 4
    first = {"PASS": 0, "STEP": step}
    clear = linear_dispatch(kernel, size, push, first, workgroup=workgroup)
    constants = {"LOCAL_X": workgroup, "PASS": 1, "PRIVATE": copies, "SLOTS": slots}
    constants |= {"WORDS": numbers.dtype.itemsize // 4, "STEP": step}
    return [clear, Dispatch(kernel, grid, push, constants, {})]


def nonzero_tiles(numel: int) -> int:
    """Return the most tiles of a mask, which has more on a software device."""
    return ceil_div(numel, NONZERO_ELEMENTS * SOFTWARE_WORKGROUP)


def nonzero_dispatches(gpu: DeviceInfo, mask: StridedSpec) -> list[Dispatch]:
    """Return the dispatches that count true elements: of tiles, then before each."""
    return _counted(gpu, mask, "starts", "total")


def _counted(
    gpu: DeviceInfo,
    mask: StridedSpec,
    starts: Argument,
    total: Argument,
    adds: bool = False,
) -> list[Dispatch]:
    """Return the dispatches that count; they also add up unless what follows `adds`."""
    push: dict[str, Argument] = {"mask": "mask", "starts": starts, "total": total}
    push |= {"count": mask.numel}
    workgroup, tiles = linear_workgroup(gpu), _tiles(gpu, mask)
    return [
        Dispatch(
            "index/nonzero",
            fold_grid(groups),
            push,
            {"LOCAL_X": workgroup, "PASS": number},
            {},
        )
        for number, groups in enumerate((tiles,) if adds else (tiles, 1))
    ]


def _tiles(gpu: DeviceInfo, mask: StridedSpec) -> int:
    return ceil_div(mask.numel, NONZERO_ELEMENTS * linear_workgroup(gpu))


def coordinates_dispatch(
    gpu: DeviceInfo,
    mask: StridedSpec,
    shape: Shape,
    strides: tuple[int, int],
    places: DType,
) -> Dispatch:
    """Return the dispatch that lists coordinates of true elements.

    Parameters
    ----------
    gpu : DeviceInfo
    mask : StridedSpec
    shape : Shape
        Of what it is a mask of; at most `MOST_COORDINATES` dimensions.
    strides : (int, int)
        From one place to the next, and from one of its dimensions.
    places : DType
        int32 or int64.
    """
    push: dict[str, Argument] = {"ndim": len(shape)}
    push |= {"row": strides[0], "column": strides[1]}
    for dim in range(MOST_COORDINATES):
        push[f"size[{dim}]"] = max(1, shape[dim]) if dim < len(shape) else 1
    defines = {"COORDINATES": "1", **({"WIDE": "1"} if places is int64 else {})}
    return _compaction(gpu, mask, push, {}, defines)


def listing_dispatch(
    gpu: DeviceInfo, x: StridedSpec, mask: StridedSpec, most: int
) -> Dispatch:
    """Return the dispatch that lists the first `most` elements of `x` in a mask."""
    push: dict[str, Argument] = {"x": "x", "most": most}
    push["error"] = IndexSlot(UNCHECKED, most)
    defines = {"BYTES": str(x.dtype.itemsize)}
    return _compaction(gpu, mask, push, {"SPREADS": 0}, defines)


def counted_coordinates_dispatches(
    gpu: DeviceInfo,
    mask: StridedSpec,
    shape: Shape,
    strides: tuple[int, int],
    places: DType,
) -> list[Dispatch]:
    """Return dispatches that count, with a `total`, and list coordinates."""
    step = coordinates_dispatch(gpu, mask, shape, strides, places)
    return _counts_and(step, gpu, mask, "coordinates", "total")


def counted_elements_dispatches(
    gpu: DeviceInfo, x: StridedSpec, mask: StridedSpec
) -> list[Dispatch]:
    """Return dispatches that count, with a `total`, and list `elements`."""
    step = listing_dispatch(gpu, x, mask, mask.numel)
    return _counts_and(step, gpu, mask, "elements", "total")


def counted_runs_dispatches(gpu: DeviceInfo, x: StridedSpec) -> list[Dispatch]:
    """Return dispatches that count, with a `total`, and list firsts of runs.

    They compare elements twice, which takes less time than a mask and its launch.
    """
    need_countable("unique", x)
    defines = {"RUNS": "1", **storage_defines(x.dtype)}
    return [
        dataclasses.replace(
            step,
            push={**step.push, "mask": "x"},
            defines=defines,
        )
        for step in counted_elements_dispatches(gpu, x, x)
    ]


def counted_listing_dispatches(
    gpu: DeviceInfo, x: StridedSpec, mask: StridedSpec, most: int
) -> list[Dispatch]:
    """Return dispatches that count first; after the last element come zeros."""
    zeros = zeros_dispatch(ceil_div(most * x.dtype.itemsize, 4))
    step = listing_dispatch(gpu, x, mask, most)
    return [zeros, *_counts_and(step, gpu, mask)]


def spreading_dispatches(
    gpu: DeviceInfo, mask: StridedSpec, source: StridedSpec, site: str
) -> list[Dispatch]:
    """Return the dispatches that count, then store `source` where a mask is true."""
    most = source.numel
    push: dict[str, Argument] = {"x": "source", "most": most}
    push["error"] = IndexSlot(site, most)
    defines = {"BYTES": str(source.dtype.itemsize)}
    spread = _compaction(gpu, mask, push, {"SPREADS": 1}, defines)
    return _counts_and(spread, gpu, mask)


def _counts_and(
    step: Dispatch,
    gpu: DeviceInfo,
    mask: StridedSpec,
    out: str = "out",
    total: str | None = None,
) -> list[Dispatch]:
    """Return dispatches that count, and a compaction that works from the counts.

    A single tile has none before it, and counts for itself.
    """
    number: Argument = total or Scratch("total", 4)
    software, tiles = not gpu.target.hides_latency, _tiles(gpu, mask)
    starts: Argument = Scratch("starts", 4 * nonzero_tiles(mask.numel))
    if tiles == 1:  # Nothing reads it, and each memory takes the host time.
        starts = number
    adds = tiles <= (SOFTWARE_ADDED_TILES if software else ADDED_TILES)
    push = {**step.push, "starts": starts, "total": number, "out_": out}
    constants = {**step.constants, "ADDS": int(adds)}
    following = dataclasses.replace(step, push=push, constants=constants)
    if tiles == 1:
        return [following]
    return [*_counted(gpu, mask, starts, number, adds), following]


def _compaction(
    gpu: DeviceInfo,
    mask: StridedSpec,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    defines: Mapping[str, str],
) -> Dispatch:
    given: dict[str, Argument] = {"mask": "mask", "starts": "starts", "out_": "out"}
    given["total"] = Scratch("total", 4)
    given |= {"count": mask.numel, **push}
    return Dispatch(
        "index/compact",
        fold_grid(_tiles(gpu, mask)),
        given,
        {"LOCAL_X": linear_workgroup(gpu), **constants},
        defines,
    )
