"""Radix sort: bitonic for short lines, in one workgroup, in blocks, or in passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import DType, int32
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import Argument, Dispatch, Scratch, fold_grid
from .gpu_model import model_of
from .linear import linear_dispatch
from .reduce import WORKGROUP
from .shader_types import place_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

DIGIT_BITS = 8
BINS = 1 << DIGIT_BITS
"""Values of a digit; `sort/bins.glsl` has the same."""

SHORT_LINE = 256
"""Elements up to which lines are sorted by a network, several by one workgroup."""

RANK_SUBGROUPS = 8
"""Subgroups of a workgroup that ranks, each of which counts for itself."""

LINE_ITEMS = 32
"""Most elements of an invocation where one workgroup sorts a line."""

BLOCKS_PER_BYTE, MERGES = 1, 2
"""Most blocks of a line, which workgroups sort, that a kernel merges to one, for each
byte of a key, and most such kernels for wide floats: they move 16 bytes of an element
of 4, a pass over a digit 20, and it has three kernels. Of 2 bytes are two digits, and
of whole numbers digits are left out: for these there is one such kernel. With 0 blocks
lines that no workgroup holds take passes."""

MOST_MERGED_TWICE = 1 << 20
"""Elements of all lines up to which two merges are quicker than passes, which have
twelve launches: 131072 of one line took 49 us by merges, 64 such lines 1029, and 64 of
196608 took 713 by passes (NVIDIA H200, driver 580.159.04, 2026-12-01)."""

TILE_ITEMS = 8
"""Elements of an invocation in a tile of a pass: with 16, 24 or 32 a sort of 16 Mi
float32 took 1819, 1701 and 1705 us, with these 1270 (NVIDIA H200, driver 580.159.04,
2026-11-28)."""

MOST_TOGETHER, LEAST_HISTOGRAMS = 8, 1024
"""Most tiles that a workgroup counts in, and workgroups above which it has several."""

MOST_SCANNING, MOST_OFFSETS = 1024, 8
"""Invocations that add the counts of a digit, and most that each loads at once: more
that lie side by side would be further from those of its neighbours."""

CHUNKS = 64
LEAST_CHUNK, MOST_CHUNK, MOST_CHUNKS = 512, 16384, 128
"""Invocations that keep a software device busy; elements of each, and most of them for
one line, whose scan and chunks have few enough rounds for its loops."""

LEAST_COUNTED = {1: 64, 2: 128, 4: 512, 8: 512}
LEAST_WANTED, LEAST_ELEMENTS = 64, 1 << 13
"""Elements of a line, by the bytes of each, of its order, and of all lines, from which
a software device takes digits: the passes are many kernels."""

LEAST_RANGED = 1 << 14
"""Elements from which the range of whole numbers is found first: passes over digits in
which no two differ are left out."""

RANGE_ITEMS, MOST_RANGE_GROUPS = 16, 1024
"""Elements of an invocation that finds the range, and most workgroups that do."""

RANGE = Scratch("key_range", 12)

_BALLOT = 8
"""`VK_SUBGROUP_FEATURE_BALLOT_BIT`."""

_INFINITY = {
    "float16": "0x7c00u",
    "bfloat16": "0x7f80u",
    "float32": "0x7f800000u",
    "float64": "0x7ff00000u",
}


class RadixSort(NamedTuple):
    """A stable sort along the middle dimension.

    Attributes
    ----------
    gpu : DeviceInfo
    x : TensorSpec, shape (outer, count, inner)
    most : int
        Elements of the order that are wanted, the first.
    descending : bool
    source : str
        The node's argument that is sorted.
    results : mapping of str to str
        The node's result for "order", and for "values", which may be missing.
    places : DType
        Of the order: int32 or int64.
    """

    gpu: DeviceInfo
    x: TensorSpec
    most: int
    descending: bool
    source: str
    results: Mapping[str, str]
    places: DType

    @property
    def lines(self) -> int:
        """How many are sorted."""
        return self.x.shape[0] * self.x.shape[2]

    @property
    def rank_group(self) -> int:
        """Invocations of a workgroup that ranks: full subgroups of any size."""
        group = RANK_SUBGROUPS * self.gpu.min_subgroup_size
        return max(group, self.gpu.max_subgroup_size)

    @property
    def line_capacity(self) -> int:
        """Elements that one workgroup sorts, in shared memory."""
        tables = 4 * BINS * (self._subgroups + 2)
        items = (self.gpu.max_shared_memory - tables) // (4 * self.rank_group)
        return min(LINE_ITEMS, items) * self.rank_group

    @property
    def _subgroups(self) -> int:
        return self.rank_group // self.gpu.min_subgroup_size

    def dispatches(self) -> list[Dispatch]:
        """Return the dispatches, of one kernel if a workgroup holds a line."""
        count = self.x.shape[1]
        if not self.gpu.target.hides_latency:
            return self._passes()
        if count <= SHORT_LINE:
            width = 1 << max(1, (count - 1).bit_length())
            groups = ceil_div(self.lines, 2 * WORKGROUP // width)
            constants = {"LOCAL_X": WORKGROUP, "WIDTH": width}
            return [self._line_dispatch("sort/short_rows", groups, constants)]
        capacity = self.line_capacity
        if count <= capacity:
            return [self._rows(count, self._results(), self.places)]
        ways = self._ways
        wide = self.x.dtype.is_float and self.x.dtype.itemsize >= 4
        merges = MERGES if wide and self.x.numel <= MOST_MERGED_TWICE else 1
        if count <= ways**merges * capacity:
            # More of them, as shorter ones take less time, while workgroups are few.
            spread = min(ways, model_of(self.gpu).multiprocessors // max(1, self.lines))
            blocks = max(ceil_div(count, capacity), spread)
            return self._merged_blocks(ceil_div(count, blocks))
        return self._passes()

    def _rank_constants(self, items: int) -> dict[str, int]:
        group = {"LOCAL_X": self.rank_group, "SUBGROUPS": self._subgroups}
        return {**group, "ITEMS": items}

    def _results(self) -> dict[str, Argument]:
        order = self.results["order"]
        # What has no result for values writes none.
        return {"order": order, "values": self.results.get("values", order)}

    def _line_dispatch(
        self, kernel: str, groups: int, constants: Mapping[str, int]
    ) -> Dispatch:
        push, constants = {**self._line_push(), **self._results()}, {**constants}
        constants["HAS_VALUES"] = int("values" in self.results)
        return self._of_lines(kernel, groups, push, constants, self.places)

    def _line_push(self) -> dict[str, Argument]:
        _, count, inner = self.x.shape
        push: dict[str, Argument] = {"x": self.source, "lines": self.lines}
        return push | {"count": count, "inner": inner, "most": min(self.most, count)}

    def _of_lines(
        self,
        kernel: str,
        groups: int,
        push: Mapping[str, Argument],
        constants: Mapping[str, int],
        places: DType,
    ) -> Dispatch:
        constants = {**constants, "DESCENDING": int(self.descending)}
        defines = {**key_defines(self.x.dtype), **place_defines(places)}
        return Dispatch(kernel, fold_grid(groups), push, constants, defines)

    def _rows(
        self, block: int, results: Mapping[str, Argument], places: DType
    ) -> Dispatch:
        """Return the dispatch that sorts blocks of lines, each in a workgroup."""
        _, count, inner = self.x.shape
        items = ceil_div(block, self.rank_group)
        # Not every length deserves a pipeline.
        items = items if items <= 8 else min(4 * ceil_div(items, 4), LINE_ITEMS)
        items = min(items, self.line_capacity // self.rank_group)
        blocks = ceil_div(count, block)
        is_whole = blocks == 1
        constants = self._rank_constants(items)
        constants["RANGED"] = int(self._is_wide_integer)
        constants["HAS_VALUES"] = int(not is_whole or "values" in self.results)
        push = {**self._line_push(), **results, "block": block, "blocks": blocks}
        push["inner_out"] = inner if is_whole else 1
        push |= {} if is_whole else {"most": count}
        groups = self.lines * blocks
        return self._of_lines("sort/radix_rows", groups, push, constants, places)

    @property
    def _ways(self) -> int:
        """Most blocks that a kernel merges to one."""
        return max(1, BLOCKS_PER_BYTE * self.x.dtype.itemsize)

    def _merged_blocks(self, block: int) -> list[Dispatch]:
        """Return the dispatches that sort blocks of lines, and merge them."""
        _, count, inner = self.x.shape
        size, numel = self.x.dtype.itemsize, self.x.numel
        runs: list[dict[str, Argument]] = [
            {
                "values": Scratch(f"sorted{i}", 4 * ceil_div(size * numel, 4)),
                "order": Scratch(f"places{i}", 4 * numel),
            }
            for i in range(2)
        ]
        steps = [self._rows(block, runs[0], int32)]
        while block < count:
            read, write = runs[len(steps) - 1 & 1], runs[len(steps) & 1]
            ways = min(self._ways, ceil_div(count, block))
            push = {"runs": read["values"], "places": read["order"], "block": block}
            block *= ways
            is_last = block >= count
            push |= {"lines": self.lines, "count": count}
            push |= self._results() if is_last else write
            push["inner"] = inner if is_last else 1
            push["most"] = min(self.most, count) if is_last else count
            constants = {"WAYS": ways, "DESCENDING": int(self.descending)}
            constants["HAS_VALUES"] = int(not is_last or "values" in self.results)
            places = self.places if is_last else int32
            defines = {**key_defines(self.x.dtype), **place_defines(places)}
            steps.append(
                linear_dispatch("sort/radix_merge", numel, push, constants, defines)
            )
        return steps

    def _passes(self) -> list[Dispatch]:
        """Return the dispatches that sort by each digit, from the lowest.

        Elements move along with their places, which are int32 until the last pass. The
        device knows which pass that is: those after it do nothing.
        """
        _, count, inner = self.x.shape
        lines, size = self.lines, self.x.dtype.itemsize
        alone = not self.gpu.target.hides_latency
        chunk = self._chunk if alone else TILE_ITEMS * self.rank_group
        tiles = ceil_div(count, chunk)
        # Each is one allocation, of which devices limit the size.
        values = 4 * ceil_div(size * self.x.numel, 4)
        areas = [Scratch(f"sorted{i}", values) for i in range(2)]
        places = [Scratch(f"places{i}", 4 * self.x.numel) for i in range(2)]
        counts = Scratch("digit_counts", 4 * lines * BINS * tiles)
        totals = Scratch("digit_totals", 4 * lines * BINS)
        ranged, steps = int(self._is_ranged), self._range() if self._is_ranged else []
        own: dict[str, Argument] = {"lines": lines, "count": count, "tiles": tiles}
        own["range"] = RANGE if ranged else self.source
        out = self._results()
        out |= {"most": min(self.most, count), "inner_out": inner}
        for digit in range(size):
            is_first = digit == 0
            read = own | {"x": self.source if is_first else areas[(digit - 1) % 2]}
            read |= {"inner": inner if is_first else 1, "shift": digit * DIGIT_BITS}
            write = out | {"moved": areas[digit % 2], "moved_places": places[digit % 2]}
            write["places"] = self.source if is_first else places[(digit - 1) % 2]
            constants = {"DESCENDING": int(self.descending), "RANGED": ranged}
            if alone:
                steps += self._chunk_pass(read, write, counts, chunk, constants)
                continue
            write |= {"before": counts, "totals": totals}
            steps.append(self._histogram(read | {"counts": counts}, constants))
            steps.append(self._offsets(read, counts, totals, ranged))
            constants |= self._rank_constants(TILE_ITEMS)
            constants |= {"IS_FIRST": int(is_first)}
            constants["HAS_VALUES"] = int("values" in self.results)
            defines = {**key_defines(self.x.dtype), **place_defines(self.places)}
            grid, push = fold_grid(lines * tiles), read | write
            scatter = Dispatch("sort/radix_scatter", grid, push, constants, defines)
            steps.append(scatter)
        return steps

    @property
    def _is_ranged(self) -> bool:
        """Whether the range of the keys, which decides the passes, is worth finding."""
        return self._is_wide_integer and self.x.numel >= LEAST_RANGED

    @property
    def _is_wide_integer(self) -> bool:
        return self.x.dtype.kind != "float" and self.x.dtype.itemsize >= 4

    def _range(self) -> list[Dispatch]:
        """Return the dispatches that find the range of the keys."""
        count, gpu = self.x.numel, self.gpu
        size = gpu.subgroup_size if not gpu.target.hides_latency else WORKGROUP
        most = MOST_RANGE_GROUPS if gpu.target.hides_latency else CHUNKS
        groups = min(most, ceil_div(count, RANGE_ITEMS * size))
        groups = max(groups, ceil_div(count, MOST_CHUNK * size))
        push: dict[str, Argument] = {"x": self.source, "range": RANGE}
        push |= {"bounds": Scratch("key_bounds", 16 * groups)}
        push |= {"count": count, "groups": groups}
        constants = {"LOCAL_X": size, "DESCENDING": int(self.descending)}
        defines = key_defines(self.x.dtype)
        return [
            Dispatch(
                "sort/key_range",
                fold_grid(number),
                push,
                constants | {"PASS": which},
                defines,
            )
            for which, number in enumerate((groups, 1))
        ]

    @property
    def _chunk(self) -> int:
        """Elements of an invocation, where those share nothing."""
        _, count, _ = self.x.shape
        wanted = max(LEAST_CHUNK, ceil_div(self.x.numel, CHUNKS))
        return max(wanted, ceil_div(count, MOST_CHUNKS))

    def _chunk_pass(
        self,
        read: Mapping[str, Argument],
        write: Mapping[str, Argument],
        counts: Scratch,
        chunk: int,
        constants: Mapping[str, int],
    ) -> list[Dispatch]:
        """Return the dispatches of one digit where invocations share nothing."""
        tiles = read["tiles"]
        assert isinstance(tiles, int)
        count: dict[str, Argument] = {"counts": counts}
        defines, number = key_defines(self.x.dtype), self.lines * tiles
        size = self.gpu.subgroup_size
        scanned = {**count, "lines": self.lines, "width": BINS * tiles}
        scanned |= {name: read[name] for name in ("range", "shift")}
        counted = {"CHUNK": chunk, **constants}
        placed = {**counted, "IS_FIRST": int(read["shift"] == 0)}
        placed["HAS_VALUES"] = int("values" in self.results)
        types = {**defines, **place_defines(self.places)}
        return [
            linear_dispatch(
                "sort/radix_count_chunks",
                number,
                {**read, **count},
                counted,
                defines,
                size,
            ),
            linear_dispatch(
                "sort/radix_scan_chunks",
                self.lines,
                scanned,
                {"RANGED": constants["RANGED"]},
                workgroup=size,
            ),
            linear_dispatch(
                "sort/radix_place_chunks",
                number,
                {**read, **write, **count},
                placed,
                types,
                size,
            ),
        ]

    def _histogram(
        self, push: Mapping[str, Argument], own: Mapping[str, int]
    ) -> Dispatch:
        constants = {"LOCAL_X": WORKGROUP, "TILE": TILE_ITEMS * self.rank_group, **own}
        tiles = push["tiles"]
        assert isinstance(tiles, int)
        many = max(1, self.lines * tiles // LEAST_HISTOGRAMS)
        constants["TOGETHER"] = together = min(
            MOST_TOGETHER, 1 << many.bit_length() - 1
        )
        grid = fold_grid(self.lines * ceil_div(tiles, together))
        defines = key_defines(self.x.dtype)
        return Dispatch("sort/radix_histogram", grid, push, constants, defines)

    def _offsets(
        self,
        read: Mapping[str, Argument],
        counts: Scratch,
        totals: Scratch,
        ranged: int,
    ) -> Dispatch:
        tiles = read["tiles"]
        assert isinstance(tiles, int)
        most = min(MOST_SCANNING, self.gpu.max_workgroup_invocations)
        group = min(most, 1 << (ceil_div(tiles, 4) - 1).bit_length())
        each = min(MOST_OFFSETS, 1 << (ceil_div(tiles, group) - 1).bit_length())
        size = max(WORKGROUP, group)
        rows = self.lines * BINS
        push: dict[str, Argument] = {"counts": counts, "totals": totals, "rows": rows}
        push |= {name: read[name] for name in ("tiles", "range", "shift")}
        constants = {"LOCAL_X": size, "GROUP": group, "EACH": each, "RANGED": ranged}
        grid = fold_grid(ceil_div(rows, size // group))
        return Dispatch("sort/radix_offsets", grid, push, constants)


def has_radix_sort(gpu: DeviceInfo) -> bool:
    """Whether a radix sort pays on a device, which must count votes of subgroups."""
    return gpu.target.hides_latency and bool(gpu.subgroup_operations & _BALLOT)


def pays_to_count(gpu: DeviceInfo, x: TensorSpec, most: int) -> bool:
    """Whether a software device sorts quickest by digits, one chunk an invocation."""
    return (
        gpu.target.uniform_loads
        and LEAST_COUNTED[x.dtype.itemsize] <= x.shape[1]
        and x.shape[1] <= MOST_CHUNKS * MOST_CHUNK
        and most >= LEAST_WANTED
        and x.numel >= LEAST_ELEMENTS
    )


def key_defines(dtype: DType) -> dict[str, str]:
    """Return the macros of `sort/keys.glsl` for a dtype."""
    kind = {"float": "KIND_FLOAT", "int": "KIND_SIGNED"}.get(dtype.kind)
    defines = {"BYTES": str(dtype.itemsize), "KIND": kind or "KIND_UNSIGNED"}
    if dtype.kind == "float":
        defines["INFINITY_BITS"] = _INFINITY[dtype.name]
    return defines
