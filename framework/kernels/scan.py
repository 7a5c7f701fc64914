"""Scans, segment sums and stream compaction: passes over chunks of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import DType, int32
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    StridedSpec,
    divisor,
    fold_grid,
)
from .gpu_model import model_of
from .linear import linear_dispatch, linear_workgroup, zeros_dispatch
from .reduce import SOFTWARE_WORKGROUP, need_countable
from .shader_types import (
    acc_size,
    place_defines,
    shuffle_defines,
    storage_defines,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

CHUNK = 64
"""Elements per invocation where rows are split into chunks."""

SOFTWARE_CHUNK = 4096
"""The same on software devices, which need few invocations."""

ROW_GROUP = 256
"""Most invocations per contiguous row, or chunk of one, on hardware."""

ROW_ITEMS = 8
"""Consecutive elements of each in a tile; `scan/scan_rows` has the same."""

SHORT_ROW = 8
"""Elements of rows that one invocation each scans."""

SEGMENT_CHUNK = 16
SOFTWARE_SEGMENT_CHUNK = 64
"""Entries per invocation and pass of a segment sum; the next adds up its carries."""


ONE_RESULT: Mapping[str, str] = {"out_": "out"}

OPERATIONS: Mapping[str, tuple[Mapping[str, str], Mapping[str, int]]] = {
    "sum": ({}, {"PRODUCT": 0}),
    "product": ({}, {"PRODUCT": 1}),
    "logsumexp": ({"LOGSUM": "1"}, {}),
    "max": ({"EXTREME": "1"}, {"LEAST": 0}),
    "min": ({"EXTREME": "1"}, {"LEAST": 1}),
}
"""Macros and constants of `scan/state.glsl`."""

TILE_BYTES = 4 * ROW_GROUP * (ROW_ITEMS + 1)
"""Shared memory of a tile of words; wider ones are of fewer invocations."""

WIDE_GROUP = 1024
"""Most invocations of a row where there are no more rows than multiprocessors."""

LOOPED_TILES = 4
"""Tiles that a group takes one after another rather than leave some to others: totals
of chunks, and scans of these, are two more launches, of 2 to 3 us each, and read all
elements once more. 0 divides rows as soon as that keeps more of a device busy."""

LOOPED_ALONE = 2
"""The same of a row by itself: 32768 numbers took 13.3 us in four tiles, 49153 of them
divided 8.8, and 16384 7.9 in two tiles (NVIDIA H200, driver 580.159.04, 2026-12-01)."""


class ScanCall(NamedTuple):
    """Scan at one level of the hierarchy.

    Attributes
    ----------
    gpu : DeviceInfo
    x : StridedSpec
        (outer, count, inner).
    operation : str
        One of `OPERATIONS`.
    reverse : bool
        From the end to the front.
    results : mapping of str to str
        The node's result for "out_", elements, and for "places" of extremes.
    places : DType
        Of the places.
    size : int
        Elements of a chunk.
    """

    gpu: DeviceInfo
    x: StridedSpec
    operation: str
    reverse: bool
    results: Mapping[str, str]
    places: DType
    size: int

    @property
    def state_size(self) -> int:
        """Bytes of a state."""
        fields = 1 if self.operation in ("sum", "product") else 2
        return fields * acc_size(self.x.dtype)

    def memory(self, name: str, rows: int) -> Scratch:
        """Return scratch memory for a number of states per row."""
        outer, _, inner = self.x.shape
        return Scratch(f"{name}{rows}", outer * rows * inner * self.state_size)

    def arguments(
        self,
        level: int,
        source: str | Scratch,
        target: Scratch | None,
        carry: Scratch | None,
        totals: bool,
    ) -> tuple[dict[str, Argument], dict[str, int], dict[str, str]]:
        """Return arguments, constants and macros of a pass over a level.

        Without a target it writes the results; only the lowest level is reversed.
        """
        macros, more = OPERATIONS[self.operation]
        push: dict[str, Argument] = {"x": source}
        push["carry"] = source if carry is None else carry
        push |= self.results if target is None else {"out_": target}
        constants = {"TOTALS": int(totals), "HAS_CARRY": int(carry is not None), **more}
        constants["REVERSE"] = int(self.reverse and level == 0)
        defines = {**storage_defines(self.x.dtype), **macros}
        defines |= {"FROM_STATES": "1"} if level else {}
        defines |= {"TO_STATES": "1"} if target is not None else {}
        if "places" in self.results and target is None:
            defines |= place_defines(self.places)
        return push, constants, defines

    def dispatch(
        self,
        level: int,
        rows: int,
        source: str | Scratch,
        target: Scratch | None,
        carry: Scratch | None = None,
        totals: bool = False,
    ) -> Dispatch:
        """Return one dispatch over `rows` of a level."""
        outer, _, inner = self.x.shape
        chunks = ceil_div(rows, self.size)
        push, constants, defines = self.arguments(level, source, target, carry, totals)
        push |= {"outer": outer, "count": rows, "inner": inner}
        push |= {"chunks": chunks, "chunk_size": self.size}
        columns, workgroup = outer * chunks * inner, linear_workgroup(self.gpu)
        return linear_dispatch(
            "scan/scan", columns, push, constants, defines, workgroup
        )


def scan_dispatches(
    gpu: DeviceInfo,
    x: StridedSpec,
    operation: str,
    reverse: bool = False,
    results: Mapping[str, str] = ONE_RESULT,
    places: DType = int32,
) -> list[Dispatch]:
    """Return the dispatches that scan (outer, count, inner).

    Rows are split into chunks; chunk totals are scanned likewise, and carried into the
    next chunk. Parameters are as in `ScanCall`.
    """
    need_countable("scan", x)
    outer, count, inner = x.shape
    scan = ScanCall(gpu, x, operation, reverse, results, places, CHUNK)
    if inner == 1 and count > SHORT_ROW and gpu.target.cheap_barriers:
        return _row_scan(scan)
    size = CHUNK
    if gpu.target.loop_limit is not None:
        enough = outer * inner >= SOFTWARE_WORKGROUP
        size = gpu.target.loop_limit if enough else SOFTWARE_CHUNK
    scan = scan._replace(size=size)
    levels: list[tuple[str | Scratch, int]] = [("x", count)]
    steps: list[Dispatch] = []
    while levels[-1][1] > size:
        source, rows = levels[-1]
        chunks = ceil_div(rows, size)
        totals = scan.memory("totals", chunks)
        steps.append(scan.dispatch(len(levels) - 1, rows, source, totals, totals=True))
        levels.append((totals, chunks))
    carry: Scratch | None = None
    for level in reversed(range(len(levels))):
        source, rows = levels[level]
        target = scan.memory("scanned", rows) if level else None
        steps.append(scan.dispatch(level, rows, source, target, carry))
        carry = target
    return steps


def _row_scan(scan: ScanCall) -> list[Dispatch]:
    """Return the dispatches that scan contiguous rows (outer, count, 1).

    A group of invocations reads a row from tile to tile. Few long rows are split into
    chunks: their totals, the totals scanned, then all elements with what came before.
    """
    gpu, (outer, count, _) = scan.gpu, scan.x.shape
    most = min(ROW_GROUP, gpu.max_workgroup_invocations)
    tile = most * ROW_ITEMS
    model = model_of(gpu)
    wanted = ceil_div(model.full_reduction_groups, max(outer, 1))
    size = ceil_div(ceil_div(count, wanted), tile) * tile
    chunks = ceil_div(count, size)
    if chunks > 1:
        few = outer <= model.multiprocessors
        looping = _fitting(scan, 0, WIDE_GROUP if few else ROW_GROUP, True)
        tiles = min(LOOPED_TILES, LOOPED_ALONE) if outer == 1 else LOOPED_TILES
        if count <= tiles * looping * ROW_ITEMS:
            most, chunks = looping, 1
    size = count if chunks == 1 else size

    def dispatch(
        level: int,
        source: str | Scratch,
        target: Scratch | None,
        carry: Scratch | None = None,
        totals: bool = False,
    ) -> Dispatch:
        rows, parts, length = (chunks, 1, chunks) if level else (count, chunks, size)
        push, constants, defines = scan.arguments(level, source, target, carry, totals)
        invocations = _fitting(scan, level, most, target is None)
        group = 1 << (ceil_div(length, ROW_ITEMS) - 1).bit_length()
        group = min(invocations, group)
        # Several rows share a workgroup that is no wider than it must be.
        invocations = min(invocations, max(ROW_GROUP, group))
        push |= {"outer": outer, "count": rows, "chunks": parts, "chunk_size": length}
        constants |= {"LOCAL_X": invocations, "GROUP": group}
        defines |= shuffle_defines(gpu, defines, invocations)
        grid = fold_grid(ceil_div(outer * parts, invocations // group))
        return Dispatch("scan/scan_rows", grid, push, constants, defines)

    if chunks == 1:
        return [dispatch(0, "x", None)]
    memory = outer * chunks * scan.state_size
    totals, scanned = Scratch("totals", memory), Scratch("scanned", memory)
    return [
        dispatch(0, "x", totals, totals=True),
        dispatch(1, totals, scanned),
        dispatch(0, "x", None, carry=scanned),
    ]


def _fitting(scan: ScanCall, level: int, most: int, is_last: bool) -> int:
    """Return how many invocations have room for their tile of a level, up to `most`.

    The last pass writes the results, and places with them.
    """
    staged = scan.state_size if level else acc_size(scan.x.dtype)
    staged += 4 if is_last and "places" in scan.results else 0
    room = 2 * TILE_BYTES
    if most > ROW_GROUP:
        # Beside the tile is a state of each.
        room = min(2 * room, scan.gpu.max_shared_memory - most * scan.state_size)
    invocations = min(most, scan.gpu.max_workgroup_invocations)
    while invocations * staged * (ROW_ITEMS + 1) > room:
        invocations //= 2
    return invocations


def segment_sum_dispatches(
    gpu: DeviceInfo, source: StridedSpec, count: int
) -> list[Dispatch]:
    """Return the dispatches that add up (outer, entries, inner) by sorted segments.

    `count` is the number of segments; those without entries are 0. The 2-byte floats
    are added up in float32.
    """
    outer, entries, inner = source.shape
    size = acc_size(source.dtype)
    chunk = SEGMENT_CHUNK if gpu.target.hides_latency else SOFTWARE_SEGMENT_CHUNK
    numel = outer * count * inner
    steps = [zeros_dispatch(ceil_div(numel * source.dtype.itemsize, 4))]
    if not source.numel:
        return steps
    read: dict[str, Argument] = {"source": "source", "rows": "rows", "order": "order"}
    while True:
        chunks = ceil_div(entries, chunk)
        # The carries of different passes differ in size, which falls.
        carry = Scratch("carry", 2 * chunks * outer * inner * size)
        carry_rows = Scratch("carry_rows", 2 * chunks * 4)
        push = read | {"out_": "out", "carry": carry, "carry_rows": carry_rows}
        push |= {"chunks": chunks, "entries": entries, "outer": outer, "inner": inner}
        push |= {"rows_out": count}
        constants = {"CHUNK": chunk, "LAST": int(chunks == 1)}
        constants |= {"FIRST": int(len(steps) == 1)}
        kernel = "index/segment_sum"
        defines = storage_defines(source.dtype, in_acc=len(steps) > 1)
        columns = chunks * outer * inner
        steps.append(linear_dispatch(kernel, columns, push, constants, defines))
        if chunks == 1:
            return steps
        entries = 2 * chunks
        read = {"source": carry, "rows": carry_rows, "order": carry_rows}


def segment_gather_dispatches(
    gpu: DeviceInfo, source: StridedSpec, count: int, has_base: bool
) -> list[Dispatch]:
    """Return the dispatches in which each result adds up the entries of its segment.

    Parameters
    ----------
    gpu : DeviceInfo
    source : StridedSpec, shape (outer, entries, inner)
        By the node's `places`, which its `order` sorts.
    count : int
        Segments.
    has_base : bool
        Whether sums are added to `base`.
    """
    outer, entries, inner = source.shape
    numel = outer * count * inner
    need_countable("segment_sum", source)
    push: dict[str, Argument] = {"source": "source", "places": "places"}
    push |= {"base": "base" if has_base else "source", "order": "order", "out_": "out"}
    push |= {"starts": Scratch("starts", 4 * (count + 1)), "count": numel}
    push |= {"rows": count, "entries": entries, "inner": inner}
    for name, size in (("rows", count), ("inner", inner)):
        magic, shift = divisor(max(1, size))
        push |= {f"divide_{name}[0]": magic, f"divide_{name}[1]": shift}
    defines, workgroup = storage_defines(source.dtype), linear_workgroup(gpu)
    return [
        linear_dispatch(
            "index/segment_gather",
            invocations,
            push,
            {"PASS": number, "HAS_BASE": int(has_base)},
            defines,
            workgroup,
        )
        for number, invocations in enumerate((count + 1, numel))
    ]
