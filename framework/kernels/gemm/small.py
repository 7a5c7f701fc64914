"""Tiling of small and fallback GEMMs, for matrix products and convolutions alike.

Each of these GEMMs exists twice in `glsl/`: with tiles in shared memory, for GPUs, and
with tiles in the registers of one subgroup, whose lanes load different elements and
broadcast them. Software devices are bound by loads, not arithmetic, so the second is
several times faster there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import DType
from ...base.shape import ceil_div
from ...ir.kernel_call import Argument, Dispatch, check_rounds, fold_grid
from ..gpu_model import model_of
from ..shader_types import acc_size, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


SHARED_CONFIGS = ((64, 8, 2), (32, 16, 1), (16, 16, 1))
"""Rows and columns of a tile, K step, and vec4 of an invocation per dimension."""

WIDE_SUBGROUP_CONFIGS = ((32, 8, 1), (16, 16, 1))
"""Those for devices whose subgroups are wide: a SIMD unit of Vega holds four subgroups
of the first, and one or two of those above (RADV 25.0.7's compiler)."""

LARGE_SUBGROUP_CONFIG = (32, 8)
ROW_CONFIG = (1, 4)
SUBGROUP_CONFIGS = (
    ROW_CONFIG,
    *((rows, columns) for rows in (8, 16, 32) for columns in (2, 4)),
    LARGE_SUBGROUP_CONFIG,
)
"""Rows of a tile, and columns per lane."""

LARGE_MATRIX = 1 << 18
"""Elements of the matrix that one row is multiplied with, as in decoding, from which on
`ROW_CONFIG` is worth a kernel of its own: its results have the same bits."""

LARGE = 1 << 25
"""m * n * k from which the largest tile is worth its compile time, twice the others'.

It loads fewer elements per multiply-add.
"""


FILLING_WORKGROUPS = 8
"""Workgroups on each multiprocessor that slices of K make up for."""

LEAST_SLICE, LEAST_SAVED = 128, 256
"""K of such a slice at least, and K that is left out of the way of a workgroup, which
is worth the launch that adds slices up, some 4 us. 16 rows by 1024 columns of float32
took 3 us and 33 ns for each of K up to 1536, whole, and 16 us in 8 slices of 256;
convolutions of an image of 16 x 16 took 43 ns for each of K, in 16 to 96 tiles (NVIDIA
H200, driver 580.159.04, 2026-12-01)."""

SLICE_STEP = 16
"""What K of a slice is a multiple of."""


class TiledGemm(NamedTuple):
    """Problem size and operand order of a batched tiled GEMM.

    Attributes
    ----------
    m, n, k : int
        Rows, columns and K.
    dtype : DType
        Of the operands.
    a_along_k, b_along_k : bool
        Whether the operand is contiguous along K, for coalesced loads.
    batch : int
        Number of GEMMs.
    """

    m: int
    n: int
    k: int
    dtype: DType
    a_along_k: bool = True
    b_along_k: bool = False
    batch: int = 1


def uses_subgroup_tiles(gpu: DeviceInfo) -> bool:
    """Return whether to use the subgroup kernels, whose invocations share registers."""
    return gpu.target.broadcasts_registers


def tiled_gemm_dispatch(
    gpu: DeviceInfo,
    kernel: tuple[str, str],
    product: TiledGemm,
    batch: int,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    *,
    depth: int | None = None,
    partial: bool = False,
    config: tuple[int, ...] | None = None,
) -> Dispatch:
    """Return the dispatch of a tiled GEMM.

    Parameters
    ----------
    gpu : DeviceInfo
        Where it runs.
    kernel : tuple of str
        Shader with shared-memory tiles, shader with subgroup tiles.
    product : TiledGemm
        Problem size.
    batch : int
        Number of GEMMs, along z.
    push, constants : mapping
        Arguments and constants of the kernel itself.
    depth : int or None
        Size of a split-K slice; None is all of `k`.
    partial : bool
        Whether the result is a partial sum that another dispatch reduces.
    config : tuple of int or None
        One of `small_tile_configs`; None chooses.
    """
    shared, subgroup = kernel
    check_rounds(gpu, shared, depth or product.k)
    tile, chosen = small_tile(gpu, product, config)
    name = subgroup if uses_subgroup_tiles(gpu) else shared
    grid = fold_grid(_tiles(product, tile), batch)
    defines = storage_defines(product.dtype, out_acc=partial)
    return Dispatch(name, grid, push, {**constants, **chosen}, defines)


def tile_count(
    gpu: DeviceInfo, product: TiledGemm, config: tuple[int, ...] | None = None
) -> int:
    """Return the number of tiles of a GEMM; `config` is as in `tiled_gemm_dispatch`."""
    return _tiles(product, small_tile(gpu, product, config)[0])


def slice_depth(
    gpu: DeviceInfo,
    product: TiledGemm,
    batch: int,
    config: tuple[int, ...] | None = None,
) -> int:
    """Return K of the slices by which `batch` GEMMs fill a device; all of it if whole.

    `product` and `config` are as in `tiled_gemm_dispatch`.
    """
    k = product.k
    if not gpu.target.hides_latency:
        return k
    tiles = max(1, batch * tile_count(gpu, product, config))
    fill = FILLING_WORKGROUPS * model_of(gpu).multiprocessors // tiles
    splits = max(1, min(fill, k // LEAST_SLICE))
    depth = SLICE_STEP * ceil_div(k, SLICE_STEP * splits)
    return depth if k - depth >= LEAST_SAVED else k


def small_tile(
    gpu: DeviceInfo, product: TiledGemm, config: tuple[int, ...] | None = None
) -> tuple[tuple[int, int], dict[str, int]]:
    """Return rows and columns of a tile, and its specialization constants."""
    config = config or _best_config(gpu, product)
    if uses_subgroup_tiles(gpu):
        return _subgroup_tile(gpu, *config)
    return _shared_tile(product, *config)


def small_tile_configs(gpu: DeviceInfo, dtype: DType) -> Sequence[tuple[int, ...]]:
    """Return the tile configurations of a dtype, as autotune candidates."""
    if uses_subgroup_tiles(gpu):
        return SUBGROUP_CONFIGS
    if gpu.target.wide_subgroups:
        return WIDE_SUBGROUP_CONFIGS
    return SHARED_CONFIGS[_is_wide(dtype) :]


def _is_wide(dtype: DType) -> bool:
    """Return whether the largest tile would exceed 32 KiB of shared memory."""
    return acc_size(dtype) > 4


def _best_config(gpu: DeviceInfo, product: TiledGemm) -> tuple[int, ...]:
    if uses_subgroup_tiles(gpu):
        if product.m == 1 and product.n * product.k >= LARGE_MATRIX:
            return ROW_CONFIG
        if product.m % 32 == 0 or product.m > 96:
            rows = 32
            wide = product.n >= LARGE_SUBGROUP_CONFIG[1] * gpu.subgroup_size
            pays = product.m * product.n * product.k >= LARGE
            if wide and pays and not _is_wide(product.dtype):
                return LARGE_SUBGROUP_CONFIG
        else:
            rows = 16 if product.m > 8 else 8
        return rows, 2 if product.n <= 2 * gpu.subgroup_size else 4
    large, middle, small = SHARED_CONFIGS
    if gpu.target.wide_subgroups:
        return WIDE_SUBGROUP_CONFIGS[product.m <= 16 and product.n <= 16]
    tiles = _tiles(product, (64, 64)) * product.batch
    many = tiles >= model_of(gpu).small_gemm_tiles
    if product.m > 32 and product.n > 32 and many and not _is_wide(product.dtype):
        return large
    return small if product.m <= 16 and product.n <= 16 else middle


def _tiles(product: TiledGemm, tile: tuple[int, int]) -> int:
    return ceil_div(product.m, tile[0]) * ceil_div(product.n, tile[1])


def _subgroup_tile(
    gpu: DeviceInfo, rows: int, columns: int
) -> tuple[tuple[int, int], dict[str, int]]:
    lanes = gpu.subgroup_size
    chosen = {"LOCAL_X": lanes, "ROWS": rows, "COLUMNS": columns}
    return (rows, columns * lanes), chosen


def _shared_tile(
    product: TiledGemm, size: int, depth: int, quads: int
) -> tuple[tuple[int, int], dict[str, int]]:
    chosen = {
        "LOCAL_X": size * size // (16 * quads * quads),
        "BLOCK_M": size,
        "BLOCK_N": size,
        "BLOCK_K": depth,
        "QUADS_M": quads,
        "QUADS_N": quads,
        "A_ALONG_K": int(product.a_along_k),
        "B_ALONG_K": int(product.b_along_k),
    }
    return (size, size), chosen
