"""Memory planner: offsets for live ranges in few allocations; pure.

Work is numbered by barrier interval: the launches between two barriers. A live range
goes from the interval that first writes it to the one that last uses it; live ranges
that do not overlap may share bytes. As sharing is by intervals, it adds no barrier.
"""

from __future__ import annotations

import bisect
import sys
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

GRANULE = 256
"""Bytes to which offsets are aligned, as allocations of the device layer are."""


MAX_BUNDLE_BYTES = 1 << 16
"""Bytes of equal live ranges that are placed as one; more would leave larger gaps."""


class LiveRange(NamedTuple):
    """Live range of some bytes: size, first and last barrier interval."""

    size: int
    first: int
    last: int


class MemoryPlan(NamedTuple):
    """Memory plan: piece and offset of each live range.

    Attributes
    ----------
    pieces, offsets : list of int
        Allocation of each live range, and its offset there in bytes.
    sizes : list of int
        Bytes of each allocation.
    """

    pieces: list[int]
    offsets: list[int]
    sizes: list[int]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(self.sizes)


def aligned_size(size: int) -> int:
    """Return a size in whole granules, at least one."""
    return max(1, -(-size // GRANULE)) * GRANULE


def place(live_ranges: Sequence[LiveRange], most: int = sys.maxsize) -> MemoryPlan:
    """Return an offset for each live range, disjoint where ranges overlap.

    Best fit, largest first: each takes the smallest gap between those alive with it.
    Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", arXiv:2001.03288, greedy by size.

    Parameters
    ----------
    live_ranges : sequence of LiveRange
    most : int
        Most bytes of an allocation, a multiple of `GRANULE`. A live range goes to the
        first allocation that has room; a larger one gets an allocation of its own.
    """
    memory_plan = MemoryPlan([0] * len(live_ranges), [0] * len(live_ranges), [])
    held: list[_Allocation] = []
    bundles = _bundles(live_ranges, min(most, MAX_BUNDLE_BYTES))
    for each, first, last, numbers in sorted(bundles, key=_larger_first):
        size = each * len(numbers)
        piece, offset = len(held), 0
        for k, allocation in enumerate(held):
            start = allocation.smallest_gap(size, first, last)
            if start + size <= most:
                piece, offset = k, start
                break
        else:
            held.append(_Allocation())
            memory_plan.sizes.append(0)
        held[piece].add(offset, size, first, last)
        for k, number in enumerate(numbers):
            memory_plan.pieces[number] = piece
            memory_plan.offsets[number] = offset + k * each
        memory_plan.sizes[piece] = max(memory_plan.sizes[piece], offset + size)
    return memory_plan


_Bundle = tuple[int, int, int, list[int]]
"""Live ranges of one size, first and last interval: these, and their numbers."""


def _larger_first(bundle: _Bundle) -> int:
    return -bundle[0] * len(bundle[3])


def _bundles(live_ranges: Sequence[LiveRange], most: int) -> list[_Bundle]:
    """Return the live ranges in bundles of so many bytes, which are placed as one.

    Independent steps of a loop have equal ones: placed apart, they would cost most of
    the time of planning memory.
    """
    bundles: list[_Bundle] = []
    open_: dict[LiveRange, list[int]] = {}
    for number, live_range in enumerate(live_ranges):
        numbers = open_.get(live_range)
        size = aligned_size(live_range.size)
        if numbers is None or size * (len(numbers) + 1) > most:
            numbers = open_[live_range] = []
            bundles.append((size, live_range.first, live_range.last, numbers))
        numbers.append(number)
    return bundles


class _Allocation:
    """What an allocation holds: rows of offset, end, first and last interval.

    In order. In NumPy's columns, as plans of thousands of live ranges are usual: a loop
    over a sequence has some for each step.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int]] = []
        self._columns = np.empty((4, 64), np.int64)

    def add(self, offset: int, size: int, first: int, last: int) -> None:
        """Add a live range."""
        row = (offset, offset + size, first, last)
        at, count = bisect.bisect_right(self._rows, row), len(self._rows)
        self._rows.insert(at, row)
        if count == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns] * 2, 1)
        self._columns[:, at + 1 : count + 1] = self._columns[:, at:count]
        self._columns[:, at] = row

    def smallest_gap(self, size: int, first: int, last: int) -> int:
        """Return the offset of the smallest gap between what is alive meanwhile.

        The end if none holds `size`.
        """
        starts, ends, begins, lasts = self._columns[:, : len(self._rows)]
        alive = ((begins <= last) & (lasts >= first)).nonzero()[0]
        if not alive.size:
            return 0
        tops = np.zeros(alive.size + 1, np.int64)
        np.maximum.accumulate(ends[alive], out=tops[1:])
        slack = starts[alive] - tops[:-1] - size
        slack[slack < 0] = sys.maxsize
        best = int(slack.argmin())
        return int(tops[-1] if slack[best] == sys.maxsize else tops[best])


def peak_live_bytes(live_ranges: Sequence[LiveRange]) -> int:
    """Return the peak of live bytes over barrier intervals: a lower bound."""
    changes: dict[int, int] = {}
    for area in live_ranges:
        size = aligned_size(area.size)
        changes[area.first] = changes.get(area.first, 0) + size
        changes[area.last + 1] = changes.get(area.last + 1, 0) - size
    alive = most = 0
    for interval in sorted(changes):
        alive += changes[interval]
        most = max(most, alive)
    return most


def barrier_intervals(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> list[int]:
    """Return the barrier interval of each piece of work.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        Slots that each piece reads and writes, in execution order.

    Returns
    -------
    list of int
        The interval of the piece before, or the next one if a barrier is needed: it
        reads what that interval writes, or writes what it uses.
    """
    found: list[int] = []
    interval = 0
    read: set[int] = set()
    written: set[int] = set()
    for reads, writes in accesses:
        if not written.isdisjoint(reads) or any(
            area in written or area in read for area in writes
        ):
            interval += 1
            read.clear()
            written.clear()
        read.update(reads)
        written.update(writes)
        found.append(interval)
    return found


LEVELS_AHEAD = 4
"""Levels by which work with large results may come before work recorded earlier."""

LARGE_IN_A_LEVEL = 4
"""Pieces of work with large results that may share a level."""


def asap_levels(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
    large: Sequence[bool] | None = None,
) -> list[int]:
    """Return the ASAP level of each piece of work: its earliest barrier interval.

    Ordering by it, with ties as before, gives the fewest barriers. But what has large
    results stays about where it was recorded: what a program computes late, to save
    memory, as in checkpointing, may need nothing but values that are there early.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        See `barrier_intervals`.
    large : sequence of bool, optional
        Which pieces have large results; by default none.
    """
    last_access = _LastAccess()
    found: list[int] = []
    frontier = 0
    latest = deque([-1] * LARGE_IN_A_LEVEL, LARGE_IN_A_LEVEL)
    for k, (reads, writes) in enumerate(accesses):
        level = last_access.first(reads, writes)
        if large is not None and large[k]:
            level = max(level, frontier - LEVELS_AHEAD, latest[0] + 1)
            latest.append(level)
        frontier = max(frontier, level)
        last_access.add(reads, writes, level)
        found.append(level)
    return found


class _LastAccess:
    """Last access of each slot: barrier intervals of the last write and last use."""

    def __init__(self) -> None:
        self._wrote: dict[int, int] = {}
        self._used: dict[int, int] = {}

    def first(self, reads: Sequence[int], writes: Sequence[int]) -> int:
        """Return the first barrier interval in which work may run."""
        level = -1
        for area in reads:
            level = max(level, self._wrote.get(area, -1))
        for area in writes:
            level = max(level, self._used.get(area, -1))
        return level + 1

    def add(self, reads: Sequence[int], writes: Sequence[int], level: int) -> None:
        """Note work that runs in a barrier interval."""
        for area in reads:
            self._used[area] = max(self._used.get(area, -1), level)
        for area in writes:
            self._wrote[area] = self._used[area] = level


def list_schedule(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
    loads: Sequence[int],
    light: Sequence[bool],
    large: Sequence[bool] | None = None,
) -> list[int]:
    """Return levels like `asap_levels`, with light work in the interval of heavy work.

    Light work has a fixed latency however small it is. Unless other work depends on it,
    it is hidden beside longer work: a sort of 2048 numbers then adds nothing to a step.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        See `barrier_intervals`.
    loads : sequence of int
        Work of each piece.
    light : sequence of bool
        Which pieces may move.
    large : sequence of bool, optional
        See `asap_levels`.
    """
    earliest = asap_levels(accesses, large)
    latest = _alap_levels(accesses, earliest, light)
    heaviest = [0] * (max(earliest, default=0) + 1)
    for level, load, moves in zip(earliest, loads, light):
        if not moves:
            heaviest[level] = max(heaviest[level], load)
    last_access = _LastAccess()
    found: list[int] = []
    for k, (reads, writes) in enumerate(accesses):
        level = earliest[k]
        if light[k]:
            room = range(last_access.first(reads, writes), latest[k] + 1)
            level = max(room, key=lambda at: (heaviest[at], -at))
        last_access.add(reads, writes, level)
        found.append(level)
    return found


def host_waits(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]], steps: Sequence[bool]
) -> list[int]:
    """Return how many host steps, of all in order, have to end before each work.

    Ordering by it first, and by level then, lets the device do all that needs no host
    step while the host runs one: what takes its result comes as late as it can.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        See `barrier_intervals`.
    steps : sequence of bool
        Which pieces of work are host steps. They begin in order, and one may begin
        before the one before it has ended.
    """
    wrote: dict[int, int] = {}
    used: dict[int, int] = {}
    count = begun = 0
    found: list[int] = []
    for (reads, writes), is_step in zip(accesses, steps):
        needed = max(
            [0]
            + [wrote.get(area, 0) for area in reads]
            + [used.get(area, 0) for area in writes]
        )
        ended = needed
        if is_step:
            count += 1
            needed = begun = max(needed, begun)
            ended = count
        found.append(needed)
        for area in reads:
            used[area] = max(used.get(area, 0), ended)
        for area in writes:
            wrote[area] = used[area] = ended
    return found


def late_order(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
    order: Sequence[tuple[int, float]],
    steps: Sequence[bool],
    large: Sequence[bool],
) -> list[tuple[int, float]]:
    """Return an order in which work with large results comes just before its use.

    What needs nothing but memory that is there before, and little else, could be made
    at once: copies of all parameters, each of which one host step takes, would live
    from the beginning to their steps. Work that needs no more host steps stays where it
    is.

    Parameters
    ----------
    accesses : sequence of (reads, writes)
        See `barrier_intervals`.
    order : sequence of (int, float)
        Host steps that have to end before, and level, of each piece of work.
    steps, large : sequence of bool
        Which pieces are host steps, which stay, and which write something large.
    """
    made: set[int] = set()
    used: set[int] = set()
    moves: list[bool] = []
    for (reads, writes), is_step, is_large in zip(accesses, steps, large):
        early = made.isdisjoint(reads) and not is_step
        moves.append(is_large and early and used.isdisjoint(writes))
        if not moves[-1]:
            used.update(reads, writes)
            if is_large or not early:
                made.update(writes)
    found = list(order)
    end = max(order, default=(0, 0.0))
    read: dict[int, tuple[int, float]] = {}
    written: dict[int, tuple[int, float]] = {}
    for k in reversed(range(len(accesses))):
        reads, writes = accesses[k]
        waits, level = order[k]
        before = waits, level - 0.5
        if moves[k]:
            latest = min(
                [end]
                + [written.get(area, end) for area in (*reads, *writes)]
                + [read.get(area, end) for area in writes]
            )
            if latest[0] > waits:
                found[k] = before = latest
        for area in reads:
            read[area] = min(read.get(area, end), before)
        for area in writes:
            written[area] = min(written.get(area, end), before)
    return found


def _alap_levels(
    accesses: Sequence[tuple[Sequence[int], Sequence[int]]],
    earliest: Sequence[int],
    light: Sequence[bool],
) -> list[int]:
    """Return the ALAP level of each piece of work if only light work moves."""
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


def shared_buffers(ranges: Sequence[LiveRange]) -> tuple[list[int], list[int]]:
    """Return buffers for live ranges, of which each has one whole while it lives.

    Parameters
    ----------
    ranges : sequence of LiveRange

    Returns
    -------
    (list of int, list of int)
        The buffer of each live range, and the bytes of each buffer.
    """
    places = [0] * len(ranges)
    lengths: list[int] = []
    ends: list[int] = []
    for at in sorted(range(len(ranges)), key=lambda k: ranges[k].first):
        size, first, last = ranges[at]
        free = [k for k, end in enumerate(ends) if end < first]
        fits = [k for k in free if lengths[k] >= size]
        if fits:
            place = min(fits, key=lengths.__getitem__)
        elif free:
            place = max(free, key=lengths.__getitem__)
            lengths[place] = size
        else:
            place = len(lengths)
            lengths.append(size)
            ends.append(last)
        places[at], ends[place] = place, last
    return places, lengths
