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
(2) free space of a block, by two-level segregated fit; (3) a freed span of this size
with pending points; (4) freed spans whose points have passed are merged into their
blocks, and (2) again; (5) a new block, unless as much memory is pending as that would
add: then the oldest pending work is waited for first. On failure: collect garbage, wait
for everything, return empty blocks to the driver, retry once.

Sizes are rounded up to 256 bytes. Requests above half a block get a block of their own.
"""

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

_LARGEST_BLOCK = 256 << 20
_FIRST_BLOCK_SHARED = 64 << 20
_HEAP_FRACTION = 8


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
    """A block and the account of what is free in it."""

    block: Block
    free: Suballocator
    dedicated: bool

    def accepts(self, size: int) -> bool:
        """Return whether a request may go here: small ones stay out of large blocks."""
        return not self.dedicated or size * 2 > self.block.size


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
        self._regions: list[Region] = []
        self._bins: dict[int, collections.deque[Span]] = {}
        self._live: dict[int, tuple[str, int]] = {}
        self._statistics = PoolStatistics()
        info = memory.logical.info
        local = max(
            (heap.size for heap in info.heaps if heap.device_local),
            default=_LARGEST_BLOCK * _HEAP_FRACTION,
        )
        self._block_limit = min(_LARGEST_BLOCK, round_up(local // _HEAP_FRACTION))
        discrete = info.kind == "discrete"
        first = self._block_limit if discrete else _FIRST_BLOCK_SHARED
        self._next_block = min(first, self._block_limit)

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
            self._statistics.in_use -= span.size

    def _take(self, size: int, ask: bool) -> Span | None:
        """Return a span without new memory and without waiting, or None."""
        freed = self._bins.get(size)
        if freed and (freed[0].done() if ask else freed[0].known_done()):
            self._statistics.reuses += 1
            return freed.popleft()
        span = self._carve(size)
        if span is not None:
            return span
        if freed:
            self._statistics.reuses += 1
            return freed.popleft()
        return self._carve(size) if self._merge() else None

    def _carve(self, size: int) -> Span | None:
        """Return a span from the free space of a block, or None."""
        for region in self._regions:
            if region.accepts(size):
                offset = region.free.allocate(size)
                if offset is not None:
                    return Span(region, offset, size, region.block.address + offset)
        return None

    def _merge(self) -> bool:
        """Merge the freed spans whose work is done; return whether there were any."""
        merged = False
        for freed in self._bins.values():
            # Oldest first, so the first pending one ends the search.
            while freed and freed[0].done():
                span = freed.popleft()
                span.region.free.free(span.offset)
                merged = True
        return merged

    def _freed(self) -> Iterator[Span]:
        for freed in self._bins.values():
            yield from freed

    def _grow(self, size: int) -> Span:
        """Return a span of a new block, or of memory waited for."""
        dedicated = size * 2 > self._block_limit
        block_size = size if dedicated else max(self._next_block, round_up(size))
        while sum(span.size for span in self._freed()) >= block_size:
            self._wait_for_oldest()
            span = self._carve(size) if self._merge() else None
            if span is not None:
                return span
        try:
            self._add_block(block_size, dedicated)
        except OutOfDeviceMemory:
            self._give_everything_back()
            span = self._carve(size)
            if span is not None:
                return span
            self._add_last_block(size, dedicated)
        span = self._carve(size)
        assert span is not None
        return span

    def _wait_for_oldest(self) -> None:
        """Wait for the freed span whose work was submitted first."""
        heads = [freed[0] for freed in self._bins.values() if freed]
        oldest = min(
            heads,
            key=lambda span: max((point.value for point in span.points), default=0),
        )
        wait_all(oldest.points)

    def _add_block(self, size: int, dedicated: bool) -> None:
        block = self._memory.allocate(size, Use.DEVICE, f"pool {gibibytes(size)}")
        self._regions.append(Region(block, Suballocator(size), dedicated))
        statistics = self._statistics
        statistics.reserved += size
        statistics.peak_reserved = max(statistics.peak_reserved, statistics.reserved)
        if not dedicated:
            self._next_block = min(self._next_block * 2, self._block_limit)

    def _give_everything_back(self) -> None:
        """Free all that can be: dead cycles, pending frees, empty blocks."""
        gc.collect()
        self._bury()
        for span in self._freed():
            wait_all(span.points)
        self.trim()

    def _add_last_block(self, size: int, dedicated: bool) -> None:
        """Add a block of exactly this size, or fail with the numbers."""
        try:
            self._add_block(size, dedicated)
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
        kept = []
        before = self._statistics.reserved
        for region in self._regions:
            if region.free.empty:
                self._statistics.reserved -= region.block.size
                self._memory.free(region.block)
            else:
                kept.append(region)
        self._regions = kept
        self._bins = {size: freed for size, freed in self._bins.items() if freed}
        return before - self._statistics.reserved

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
        self._bins.clear()


def round_up(size: int) -> int:
    """Return `size` rounded up to whole granules."""
    return (size + GRANULE - 1) // GRANULE * GRANULE
