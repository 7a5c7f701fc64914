"""Kernel selection and launch parameters of large GEMMs.

float32 runs on `matmul/gemm_simt`; float16 and bfloat16 on tensor cores through
`matmul/gemm_coopmat`, where the device passed the self-test of `tensor_cores`; so does
float32 scaled to float16, where the user accepts that: see `scaling`. int8 GEMMs with
int32 accumulation run on SIMT or tensor cores, both operands contiguous along K.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import bfloat16, float16, float32, int8, int32
from ...base.shape import Layout, TensorSpec, ceil_div
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Grid,
    Scratch,
    StridedSpec,
    fold_grid,
)
from ..gpu_model import ModeModel, model_of
from ..shader_types import (
    decoded_defines,
    format_defines,
    group_constant,
    storage_defines,
)
from .cost_model import is_scaling_worthwhile, tile_configs
from .pack import (
    VECTOR_SIZE,
    GemmOperand,
    VectorOperand,
    fits,
    unaligned_operand,
    vector_operand,
)
from .scaling import scaled_operand
from .slice_sum import sum_slices
from .tiles import (
    DP4A,
    FP16_ACCUMULATE,
    INT8_TENSOR_CORES,
    SCALED_FLOAT16,
    SIMT,
    SIMT_MODES,
    TENSOR_CORES,
    GemmSize,
    Tile,
    TileConfig,
    accumulates_in_float16,
    int8_matrix_depth,
    simt_threads,
    vector_width,
)
from .tiles import fits as runs

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...base.quantized_format import QuantizedFormat

LIKELY_CONFIGS = 8
"""Tile configurations to benchmark, the quickest by the cost model."""

LIKELY_TAIL_SPLITS = 2
"""Most of them with a split tail wave, which differ little."""

K_TAIL_MODES = (SIMT, TENSOR_CORES, FP16_ACCUMULATE, INT8_TENSOR_CORES)
"""Modes whose kernel handles a K tail of whole vectors."""

MAX_RECURRING = 64
"""Most sizes that kernels are specialized for in a process; more use arguments."""

_recurring: set[tuple[int, ...]] = set()


class _Gemm(NamedTuple):
    """GEMM with its operands, mode and tile configuration."""

    gpu: DeviceInfo
    a: GemmOperand
    b: GemmOperand
    mode: str
    config: TileConfig

    @property
    def tile(self) -> Tile:
        return self.config.tile

    @property
    def costs(self) -> ModeModel:
        return model_of(self.gpu).gemm[self.mode]

    @property
    def batch(self) -> int:
        return self.a.x.shape[0]

    @property
    def out(self) -> TensorSpec:
        """Spec of the stored result."""
        dtype = self.a.x.dtype
        shape = self.batch, self.a.outer, self.b.outer
        return TensorSpec(shape, int32 if dtype is int8 else dtype)

    @property
    def k_step(self) -> int:
        """K elements per pipeline step."""
        if self.mode == DP4A:
            return 4 * self.tile.k  # words of four
        return self.tile.k

    @property
    def steps(self) -> int:
        """Pipeline steps that cover K."""
        return ceil_div(self.a.x.shape[self.a.k_dim], self.k_step)

    @property
    def split_steps(self) -> int:
        """Pipeline steps per split-K slice; the last slice may have fewer."""
        return ceil_div(self.steps, self.config.splits)

    @property
    def splits(self) -> int:
        return ceil_div(self.steps, self.split_steps)

    @property
    def unaligned(self) -> tuple[VectorOperand, VectorOperand] | None:
        """Operands that are loaded unaligned instead of being packed, or None."""
        tile, width = self.tile, vector_width(self.mode)
        k = self.a.x.shape[self.a.k_dim]
        sides = {self.a: tile.m, self.b: tile.n}
        lies = all(fits(side, width, block, k) for side, block in sides.items())
        if (
            not self._may_be_unaligned
            or any(side.outer < block for side, block in sides.items())
            or (lies and k % width == 0)
            or self.split_steps == 1
        ):
            return None
        a, b = unaligned_operand(self.a), unaligned_operand(self.b)
        return None if a is None or b is None else (a, b)

    @property
    def _may_be_unaligned(self) -> bool:
        """Whether the kernel supports unaligned operands."""
        if self.mode == SIMT:
            work = self.a.outer * self.b.outer * self.a.x.shape[self.a.k_dim]
            return work * self.batch <= self.costs.unaligned_most
        return self.tile.unaligned and self.mode in (TENSOR_CORES, FP16_ACCUMULATE)

    @property
    def k_tail(self) -> bool:
        """Whether the kernel handles a K tail instead of padded operands."""
        k = self.a.x.shape[self.a.k_dim]
        # The first step is the partial one, so there must be another.
        whole = k % self.k_step == 0
        if whole or self.split_steps == 1:
            return False
        if self.mode not in K_TAIL_MODES:
            return False
        return k % vector_width(self.mode) == 0 or self.unaligned is not None

    @property
    def shallow(self) -> bool:
        """Whether K is too small for unaligned loads or a K tail to be the quickest."""
        k = self.a.x.shape[self.a.k_dim]
        if k >= self.costs.shallow:
            return False
        work = self.batch * self.a.outer * self.b.outer * k
        whole = self.unaligned is None and not self.k_tail
        return not whole and work >= self.costs.shallow_smallest

    @property
    def depth(self) -> int:
        """K after padding."""
        k = self.a.x.shape[self.a.k_dim]
        return k if self.k_tail else self.steps * self.k_step

    @property
    def total(self) -> int:
        """K in the kernel's units: words of four int8."""
        return self.depth if self.k_tail else self.steps * self.tile.k


