"""Placing areas of limited lives in few pieces of memory; pure.

Work is numbered in waves: what runs between two barriers. An area lives from the wave
that first writes it to the wave that last uses it; areas whose lives do not meet may
share bytes. As sharing is by waves, it adds no barrier.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

GRANULE = 256
"""Bytes: areas start at multiples of this, as allocations of the device layer do."""


class Area(NamedTuple):
    """Memory wanted: bytes, and the first and last wave in which they are used."""

    size: int
    first: int
    last: int


class Layout(NamedTuple):
    """Where areas lie.

    Attributes
    ----------
    pieces, offsets : list of int
        The piece of memory of each area, and where in it, in bytes.
    sizes : list of int
        Bytes of each piece.
    """

    pieces: list[int]
    offsets: list[int]
    sizes: list[int]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(self.sizes)


def rounded(size: int) -> int:
    """Return a size in whole granules, at least one."""
    return max(1, -(-size // GRANULE)) * GRANULE


def place(areas: Sequence[Area], most: int = sys.maxsize) -> Layout:
    """Return a place for each area, such that areas alive together lie apart.

    The largest come first, each in the smallest gap between those alive with it.
    Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", arXiv:2001.03288, greedy by size.

    Parameters
    ----------
    areas : sequence of Area
    most : int
        Bytes of a piece of memory at most, a multiple of `GRANULE`. An area goes to the
        first piece that has room; one that is larger has a piece of its own.
    """
    layout = Layout([0] * len(areas), [0] * len(areas), [])
    members: list[list[int]] = []
    for number in sorted(range(len(areas)), key=lambda k: -areas[k].size):
        size = rounded(areas[number].size)
        piece, offset = len(members), 0
        for k, others in enumerate(members):
            start = _smallest_gap(_taken(areas, layout, others, areas[number]), size)
            if start + size <= most:
                piece, offset = k, start
                break
        else:
            members.append([])
            layout.sizes.append(0)
        members[piece].append(number)
        layout.pieces[number], layout.offsets[number] = piece, offset
        layout.sizes[piece] = max(layout.sizes[piece], offset + size)
    return layout


def _taken(
    areas: Sequence[Area], layout: Layout, others: Iterable[int], area: Area
) -> list[tuple[int, int]]:
    """Return the ends of those among `others` that are alive with an area, in order."""
    return sorted(
        (layout.offsets[other], layout.offsets[other] + rounded(areas[other].size))
        for other in others
        if areas[other].first <= area.last and area.first <= areas[other].last
    )


def _smallest_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """Return where the tightest gap begins that holds `size`; the end if none does."""
    best, waste, top = -1, 0, 0
    for start, end in taken:
        spare = start - top - size
        if spare >= 0 and (best < 0 or spare < waste):
            best, waste = top, spare
        top = max(top, end)
    return top if best < 0 else best


def most_alive(areas: Sequence[Area]) -> int:
    """Return the bytes alive in the fullest wave: no placement needs less."""
    changes: dict[int, int] = {}
    for area in areas:
        size = rounded(area.size)
        changes[area.first] = changes.get(area.first, 0) + size
        changes[area.last + 1] = changes.get(area.last + 1, 0) - size
    alive = most = 0
    for wave in sorted(changes):
        alive += changes[wave]
        most = max(most, alive)
    return most


def waves(accesses: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[int]:
    """Return the wave of each piece of work.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        Numbers of the areas that each piece reads and writes, in execution order.

    Returns
    -------
    list of int
        A piece is in the wave of the one before unless it needs a barrier: it reads
        what the wave writes, or writes what the wave uses.
    """
    found: list[int] = []
    wave = 0
    read: set[int] = set()
    written: set[int] = set()
    for reads, writes in accesses:
        if not written.isdisjoint(reads) or any(
            area in written or area in read for area in writes
        ):
            wave += 1
            read.clear()
            written.clear()
        read.update(reads)
        written.update(writes)
        found.append(wave)
    return found


def levels(accesses: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[int]:
    """Return the earliest wave of each piece of work if work may change places.

    Ordering by it, with ties as before, gives the fewest barriers.
    """
    earlier = _Earlier()
    found: list[int] = []
    for reads, writes in accesses:
        level = earlier.first(reads, writes)
        earlier.add(reads, writes, level)
        found.append(level)
    return found


class _Earlier:
    """The waves in which areas were last written, and last used."""

    def __init__(self) -> None:
        self._wrote: dict[int, int] = {}
        self._used: dict[int, int] = {}

    def first(self, reads: Sequence[int], writes: Sequence[int]) -> int:
        """Return the first wave in which work may run."""
        level = -1
        for area in reads:
            level = max(level, self._wrote.get(area, -1))
        for area in writes:
            level = max(level, self._used.get(area, -1))
        return level + 1

    def add(self, reads: Sequence[int], writes: Sequence[int], level: int) -> None:
        """Note work that runs in a wave."""
        for area in reads:
            self._used[area] = max(self._used.get(area, -1), level)
        for area in writes:
            self._wrote[area] = self._used[area] = level


def beside(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
    loads: Sequence[int],
    light: Sequence[bool],
) -> list[int]:
    """Return waves as `levels` does, but with light work beside the heaviest.

    Light work takes its time however little it is. Where nothing waits for it, it goes
    where other work takes longer: a sort of 2048 numbers then adds nothing to a step.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        See `waves`.
    loads : sequence of int
        How much each piece has to do.
    light : sequence of bool
        Which pieces may move.
    """
    earliest = levels(accesses)
    latest = _latest(accesses, earliest, light)
    heaviest = [0] * (max(earliest, default=0) + 1)
    for level, load, moves in zip(earliest, loads, light):
        if not moves:
            heaviest[level] = max(heaviest[level], load)
    earlier = _Earlier()
    found: list[int] = []
    for k, (reads, writes) in enumerate(accesses):
        level = earliest[k]
        if light[k]:
            room = range(earlier.first(reads, writes), latest[k] + 1)
            level = max(room, key=lambda at: (heaviest[at], -at))
        earlier.add(reads, writes, level)
        found.append(level)
    return found


def _latest(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
    earliest: Sequence[int],
    light: Sequence[bool],
) -> list[int]:
    """Return the last wave for each piece if only light ones move."""
    latest = list(earliest)
    end = max(earliest, default=0)
    written: dict[int, int] = {}
    used: dict[int, int] = {}
    for k in reversed(range(len(accesses))):
        reads, writes = accesses[k]
        if light[k]:
            latest[k] = min(
                [end]
                + [written.get(area, end + 1) - 1 for area in reads]
                + [used.get(area, end + 1) - 1 for area in writes]
            )
        for area in reads:
            used[area] = min(used.get(area, end + 1), latest[k])
        for area in writes:
            written[area] = used[area] = latest[k]
    return latest
