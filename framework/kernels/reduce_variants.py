"""Autotune candidates of reductions: chunk counts and workgroup sizes."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir.kernel_call import Dispatch, StridedSpec
from .reduce import (
    MOST_ALONE,
    WORKGROUP,
    ReductionKernel,
    has_uniform_runs,
    is_vec4_readable,
    output_tile,
    reduce_dispatches,
    split_dims,
    wanted_groups,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

WANTED_SHARES = (0.25, 0.5, 1, 2, 4)
"""Target workgroups of the candidates, as multiples of the default."""

LEAST_WHOLE = 1 << 22
"""Elements of one result from which `SINGLE_PASS_CONFIGS` are candidates."""

SINGLE_PASS_CONFIGS = (
    *((1024, groups, quads) for groups in (264, 528) for quads in (2, 4, 8)),
    *((WORKGROUP, groups, 8) for groups in (528, 1056, 2112)),
)
"""Workgroup size, workgroups, and vec4 loads in flight per invocation."""


def reduce_candidates(
    gpu: DeviceInfo, reduction: ReductionKernel, x: StridedSpec, dims: tuple[int, ...]
) -> dict[str, Callable[[], list[Dispatch]]]:
    """Return the candidates for reducing `x` over `dims`, for autotuning.

    Parameters as those of `reduce_dispatches`. Fewer chunks have more work each, more
    chunks give more occupancy.
    """
    kept, reduced = split_dims(x.layout, dims)
    usual = wanted_groups(gpu, math.prod(kept.shape))
    alone = math.prod(reduced.shape) // output_tile(gpu, kept, reduced)[0]
    # No single pass where its sequential sums would be long.
    few = [1] if alone <= 8 * MOST_ALONE else []
    ways: dict[str, Callable[[], list[Dispatch]]] = {
        f"chunks for {wanted} workgroups": functools.partial(
            reduce_dispatches, gpu, reduction, x, dims, wanted
        )
        for wanted in (*few, *(int(usual * share) for share in WANTED_SHARES))
    }
    if has_uniform_runs(gpu, x, kept, reduced):
        ways["uniform loads"] = functools.partial(
            reduce_dispatches, gpu, reduction, x, dims
        )
    return ways | _whole_candidates(gpu, reduction, x, dims)


def _whole_candidates(
    gpu: DeviceInfo, reduction: ReductionKernel, x: StridedSpec, dims: tuple[int, ...]
) -> dict[str, Callable[[], list[Dispatch]]]:
    """Return further candidates for reducing many elements to one result."""
    kept, reduced = split_dims(x.layout, dims)
    count, most = math.prod(reduced.shape), gpu.max_workgroup_invocations
    alone = math.prod(kept.shape) == 1 and count >= LEAST_WHOLE
    if not alone or not is_vec4_readable(gpu, x, kept, reduced):
        return {}

    def whole(workgroup: int, groups: int, quads: int) -> list[Dispatch]:
        (only,) = reduce_dispatches(gpu, reduction, x, dims, groups)
        constants = {**only.constants, "LOCAL_X": workgroup, "GROUP": workgroup}
        defines = {**only.defines, "IN_FLIGHT": str(quads)}
        return [dataclasses.replace(only, constants=constants, defines=defines)]

    return {
        f"{way[1]} workgroups of {way[0]}, {way[2]} quads at once": functools.partial(
            whole, *way
        )
        for way in SINGLE_PASS_CONFIGS
        if way[0] <= most
    }