def large_tile_gemm(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    mode: str,
    config: TileConfig | None = None,
) -> list[Dispatch] | None:
    """Return the dispatches of a GEMM with large tiles, or None where it is too small.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k)
    b : StridedSpec, shape (batch, k, n)
    mode : str
        A GEMM mode of `tiles`.
    config : TileConfig or None
        One of `tiles.tile_configs`; None takes the first.
    """
    batch, m, k = a.shape
    n = b.shape[2]
    mode = _worthwhile(gpu, mode, GemmSize(m, n, k, batch))
    costs = model_of(gpu).gemm[mode]
    if not gpu.target.fast_shared_memory or (mode == SIMT and a.dtype is not float32):
        return None
    least = costs.thin_side if costs.thin_tiles else costs.min_side
    if batch > MAX_GROUPS or min(m, n) <= least or m * n * k < costs.smallest:
        return None
    config = config or next(iter(_ranked_configs(gpu, a, b, mode)), None)
    if config is None or config.splits * batch > MAX_GROUPS:
        return None
    gemm = _Gemm(gpu, *_sides(a, b), mode, config)
    found = _dispatches(gemm)
    if min(m, n) <= costs.min_side:
        longer = BufferOffset("a" if m > n else "b", 0)
        if any(row.push.get("x") == longer for row in found):
            return None
    packs = found[0].kernel == "matmul/pack"
    if not packs and not gemm.shallow:
        return found
    return found if batch * m * n * k >= costs.packed_smallest else None


def grouped_gemm(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    groups: int,
    mode: str,
    arguments: Mapping[str, Argument],
    *,
    by_depth: bool = False,
) -> list[Dispatch] | None:
    """Return the dispatches of a grouped GEMM on tensor cores, or None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (1, m, k)
    b : StridedSpec, shape (groups, k, n), or with `by_depth` (1, k, n)
    groups : int
    mode : str
    arguments : mapping of str to Argument
        What tells groups apart.
    by_depth : bool, default False
        Whether groups divide k, not m.
    """
    (_, m, k), n = a.shape, b.shape[2]
    if mode not in (TENSOR_CORES, FP16_ACCUMULATE) or not groups:
        return None
    costs = model_of(gpu).gemm[mode]
    if not gpu.target.fast_shared_memory or m * n * k < costs.smallest:
        return None
    if groups > MAX_GROUPS or min(m, n) <= costs.min_side:
        return None
    divided = (m, ceil_div(k, groups)) if by_depth else (ceil_div(m, groups), k)
    sizes = GemmSize(divided[0], n, divided[1], groups)
    left, right = _sides(a, b)
    found = [
        _Gemm(gpu, left, right, mode, each)
        for each in tile_configs(gpu, mode, sizes, max_splits=1)
        if each.splits == 1 and not each.tile.unaligned
    ]
    if by_depth:
        found = [] if left.along_k or right.along_k else found
    return _grouped(found[0], groups, arguments, by_depth) if found else None


