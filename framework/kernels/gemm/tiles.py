"""Tile configurations of a GEMM, ranked by a cost model: tile size and split-K count.

A workgroup computes one tile over one slice of K; workgroups are spread over
`MULTIPROCESSORS`, and the busiest of these determines the time: the multiply-adds of
its workgroups, each with `PROLOGUE_DEPTH` more of K for the first loads and the last
stores, at the tile's TFLOP/s. Below full occupancy only a fraction of that rate is
reached: `Tile.efficiency`. Split-K adds the bytes of the partial sums, written and read
again, and the launch of the reduction; it must then be quicker by `SPLIT_MARGIN`.

Rates and efficiencies are fitted to times of square products of 1024 to 8192 rows on an
NVIDIA H200 (driver 580.159.04, 2026-11-21), with those of sizes in between; in float32
from 256 rows on, of chains whose right operands are not in the cache. Those of
int8 are estimates, and choices for other shapes were not timed.
What another device reaches differs, but what is better than what differs less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import ceil_div

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

SIMT, TENSOR_CORES, FP16_ACCUMULATE, BF16X3 = (
    "",
    "tensor_cores",
    "fp16_accumulate",
    "bf16x3",
)
"""GEMM modes: without tensor cores; on them with fp32 or with fp16 accumulation; with
fp32 emulated there by three bf16 products."""

DP4A, INT8_TENSOR_CORES = "dp4a", "int8_tensor_cores"
"""GEMM modes of int8: dot products of packed words, or tensor cores."""

SIMT_MODES = (SIMT, DP4A)

WIDE_STORE_MODES = (TENSOR_CORES, FP16_ACCUMULATE, BF16X3, INT8_TENSOR_CORES)
"""Modes with 16-byte stores by default; see `TileConfig.wide`."""

MULTIPROCESSORS = 132
"""Multiprocessors of an H200."""

PROLOGUE_DEPTH = {
    SIMT: 32,
    TENSOR_CORES: 128,
    FP16_ACCUMULATE: 128,
    BF16X3: 384,
    DP4A: 64,
    INT8_TENSOR_CORES: 128,
}
"""Depth that would take as long as a workgroup's first loads and last stores."""

UNALIGNED_ROWS_DEPTH = 64
"""What that is more where 16-bit results leave in rows that are not of vectors, by less
than 64 columns of a subgroup: 1023 rows in tiles of 128x64 took 18.9 us, in 64x128 17.8
(NVIDIA H200, driver 580.159.04, 2026-11-22)."""

COST_PER_PRODUCT = {BF16X3: 3.0, DP4A: 0.5, INT8_TENSOR_CORES: 0.5}
"""Products at a tile's rate that one takes, if not 1; of int8 it is an estimate."""

BYTES_PER_MICROSECOND = 4e6
"""Of partial sums, written or read."""

LAUNCH_MICROSECONDS = 6.0
"""Of the kernel that adds partial sums, after a barrier, beside matrix units."""

SIMT_LAUNCH_MICROSECONDS = 4.0
"""Of that kernel beside the others."""

SIMT_TAIL_LAUNCH_MICROSECONDS = 2.5, 14.0
"""Of a kernel for the last tiles beside that for the others: where a processor has room
for one workgroup, of 1152 and 1536 rows 1.5 and 3.6; for more, of 1280, 1408 and 2048
rows 15, 17 and 18 (NVIDIA H200, driver 580.159.04, 2026-11-22)."""

MIN_SPLIT_DEPTH = 512
"""Least depth of a part, where the depth is cut for want of tiles."""

SIMT_MIN_SPLIT_DEPTH = 192
"""The same of `SIMT`, where 768 rows in parts of 256 took 31 us, and whole 39 to 61
(NVIDIA H200, driver 580.159.04, 2026-11-21)."""

MIN_TAIL_SPLIT_DEPTH = 256
"""Least depth of a part, where that of the last tiles is cut."""

MAX_SPLITS = 8

MAX_SIMT_SPLITS = 16
"""Of 256x16384x256 in float32, 16 took 80 us and 8 took 153 (NVIDIA H200)."""

SPLIT_MARGIN = 1.05
"""How much quicker parts must be than the whole depth, by a model that errs; of `SIMT`
more was measured."""

MAX_PARTIAL_BYTES = 256 << 20
"""Most bytes of partial sums, where the depth is cut for want of tiles."""

MAX_BF16X3_DEPTH = 8192
"""Greatest depth of a part of pairs: matrix units truncate as they sum, so the error
grows with the depth, to 2.8e-5 here."""


