"""Models of device classes: the figures by which kernels are chosen.

All were measured on an NVIDIA H200: what, and when, is in `MEASURED.md`. What another
device reaches differs, but what is better than what differs less, so the classes that
were not measured have the same figures, but for one: `OTHERS`. Software devices have
some that were measured on lavapipe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .gemm.tiles import (
    DP4A,
    FP16_ACCUMULATE,
    INT8_TENSOR_CORES,
    SCALED_FLOAT16,
    SIMT,
    TENSOR_CORES,
    Tile,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


@dataclass(frozen=True)
class ModeModel:
    """Costs and thresholds of large GEMMs in one mode; see `gemm.cost_model`.

    Attributes
    ----------
    tiles : tuple of Tile
        Tiles with their rates.
    thin_tiles : tuple of Tile
        Tiles for results that their shorter side covers.
    thin_side : int
        m and n up to which these do not pay.
    gathered_tiles : tuple of Tile
        Further tiles where the right operand is gathered from images.
    prologue_depth : int
        K that would take as long as a workgroup's first loads and last stores.
    packed_smallest : int
        m * n * k below which packing an operand takes longer than it saves.
    specialized_smallest : int
        m * n * k from which a kernel is specialized for its sizes.
    min_side : int
        m and n up to which large tiles do not pay.
    smallest : int
        m * n * k below which large tiles do not pay.
    simt_below : int
        m * n * k below which mode `SIMT` is quicker.
    cost_per_product : float
        Cost of a multiply-add at a tile's rate.
    odd_rows_depth : int
        Additional prologue K where rows of results are not whole vectors and a subgroup
        stores fewer than 64 columns.
    min_split_depth : int
        Least K of a split-K slice.
    max_splits : int
        Largest split-K count.
    split_launch_microseconds : float
        Launch time of the split-K reduction, with its barrier.
    tail_launch_microseconds : (float, float)
        Launch time of the tail wave's kernel, with an occupancy of one workgroup per
        multiprocessor and of more.
    split_margin : float
        Least modelled speedup of split-K, for the model errs.
    unaligned_tiles : tuple of Tile
        Tiles of unaligned operands, the smallest first; without them, those of `tiles`.
    unaligned_most : int
        Largest m * n * k for which unaligned operands are loaded in place.
    unaligned_depth : int
        Largest K for that where packing would pay, with at most one tile per
        multiprocessor.
    shallow, shallow_smallest : int
        K below which the small kernels are quicker at what would need packing, and
        m * n * k from which.
    """

    tiles: tuple[Tile, ...]
    prologue_depth: int
    thin_tiles: tuple[Tile, ...] = ()
    thin_side: int = 8
    gathered_tiles: tuple[Tile, ...] = ()
    packed_smallest: int = 1 << 23
    specialized_smallest: int = 1 << 25
    min_side: int = 16
    smallest: int = 1 << 20
    simt_below: int = 0
    cost_per_product: float = 1.0
    odd_rows_depth: int = 0
    min_split_depth: int = 512
    max_splits: int = 8
    split_launch_microseconds: float = 6.0
    tail_launch_microseconds: tuple[float, float] = (0.0, 0.0)
    split_margin: float = 1.05
    unaligned_tiles: tuple[Tile, ...] = ()
    unaligned_most: int = 0
    unaligned_depth: int = 0
    shallow: int = 0
    shallow_smallest: int = 0


@dataclass(frozen=True)
class GpuModel:
    """Figures of a device class.

    Attributes
    ----------
    multiprocessors : int
        Streaming multiprocessors, or compute units.
    gemm : mapping of str to ModeModel
        By GEMM mode.
    partial_bytes_per_microsecond : float
        Bandwidth of partial sums, written or read.
    min_tail_split_depth, max_tail_splits : int
        Least K of a split-K slice of the tail wave, and most slices.
    unordered_waves : int
        Workgroups per multiprocessor up to which the order of tiles does not matter.
    max_l2_prefetches : int
        L2 prefetches of an invocation, of 32 bytes each.
    small_gemm_tiles : int
        Tiles of 64 by 64 that fill the device; fewer leave multiprocessors idle.
    gemv_most_rows, gemv_smallest : int
        Most rows or columns of a GEMV, and least elements of its matrix.
    gemv_groups, gemv_min_split_depth : int
        Workgroups that keep enough loads in flight, and least K of a split-K slice.
    scaled_bytes_per_microsecond : float
        Rate of scaling GEMM operands to float16, by what is read and written.
    copied_bytes_per_microsecond : float
        Rate of packing images and filters, by their size before.
    copy_microseconds : float
        Launch time of the two packing kernels, with their barriers.
    nchw_operations_per_microsecond : (float, float, float)
        Rates of convolutions that pack nothing, by result layout.
    gathered_efficiency : mapping of (int, int) to tuple of float
        `Tile.efficiency` on tensor cores where windows are gathered, by tile size: the
        addressing takes registers, so fewer workgroups fit on a multiprocessor.
    winograd_bytes_per_microsecond : float
        Rate of the transforms of `conv.winograd`, by what they read and write.
    winograd_microseconds : float
        Launch time of its kernels, with their barriers.
    wgrad_tiles, depthwise_wgrad_groups : int
        Workgroups that fill the device in gradients by filters.
    reduction_groups, full_reduction_groups : int
        Workgroups that fill the device in reductions to several results, and to one.
    cached_scatter_bytes : int or None
        Bytes that atomics at random places find in the L2 cache, while what they read
        passes through it; None where that is not known.
    """

    multiprocessors: int
    gemm: Mapping[str, ModeModel]
    partial_bytes_per_microsecond: float
    min_tail_split_depth: int
    max_tail_splits: int
    unordered_waves: int
    max_l2_prefetches: int
    small_gemm_tiles: int
    gemv_most_rows: int
    gemv_smallest: int
    gemv_groups: int
    gemv_min_split_depth: int
    scaled_bytes_per_microsecond: float
    copied_bytes_per_microsecond: float
    copy_microseconds: float
    nchw_operations_per_microsecond: tuple[float, float, float]
    gathered_efficiency: Mapping[tuple[int, int], tuple[float, ...]]
    winograd_bytes_per_microsecond: float
    winograd_microseconds: float
    wgrad_tiles: int
    depthwise_wgrad_groups: int
    reduction_groups: int
    full_reduction_groups: int
    cached_scatter_bytes: int | None


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
GATHERED_SIMT_TILES = (
    Tile(32, 128, 16, 2, 2, 38.6, (0.33, 0.64, 0.78, 0.92, 0.96, 1.0)),
)
"""Tiles that are quicker than the others where the right operand is gathered: plain
products with a large K are slower by them. Below full occupancy their rates are
estimates."""
TENSOR_CORE_TILES = (
    Tile(128, 128, 64, 64, 64, 380.0, (0.84, 1.0)),
    Tile(128, 64, 64, 64, 32, 268.0, (0.77, 0.95, 1.0)),
    Tile(64, 128, 64, 32, 64, 268.0, (0.75, 0.95, 1.0)),
    Tile(64, 64, 64, 32, 32, 228.0, (0.5, 0.8, 0.93, 1.0)),
)
DEEP_TILE = Tile(64, 64, 128, 32, 32, 210.0, (0.595, 0.868, 1.0))
"""Tile with few K steps, for one workgroup per multiprocessor stalls in each."""
SMALL_TILE = Tile(32, 64, 64, 16, 32, 121.0, (0.54, 0.83, 1.0), stages=2)
UNALIGNED_TILES = (
    Tile(32, 64, 64, 16, 32, 228.0, (1.0,), unaligned=True),
    Tile(64, 64, 64, 32, 32, 228.0, (1.0,), unaligned=True),
)
THIN_TILES = (
    Tile(16, 128, 64, 16, 32, 96.0, (0.4, 0.7, 0.9, 1.0)),
    Tile(16, 256, 64, 16, 64, 100.0, (0.5, 0.85, 1.0)),
    Tile(128, 16, 64, 32, 16, 96.0, (0.4, 0.7, 0.9, 1.0)),
    Tile(128, 16, 16, 128, 16, 110.0, (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)),
    Tile(16, 128, 16, 16, 128, 110.0, (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)),
    Tile(128, 32, 16, 128, 32, 160.0, (0.15, 0.3, 0.5, 0.7, 0.85, 1.0)),
)
"""Tiles of few rows or columns; without them fewer than 17 are not on tensor cores.
Their rates are estimates, from the rate of the memory."""
FP16_ACCUMULATE_TILES = (Tile(256, 256, 32, 128, 64, 413.0, (1.0,)), *TENSOR_CORE_TILES)
INT8_TILES = tuple(tile._replace(k=128) for tile in TENSOR_CORE_TILES)

_SIMT = ModeModel(
    tiles=SIMT_TILES,
    gathered_tiles=GATHERED_SIMT_TILES,
    prologue_depth=32,
    packed_smallest=1 << 26,
    specialized_smallest=1 << 29,
    min_side=32,
    min_split_depth=192,
    max_splits=16,
    split_launch_microseconds=4.0,
    tail_launch_microseconds=(2.5, 14.0),
    split_margin=1.0,
    unaligned_most=1 << 27,
    shallow=112,
    shallow_smallest=1 << 24,
)
_DP4A = ModeModel(
    tiles=SIMT_TILES,
    prologue_depth=64,
    packed_smallest=1 << 26,
    specialized_smallest=1 << 29,
    min_side=32,
    cost_per_product=0.5,
    max_splits=16,
)
_TENSOR_CORES = ModeModel(
    tiles=(*TENSOR_CORE_TILES, DEEP_TILE, SMALL_TILE),
    prologue_depth=128,
    thin_tiles=THIN_TILES,
    odd_rows_depth=64,
    unaligned_tiles=UNALIGNED_TILES,
    unaligned_most=1 << 27,
    unaligned_depth=1536,
)

H200 = GpuModel(
    multiprocessors=132,
    gemm={
        SIMT: _SIMT,
        DP4A: _DP4A,
        TENSOR_CORES: _TENSOR_CORES,
        FP16_ACCUMULATE: dataclasses.replace(
            _TENSOR_CORES, tiles=FP16_ACCUMULATE_TILES
        ),
        SCALED_FLOAT16: ModeModel(
            tiles=(*TENSOR_CORE_TILES, DEEP_TILE, SMALL_TILE),
            prologue_depth=128,
            odd_rows_depth=64,
            simt_below=1 << 27,  # an estimate
        ),
        INT8_TENSOR_CORES: ModeModel(
            tiles=INT8_TILES, prologue_depth=128, cost_per_product=0.5
        ),
    },
    partial_bytes_per_microsecond=4e6,
    min_tail_split_depth=256,
    max_tail_splits=8,
    unordered_waves=4,
    max_l2_prefetches=16,
    small_gemm_tiles=64,
    gemv_most_rows=8,
    gemv_smallest=1 << 16,
    gemv_groups=256,
    gemv_min_split_depth=256,
    scaled_bytes_per_microsecond=3e6,  # an estimate, from the rate of the memory
    copied_bytes_per_microsecond=1.4e6,
    copy_microseconds=8.0,
    nchw_operations_per_microsecond=(24e6, 11e6, 18e6),
    gathered_efficiency={
        (128, 64): (0.7, 1.0),
        (64, 128): (0.7, 1.0),
        (64, 64): (0.5, 0.83, 1.0),
    },
    # Estimates, from the rate of the memory.
    winograd_bytes_per_microsecond=2.5e6,
    winograd_microseconds=8.0,
    wgrad_tiles=512,
    depthwise_wgrad_groups=1056,
    reduction_groups=528,
    full_reduction_groups=1056,
    # 16 Mi float32 atomics in 64 MB took 638 us at once, 411 in ranges of 32 MiB and
    # 442 of 16 (driver 580.159.04, 2026-11-30).
    cached_scatter_bytes=32 << 20,
)
SOFTWARE = dataclasses.replace(
    H200,
    nchw_operations_per_microsecond=(6e3, 6e3, 6e3),
    winograd_bytes_per_microsecond=550.0,
    winograd_microseconds=500.0,
    wgrad_tiles=32,
    reduction_groups=32,
    full_reduction_groups=32,
    cached_scatter_bytes=None,
)
"""Model of devices that hide no latency: a workgroup for each of a few processors."""

OTHERS = dataclasses.replace(
    H200, winograd_bytes_per_microsecond=0.8e6, cached_scatter_bytes=None
)
"""Model of devices that were not measured: most have a third of an H200's bandwidth, or
less, for as much arithmetic."""

_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel", 0x106B: "Apple"}
MODELS = {
    "NVIDIA": H200,
    "AMD": OTHERS,
    "Intel": OTHERS,
    "Apple": OTHERS,
    "other": OTHERS,
    "software": SOFTWARE,
}
"""By device class; those of GEMMs and convolutions were measured on "NVIDIA" alone."""


def device_class(gpu: DeviceInfo) -> str:
    """Return the key of a device in `MODELS`."""
    if not gpu.target.hides_latency:
        return "software"
    return _VENDORS.get(gpu.vendor_id, "other")


def model_of(gpu: DeviceInfo) -> GpuModel:
    """Return the model of a device's class."""
    return MODELS[device_class(gpu)]