def _grouped(
    gemm: _Gemm, groups: int, arguments: Mapping[str, Argument], by_depth: bool
) -> list[Dispatch]:
    """Return the dispatches of a GEMM whose groups the device tells apart."""
    tile, width = gemm.tile, vector_width(gemm.mode)
    depth = gemm.a.x.shape[gemm.a.k_dim] if by_depth else gemm.depth
    left, right = (
        vector_operand(side, width, block, depth, wide=gemm.config.wide)
        for side, block in ((gemm.a, tile.m), (gemm.b, tile.n))
    )
    return _in_groups(gemm, left, right, groups, arguments, by_depth)


def _in_groups(
    gemm: _Gemm,
    left: VectorOperand,
    right: VectorOperand,
    groups: int,
    arguments: Mapping[str, Argument],
    by_depth: bool = False,
) -> list[Dispatch]:
    """Return the dispatches of a grouped GEMM of vector operands."""
    (_, m, n), tile, k = gemm.out.shape, gemm.tile, gemm.a.x.shape[gemm.a.k_dim]
    whole = _dispatch(gemm, left, right, range(m), 1, "out")
    across = ceil_div(n, tile.n)
    down = ceil_div(m, tile.m) if by_depth else m // tile.m + groups + 1
    grid = fold_grid(across * down, groups if by_depth else 1)
    push = {**whole.push, **arguments, "groups": groups}
    # Depths of groups differ, and the tile of a workgroup is looked up.
    constants = {**whole.constants, "GRID_MAPPED": 0, "L2_PREFETCHES": 0}
    if by_depth:
        push |= {"batches": groups, "total": k}
        constants |= {"DEPTH": 0, "K_TAIL": 1}
    defines = {**whole.defines, "GROUPS_OF_K" if by_depth else "GROUPS_OF_ROWS": "1"}
    product = Dispatch(whole.kernel, grid, push, constants, defines)
    return [*left.packing, *right.packing, product]


def decoded_gemm(
    gpu: DeviceInfo,
    x: StridedSpec,
    n: int,
    row_size: int,
    kind: QuantizedFormat,
    groups: int = 0,
    arguments: Mapping[str, Argument] | None = None,
) -> list[Dispatch] | None:
    """Return the dispatches of a GEMM that decodes the right operand on load, or None.

    Parameters
    ----------
    gpu : DeviceInfo
        With tensor cores for the dtype of `x`.
    x : StridedSpec, shape (m, k), float16 or bfloat16
        Named `x`.
    n : int
        Rows of `blocks`, of `row_size` bytes; with `groups` of each of its matrices.
    row_size : int
    kind : QuantizedFormat
    groups : int, default 0
        Groups of rows of `x`, of as many matrices; 0 is one matrix for all.
    arguments : mapping of str to Argument, optional
        What tells groups apart.
    """
    m, k = x.shape
    costs = model_of(gpu).gemm[TENSOR_CORES]
    if not gpu.target.fast_shared_memory or m <= costs.min_side:
        return None
    left = GemmOperand("x", _matrix(x), 1, 2)
    shape, strides = (1, k, n), (0, 1, k)
    elements = StridedSpec(shape, x.dtype, Layout(shape, strides, 0))
    right = GemmOperand("blocks", elements, 2, 1)
    if groups:
        sizes = GemmSize(ceil_div(m, groups), n, k, groups)
        configs = tile_configs(gpu, TENSOR_CORES, sizes, max_splits=1)
    else:
        sizes = GemmSize(m, n, k)
        configs = tile_configs(gpu, TENSOR_CORES, sizes, tail_split=True)
    for config in configs:
        if not _decodes(gpu, config.tile, n, k, kind):
            continue
        gemm = _Gemm(gpu, left, right, TENSOR_CORES, config)
        width = vector_width(TENSOR_CORES)
        rows = vector_operand(
            left, width, config.tile.m, k, along_k=True, wide=config.wide
        )
        weights = VectorOperand("blocks", True, row_size, n, n)
        found = (
            _in_groups(gemm, rows, weights, groups, arguments or {})
            if groups
            else _with_sums(gemm, rows, weights)
        )
        return [
            _decoded(each, kind, x) if each.kernel == "matmul/gemm_coopmat" else each
            for each in found
        ]
    return None


def _matrix(x: StridedSpec) -> StridedSpec:
    """Return a matrix as a batch of one."""
    layout = x.layout
    strides = (0, *layout.strides)
    return StridedSpec(
        (1, *x.shape), x.dtype, layout._replace(shape=(1, *x.shape), strides=strides)
    )