class Tile(NamedTuple):
    """Tile of one workgroup and its pipeline parameters.

    Attributes
    ----------
    m, n, k : int
        Rows, columns, and the depth of one step.
    sub_m, sub_n : int
        The part of a subgroup; in `matmul/gemm_simt` the quads of an invocation.
    tflops : float
        TFLOP/s at full occupancy.
    efficiency : tuple of float
        Fraction of `tflops` by occupancy, with 1, 2, ... workgroups on each
        multiprocessor; the last is 1, at full occupancy.
    slices : int
        Sliced-K factor of `matmul/gemm_simt`.
    prefetch_distance : int
        K steps of look-ahead of its operand loads.
    unaligned : bool
        On tensor cores, whether operands are loaded from unaligned addresses.
    stages : int
        Pipeline stages in shared memory there, 1 or 2. Two save a barrier per K step,
        but hardly a tile fits twice.
    """

    m: int
    n: int
    k: int
    sub_m: int
    sub_n: int
    tflops: float
    efficiency: tuple[float, ...]
    slices: int = 1
    prefetch_distance: int = 1
    unaligned: bool = False
    stages: int = 1


class TileConfig(NamedTuple):
    """A tile configuration: the tile and its split-K count.

    Splits are of equal depth but the last, which may have less. `wide` says that memory
    is accessed 16 bytes at a time when operands are packed and, where rows are made of
    those, when results leave matrix units; the device then rounds them to float16. On
    matrix units that is the rule: products of 16-bit floats took 4 to 18 percent less,
    those of int8 about as long (NVIDIA H200, driver 580.159.04, 2026-11-21).

    `tail_rows` is how many rows of tiles at the end are split along K, and no others:
    the others fill the device, and these would leave most of it idle. 0 means all.
    """

    tile: Tile
    splits: int
    wide: bool = False
    tail_rows: int = 0

    @property
    def name(self) -> str:
        """Name of the candidate in the autotune cache."""
        m, n, k, sub_m, sub_n, *_ = self.tile
        sliced = f", {self.tile.slices} K slices" if self.tile.slices > 1 else ""
        sliced += ", 2 stages" if self.tile.stages > 1 else ""
        sliced += ", unaligned" if self.tile.unaligned else ""
        wide = ", wide stores" if self.wide else ""
        tail_rows = f" of the last {self.tail_rows}" if self.tail_rows else ""
        depth = f"split-K{tail_rows} {self.splits}"
        return (
            f"tiles of {m}x{n}x{k}, {sub_m}x{sub_n} per subgroup{sliced}, {depth}{wide}"
        )


class GemmSize(NamedTuple):
    """Problem size of a batched GEMM."""

    m: int
    n: int
    k: int
    batch: int = 1

    def tiles(self, tile: Tile) -> int:
        """Return how many tiles there are."""
        return ceil_div(self.m, tile.m) * ceil_div(self.n, tile.n) * self.batch


SIMT_TILES = (
    Tile(64, 128, 16, 2, 2, 47.8, (1.0,), slices=2, prefetch_distance=2),
    Tile(64, 128, 16, 2, 2, 53.8, (0.64, 0.92, 1.0)),
    Tile(64, 64, 16, 2, 2, 48.7, (0.38, 0.56, 0.72, 0.9, 0.9, 1.0)),
    Tile(32, 32, 16, 1, 1, 30.2, (0.26, 0.55, 0.72, 0.77, 0.79, 0.87, 0.96, 1.0)),
    Tile(128, 64, 16, 2, 2, 51.0, (0.64, 0.92, 1.0)),
    Tile(64, 64, 16, 2, 2, 41.5, (0.82, 0.9, 0.92, 1.0), slices=4),
    Tile(32, 64, 16, 2, 2, 38.3, (0.56, 0.8, 0.8, 1.0), slices=4, prefetch_distance=2),
    Tile(32, 32, 16, 1, 1, 28.0, (0.46, 0.77, 0.8, 1.0), slices=4, prefetch_distance=2),
)
TENSOR_CORE_TILES = (
    Tile(128, 128, 64, 64, 64, 380.0, (0.84, 1.0)),
    Tile(128, 64, 64, 64, 32, 268.0, (0.77, 0.95, 1.0)),
    Tile(64, 128, 64, 32, 64, 268.0, (0.75, 0.95, 1.0)),
    Tile(64, 64, 64, 32, 32, 228.0, (0.5, 0.8, 0.93, 1.0)),
)
UNALIGNED_TILES = (
    Tile(32, 64, 64, 16, 32, 228.0, (1.0,), unaligned=True),
    Tile(64, 64, 64, 32, 32, 228.0, (1.0,), unaligned=True),
)
"""For small operands that are read wherever they lie; see `select`, which chooses."""
DEEP_TILE = Tile(64, 64, 128, 32, 32, 210.0, (0.595, 0.868, 1.0))
"""Of few steps, where one workgroup a processor waits in each of them."""
SMALL_TILE = Tile(32, 64, 64, 16, 32, 121.0, (0.54, 0.83, 1.0), stages=2)
"""Of small products: those of 256 rows took 4.3 us in place of 4.6, those of 512 took
5.6 in place of 6.3, but those of 640 took 8.2 in place of 7.2; with one stage 6.1
(NVIDIA H200, driver 580.159.04, 2026-11-22). Of larger tiles two stages were slower."""
FP16_ACCUMULATE_TILES = (Tile(256, 256, 32, 128, 64, 413.0, (1.0,)), *TENSOR_CORE_TILES)
INT8_TILES = tuple(tile._replace(k=128) for tile in TENSOR_CORE_TILES)


