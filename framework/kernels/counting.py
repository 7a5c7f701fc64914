"""Counts: histograms of numbers, and places of true elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.shape import ceil_div
from ..ir.kernel_call import Argument, Dispatch, Scratch, StridedSpec, fold_grid
from .linear import linear_dispatch, linear_workgroup
from .reduce import need_countable

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
"""Elements of a mask per invocation, as `index/nonzero` has them."""


def bincount_dispatches(
    gpu: DeviceInfo, numbers: StridedSpec, size: int
) -> list[Dispatch]:
    """Return the dispatches that count the numbers from 0 to `size` - 1.

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
    clear = linear_dispatch(kernel, size, push, {"PASS": 0}, workgroup=workgroup)
    constants = {"LOCAL_X": workgroup, "PASS": 1, "PRIVATE": copies, "SLOTS": slots}
    return [clear, Dispatch(kernel, grid, push, constants, {})]


def nonzero_dispatches(gpu: DeviceInfo, mask: StridedSpec) -> list[Dispatch]:
    """Return the dispatches that list true elements: count, add up, write."""
    workgroup = linear_workgroup(gpu)
    tiles = ceil_div(mask.numel, NONZERO_ELEMENTS * workgroup)
    push: dict[str, Argument] = {"mask": "mask", "places": "places", "total": "total"}
    push |= {"starts": Scratch("starts", 4 * tiles), "count": mask.numel}
    return [
        Dispatch(
            "index/nonzero",
            fold_grid(groups),
            push,
            {"LOCAL_X": workgroup, "PASS": number},
            {},
        )
        for number, groups in enumerate((tiles, 1, tiles))
    ]
