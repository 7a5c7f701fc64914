"""Tile configurations of a GEMM, ranked by a cost model: tile size and split-K count.

A workgroup computes one tile over one slice of K; workgroups are spread over
`MULTIPROCESSORS`, and the busiest of these determines the time: the multiply-adds of
its workgroups, each with `PROLOGUE_DEPTH` more of K for the first loads and the last
stores, at the tile's TFLOP/s. Below full occupancy only a fraction of that rate is
reached: `Tile.efficiency`. Split-K adds the bytes of the partial sums, written and read
again, and the launch of the reduction; it must then be quicker by `SPLIT_MARGIN`.

Rates and efficiencies are fitted to times of square GEMMs of 1024 to 8192 rows on an
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
"""Additional prologue K where rows of 16-bit results are not whole vectors and a
subgroup stores fewer than 64 columns: 1023 rows in tiles of 128x64 took 18.9 us, in
64x128 17.8 (NVIDIA H200, driver 580.159.04, 2026-11-22)."""

COST_PER_PRODUCT = {BF16X3: 3.0, DP4A: 0.5, INT8_TENSOR_CORES: 0.5}
"""Cost of a multiply-add at a tile's rate, if not 1; an estimate for int8."""

BYTES_PER_MICROSECOND = 4e6
"""Bandwidth of partial sums, written or read."""

LAUNCH_MICROSECONDS = 6.0
"""Launch time of the split-K reduction, with its barrier, after tensor-core GEMMs."""

SIMT_LAUNCH_MICROSECONDS = 4.0
"""The same after SIMT GEMMs."""

SIMT_TAIL_LAUNCH_MICROSECONDS = 2.5, 14.0
"""Launch time of the tail wave's kernel: with an occupancy of one workgroup per
multiprocessor, of 1152 and 1536 rows 1.5 and 3.6; of more, of 1280, 1408 and 2048 rows
15, 17 and 18 (NVIDIA H200, driver 580.159.04, 2026-11-22)."""

MIN_SPLIT_DEPTH = 512
"""Least K of a split-K slice."""

SIMT_MIN_SPLIT_DEPTH = 192
"""The same in mode `SIMT`, where 768 rows in slices of 256 took 31 us, whole 39 to 61
(NVIDIA H200, driver 580.159.04, 2026-11-21)."""

MIN_TAIL_SPLIT_DEPTH = 256
"""Least K of a split-K slice of the tail wave."""

MAX_SPLITS = 8

MAX_SIMT_SPLITS = 16
"""Largest split-K count of `SIMT`: 256x16384x256 in float32 took 80 us with 16 and 153
with 8 (NVIDIA H200)."""

SPLIT_MARGIN = 1.05
"""Least modelled speedup of split-K, for the model errs; more of `SIMT` was timed."""

MAX_PARTIAL_BYTES = 256 << 20
"""Most bytes of split-K partial sums."""

MAX_BF16X3_DEPTH = 8192
"""Largest K of a bf16x3 slice: tensor cores truncate as they accumulate, so the error
grows with K, to 2.8e-5 here."""


class Tile(NamedTuple):
    """Tile of one workgroup and its pipeline parameters.

    Attributes
    ----------
    m, n, k : int
        Rows, columns, and the K step.
    sub_m, sub_n : int
        Subgroup tile; in `matmul/gemm_simt` the vec4 of an invocation, per dimension.
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

    Split-K slices are equal but the last, which may be shorter. `wide` selects 16-byte
    accesses in packing and, where rows are whole vectors, in the tensor-core epilogue
    store; the device then rounds to float16. On tensor cores that is the rule: GEMMs
    of 16-bit floats took 4 to 18 percent less, those of int8 about as long (NVIDIA
    H200, driver 580.159.04, 2026-11-21).

    `tail_rows` is the number of tile rows at the end, the tail wave, that alone are
    split along K: the others fill the device, and these would leave most of it idle.
    0 splits all.
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
        """Return the number of tiles."""
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
"""Tiles of small unaligned operands; see `select`, which chooses."""
DEEP_TILE = Tile(64, 64, 128, 32, 32, 210.0, (0.595, 0.868, 1.0))
"""Tile with few K steps, for one workgroup per multiprocessor stalls in each."""
SMALL_TILE = Tile(32, 64, 64, 16, 32, 121.0, (0.54, 0.83, 1.0), stages=2)
"""Tile of small GEMMs: those of 256 rows took 4.3 us in place of 4.6, those of 512 took
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
        GEMM mode.
    sizes : GemmSize
    max_splits : int, optional
        Largest split-K count, unless the size requires more.
    tail_split : bool, default False
        Whether the tail wave may be a second launch with split-K.
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
        # Multiprocessors start slices as others end, up to their occupancy.
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
    """Return the operations of a workgroup, its prologue counted as operations."""
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
    """Return the waves: full-rate workgroups in sequence that take the same time.

    Workgroups of the first wave are spread evenly, and without tensor cores those of
    later waves too, for one alone is nearly as quick there. On tensor cores a
    multiprocessor whose workgroups end, all at about one time, takes as many again, and
    half of the multiprocessors end first: 60 tiles of 128x128 beyond two per
    multiprocessor took 1.8 times as long as one per multiprocessor would (NVIDIA H200,
    driver 580.159.04, 2026-11-22).
    """
    most = len(tile.efficiency)
    rounds, rest = divmod(groups, MULTIPROCESSORS * most)
    spread = not rounds or mode in SIMT_MODES
    each = ceil_div(rest if spread else 2 * rest * most, MULTIPROCESSORS)
    each = min(most, each)
    return rounds * most + (each / tile.efficiency[each - 1] if each else 0)


def _tail_split_configs(sizes: GemmSize, tile: Tile, most: int) -> list[TileConfig]:
    """Return split-K configurations of the tail wave, where full waves precede it.

    Full waves have one workgroup per multiprocessor, or its full occupancy: where
    several are left, a multiprocessor that ends its own takes more than one.
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
    # The larger footprint of the two operand layouts; int8 has one layout.
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
    """Return the elements of a 16-byte operand vector."""
    return {SIMT: 4, DP4A: 16, INT8_TENSOR_CORES: 16}.get(mode, 8)


def accumulates_in_float16(gpu: DeviceInfo) -> bool:
    """Return whether a device has cooperative matrices with float16 accumulation."""
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