def tile_configs(
    gpu: DeviceInfo,
    mode: str,
    sizes: GemmSize,
    max_splits: int | None = None,
    tail_split: bool = False,
) -> list[TileConfig]:
    """Return the tile configurations a device can run, the quickest by the model first.

    Parameters
    ----------
    gpu : DeviceInfo
    mode : str
        How it is computed.
    sizes : Sizes
    max_splits : int, optional
        Parts that the depth may be cut into, where it need not be into more.
    tail_split : bool, default False
        Whether the last rows of tiles may be computed by another kernel.
    """
    if max_splits is None:
        max_splits = MAX_SIMT_SPLITS if mode in SIMT_MODES else MAX_SPLITS
    tiles = [tile for tile in _tiles(mode) if fits(gpu, tile, mode)]
    splits = _split_counts(sizes, mode, max_splits)
    found = [
        TileConfig(tile, each, mode in WIDE_STORE_MODES)
        for tile in tiles
        for each in splits
    ]
    if tail_split and mode in (*WIDE_STORE_MODES, SIMT) and splits[0] == 1:
        found += [
            config._replace(wide=mode in WIDE_STORE_MODES)
            for tile in tiles
            for config in _tail_split_configs(sizes, tile, max_splits)
        ]
    return sorted(found, key=lambda config: microseconds(config, mode, sizes))


def microseconds(config: TileConfig, mode: str, sizes: GemmSize) -> float:
    """Return the modelled time, without that of packing operands."""
    tile, splits, _, tail_rows = config
    down = ceil_div(sizes.m, tile.m)
    across = sizes.tiles(tile) // down
    depth, part = (_work(sizes, tile, mode, each) for each in (1, splits))
    if tail_rows:
        # Processors take parts as they end others, as many as there is room for.
        groups = (down - tail_rows) * across
        whole = ceil_div(groups, MULTIPROCESSORS)
        room = len(tile.efficiency) - whole % len(tile.efficiency)
        rounds = ceil_div(tail_rows * across * splits, MULTIPROCESSORS * room)
        beside = whole * depth + rounds * room * part
        work = max(_waves(tile, groups, mode) * depth, beside)
    else:
        work = _waves(tile, down * across * splits, mode) * part
    time = work * MULTIPROCESSORS / (tile.tflops * 1e6)
    if splits > 1:
        rows = tail_rows * tile.m if tail_rows else sizes.m
        sums = splits * sizes.batch * rows * sizes.n
        launch = SIMT_LAUNCH_MICROSECONDS if mode == SIMT else LAUNCH_MICROSECONDS
        time += launch + 2 * 4 * sums / BYTES_PER_MICROSECOND
        if tail_rows and mode == SIMT:
            time += SIMT_TAIL_LAUNCH_MICROSECONDS[len(tile.efficiency) > 1]
        time *= 1 if mode == SIMT else SPLIT_MARGIN
    return time


def _work(sizes: GemmSize, tile: Tile, mode: str, splits: int) -> float:
    """Return the operations of a workgroup, with those that would take its start."""
    depth = (
        ceil_div(ceil_div(sizes.k, tile.k), splits)
        * tile.k
        * COST_PER_PRODUCT.get(mode, 1)
    )
    odd = mode in (TENSOR_CORES, FP16_ACCUMULATE) and sizes.n % 8 and tile.sub_n < 64
    return (
        2
        * tile.m
        * tile.n
        * (depth + PROLOGUE_DEPTH[mode] + (UNALIGNED_ROWS_DEPTH if odd else 0))
    )


def _waves(tile: Tile, groups: int, mode: str) -> float:
    """Return how many workgroups would take as long, one by one, at the full rate.

    Those of a first round are spread evenly, and without matrix units the others too,
    for there one alone is nearly as quick. On matrix units a processor that ends its
    own, at about one time, takes as many again, and half of the processors end first:
    60 tiles of 128x128 beyond two for each took 1.8 times as long as one for each would
    (NVIDIA H200, driver 580.159.04, 2026-11-22).
    """
    most = len(tile.efficiency)
    rounds, rest = divmod(groups, MULTIPROCESSORS * most)
    spread = not rounds or mode in SIMT_MODES
    each = ceil_div(rest if spread else 2 * rest * most, MULTIPROCESSORS)
    each = min(most, each)
    return rounds * most + (each / tile.efficiency[each - 1] if each else 0)


