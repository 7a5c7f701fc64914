"""The memory pool: spans of large blocks, reused as soon as that is safe.

**The rule that keeps data whole.** Memory carries the timeline points of the work that
uses it, and *hands them to its next owner*. When a buffer dies, its span goes into the
pool with the points of its last write and last reads. A new buffer made from that span
starts with those points as its own `last_reads`, so everything that touches the new
buffer treats the dead one's work exactly as it treats the new one's:

- a host write to mapped memory waits for them on the host;
- a submission to another queue waits for them with semaphores;
- a submission to the same queue needs nothing more: each begins with a full barrier.

So a span may be handed out while work on it is still pending, which keeps a training
loop that runs ahead of the device from growing, and no owner can be hurt by the one
before. Nothing can use a span that has *unsubmitted* work: a batch holds references to
its buffers until it is submitted, and a buffer's points are set before it can die.
Blocks go back to the driver only when every point of every span in them has passed.

**Order of search.** (1) A freed span of exactly this size whose points have passed;
(2) free space of the blocks, by two-level segregated fit; (3) a freed span of this size
with pending points; (4) freed spans are merged into the free space, first those whose
points have passed, then the others, whose points their block then hands to every new
owner; and (2) again; (5) a new block. Where many bytes lie in freed spans, (4) comes
before (2): space that is cut up while they wait would not grow together again. On
failure: collect garbage, wait for everything, return empty blocks to the driver, retry
once.

**What is reserved.** A block is a sixteenth of what is reserved for requests of its
kind, small or large, or as large as the request if that is most of it. Before a block
is added that would make more of them than can be needed, empty ones go back to the
driver, after waiting for the work that uses them.

Sizes are rounded up to 256 bytes.
"""

import bisect
import collections
import gc
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from .errors import OutOfDeviceMemory
from .memory import Block, Memory, Use, gibibytes
from .suballocator import Suballocator
from .timeline import TimelinePoint, latest, wait_all

GRANULE = 256
"""Bytes: spans start at and are multiples of this."""

LEAST_BLOCK = 1 << 20
"""Bytes of the first block, if what it is for is not larger."""

_LARGEST_BLOCK = 256 << 20
_HEAP_FRACTION = 8

_LARGE = 1 << 20
"""Requests of so many bytes, and smaller ones, get no memory of the same block: what is
small often lives long, and would keep a large block from being reused or returned."""

_GROWTH = 16
"""A new block is one part in so many of what is reserved."""

_SPARE = 8
"""So large a part of the most that was in use may be reserved in empty blocks, or lie
in freed spans, before the pool looks for another way."""


@dataclass(eq=False, slots=True)
class Span:
    """A byte range of a block.

    Attributes
    ----------
    region : Region
        The block it lies in.
    offset, size : int
        Bytes; `size` is rounded up.
    address : int
        Device address of its first byte.
    points : tuple of TimelinePoint
        Work that may still use it, from its last owner.
    """

    region: "Region"
    offset: int
    size: int
    address: int
    points: tuple[TimelinePoint, ...] = ()

    def done(self) -> bool:
        """Return whether no work uses it any more; does not wait."""
        if self.points:
            self.points = tuple([each for each in self.points if not each.done()])
        return not self.points

    def known_done(self) -> bool:
        """Return whether it is known, without asking the device, that none does."""
        return all([point.value <= point.queue.completed for point in self.points])


@dataclass(eq=False, slots=True)
class Region:
    """A block, whose space it is, and the work that may still use what is free."""

    block: Block
    space: Suballocator
    points: tuple[TimelinePoint, ...] = ()

    def done(self) -> bool:
        """Return whether no work uses what is free in it; does not wait."""
        if self.points:
            self.points = tuple([each for each in self.points if not each.done()])
        return not self.points


@dataclass(slots=True)
class PoolStatistics:
    """Bytes and counts of one pool; see `Pool.statistics`."""

    in_use: int = 0
    reserved: int = 0
    peak_in_use: int = 0
    peak_reserved: int = 0
    deferred: int = 0
    cached: int = 0
    blocks: int = 0
    allocations: int = 0
    total_allocations: int = 0
    reuses: int = 0


