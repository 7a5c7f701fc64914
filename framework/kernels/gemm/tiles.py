"""How a large matrix product is cut: which tiles, and how many parts of its depth.

A model of the time decides. A workgroup computes one tile, over one part of the depth;
workgroups are spread over `PROCESSORS`, and the busiest of these decides. Its time is
the multiply-adds of its workgroups, each with `START` more of depth for the first loads
and the last stores, at the tile's rate; where fewer workgroups than a processor has
room for run on it, only a share of that rate is reached. Parts add the bytes of their
sums, which are written and read again, and the start of the kernel that reads them;
they must then be quicker by `DOUBT`.

Rates and shares are fitted to times of square products of 1024 to 8192 rows on an
NVIDIA H200 (driver 580.159.04, 2026-11-21), with those of sizes in between; in float32
from 256 rows on, of chains whose right operands are not in the cache. Those of
`WORKGROUP_TILES` and int8 are estimates, and choices for other shapes were not timed.
What another device reaches differs, but what is better than what differs less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import ceil_div

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

PLAIN, UNITS, HALF_SUMS, PAIRS = "", "units", "half_sums", "pairs"
"""How a product is computed: without matrix units; on them, with float32 sums or with
float16 sums; on them, from pairs of bfloat16."""

WORKGROUP = "workgroup"
"""As with `UNITS`, but on matrices of a whole workgroup; a candidate to measure."""

DOTS, INTEGERS = "dots", "integers"
"""How a product of int8 is computed: as words of four, or on matrix units."""

WITHOUT_UNITS = (PLAIN, DOTS)

WIDE = (UNITS, HALF_SUMS, PAIRS, INTEGERS)
"""Where cuts are wide unless told otherwise; see `Cut`."""

PROCESSORS = 132
"""Multiprocessors of an H200."""

START = {PLAIN: 32, UNITS: 128, HALF_SUMS: 128, PAIRS: 384, DOTS: 64, INTEGERS: 128}
START[WORKGROUP] = 128
"""Depth that would take as long as a workgroup's first loads and last stores."""

ODD_ROWS = 64
"""What that is more where 16-bit results leave in rows that are not of vectors, by less
than 64 columns of a subgroup: 1023 rows in tiles of 128x64 took 18.9 us, in 64x128 17.8
(NVIDIA H200, driver 580.159.04, 2026-11-22)."""

PRODUCTS = {PAIRS: 3.0, DOTS: 0.5, INTEGERS: 0.5}
"""Products at a tile's rate that one takes, if not 1; of int8 it is an estimate."""

BYTES_A_MICROSECOND = 4e6
"""Of partial sums, written or read."""

LAUNCH_MICROSECONDS = 6.0
"""Of the kernel that adds partial sums, after a barrier, beside matrix units."""

PLAIN_LAUNCH_MICROSECONDS = 4.0
"""Of that kernel beside the others."""

PLAIN_LAST_MICROSECONDS = 2.5, 14.0
"""Of a kernel for the last tiles beside that for the others: where a processor has room
for one workgroup, of 1152 and 1536 rows 1.5 and 3.6; for more, of 1280, 1408 and 2048
rows 15, 17 and 18 (NVIDIA H200, driver 580.159.04, 2026-11-22)."""

MIN_PART = 512
"""Least depth of a part, where the depth is cut for want of tiles."""

PLAIN_MIN_PART = 192
"""The same of `PLAIN`, where 768 rows in parts of 256 took 31 us, and whole 39 to 61
(NVIDIA H200, driver 580.159.04, 2026-11-21)."""

MIN_LAST_PART = 256
"""Least depth of a part, where that of the last tiles is cut."""

MAX_PARTS = 8

MAX_PARTS_WITHOUT_UNITS = 16
"""Of 256x16384x256 in float32, 16 took 80 us and 8 took 153 (NVIDIA H200)."""

DOUBT = 1.05
"""How much quicker parts must be than the whole depth, by a model that errs; of `PLAIN`
more was measured."""

MAX_SUMS = 256 << 20
"""Most bytes of partial sums, where the depth is cut for want of tiles."""

MAX_PAIRS = 8192
"""Greatest depth of a part of pairs: matrix units truncate as they sum, so the error
grows with the depth, to 2.8e-5 here."""


