"""Which kernel a large matrix product runs on, and how it is cut into tiles.

float32 runs on `matmul/registers`; float16 and bfloat16 on the matrix units through
`matmul/cooperative`, where the device has them and passed the test of `matrix_units`;
so does float32 as pairs of bfloat16, where the user accepts that. Tiles were chosen by
measurement on an NVIDIA H200: the largest of which there are enough to fill the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..dispatch import MAX_GROUPS, Argument, Dispatch, Placed, Scratch, fold_grid
from ..dtype import float32
from ..shape import ceil_div
from .element import storage_defines
from .pack import Side, vectors
from .reducing import sum_rows

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

PLAIN, UNITS, HALF_SUMS, PAIRS = "", "units", "half_sums", "pairs"
"""How a product is computed: without matrix units; on them, with float32 sums or with
float16 sums; on them, from pairs of bfloat16."""

SMALLEST = 1 << 20
"""Multiplications below which a product is not worth large tiles."""

PACKED_SMALLEST = 1 << 26
"""Multiplications below which packing an operand takes longer than it saves."""

PAIRS_SMALLEST = 1 << 28
"""Multiplications below which splitting float32 takes longer than it saves."""

RECURRING = 1 << 29
"""Multiplications from which sizes are compiled into the kernel, worth 8 percent."""

MAX_RECURRING = 64
"""Different sizes that kernels are compiled for in a process; more use arguments."""

FILLED, SPREAD = 128, 256
"""Tiles that are enough; with fewer, the depth is cut until there are so many."""

MIN_PART = 512
"""Least depth of a part, where the depth is cut for want of tiles."""

MAX_PAIRS = 8192
"""Greatest depth of a part of pairs: matrix units truncate as they sum, so the error
grows with the depth, to 2.8e-5 here."""

_recurring: set[tuple[int, ...]] = set()


class Tile(NamedTuple):
    """What a workgroup computes.

    Attributes
    ----------
    m, n, k : int
        Rows, columns, and the depth of one step.
    sub_m, sub_n : int
        The part of a subgroup; in `matmul/registers` the quads of an invocation.
    enough : int
        Tiles that fill the device, so that a smaller one is no better.
    """

    m: int
    n: int
    k: int
    sub_m: int
    sub_n: int
    enough: int


REGISTER_TILES = (
    Tile(128, 128, 16, 4, 2, 256),
    Tile(64, 128, 16, 2, 2, 128),
    Tile(64, 64, 16, 2, 2, 128),
    Tile(32, 32, 16, 1, 1, 1),
)
UNIT_TILES = (
    Tile(128, 128, 64, 64, 64, 128),
    Tile(128, 64, 64, 64, 32, 128),
    Tile(64, 64, 64, 32, 32, 1),
)
HALF_SUM_TILES = (Tile(256, 256, 32, 128, 64, 128), *UNIT_TILES)


class _Large(NamedTuple):
    """A product with what was chosen for it."""

    gpu: DeviceInfo
    a: Side
    b: Side
    mode: str
    tile: Tile
    parts: int

    @property
    def batch(self) -> int:
        return self.a.x.shape[0]

    @property
    def width(self) -> int:
        return 8 if self.mode else 4

    @property
    def depth(self) -> int:
        """The depth of a part, padded to whole steps."""
        # Of a pair of bfloat16, high and low parts share a step.
        step = self.tile.k // 2 if self.mode == PAIRS else self.tile.k
        return ceil_div(self.a.x.shape[self.a.k_dim], step * self.parts) * step


def large_product(
    gpu: DeviceInfo, a: Placed, b: Placed, mode: str
) -> list[Dispatch] | None:
    """Return the dispatches of a product that is worth large tiles, otherwise None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : Placed, shape (batch, m, k)
    b : Placed, shape (batch, k, n)
    mode : str
        `PLAIN`, `UNITS`, `HALF_SUMS` or `PAIRS`.
    """
    batch, m, k = a.shape
    n = b.shape[2]
    if mode == PAIRS and m * n * k < PAIRS_SMALLEST:
        mode = PLAIN
    if gpu.kind == "software" or (not mode and a.dtype is not float32):
        return None
    if batch > MAX_GROUPS or min(m, n) <= (16 if mode else 32) or m * n * k < SMALLEST:
        return None
    tiles = [tile for tile in _tiles(mode) if _fits(gpu, tile, mode)]
    if not tiles:
        return None
    tile = next((t for t in tiles if _count(t, m, n, batch) >= t.enough), tiles[-1])
    parts = _parts(_count(tile, m, n, batch), k, mode, tile.k)
    if parts * batch > MAX_GROUPS:
        return None
    product = _Large(gpu, Side("a", a, 1, 2), Side("b", b, 2, 1), mode, tile, parts)
    found = _dispatches(product)
    packs = found[0].kernel == "matmul/pack" and mode != PAIRS
    return None if packs and batch * m * n * k < PACKED_SMALLEST else found


def _parts(tiles: int, k: int, mode: str, step: int) -> int:
    """Return into how many parts the depth is cut."""
    parts = 1 if tiles >= FILLED else max(1, min(8, SPREAD // tiles, k // MIN_PART))
    # What needs no padding as a whole needs none in parts.
    if k % step == 0:
        parts = next(count for count in range(parts, 0, -1) if k // step % count == 0)
    return max(parts, ceil_div(k, MAX_PAIRS)) if mode == PAIRS else parts


def _tiles(mode: str) -> Sequence[Tile]:
    return {PLAIN: REGISTER_TILES, HALF_SUMS: HALF_SUM_TILES}.get(mode, UNIT_TILES)


def _count(tile: Tile, m: int, n: int, batch: int) -> int:
    return ceil_div(m, tile.m) * ceil_div(n, tile.n) * batch


def _fits(gpu: DeviceInfo, tile: Tile, mode: str) -> bool:
    """Return whether a device has the shared memory and the invocations."""
    if mode == PLAIN:
        size = 2 * 8 * (tile.m + tile.n + 8) * 4
        return size <= gpu.max_shared_memory
    # The more roomy of the two ways in which each operand may lie.
    lines = max(tile.m * (tile.k + 8), tile.k * (tile.m + 8))
    lines += max(tile.n * (tile.k + 8), tile.k * (tile.n + 8))
    subgroups = (tile.m // tile.sub_m) * (tile.n // tile.sub_n)
    threads = subgroups * gpu.subgroup_size
    strips = subgroups * 16 * (tile.sub_n + 4) * 4
    return (
        max(2 * lines, strips) <= gpu.max_shared_memory
        and threads <= gpu.max_workgroup_invocations
        and all(
            block * tile.k // 8 % threads == 0 and threads % (across // 8) == 0
            for block in (tile.m, tile.n)
            for across in (block, tile.k)
        )
    )


def _dispatches(product: _Large) -> list[Dispatch]:
    gpu, a, b, mode, tile, parts = product
    padded = product.depth * parts
    split = mode == PAIRS
    left = vectors(a, product.width, tile.m, padded, split=split)
    right = vectors(b, product.width, tile.n, padded, split=split)
    m, n, batch = a.outer, b.outer, product.batch
    out: str | Scratch = "out"
    if parts > 1:
        out = Scratch("partial", 4 * parts * batch * m * n)
    depth = product.depth * (2 if split else 1)
    push: dict[str, Argument] = {"a": left.memory, "b": right.memory, "out_": out}
    push |= {"m": m, "n": n, "k": depth, "batches": batch}
    push |= {"a_stride": left.line, "b_stride": right.line}
    push |= {"a_batch": left.batch, "b_batch": right.batch}
    push |= {"last_row": left.last(tile.m), "last_column": right.last(tile.n)}
    constants = {
        "BLOCK_M": tile.m,
        "BLOCK_N": tile.n,
        "A_ALONG_K": int(left.along_k),
        "B_ALONG_K": int(right.along_k),
        **_kernel_constants(product),
    }
    if not mode:
        constants["DIRECT"] = int(left.padded == m and right.padded == n and n % 4 == 0)
    if m * n * padded * batch >= RECURRING:
        constants |= _size_constants(depth, left.line, right.line)
    kernel = "matmul/cooperative" if mode else "matmul/registers"
    defines = dict(storage_defines(a.x.dtype, out_acc=parts > 1))
    defines |= {"FLOAT16_SUMS": "1"} if mode == HALF_SUMS else {}
    grid = fold_grid(ceil_div(m, tile.m) * ceil_div(n, tile.n), batch * parts)
    found = [*left.packing, *right.packing]
    found.append(Dispatch(kernel, grid, push, constants, defines))
    if parts > 1:
        assert isinstance(out, Scratch)
        found.append(sum_rows(gpu, out, a.x, parts, batch * m * n))
    return found


def _kernel_constants(product: _Large) -> dict[str, int]:
    tile = product.tile
    if product.mode == PLAIN:
        threads = tile.m * tile.n // (16 * tile.sub_m * tile.sub_n)
        return {"LOCAL_X": threads, "QUADS_M": tile.sub_m, "QUADS_N": tile.sub_n}
    lanes = product.gpu.subgroup_size
    return {
        "LOCAL_X": (tile.m // tile.sub_m) * (tile.n // tile.sub_n) * lanes,
        "BLOCK_K": tile.k,
        "SUB_M": tile.sub_m,
        "SUB_N": tile.sub_n,
        "SUBGROUP": lanes,
    }


def _size_constants(depth: int, a_stride: int, b_stride: int) -> dict[str, int]:
    """Return sizes to compile into a kernel, or none when many have been."""
    key = (depth, a_stride, b_stride)
    if key not in _recurring and len(_recurring) >= MAX_RECURRING:
        return {}
    _recurring.add(key)
    return {"DEPTH": depth, "A_STRIDE": a_stride, "B_STRIDE": b_stride}