class Pool:
    """Hands out spans of device memory; the caller holds the device's lock.

    Attributes
    ----------
    graveyard : collections.deque
        Where dying buffers put `(span, points)`. Garbage collection may run at any
        moment, also inside the pool, so a dying buffer does nothing but append here.
    """

    def __init__(self, memory: Memory) -> None:
        self.graveyard: collections.deque[tuple[Span, tuple[TimelinePoint, ...]]] = (
            collections.deque()
        )
        self._memory = memory
        self._small = Suballocator(alignment=GRANULE)
        self._large = Suballocator(alignment=GRANULE)
        # By address, in order.
        self._regions: list[Region] = []
        self._starts: list[int] = []
        self._bins: dict[int, collections.deque[Span]] = {}
        # Bytes in the bins, and those of them that were pending when last looked at.
        self._binned = 0
        self._pending = 0
        self._live: dict[int, tuple[str, int]] = {}
        self._statistics = PoolStatistics()
        local = max(
            (heap.size for heap in memory.logical.info.heaps if heap.device_local),
            default=_LARGEST_BLOCK * _HEAP_FRACTION,
        )
        self._block_limit = min(_LARGEST_BLOCK, round_up(local // _HEAP_FRACTION))

    def allocate(self, size: int, name: str) -> Span:
        """Return a span of at least `size` bytes.

        Waits for the device only where the module's order of search says so.

        Parameters
        ----------
        size : int
            Bytes; 0 is allowed.
        name : str
            For the memory dump.

        Raises
        ------
        OutOfDeviceMemory
            With the numbers, after everything that could be freed was freed.
        """
        (span,) = self.allocate_each((size,), name)
        return span

    def allocate_each(self, sizes: Sequence[int], name: str = "") -> list[Span]:
        """Return a span for each size, as `allocate` does.

        The device is asked once what it has done: asking takes longer than the rest.
        """
        self._bury()
        statistics, ask = self._statistics, True
        spans: list[Span] = []
        try:
            for size in sizes:
                rounded = max(GRANULE, round_up(size))
                span = self._take(rounded, ask) or self._grow(rounded)
                ask = False
                self._live[span.address] = (name, size)
                statistics.in_use += rounded
                if statistics.in_use > statistics.peak_in_use:
                    statistics.peak_in_use = statistics.in_use
                spans.append(span)
        except BaseException:
            self.graveyard.extend([(span, span.points) for span in spans])
            raise
        statistics.total_allocations += len(spans)
        return spans

    def _bury(self) -> None:
        """Move the spans of dead buffers into the bins."""
        graveyard = self.graveyard
        while graveyard:
            span, points = graveyard.popleft()
            span.points = latest(points)
            freed = self._bins.get(span.size)
            if freed is None:
                freed = self._bins[span.size] = collections.deque()
            freed.append(span)
            del self._live[span.address]
            self._binned += span.size
            self._statistics.in_use -= span.size

    def _take(self, size: int, ask: bool) -> Span | None:
        """Return a span without new memory and without waiting, or None."""
        freed = self._bins.get(size)
        if freed and (freed[0].done() if ask else freed[0].known_done()):
            return self._reuse(freed)
        if (self._binned - self._pending) * _SPARE > self._statistics.peak_in_use:
            self._merge()
        span = self._carve(size)
        if span is not None:
            return span
        if freed:
            return self._reuse(freed)
        for pending in (False, True):
            if self._merge(pending):
                span = self._carve(size)
                if span is not None:
                    return span
        return None

    def _reuse(self, freed: collections.deque[Span]) -> Span:
        span = freed.popleft()
        self._binned -= span.size
        self._statistics.reuses += 1
        return span

    def _carve(self, size: int) -> Span | None:
        """Return a span from the free space of the blocks, or None."""
        space = self._small if size < _LARGE else self._large
        address = space.allocate(size)
        if address is None:
            return None
        region = self._regions[bisect.bisect_right(self._starts, address) - 1]
        if region.points:
            region.done()
        offset = address - region.block.address
        return Span(region, offset, size, address, region.points)

    def _merge(self, pending: bool = False) -> bool:
        """Merge freed spans into the free space; return whether there were any.

        Parameters
        ----------
        pending : bool, default False
            Also those with unfinished work, whose points their region takes over.
        """
        before, asked = self._binned, pending
        for size, freed in tuple(self._bins.items()):
            # Oldest first, so the first pending one ends the search. Once the device
            # was asked about one, it is known of the others too.
            while freed:
                span = freed[0]
                points = span.points
                if points and not pending:
                    if not (span.known_done() if asked else span.done()):
                        asked = True
                        break
                    points = ()
                if points:
                    region = span.region
                    region.points = latest((*region.points, *points))
                self._binned -= size
                freed.popleft()
                span.region.space.free(span.address)
            if not freed:
                del self._bins[size]
        self._pending = self._binned
        return self._binned < before

    def _freed(self) -> Iterator[Span]:
        for freed in self._bins.values():
            yield from freed

    def _grow(self, size: int) -> Span:
        """Return a span of a new block; everything freed has been merged."""
        statistics = self._statistics
        space = self._small if size < _LARGE else self._large
        held = space.used_bytes + space.free_bytes
        part = min(max(held // _GROWTH, LEAST_BLOCK), self._block_limit)
        block_size = size if size * 2 > part else round_up(part)
        most = max(statistics.peak_in_use, statistics.in_use + size)
        if statistics.reserved + block_size > most + most // _SPARE:
            self._return_empty(wait=True)
        try:
            self._add_block(block_size, space)
        except OutOfDeviceMemory:
            self.give_everything_back()
            span = self._carve(size)
            if span is not None:
                return span
            self._add_last_block(size, space)
        span = self._carve(size)
        assert span is not None
        return span

    def _add_block(self, size: int, space: Suballocator) -> None:
        block = self._memory.allocate(size, Use.DEVICE, f"pool {gibibytes(size)}")
        place = bisect.bisect(self._starts, block.address)
        self._starts.insert(place, block.address)
        self._regions.insert(place, Region(block, space))
        space.add(block.address, size)
        statistics = self._statistics
        statistics.reserved += size
        statistics.peak_reserved = max(statistics.peak_reserved, statistics.reserved)

    def _return_empty(self, wait: bool = False) -> int:
        """Return blocks that nobody has to the driver; return their bytes.

        Parameters
        ----------
        wait : bool, default False
            Wait for the work that still uses them; otherwise those are kept.
        """
        freed = 0
        for region in tuple(self._regions):
            start, space = region.block.address, region.space
            if space.is_free(start) and (wait or region.done()):
                wait_all(region.points)
                space.remove(start)
                self._regions.remove(region)
                self._starts.remove(start)
                freed += region.block.size
                self._statistics.reserved -= region.block.size
                self._memory.free(region.block)
        return freed

    def give_everything_back(self) -> None:
        """Free all that can be: dead cycles, pending frees, empty blocks."""
        gc.collect()
        self._bury()
        for span in self._freed():
            wait_all(span.points)
        for region in self._regions:
            wait_all(region.points)
        self.trim()

    def _add_last_block(self, size: int, space: Suballocator) -> None:
        """Add a block of exactly this size, or fail with the numbers."""
        try:
            self._add_block(size, space)
        except OutOfDeviceMemory as error:
            statistics = self._statistics
            largest = sorted(self._live.values(), key=lambda row: -row[1])[:3]
            holders = ", ".join(
                f"{name or 'unnamed'} {gibibytes(held)}" for name, held in largest
            )
            raise OutOfDeviceMemory(
                f"{error}; asked {gibibytes(size)}; pool holds"
                f" {gibibytes(statistics.reserved)}, {gibibytes(statistics.in_use)} in"
                f" use; largest: {holders or 'none'}",
                error.result,
            ) from None

    def trim(self) -> int:
        """Return empty blocks to the driver without waiting; return the bytes freed."""
        self._bury()
        self._merge()
        return self._return_empty()

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts as they are now, by name."""
        self._bury()
        statistics = self._statistics
        pending = [span.size for span in self._freed() if not span.done()]
        statistics.deferred = sum(pending)
        statistics.cached = (
            statistics.reserved - statistics.in_use - statistics.deferred
        )
        statistics.blocks = len(self._regions)
        statistics.allocations = len(self._live)
        return asdict(statistics)

    def live(self) -> list[dict[str, int | str]]:
        """Return name, address and size in bytes of every allocation, for a dump."""
        self._bury()
        return [
            {"name": name, "address": address, "size": size}
            for address, (name, size) in self._live.items()
        ]

    def close(self) -> None:
        """Free every block; the device must be idle."""
        for region in self._regions:
            self._memory.free(region.block)
        self._regions.clear()
        self._starts.clear()
        self._bins.clear()


def round_up(size: int) -> int:
    """Return `size` rounded up to whole granules."""
    return (size + GRANULE - 1) // GRANULE * GRANULE
