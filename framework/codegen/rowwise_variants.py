"""Variants of row-wise kernels: the tile that autotuning chose; see `autotune`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..autotune import autotune
from ..base.dtype import float32
from ..base.shape import Layout
from ..ir.kernel_call import StridedSpec
from .lower import LoweredKernel
from .rowwise_kernel import (
    RowTile,
    build_rows,
    most_group,
    row_tile,
    space_of_all,
    subgroup_of,
    tile_of,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..ir.lazy_graph import Node

UNIFORM_LOADS = "rows read as blocks"
"""Candidate name of the variant with uniform vector loads, which has no row tile."""

SOFTWARE_WORKGROUPS = (8, 32)
"""Candidate workgroup sizes on a software device, with one invocation per row."""

SHARES = (0.25, 0.5, 1, 2)
"""Candidate invocations per row on a GPU, as multiples of the default."""


def row_tiles(gpu: DeviceInfo, rows: int, columns: int) -> dict[str, RowTile]:
    """Return the candidate row tiles, by name.

    Parameters
    ----------
    gpu : DeviceInfo
    rows, columns : int
    """
    default = row_tile(gpu, rows, columns)
    if not gpu.target.cheap_barriers:
        lanes = subgroup_of(gpu)
        # One invocation sums long rows less exactly than several do.
        alone = [RowTile(1, count, 0) for count in SOFTWARE_WORKGROUPS]
        tiles = alone if default.group == 1 else []
        tiles += [RowTile(lanes, lanes, 0)] if lanes else []
    else:
        most = most_group(gpu)
        groups = {min(most, max(1, int(default.group * share))) for share in SHARES}
        tiles = [tile_of(gpu, group, columns) for group in sorted(groups)]
        tiles.append(default._replace(rounds=0))
    return {
        f"{group} of {workgroup} invocations a row, {rounds} rounds held": tile
        for tile in tiles
        for group, workgroup, rounds in [tile]
    }


def build_chosen_rows(
    nodes: Sequence[Node], live_out: set[int], gpu: DeviceInfo, lanes: int = 0
) -> LoweredKernel:
    """Return the kernel of `build_rows`, with the tuned tile if there is one."""
    default = build_rows(nodes, live_out, gpu, lanes)
    space = space_of_all(nodes)
    variants = row_tiles(gpu, space.rows, space.columns)
    own = UNIFORM_LOADS
    if not default.program.lanes:
        tile = row_tile(gpu, space.rows, space.columns)
        own = next((name for name, each in variants.items() if each == tile), "")
    others = [name for name in variants if name != own]
    made = {id(value) for node in nodes for value in node.outputs}
    results = made & live_out
    # Keyed by the rows alone: the fused nodes depend on how the graph is partitioned,
    # and the summation order must not.
    shape = space.rows, space.columns
    rows = StridedSpec(shape, float32, Layout.contiguous(shape))
    tuning_key = autotune.tuning_key_of("rows", {"x": rows}, {})
    search_space = autotune.SearchSpace(nodes, results, own, others)
    chosen = variants.get(autotune.choice(gpu, tuning_key, search_space))
    return default if chosen is None else build_rows(nodes, live_out, gpu, 0, chosen)
