"""Which kernel a large matrix product runs on, with what arguments.

float32 runs on `matmul/gemm_simt`; float16 and bfloat16 on the matrix units through
`matmul/gemm_coopmat`, where the device has them and passed the test of `tensor_cores`;
so does float32 as pairs of bfloat16, where the user accepts that.
`matmul/gemm_coopmat2` is another way for float16 and bfloat16, taken where measuring
found it quicker. Products of int8 with sums in int32 run on either, along the depth of
both operands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import bfloat16, float16, float32, int8, int32
from ...base.shape import TensorSpec, ceil_div
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
from ..reduce import sum_rows
from ..shader_types import storage_defines
from .pack import VECTOR_SIZE, Side, Vectors, fits, in_lines, vectors
from .tiles import (
    ANYWHERE_TILES,
    DOTS,
    HALF_SUMS,
    INTEGERS,
    PAIRS,
    PLAIN,
    PROCESSORS,
    UNITS,
    WITHOUT_UNITS,
    WORKGROUP,
    Cut,
    Sizes,
    Tile,
    cuts,
    integer_depth,
    register_threads,
    sums_in_float16,
    vector_width,
)
from .tiles import fits as runs

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

SMALLEST = 1 << 20
"""Multiplications below which a product is not worth large tiles."""

PACKED_SMALLEST = 1 << 26
"""Multiplications below which packing an operand takes longer than it saves."""

PACKED_ON_UNITS = 8
"""How many times fewer they are on matrix units, where a product of 255 rows takes 8.2
us and otherwise 11.6 (NVIDIA H200, driver 580.159.04, 2026-11-21)."""

PAIRS_SMALLEST = 1 << 28
"""Multiplications below which splitting float32 takes longer than it saves."""

LIKELY = 8
"""Cuts, of those that the model takes for the quickest, that are worth measuring."""

LIKELY_APART = 2
"""How many of them may compute the last rows of tiles apart, which differ little."""

MOST_COUNTED = 1 << 31
"""Elements of an operand, packed or not, that `matmul/gemm_coopmat2` can count."""

RECURRING = 1 << 29
"""Multiplications from which sizes are compiled into the kernel, worth 8 percent."""

RECURRING_ON_UNITS = 1 << 25
"""The same on matrix units, where products of 640 rows took 6.7 us in place of 7.2, of
768 rows 9.7 in place of 10.7 (NVIDIA H200, driver 580.159.04, 2026-11-22)."""

RAGGED = (PLAIN, UNITS, HALF_SUMS, INTEGERS)
"""Modes whose kernel takes a depth of whole vectors that is not of whole steps."""

MOST_TOUCHES = 16
"""Reads ahead of an invocation, of 32 bytes each."""

ANYWHERE_MOST = 1 << 27
"""Multiplications up to which operands that would need packing are read wherever they
lie, each vector from two, even where processors take more than one tile."""

ANYWHERE_DEPTH = 1536
"""Depth up to which they are where packing is worth it and no processor takes more than
one: products of 511 rows took 7.5 us, after packing 10.0, those of 575 took 9.8 and
11.2, of 703 took 11.1 and 12.6, of 767 in two tiles each 16.0 and 15.4; of 255 rows and
a depth of 1025 10.6, packed and cut 14.1, with one of 2047 17.2 and 14.8 (NVIDIA H200,
driver 580.159.04, 2026-11-22)."""

PLAIN_ANYWHERE_MOST = 1 << 27
"""Multiplications up to which those of float32 are, number by number: products of 255
rows took 6.4 us, on the small kernels 12.3, those of 383 took 11.5 and 17.8, of 511
took 14.1 and, packed, 16.8; of 513 23.1 and 22.5, of 767 40 and 39, of 1023 67 and 58
(NVIDIA H200, driver 580.159.04, 2026-11-22)."""

SHALLOW = 112
"""Depth below which the small kernels are quicker at float32 that would need packing,
of `SHALLOW_SMALLEST` multiplications and more: 777x111x333 took 3.9 us there and 4.7 on
large tiles, four of 65x65x2049 took 7.0 and 12.2, 2004x68x132 took 3.3 and 4.2, but
eight of 255x63x127 took 4.7 and 3.0 (NVIDIA H200, driver 580.159.04, 2026-11-22)."""

SHALLOW_SMALLEST = 1 << 24

UNORDERED = 4
"""Workgroups for each processor up to which it does not matter which run at once."""

MAX_RECURRING = 64
"""Different sizes that kernels are compiled for in a process; more use arguments."""

_recurring: set[tuple[int, ...]] = set()


class _Large(NamedTuple):
    """A product with what was chosen for it."""

    gpu: DeviceInfo
    a: Side
    b: Side
    mode: str
    cut: Cut

    @property
    def tile(self) -> Tile:
        return self.cut.tile

    @property
    def batch(self) -> int:
        return self.a.x.shape[0]

    @property
    def out(self) -> TensorSpec:
        """What is stored."""
        dtype = self.a.x.dtype
        shape = self.batch, self.a.outer, self.b.outer
        return TensorSpec(shape, int32 if dtype is int8 else dtype)

    @property
    def step(self) -> int:
        """How much of the depth a step takes."""
        if self.mode == DOTS:
            return 4 * self.tile.k  # words of four
        # Of a pair of bfloat16, high and low parts share a step.
        return self.tile.k // 2 if self.mode == PAIRS else self.tile.k

    @property
    def steps(self) -> int:
        """Steps that cover the depth."""
        return ceil_div(self.a.x.shape[self.a.k_dim], self.step)

    @property
    def part(self) -> int:
        """Steps of a part, of which the last may have fewer."""
        return ceil_div(self.steps, self.cut.parts)

    @property
    def parts(self) -> int:
        return ceil_div(self.steps, self.part)

    @property
    def anywhere(self) -> tuple[Vectors, Vectors] | None:
        """Operands that need packing, but are read where they lie all the same."""
        tile, width = self.tile, vector_width(self.mode)
        k = self.a.x.shape[self.a.k_dim]
        sides = {self.a: tile.m, self.b: tile.n}
        lies = all(fits(side, width, block, k) for side, block in sides.items())
        if (
            not self._may_be_anywhere
            or any(side.outer < block for side, block in sides.items())
            or (lies and k % width == 0)
            or self.part == 1
        ):
            return None
        a, b = in_lines(self.a), in_lines(self.b)
        return None if a is None or b is None else (a, b)

    @property
    def _may_be_anywhere(self) -> bool:
        """Whether there is a kernel that reads operands wherever they lie."""
        if self.mode == PLAIN:
            work = self.a.outer * self.b.outer * self.a.x.shape[self.a.k_dim]
            return work * self.batch <= PLAIN_ANYWHERE_MOST
        return self.tile.anywhere and self.mode in (UNITS, HALF_SUMS)

    @property
    def ragged(self) -> bool:
        """Whether operands are read to their depth, which is not of whole steps."""
        k = self.a.x.shape[self.a.k_dim]
        # The first step leaves out what is missing, so there must be another.
        whole = k % self.step == 0
        if self.mode not in RAGGED or whole or self.part == 1:
            return False
        return k % vector_width(self.mode) == 0 or self.anywhere is not None

    @property
    def shallow(self) -> bool:
        """Whether the small kernels are quicker, or packing worth it, all the same."""
        k = self.a.x.shape[self.a.k_dim]
        if self.mode != PLAIN or k >= SHALLOW:
            return False
        work = self.batch * self.a.outer * self.b.outer * k
        whole = self.anywhere is None and not self.ragged
        return not whole and work >= SHALLOW_SMALLEST

    @property
    def depth(self) -> int:
        """What the depth of the operands is padded to."""
        k = self.a.x.shape[self.a.k_dim]
        return k if self.ragged else self.steps * self.step

    @property
    def total(self) -> int:
        """The depth as the kernel counts it: in words of int8, and pairs twice."""
        return self.depth if self.ragged else self.steps * self.tile.k

    @property
    def most_elements(self) -> int:
        """Elements of the larger operand at most, were it packed."""
        lines = max(self.a.outer, self.b.outer, self.tile.m, self.tile.n)
        return self.batch * (lines + 7) * self.steps * self.step


def large_product(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str, cut: Cut | None = None
) -> list[Dispatch] | None:
    """Return the dispatches of a product that is worth large tiles, otherwise None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k)
    b : StridedSpec, shape (batch, k, n)
    mode : str
        `PLAIN`, `UNITS`, `WORKGROUP`, `HALF_SUMS` or `PAIRS`; of int8, `DOTS` or
        `INTEGERS`.
    cut : Cut or None
        One of `tiles.cuts`; None means the first of them.
    """
    batch, m, k = a.shape
    n = b.shape[2]
    mode = _worthwhile(mode, m * n * k)
    if gpu.kind == "software" or (mode == PLAIN and a.dtype is not float32):
        return None
    least = 32 if mode in WITHOUT_UNITS else 16
    if batch > MAX_GROUPS or min(m, n) <= least or m * n * k < SMALLEST:
        return None
    sizes = Sizes(m, n, k, batch)
    cut = cut or _anywhere_cut(gpu, a, b, mode)
    cut = cut or next(iter(cuts(gpu, mode, sizes, apart=True)), None)
    if cut is None or cut.parts * batch > MAX_GROUPS:
        return None
    product = _Large(gpu, Side("a", a, 1, 2), Side("b", b, 2, 1), mode, cut)
    if mode == WORKGROUP and product.most_elements > MOST_COUNTED:
        return None
    found = _dispatches(product)
    packs = found[0].kernel == "matmul/pack" and mode != PAIRS
    if not packs and not product.shallow:
        return found
    least = PACKED_SMALLEST // (1 if mode in WITHOUT_UNITS else PACKED_ON_UNITS)
    return found if batch * m * n * k >= least else None


def likely_cuts(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> dict[str, Cut]:
    """Return the ways to cut a product that may be quickest, by name."""
    batch, m, k = a.shape
    n = b.shape[2]
    mode = _worthwhile(mode, m * n * k)
    found = cuts(gpu, mode, Sizes(m, n, k, batch), apart=True)
    more = [cut for cut in found if cut.last][LIKELY_APART:]
    found = [cut for cut in found if cut not in more]
    if mode == WORKGROUP:
        # Of each tile the best, for these kernels take long to build.
        found = list({cut.tile: cut for cut in reversed(found)}.values())
    elif mode == INTEGERS:
        # Of int8 alone narrow stores were ever as quick.
        found[1:1] = [cut._replace(wide=False) for cut in found[:1]]
    anywhere = _anywhere_cut(gpu, a, b, mode)
    found = [anywhere, *found] if anywhere else found
    return {cut.name: cut for cut in found[:LIKELY]}


def _anywhere_cut(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> Cut | None:
    """Return how to cut a product whose operands are read wherever they lie."""
    sizes = Sizes(a.shape[1], b.shape[2], a.shape[2], a.shape[0])
    sides = Side("a", a, 1, 2), Side("b", b, 2, 1)
    work = math.prod(a.shape) * sizes.n
    if mode == PLAIN:
        small = work <= PLAIN_ANYWHERE_MOST
        found = cuts(gpu, mode, sizes, apart=True) if small else []
        ways = (cut for cut in found if _Large(gpu, *sides, mode, cut).anywhere)
        return next(ways, None)
    tiles = [tile for tile in ANYWHERE_TILES if runs(gpu, tile, UNITS)]
    at_once = [tile for tile in tiles if sizes.tiles(tile) <= PROCESSORS]
    worth_packing = work * PACKED_ON_UNITS >= PACKED_SMALLEST
    small = work <= ANYWHERE_MOST if not at_once else sizes.k <= ANYWHERE_DEPTH
    if not tiles or (worth_packing and not small):
        return None
    cut = Cut((at_once or tiles)[0], 1, True)
    product = _Large(gpu, *sides, mode, cut)
    return None if product.anywhere is None else cut


def _worthwhile(mode: str, multiplications: int) -> str:
    """Return the mode, or PLAIN where splitting float32 takes longer than it saves."""
    return PLAIN if mode == PAIRS and multiplications < PAIRS_SMALLEST else mode


def _dispatches(product: _Large) -> list[Dispatch]:
    gpu, a, b, mode, (tile, _, wide, last) = product
    padded, parts = product.depth, product.parts
    options = {"split": mode == PAIRS, "along_k": mode in (DOTS, INTEGERS)}
    options["wide"] = wide
    if product.anywhere is not None:
        left, right = product.anywhere
    else:
        left = vectors(a, vector_width(mode), tile.m, padded, **options)
        right = vectors(b, vector_width(mode), tile.n, padded, **options)
    batch, m, n = product.out.shape
    found = [*left.packing, *right.packing]
    if parts == 1:
        return [*found, _dispatch(product, left, right, range(m), 1, "out")]
    first = (ceil_div(m, tile.m) - last) * tile.m if last else 0
    if first:
        found.append(_dispatch(product, left, right, range(first), 1, "out"))
    rows = m - first
    partial = Scratch("partial", 4 * parts * batch * rows * n)
    found.append(_dispatch(product, left, right, range(first, m), parts, partial))
    target = (
        BufferOffset("out", first * n * product.out.dtype.itemsize) if first else "out"
    )
    out = TensorSpec((batch, rows, n), product.out.dtype)
    return [*found, sum_rows(gpu, partial, out, parts, batch * rows * n, target)]


def _dispatch(
    product: _Large,
    left: Vectors,
    right: Vectors,
    rows: range,
    parts: int,
    out: str | Scratch,
) -> Dispatch:
    """Return the dispatch of some rows of a product, their depth in parts."""
    gpu, _, _, mode, (tile, *_) = product
    batch, bottom, n = product.out.shape
    m = len(rows)
    part = ceil_div(product.steps, parts)
    depth = part * tile.k
    memory: Argument = left.memory
    if rows.start:
        width, size = vector_width(mode), VECTOR_SIZE
        if product.anywhere is not None:
            width, size = 1, size // width
        lines = rows.start * left.line if left.along_k else rows.start // width
        memory = BufferOffset(left.memory, size * lines)
    push: dict[str, Argument] = {"a": memory, "b": right.memory, "out_": out}
    push |= {"m": m, "n": n, "k": depth, "total": product.total}
    push |= {"batches": batch, "a_stride": left.line, "b_stride": right.line}
    push |= {"a_batch": left.batch, "b_batch": right.batch}
    end = left.padded if rows.stop == bottom else rows.stop
    push |= {"last_row": end - rows.start - tile.m}
    push |= {"last_column": right.last(tile.n)}
    constants = {
        "A_ALONG_K": int(left.along_k),
        "B_ALONG_K": int(right.along_k),
        **tile_constants(gpu, tile, mode),
        **part_constants(tile, mode, product.steps, part),
    }
    if mode in RAGGED:
        constants["RAGGED"] = int(product.ragged)
        constants["ANYWHERE"] = int(product.anywhere is not None)
    down, across = ceil_div(m, tile.m), ceil_div(n, tile.n)
    grid = fold_grid(down * across, batch * parts)
    placed = _placed(product, (across, down), parts)
    if placed:
        constants["PLACED"] = placed
        grid = across, down, batch * parts
    if parts == 1 and mode in (UNITS, HALF_SUMS):
        constants["TOUCHES"] = _touches(product, right, grid, constants)
    if mode in (*WITHOUT_UNITS, WORKGROUP):
        whole = n % (8 if mode == WORKGROUP else 4) == 0
        constants["DIRECT"] = int(left.padded == bottom and right.padded == n and whole)
    least = RECURRING if mode in WITHOUT_UNITS else RECURRING_ON_UNITS
    if m * n * product.depth * batch >= least:
        constants |= _size_constants(depth, left.line, right.line)
    kernel = "matmul/gemm_simt" if mode in WITHOUT_UNITS else "matmul/gemm_coopmat"
    if mode == WORKGROUP:
        kernel = "matmul/gemm_coopmat2"
    return Dispatch(kernel, grid, push, constants, _defines(product, parts))


def _placed(product: _Large, tiles: tuple[int, int], parts: int) -> int:
    """Return how the grid says which tile a workgroup has, or 0 where that is counted.

    Divisions that find it come before the first loads: float32 of 128 rows took 4.4 us
    with them and 3.9 without, on matrix units 383 rows 6.4 and 6.0, but 1280 rows in
    tiles of 128x128 there 19.5 and 20.6 (NVIDIA H200, driver 580.159.04, 2026-11-22).
    Then z is 1: nothing; 2: the part of the depth; 3: the batch.
    """
    batch, tile = product.batch, product.tile
    large = product.mode not in WITHOUT_UNITS and tile.sub_m * tile.sub_n >= 64 * 64
    many = tiles[0] * tiles[1] * batch * parts > UNORDERED * PROCESSORS
    many |= max(tiles) > MAX_GROUPS
    if product.mode == WORKGROUP or large or many or min(batch, parts) > 1:
        return 0
    return 2 if parts > 1 else 3 if batch > 1 else 1


def _touches(
    product: _Large, right: Vectors, grid: Grid, constants: dict[str, int]
) -> int:
    """Return how many reads of the right operand each invocation makes ahead.

    Where a workgroup is alone on its processor nothing hides how long it waits for
    memory: 1024x1024x1024 in float16 took 16.4 us when the right operand was in no
    cache, 13.3 with these, and 11.7 in place of 11.3 when it was (NVIDIA H200, driver
    580.159.04, 2026-11-22). What was packed is in the cache.
    """
    groups = grid[0] * grid[1] * grid[2]
    if groups > PROCESSORS or right.packing or product.batch > 1 or product.anywhere:
        return 0
    size = product.b.outer * product.total * product.b.x.dtype.itemsize
    touches = ceil_div(size, 32 * groups * constants["LOCAL_X"])
    return touches if touches <= MOST_TOUCHES else 0


def _defines(product: _Large, parts: int) -> dict[str, str]:
    dtype, mode = product.a.x.dtype, product.mode
    sums = parts > 1 or product.out.dtype is not dtype
    stored = 4 if parts > 1 else product.out.dtype.itemsize
    defines = dict(storage_defines(dtype, out_acc=sums))
    if mode == HALF_SUMS:
        defines["FLOAT16_SUMS"] = "1"
    if product.cut.wide and mode not in WITHOUT_UNITS:
        if dtype is float16:
            defines["DEVICE_ROUNDING"] = "1"
        elif dtype is bfloat16 and sums_in_float16(product.gpu):
            defines["BITS_OF_16"] = "1"
        if product.b.outer % (VECTOR_SIZE // stored) == 0:
            defines["WIDE_STORES"] = "1"
    if mode == DOTS and "integer_dot_product" in product.gpu.supported:
        defines["INTEGER_DOT"] = "1"
    return defines


def tile_constants(gpu: DeviceInfo, tile: Tile, mode: str) -> dict[str, int]:
    """Return the constants of a product's kernel that say how it is cut."""
    constants = {"BLOCK_M": tile.m, "BLOCK_N": tile.n}
    if mode in WITHOUT_UNITS:
        threads = register_threads(tile)
        quads = {"QUADS_M": tile.sub_m, "QUADS_N": tile.sub_n}
        slices = {"SLICES": tile.slices, "AHEAD": tile.ahead}
        return {**constants, "LOCAL_X": threads, **quads, **slices}
    lanes = gpu.subgroup_size
    threads = (tile.m // tile.sub_m) * (tile.n // tile.sub_n) * lanes
    constants |= {"LOCAL_X": threads, "BLOCK_K": tile.k}
    if mode == WORKGROUP:
        return constants
    if mode == INTEGERS:
        constants["EDGE_K"] = integer_depth(gpu)
    subgroups = {"SUB_M": tile.sub_m, "SUB_N": tile.sub_n, "SUBGROUP": lanes}
    if tile.stages > 1:
        subgroups["STAGES"] = tile.stages
    return {**constants, **subgroups}


def part_constants(tile: Tile, mode: str, steps: int, part: int) -> dict[str, int]:
    """Return the constants that say of what the parts of a depth are made, in steps."""
    left = steps % part  # of the last part, if it is not as deep as the others
    constants = {"UNEVEN": int(left != 0)}
    if mode in WITHOUT_UNITS:
        unlike = part % tile.slices != 0 or left % tile.slices != 0
        constants["UNLIKE"] = int(unlike)
    return constants


def _size_constants(depth: int, a_stride: int, b_stride: int) -> dict[str, int]:
    """Return sizes to compile into a kernel, or none when many have been."""
    key = (depth, a_stride, b_stride)
    if key not in _recurring and len(_recurring) >= MAX_RECURRING:
        return {}
    _recurring.add(key)
    return {"DEPTH": depth, "A_STRIDE": a_stride, "B_STRIDE": b_stride}