class Tile(NamedTuple):
    """What a workgroup computes.

    Attributes
    ----------
    m, n, k : int
        Rows, columns, and the depth of one step.
    sub_m, sub_n : int
        The part of a subgroup; in `matmul/gemm_simt` the quads of an invocation.
    rate : float
        Teraflops of a device that is full of such workgroups.
    shares : tuple of float
        Which part of the rate 1, 2, ... workgroups on each processor reach; the last
        is 1, with as many as there is room for.
    slices : int
        In `matmul/gemm_simt`, how many invocations take turns with the depth of a sum.
    ahead : int
        There, how many steps before they are needed operands are loaded.
    anywhere : bool
        On matrix units, whether operands are read wherever they lie.
    stages : int
        There, how many steps shared memory holds, 1 or 2. With 2 a step has one barrier
        and not two, but hardly a tile fits twice.
    """

    m: int
    n: int
    k: int
    sub_m: int
    sub_n: int
    rate: float
    shares: tuple[float, ...]
    slices: int = 1
    ahead: int = 1
    anywhere: bool = False
    stages: int = 1


class Cut(NamedTuple):
    """A tile, and into how many parts the depth is cut.

    Parts are of equal depth but the last, which may have less. `wide` says that memory
    is accessed 16 bytes at a time when operands are packed and, where rows are made of
    those, when results leave matrix units; the device then rounds them to float16. On
    matrix units that is the rule: products of 16-bit floats took 4 to 18 percent less,
    those of int8 about as long (NVIDIA H200, driver 580.159.04, 2026-11-21).

    `last` is how many rows of tiles at the end have their depth cut, and no others: the
    others fill the device, and these would leave most of it idle. 0 means all.
    """

    tile: Tile
    parts: int
    wide: bool = False
    last: int = 0

    @property
    def name(self) -> str:
        """What verdicts call it."""
        m, n, k, sub_m, sub_n, *_ = self.tile
        sliced = f" in {self.tile.slices} slices" if self.tile.slices > 1 else ""
        sliced += " in 2 stages" if self.tile.stages > 1 else ""
        sliced += ", anywhere" if self.tile.anywhere else ""
        wide = ", wide stores" if self.wide else ""
        last = f" of the last {self.last}" if self.last else ""
        depth = f"depth{last} in {self.parts}"
        return f"tiles of {m}x{n}x{k}, {sub_m}x{sub_n} each{sliced}, {depth}{wide}"


class Sizes(NamedTuple):
    """The sizes of a batch of products."""

    m: int
    n: int
    k: int
    batch: int = 1

    def tiles(self, tile: Tile) -> int:
        """Return how many tiles there are."""
        return ceil_div(self.m, tile.m) * ceil_div(self.n, tile.n) * self.batch


REGISTER_TILES = (
    Tile(64, 128, 16, 2, 2, 47.8, (1.0,), slices=2, ahead=2),
    Tile(64, 128, 16, 2, 2, 53.8, (0.64, 0.92, 1.0)),
    Tile(64, 64, 16, 2, 2, 48.7, (0.38, 0.56, 0.72, 0.9, 0.9, 1.0)),
    Tile(32, 32, 16, 1, 1, 30.2, (0.26, 0.55, 0.72, 0.77, 0.79, 0.87, 0.96, 1.0)),
    Tile(128, 64, 16, 2, 2, 51.0, (0.64, 0.92, 1.0)),
    Tile(64, 64, 16, 2, 2, 41.5, (0.82, 0.9, 0.92, 1.0), slices=4),
    Tile(32, 64, 16, 2, 2, 38.3, (0.56, 0.8, 0.8, 1.0), slices=4, ahead=2),
    Tile(32, 32, 16, 1, 1, 28.0, (0.46, 0.77, 0.8, 1.0), slices=4, ahead=2),
)
UNIT_TILES = (
    Tile(128, 128, 64, 64, 64, 380.0, (0.84, 1.0)),
    Tile(128, 64, 64, 64, 32, 268.0, (0.77, 0.95, 1.0)),
    Tile(64, 128, 64, 32, 64, 268.0, (0.75, 0.95, 1.0)),
    Tile(64, 64, 64, 32, 32, 228.0, (0.5, 0.8, 0.93, 1.0)),
)
ANYWHERE_TILES = (
    Tile(32, 64, 64, 16, 32, 228.0, (1.0,), anywhere=True),
    Tile(64, 64, 64, 32, 32, 228.0, (1.0,), anywhere=True),
)
"""For small operands that are read wherever they lie; see `select`, which chooses."""
DEEP_TILE = Tile(64, 64, 128, 32, 32, 210.0, (0.595, 0.868, 1.0))
"""Of few steps, where one workgroup a processor waits in each of them."""
SMALL_TILE = Tile(32, 64, 64, 16, 32, 121.0, (0.54, 0.83, 1.0), stages=2)
"""Of small products: those of 256 rows took 4.3 us in place of 4.6, those of 512 took
5.6 in place of 6.3, but those of 640 took 8.2 in place of 7.2; with one stage 6.1
(NVIDIA H200, driver 580.159.04, 2026-11-22). Of larger tiles two stages were slower."""
HALF_SUM_TILES = (Tile(256, 256, 32, 128, 64, 413.0, (1.0,)), *UNIT_TILES)
WORKGROUP_TILES = (
    Tile(128, 128, 64, 64, 64, 350.0, (0.6, 1.0)),
    Tile(128, 256, 64, 64, 64, 335.0, (1.0,)),
    Tile(64, 128, 64, 32, 64, 290.0, (0.7, 0.9, 1.0)),
)
INTEGER_TILES = tuple(tile._replace(k=128) for tile in UNIT_TILES)


