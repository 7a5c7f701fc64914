"""Tile configurations of a GEMM: tile size, split-K count, and what fits a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import ceil_div

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

SIMT, TENSOR_CORES, FP16_ACCUMULATE, SCALED_FLOAT16 = (
    "",
    "tensor_cores",
    "fp16_accumulate",
    "scaled_float16",
)
"""GEMM modes: without tensor cores; on them with fp32 or with fp16 accumulation; with
fp32 operands scaled by powers of two and rounded to fp16."""

DP4A, INT8_TENSOR_CORES = "dp4a", "int8_tensor_cores"
"""GEMM modes of int8: dot products of packed words, or tensor cores."""

SIMT_MODES = (SIMT, DP4A)

WIDE_STORE_MODES = (
    TENSOR_CORES,
    FP16_ACCUMULATE,
    SCALED_FLOAT16,
    INT8_TENSOR_CORES,
)
"""Modes with 16-byte stores by default; see `TileConfig.wide`."""


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
    store; the device then rounds to float16. On tensor cores that is the rule.

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

    def is_covered(self, tile: Tile) -> bool:
        """Return whether the shorter side of a tile covers that of the result."""
        return self.m <= tile.m if tile.m < tile.n else self.n <= tile.n


def fits(gpu: DeviceInfo, tile: Tile, mode: str) -> bool:
    """Return whether a device has the memory, registers and invocations of a tile."""
    if mode == SIMT and gpu.target.wide_subgroups:
        return False
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
    exponents = 4 * sum(sides) if mode == SCALED_FLOAT16 else 0
    room = gpu.max_shared_memory - exponents
    return (
        max(tile.stages * lines * 16 // width, strips) <= room
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
