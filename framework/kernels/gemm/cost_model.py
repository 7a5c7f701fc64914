"""Cost model that ranks the tile configurations of a GEMM; its figures: `gpu_model`.

A workgroup computes one tile over one slice of K; workgroups are spread over the
multiprocessors, and the busiest of these determines the time: the multiply-adds of its
workgroups, each with `prologue_depth` more of K for the first loads and the last
stores, at the tile's TFLOP/s. Below full occupancy only a fraction of that rate is
reached: `Tile.efficiency`. Split-K adds the bytes of the partial sums, written and read
again, and the launch of the reduction; it must then be quicker by `split_margin`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...base.shape import ceil_div
from ..gpu_model import GpuModel, ModeModel, model_of
from .tiles import (
    SCALED_FLOAT16,
    SIMT,
    SIMT_MODES,
    WIDE_STORE_MODES,
    GemmSize,
    Tile,
    TileConfig,
    fits,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

LEAST_OCCUPANCY = 2
"""Workgroups per multiprocessor that keep the memory busy, if K can be split."""

SCALED_BYTES = 10
"""Bytes that scaling an element of float32 to float16 reads and writes."""

MAX_PARTIAL_BYTES = 256 << 20
"""Most bytes of split-K partial sums."""


def tile_configs(
    gpu: DeviceInfo,
    mode: str,
    sizes: GemmSize,
    max_splits: int | None = None,
    tail_split: bool = False,
    thin: bool = False,
    gathered: bool = False,
) -> list[TileConfig]:
    """Return the tile configurations a device can run, the quickest by the model first.

    Parameters
    ----------
    gpu : DeviceInfo
    mode : str
        GEMM mode.
    sizes : GemmSize
    max_splits : int, optional
        Largest split-K count, unless the size requires more. None takes the model's,
        and more where few tiles leave a device idle.
    tail_split : bool, default False
        Whether the tail wave may be a second launch with split-K.
    thin : bool, default False
        Whether tiles may be those for few rows or columns.
    gathered : bool, default False
        Whether the right operand is gathered, which has tiles of its own.
    """
    model = model_of(gpu)
    costs = model.gemm[mode]
    filled = max_splits is None
    if max_splits is None:
        max_splits = costs.max_splits
    more = [tile for tile in costs.thin_tiles if thin and sizes.is_covered(tile)]
    more += costs.gathered_tiles if gathered else ()
    tiles = [tile for tile in (*costs.tiles, *more) if fits(gpu, tile, mode)]
    splits = _split_counts(sizes, costs, max_splits)
    counts = dict.fromkeys(tiles, tuple(splits))
    if filled:
        counts = _filled_counts(model, sizes, costs, counts)
    found = [
        TileConfig(tile, each, mode in WIDE_STORE_MODES)
        for tile, those in counts.items()
        for each in those
    ]
    if tail_split and mode in (*WIDE_STORE_MODES, SIMT) and splits[0] == 1:
        found += [
            config._replace(wide=mode in WIDE_STORE_MODES)
            for tile in tiles
            for config in _tail_split_configs(model, sizes, tile, max_splits)
        ]
    return sorted(found, key=lambda config: microseconds(model, config, mode, sizes))


def microseconds(
    model: GpuModel, config: TileConfig, mode: str, sizes: GemmSize
) -> float:
    """Return the modelled time, without that of packing operands."""
    tile, splits, _, tail_rows = config
    costs, multiprocessors = model.gemm[mode], model.multiprocessors
    down = ceil_div(sizes.m, tile.m)
    across = sizes.tiles(tile) // down
    depth, part = (_work(sizes, tile, costs, each) for each in (1, splits))
    if tail_rows:
        # Multiprocessors start slices as others end, up to their occupancy.
        groups = (down - tail_rows) * across
        whole = ceil_div(groups, multiprocessors)
        room = len(tile.efficiency) - whole % len(tile.efficiency)
        rounds = ceil_div(tail_rows * across * splits, multiprocessors * room)
        beside = whole * depth + rounds * room * part
        work = max(_waves(model, tile, groups, mode) * depth, beside)
    else:
        work = _waves(model, tile, down * across * splits, mode) * part
    time = work * multiprocessors / (tile.tflops * 1e6)
    if splits > 1:
        rows = tail_rows * tile.m if tail_rows else sizes.m
        sums = splits * sizes.batch * rows * sizes.n
        time += costs.split_launch_microseconds
        time += 2 * 4 * sums / model.partial_bytes_per_microsecond
        if tail_rows:
            time += costs.tail_launch_microseconds[len(tile.efficiency) > 1]
        time *= costs.split_margin
    return time


def is_scaling_worthwhile(gpu: DeviceInfo, size: GemmSize) -> bool:
    """Return whether float32 is quicker scaled to float16, with the time of scaling.

    That reads both operands twice, for the largest element of each line comes first.
    """
    model = model_of(gpu)
    scaled, plain = model.gemm[SCALED_FLOAT16], model.gemm[SIMT]
    work = math.prod(size)
    if work < scaled.simt_below:
        return False
    rates = (max(tile.tflops for tile in each.tiles) * 1e6 for each in (scaled, plain))
    time, simt_time = (2 * work / rate for rate in rates)
    moved = SCALED_BYTES * size.batch * size.k * (size.m + size.n)
    time += moved / model.scaled_bytes_per_microsecond + model.copy_microseconds
    return time < simt_time


def _work(sizes: GemmSize, tile: Tile, costs: ModeModel, splits: int) -> float:
    """Return the operations of a workgroup, its prologue counted as operations."""
    steps = ceil_div(ceil_div(sizes.k, tile.k), splits)
    depth = steps * tile.k * costs.cost_per_product + costs.prologue_depth
    if sizes.n % 8 and tile.sub_n < 64:
        depth += costs.odd_rows_depth
    return 2 * tile.m * tile.n * depth


def _waves(model: GpuModel, tile: Tile, groups: int, mode: str) -> float:
    """Return the waves: full-rate workgroups in sequence that take the same time.

    Workgroups of the first wave are spread evenly, and without tensor cores those of
    later waves too, for one alone is nearly as quick there. On tensor cores a
    multiprocessor whose workgroups end, all at about one time, takes as many again, and
    half of the multiprocessors end first.
    """
    most = len(tile.efficiency)
    rounds, rest = divmod(groups, model.multiprocessors * most)
    spread = not rounds or mode in SIMT_MODES
    rest = rest if spread else 2 * rest * most
    each = min(most, ceil_div(rest, model.multiprocessors))
    return rounds * most + (each / tile.efficiency[each - 1] if each else 0)


def _tail_split_configs(
    model: GpuModel, sizes: GemmSize, tile: Tile, most: int
) -> list[TileConfig]:
    """Return split-K configurations of the tail wave, where full waves precede it.

    Full waves have one workgroup per multiprocessor, or its full occupancy: where
    several are left, a multiprocessor that ends its own takes more than one.
    """
    down, across = ceil_div(sizes.m, tile.m), ceil_div(sizes.n, tile.n)
    each = (down * across - 1) // model.multiprocessors
    if each > 1:
        each -= each % len(tile.efficiency)
    whole = each * model.multiprocessors // across
    if whole == down - 1 and sizes.m % tile.m:
        whole -= 1  # less than a tile would be left
    if whole < 1 or sizes.batch > 1:
        return []
    most = min(most, model.max_tail_splits, sizes.k // model.min_tail_split_depth)
    return [
        TileConfig(tile, splits, True, down - whole) for splits in range(2, most + 1)
    ]


def _filled_counts(
    model: GpuModel,
    sizes: GemmSize,
    costs: ModeModel,
    counts: Mapping[Tile, tuple[int, ...]],
) -> dict[Tile, tuple[int, ...]]:
    """Return the split-K counts of each tile with those that fill a device.

    Where K has too few slices for half of it, that is as many as it has.
    """
    found = {
        tile: (*those, *_filling_splits(model, sizes, costs, tile, those[-1]))
        for tile, those in counts.items()
    }
    groups = [sizes.tiles(tile) * those[-1] for tile, those in found.items()]
    if 2 * max(groups, default=0) >= model.multiprocessors:
        return found
    most = _most_splits(sizes, costs)
    return {
        tile: (*those, most) if most > those[-1] else those
        for tile, those in found.items()
    }


def _filling_splits(
    model: GpuModel, sizes: GemmSize, costs: ModeModel, tile: Tile, most: int
) -> list[int]:
    """Return more split-K counts, where `most` leave a device without enough loads.

    Each gives a multiprocessor one workgroup more, up to full occupancy.
    """
    groups = sizes.tiles(tile)
    if groups * most >= LEAST_OCCUPANCY * model.multiprocessors:
        return []
    limit = _most_splits(sizes, costs)
    occupancies = range(1, max(LEAST_OCCUPANCY, len(tile.efficiency)) + 1)
    found = {each * model.multiprocessors // groups for each in occupancies}
    return sorted(each for each in found if most < each <= limit)


def _split_counts(sizes: GemmSize, costs: ModeModel, most: int) -> range:
    """Return the split-K counts to consider."""
    return range(1, max(1, min(most, _most_splits(sizes, costs))) + 1)


def _most_splits(sizes: GemmSize, costs: ModeModel) -> int:
    """Return the largest split-K count that K and memory allow."""
    in_memory = MAX_PARTIAL_BYTES // max(1, 4 * sizes.batch * sizes.m * sizes.n)
    return min(sizes.k // costs.min_split_depth, in_memory)