def cuts(
    gpu: DeviceInfo,
    mode: str,
    sizes: Sizes,
    most_parts: int | None = None,
    apart: bool = False,
) -> list[Cut]:
    """Return the ways to cut a product that a device can run, the quickest first.

    Parameters
    ----------
    gpu : DeviceInfo
    mode : str
        How it is computed.
    sizes : Sizes
    most_parts : int, optional
        Parts that the depth may be cut into, where it need not be into more.
    apart : bool, default False
        Whether the last rows of tiles may be computed by another kernel.
    """
    if most_parts is None:
        most_parts = MAX_PARTS_WITHOUT_UNITS if mode in WITHOUT_UNITS else MAX_PARTS
    tiles = [tile for tile in _tiles(mode) if fits(gpu, tile, mode)]
    parts = _parts(sizes, mode, most_parts)
    found = [Cut(tile, each, mode in WIDE) for tile in tiles for each in parts]
    if apart and mode in (*WIDE, PLAIN) and parts[0] == 1:
        found += [
            cut._replace(wide=mode in WIDE)
            for tile in tiles
            for cut in _last_cuts(sizes, tile, most_parts)
        ]
    return sorted(found, key=lambda cut: microseconds(cut, mode, sizes))


def microseconds(cut: Cut, mode: str, sizes: Sizes) -> float:
    """Return what the model says of the time, without that of packing operands."""
    tile, parts, _, last = cut
    down = ceil_div(sizes.m, tile.m)
    across = sizes.tiles(tile) // down
    depth, part = (_work(sizes, tile, mode, each) for each in (1, parts))
    if last:
        # Processors take parts as they end others, as many as there is room for.
        groups = (down - last) * across
        whole = ceil_div(groups, PROCESSORS)
        room = len(tile.shares) - whole % len(tile.shares)
        rounds = ceil_div(last * across * parts, PROCESSORS * room)
        beside = whole * depth + rounds * room * part
        work = max(_at_once(tile, groups, mode) * depth, beside)
    else:
        work = _at_once(tile, down * across * parts, mode) * part
    time = work * PROCESSORS / (tile.rate * 1e6)
    if parts > 1:
        rows = last * tile.m if last else sizes.m
        sums = parts * sizes.batch * rows * sizes.n
        launch = PLAIN_LAUNCH_MICROSECONDS if mode == PLAIN else LAUNCH_MICROSECONDS
        time += launch + 2 * 4 * sums / BYTES_A_MICROSECOND
        if last and mode == PLAIN:
            time += PLAIN_LAST_MICROSECONDS[len(tile.shares) > 1]
        time *= 1 if mode == PLAIN else DOUBT
    return time


def _work(sizes: Sizes, tile: Tile, mode: str, parts: int) -> float:
    """Return the operations of a workgroup, with those that would take its start."""
    depth = ceil_div(ceil_div(sizes.k, tile.k), parts) * tile.k * PRODUCTS.get(mode, 1)
    odd = mode in (UNITS, HALF_SUMS) and sizes.n % 8 and tile.sub_n < 64
    return 2 * tile.m * tile.n * (depth + START[mode] + (ODD_ROWS if odd else 0))