def _tail_split_configs(sizes: GemmSize, tile: Tile, most: int) -> list[TileConfig]:
    """Return split-K configurations of the tail wave, where full waves precede it.

    That is one workgroup for each processor, or as many as it has room for: where
    several are left, a processor that ends its own takes more than one.
    """
    down, across = ceil_div(sizes.m, tile.m), ceil_div(sizes.n, tile.n)
    each = (down * across - 1) // MULTIPROCESSORS
    if each > 1:
        each -= each % len(tile.efficiency)
    whole = each * MULTIPROCESSORS // across
    if whole == down - 1 and sizes.m % tile.m:
        whole -= 1  # less than a tile would be left
    if whole < 1 or sizes.batch > 1:
        return []
    most = min(most, MAX_SPLITS, sizes.k // MIN_TAIL_SPLIT_DEPTH)
    return [
        TileConfig(tile, splits, True, down - whole) for splits in range(2, most + 1)
    ]


def _split_counts(sizes: GemmSize, mode: str, most: int) -> range:
    """Return the split-K counts to consider."""
    least = ceil_div(sizes.k, MAX_BF16X3_DEPTH) if mode == BF16X3 else 1
    in_memory = MAX_PARTIAL_BYTES // max(1, 4 * sizes.batch * sizes.m * sizes.n)
    shortest = SIMT_MIN_SPLIT_DEPTH if mode == SIMT else MIN_SPLIT_DEPTH
    most = min(most, sizes.k // shortest, in_memory)
    return range(least, max(least, most) + 1)


def _tiles(mode: str) -> Sequence[Tile]:
    if mode in SIMT_MODES:
        return SIMT_TILES
    tiles = {FP16_ACCUMULATE: FP16_ACCUMULATE_TILES, INT8_TENSOR_CORES: INT8_TILES}
    whole = (
        TENSOR_CORE_TILES
        if mode == BF16X3
        else (*TENSOR_CORE_TILES, DEEP_TILE, SMALL_TILE)
    )
    return tiles.get(mode, whole)


def fits(gpu: DeviceInfo, tile: Tile, mode: str) -> bool:
    """Return whether a device has the shared memory and the invocations for a tile."""
    if mode in SIMT_MODES:
        size = 2 * 8 * tile.slices * (tile.m + tile.n + 8) * 4
        return (
            size <= gpu.max_shared_memory
            and simt_threads(tile) <= gpu.max_workgroup_invocations
        )
    width = vector_width(mode)
    sides = tile.m, tile.n
    # The more roomy of the ways in which each operand may lie; int8 lies in one.
    lines = sum(
        max(
            side * (tile.k + width),
            0 if mode == INT8_TENSOR_CORES else tile.k * (side + width),
        )
        for side in sides
    )
    subgroups = (tile.m // tile.sub_m) * (tile.n // tile.sub_n)
    threads = subgroups * gpu.subgroup_size
    strips = subgroups * 16 * (tile.sub_n + 4) * 4
    return (
        max(tile.stages * lines * 16 // width, strips) <= gpu.max_shared_memory
        and threads <= gpu.max_workgroup_invocations
        and all(
            side * tile.k // width % threads == 0 and threads % (across // width) == 0
            for side in sides
            for across in ((tile.k,) if mode == INT8_TENSOR_CORES else (side, tile.k))
        )
    )


def simt_threads(tile: Tile) -> int:
    """Return the invocations of a workgroup of `matmul/gemm_simt`."""
    return tile.slices * tile.m * tile.n // (16 * tile.sub_m * tile.sub_n)


def vector_width(mode: str) -> int:
    """Return how many elements of an operand a vector of 16 bytes has."""
    return {SIMT: 4, DP4A: 16, INT8_TENSOR_CORES: 16}.get(mode, 8)


def accumulates_in_float16(gpu: DeviceInfo) -> bool:
    """Return whether a device has matrices of float16 sums."""
    return "shader_float16" in gpu.supported and any(
        (row.m, row.n, row.result) == (16, 16, "float16") and row.scope == "subgroup"
        for row in gpu.cooperative_matrix
    )


def int8_matrix_depth(gpu: DeviceInfo) -> int:
    """Return K of the int8 cooperative matrices of a device, or 0."""
    depths = (
        row.k
        for row in gpu.cooperative_matrix
        if (row.m, row.n) == (16, 16)
        and row.k in (16, 32)
        and (row.a, row.b, row.c, row.result) == ("int8", "int8", "int32", "int32")
        and row.scope == "subgroup"
        and not row.saturating
    )
    return max(depths, default=0)