def _decodes(
    gpu: DeviceInfo, tile: Tile, n: int, k: int, kind: QuantizedFormat
) -> bool:
    """Return whether steps of a tile are whole pieces, as many for each invocation."""
    threads = (tile.m // tile.sub_m) * (tile.n // tile.sub_n) * gpu.subgroup_size
    pieces = tile.k // kind.piece
    return (
        not tile.unaligned
        and tile.n <= n
        and k % tile.k == 0
        and tile.k % kind.piece == 0
        and threads % pieces == 0
        and tile.n * pieces % threads == 0
    )


def _decoded(found: Dispatch, kind: QuantizedFormat, x: StridedSpec) -> Dispatch:
    """Return a dispatch of floats as one of a quantized right operand."""
    constants = {**found.constants, **group_constant(kind)}
    constants.pop("L2_PREFETCHES", None)
    return dataclasses.replace(
        found,
        kernel="matmul/gemm_coopmat_decoded",
        push={**found.push, "table": x.shape[1] // 2},
        constants=constants,
        defines={
            **found.defines,
            **format_defines(kind),
            **decoded_defines(x.dtype),
        },
    )


def likely_configs(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> dict[str, TileConfig]:
    """Return the tile configurations worth benchmarking by name, the quickest first."""
    batch, m, k = a.shape
    mode = _worthwhile(gpu, mode, GemmSize(m, b.shape[2], k, batch))
    found = _ranked_configs(gpu, a, b, mode)
    more = [config for config in found if config.tail_rows][LIKELY_TAIL_SPLITS:]
    found = [config for config in found if config not in more]
    if mode == INT8_TENSOR_CORES:
        # Of int8 alone narrow stores were ever as quick.
        found[1:1] = [config._replace(wide=False) for config in found[:1]]
    return {config.name: config for config in found[:LIKELY_CONFIGS]}


def _ranked_configs(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> list[TileConfig]:
    """Return the tile configurations of a GEMM, the quickest first.

    That is one which reads unaligned operands in place, where packing them does not
    pay; the others follow in the order of the cost model.
    """
    sizes = GemmSize(a.shape[1], b.shape[2], a.shape[2], a.shape[0])
    work = math.prod(sizes)
    model = model_of(gpu)
    costs = model.gemm[mode]
    found = in_place = tile_configs(gpu, mode, sizes, tail_split=True, thin=True)
    small = work <= costs.unaligned_most
    if costs.unaligned_tiles:
        tiles = [each for each in costs.unaligned_tiles if runs(gpu, each, mode)]
        most = model.multiprocessors
        one_wave = [each for each in tiles if sizes.tiles(each) <= most]
        if one_wave:
            small = sizes.k <= costs.unaligned_depth
        small |= work < costs.packed_smallest
        in_place = [TileConfig(each, 1, True) for each in (one_wave or tiles)[:1]]
    for config in in_place if small else ():
        if _Gemm(gpu, *_sides(a, b), mode, config).unaligned:
            return [config, *found]
    return found


def _sides(a: StridedSpec, b: StridedSpec) -> tuple[GemmOperand, GemmOperand]:
    return GemmOperand("a", a, 1, 2), GemmOperand("b", b, 2, 1)


def _worthwhile(gpu: DeviceInfo, mode: str, size: GemmSize) -> str:
    """Return the mode, or SIMT where scaling to float16 costs more than it saves."""
    scales = mode == SCALED_FLOAT16 and not is_scaling_worthwhile(gpu, size)
    return SIMT if scales else mode


def _dispatches(gemm: _Gemm) -> list[Dispatch]:
    _, a, b, mode, (tile, _, wide, _) = gemm
    padded = gemm.depth
    options = {"along_k": mode in (DP4A, INT8_TENSOR_CORES), "wide": wide}
    if gemm.unaligned is not None:
        left, right = gemm.unaligned
    elif mode == SCALED_FLOAT16:
        left = scaled_operand(gemm.gpu, a, tile.m, padded)
        right = scaled_operand(gemm.gpu, b, tile.n, padded)
    else:
        left = vector_operand(a, vector_width(mode), tile.m, padded, **options)
        right = vector_operand(b, vector_width(mode), tile.n, padded, **options)
    return _with_sums(gemm, left, right)


def _with_sums(
    gemm: _Gemm, left: VectorOperand, right: VectorOperand
) -> list[Dispatch]:
    """Return the dispatches of a GEMM and, with split-K, of the sums of its slices."""
    gpu, splits, (tile, _, _, last) = gemm.gpu, gemm.splits, gemm.config
    batch, m, n = gemm.out.shape
    found = [*left.packing, *right.packing]
    if splits == 1:
        return [*found, _dispatch(gemm, left, right, range(m), 1, "out")]
    first = (ceil_div(m, tile.m) - last) * tile.m if last else 0
    if first:
        found.append(_dispatch(gemm, left, right, range(first), 1, "out"))
    rows = m - first
    partial = Scratch("partial", 4 * splits * batch * rows * n)
    found.append(_dispatch(gemm, left, right, range(first, m), splits, partial))
    target = (
        BufferOffset("out", first * n * gemm.out.dtype.itemsize) if first else "out"
    )
    out = TensorSpec((batch, rows, n), gemm.out.dtype)
    return [*found, sum_slices(gpu, partial, out, splits, target)]


def _dispatch(
    gemm: _Gemm,
    left: VectorOperand,
    right: VectorOperand,
    rows: range,
    splits: int,
    out: str | Scratch,
) -> Dispatch:
    """Return the dispatch of some rows of a GEMM, with split-K."""
    gpu, _, _, mode, (tile, *_) = gemm
    batch, bottom, n = gemm.out.shape
    m = len(rows)
    split_steps = ceil_div(gemm.steps, splits)
    depth = split_steps * tile.k
    memory: Argument = left.memory
    if rows.start:
        width, size = vector_width(mode), VECTOR_SIZE
        if gemm.unaligned is not None:
            width, size = 1, size // width
        lines = rows.start * left.line if left.along_k else rows.start // width
        memory = BufferOffset(left.memory, size * lines)
    push: dict[str, Argument] = {"a": memory, "b": right.memory, "out_": out}
    push |= {"m": m, "n": n, "k": depth, "total": gemm.total}
    push |= {"batches": batch, "a_stride": left.line, "b_stride": right.line}
    push |= {"a_batch": left.batch, "b_batch": right.batch}
    end = left.padded if rows.stop == bottom else rows.stop
    push |= {"last_row": end - rows.start - tile.m}
    push |= {"last_column": right.last(tile.n)}
    if left.exponents is not None and right.exponents is not None:
        push["row_exponents"] = BufferOffset(left.exponents, 4 * rows.start)
        push["column_exponents"] = right.exponents
    constants = {
        "A_ALONG_K": int(left.along_k),
        "B_ALONG_K": int(right.along_k),
        **tile_constants(gpu, tile, mode),
        **split_constants(tile, mode, gemm.steps, split_steps),
    }
    if mode in K_TAIL_MODES:
        constants["K_TAIL"] = int(gemm.k_tail)
    down, across = ceil_div(m, tile.m), ceil_div(n, tile.n)
    grid = fold_grid(down * across, batch * splits)
    grid_mapping = _grid_mapping(gemm, (across, down), splits)
    if grid_mapping:
        constants["GRID_MAPPED"] = grid_mapping
        grid = across, down, batch * splits
    on_tensor_cores = mode in (TENSOR_CORES, FP16_ACCUMULATE)
    if splits == 1 and on_tensor_cores and gemm.unaligned is None:
        constants["L2_PREFETCHES"] = _l2_prefetches(gemm, right, grid, constants)
    if mode in SIMT_MODES:
        constants["DIRECT_STORE"] = int(
            left.padded == bottom and right.padded == n and n % 4 == 0
        )
    if m * n * gemm.depth * batch >= gemm.costs.specialized_smallest:
        constants |= _size_constants(depth, left.line, right.line)
    return Dispatch(_kernel(gemm), grid, push, constants, _defines(gemm, splits))


def _kernel(gemm: _Gemm) -> str:
    """Return the kernel for the mode, and for how operands lie in memory."""
    simt = gemm.mode in SIMT_MODES
    if gemm.unaligned is None:
        return "matmul/gemm_simt" if simt else "matmul/gemm_coopmat"
    return "matmul/gemm_simt_unaligned" if simt else "matmul/gemm_coopmat_unaligned"


def _grid_mapping(gemm: _Gemm, tiles: tuple[int, int], splits: int) -> int:
    """Return the grid mapping of tiles, or 0 where the index is divided in the shader.

    Dividing the tile index delays the first loads. Grid z is 1: unused; 2: the split-K
    slice; 3: the batch.
    """
    batch, tile, model = gemm.batch, gemm.tile, model_of(gemm.gpu)
    large = gemm.mode not in SIMT_MODES and tile.sub_m * tile.sub_n >= 64 * 64
    groups = tiles[0] * tiles[1] * batch * splits
    many = groups > model.unordered_waves * model.multiprocessors
    many |= max(tiles) > MAX_GROUPS
    if large or many or min(batch, splits) > 1:
        return 0
    return 2 if splits > 1 else 3 if batch > 1 else 1


def _l2_prefetches(
    gemm: _Gemm, right: VectorOperand, grid: Grid, constants: dict[str, int]
) -> int:
    """Return the L2 prefetches of the right operand per invocation.

    With one workgroup per multiprocessor nothing hides the memory latency. Packed
    operands are in the L2 cache.
    """
    model, groups = model_of(gemm.gpu), math.prod(grid)
    if groups > model.multiprocessors or right.packing or gemm.batch > 1:
        return 0
    size = gemm.b.outer * gemm.total * gemm.b.x.dtype.itemsize
    prefetches = ceil_div(size, 32 * groups * constants["LOCAL_X"])
    return prefetches if prefetches <= model.max_l2_prefetches else 0


def _defines(gemm: _Gemm, splits: int) -> dict[str, str]:
    dtype, mode = gemm.a.x.dtype, gemm.mode
    sums = splits > 1 or gemm.out.dtype is not dtype
    stored = 4 if splits > 1 else gemm.out.dtype.itemsize
    defines = dict(storage_defines(dtype, out_acc=sums))
    if mode == FP16_ACCUMULATE:
        defines["FLOAT16_ACCUMULATE"] = "1"
    if gemm.config.wide and mode not in SIMT_MODES:
        if dtype is float16:
            defines["DEVICE_ROUNDING"] = "1"
        elif dtype is bfloat16 and accumulates_in_float16(gemm.gpu):
            defines["BFLOAT16_BITS"] = "1"
        if gemm.b.outer % (VECTOR_SIZE // stored) == 0:
            defines["WIDE_STORES"] = "1"
    if mode == DP4A and "integer_dot_product" in gemm.gpu.supported:
        defines["INTEGER_DOT"] = "1"
    return defines


def tile_constants(gpu: DeviceInfo, tile: Tile, mode: str) -> dict[str, int]:
    """Return the specialization constants of a tile."""
    constants = {"BLOCK_M": tile.m, "BLOCK_N": tile.n}
    if mode in SIMT_MODES:
        threads = simt_threads(tile)
        quads = {"QUADS_M": tile.sub_m, "QUADS_N": tile.sub_n}
        slices = {"K_SLICES": tile.slices, "PREFETCH_DISTANCE": tile.prefetch_distance}
        return {**constants, "LOCAL_X": threads, **quads, **slices}
    lanes = gpu.subgroup_size
    threads = (tile.m // tile.sub_m) * (tile.n // tile.sub_n) * lanes
    constants |= {"LOCAL_X": threads, "BLOCK_K": tile.k}
    if mode == INT8_TENSOR_CORES:
        constants["EDGE_K"] = int8_matrix_depth(gpu)
    subgroups = {"SUB_M": tile.sub_m, "SUB_N": tile.sub_n, "SUBGROUP": lanes}
    if tile.stages > 1:
        subgroups["PIPELINE_STAGES"] = tile.stages
    return {**constants, **subgroups}


def split_constants(
    tile: Tile, mode: str, steps: int, split_steps: int
) -> dict[str, int]:
    """Return the specialization constants of split-K."""
    left = steps % split_steps  # of the last split-K slice, if it has fewer
    constants = {"UNEVEN_SPLITS": int(left != 0)}
    if mode in SIMT_MODES:
        unlike = split_steps % tile.slices != 0 or left % tile.slices != 0
        constants["UNEVEN_SLICES"] = int(unlike)
    return constants


def _size_constants(depth: int, a_stride: int, b_stride: int) -> dict[str, int]:
    """Return sizes to specialize a kernel for, or none after many specializations."""
    key = (depth, a_stride, b_stride)
    if key not in _recurring and len(_recurring) >= MAX_RECURRING:
        return {}
    _recurring.add(key)
    return {"DEPTH": depth, "A_STRIDE": a_stride, "B_STRIDE": b_stride}