def _at_once(tile: Tile, groups: int, mode: str) -> float:
    """Return how many workgroups would take as long, one by one, at the full rate.

    Those of a first round are spread evenly, and without matrix units the others too,
    for there one alone is nearly as quick. On matrix units a processor that ends its
    own, at about one time, takes as many again, and half of the processors end first:
    60 tiles of 128x128 beyond two for each took 1.8 times as long as one for each would
    (NVIDIA H200, driver 580.159.04, 2026-11-22).
    """
    most = len(tile.shares)
    rounds, rest = divmod(groups, PROCESSORS * most)
    spread = not rounds or mode in WITHOUT_UNITS
    each = ceil_div(rest if spread else 2 * rest * most, PROCESSORS)
    each = min(most, each)
    return rounds * most + (each / tile.shares[each - 1] if each else 0)


def _last_cuts(sizes: Sizes, tile: Tile, most: int) -> list[Cut]:
    """Return cuts of the last rows of tiles, where the others fill the device.

    That is one workgroup for each processor, or as many as it has room for: where
    several are left, a processor that ends its own takes more than one.
    """
    down, across = ceil_div(sizes.m, tile.m), ceil_div(sizes.n, tile.n)
    each = (down * across - 1) // PROCESSORS
    if each > 1:
        each -= each % len(tile.shares)
    whole = each * PROCESSORS // across
    if whole == down - 1 and sizes.m % tile.m:
        whole -= 1  # less than a tile would be left
    if whole < 1 or sizes.batch > 1:
        return []
    most = min(most, MAX_PARTS, sizes.k // MIN_LAST_PART)
    return [Cut(tile, parts, True, down - whole) for parts in range(2, most + 1)]


def _parts(sizes: Sizes, mode: str, most: int) -> range:
    """Return into how many parts the depth may be cut."""
    least = ceil_div(sizes.k, MAX_PAIRS) if mode == PAIRS else 1
    in_memory = MAX_SUMS // max(1, 4 * sizes.batch * sizes.m * sizes.n)
    shortest = PLAIN_MIN_PART if mode == PLAIN else MIN_PART
    most = min(most, sizes.k // shortest, in_memory)
    return range(least, max(least, most) + 1)


def _tiles(mode: str) -> Sequence[Tile]:
    if mode in WITHOUT_UNITS:
        return REGISTER_TILES
    tiles = {HALF_SUMS: HALF_SUM_TILES, INTEGERS: INTEGER_TILES}
    tiles[WORKGROUP] = WORKGROUP_TILES
    whole = UNIT_TILES if mode == PAIRS else (*UNIT_TILES, DEEP_TILE, SMALL_TILE)
    return tiles.get(mode, whole)


def fits(gpu: DeviceInfo, tile: Tile, mode: str) -> bool:
    """Return whether a device has the shared memory and the invocations for a tile.

    Of a device that computes in mode `WORKGROUP` this is known: see
    `nv_coopmat2`.
    """
    if mode == WORKGROUP:
        return True
    if mode in WITHOUT_UNITS:
        size = 2 * 8 * tile.slices * (tile.m + tile.n + 8) * 4
        return (
            size <= gpu.max_shared_memory
            and register_threads(tile) <= gpu.max_workgroup_invocations
        )
    width = vector_width(mode)
    sides = tile.m, tile.n
    # The more roomy of the ways in which each operand may lie; int8 lies in one.
    lines = sum(
        max(
            side * (tile.k + width),
            0 if mode == INTEGERS else tile.k * (side + width),
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
            for across in ((tile.k,) if mode == INTEGERS else (side, tile.k))
        )
    )


def register_threads(tile: Tile) -> int:
    """Return the invocations of a workgroup of `matmul/gemm_simt`."""
    return tile.slices * tile.m * tile.n // (16 * tile.sub_m * tile.sub_n)


def vector_width(mode: str) -> int:
    """Return how many elements of an operand a vector of 16 bytes has."""
    return {PLAIN: 4, DOTS: 16, INTEGERS: 16}.get(mode, 8)


def sums_in_float16(gpu: DeviceInfo) -> bool:
    """Return whether a device has matrices of float16 sums."""
    return "shader_float16" in gpu.supported and any(
        (row.m, row.n, row.result) == (16, 16, "float16") and row.scope == "subgroup"
        for row in gpu.cooperative_matrix
    )


def integer_depth(gpu: DeviceInfo) -> int:
    """Return the depth of the int8 matrices that a device multiplies, or 0."""
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
