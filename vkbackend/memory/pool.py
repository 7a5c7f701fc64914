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

**Order of search.** (0) Where the request wants to lie, if that is free; (1) a freed
span of exactly this size whose points have passed; (2) free space of the blocks, by
two-level segregated fit; (3) a freed span of this size with pending points; (4) freed
spans are merged into the free space, first those whose points have passed, then the
others, whose points their block then hands to every new owner; and (2) again; (5) a new
block. Where many bytes lie in freed spans, (4) comes before (2): space that is cut up
while they wait would not grow together again. On failure: collect garbage, wait for
everything, return empty blocks to the driver, retry once.

**What is reserved.** A block is a sixteenth of what is reserved for requests of its
kind, small or large, or as large as the request if that is most of it. Before a block
is added that would make more of them than can be needed, empty ones go back to the
driver, after waiting for the work that uses them.

Sizes are rounded up to 256 bytes.

**After an interrupt.** What is known for certain changes in single steps: the blocks,
and the lease of each span, which says whether it is allocated. All else follows from
that, and is rebuilt before the next operation if one ended early. A lease also notes
the death of its span: one that dies while the pool counts on it was leaked on the way
to its owner, or in a finalizer, and its bytes are free again after all that was
submitted.
"""

# Longer than most: `_rebuild` must know every step that an interrupt can end.

import bisect
import collections
import gc
import sys
import weakref
from collections.abc import Iterable, Sequence

from vkbackend.driver.queue import Queue, TimelinePoint, latest, wait_all
from vkbackend.errors import OutOfDeviceMemory

from .freed_spans import Bin, FreedSpans
from .joint_peaks import JointPeaks
from .memory import MemoryUsage, gibibytes
from .pool_reports import PoolReports
from .span import (
    GRANULE,
    BlockSource,
    DeferredFrees,
    Lease,
    MemorySpan,
    PoolStatistics,
    Region,
    is_within,
    round_up,
    with_numbers,
)
from .tlsf import Suballocator

MIN_BLOCK_SIZE = 1 << 20
"""Bytes of the first block, if what it is for is not larger."""

_MAX_BLOCK_SIZE = 256 << 20
_HEAP_FRACTION = 8

_LARGE_REQUEST = 1 << 20
"""Requests of so many bytes, and smaller ones, get no memory of the same block: what is
small often lives long, and would keep a large block from being reused or returned."""

_GROWTH_FRACTION = 16
"""A new block is one part in so many of what is reserved."""

_SLACK_FRACTION = 8
"""So large a part of the most that was in use may be reserved in empty blocks, or lie
in freed spans, before the pool looks for another way."""


class Pool(PoolReports):
    """Memory pool of spans of device memory; the caller holds the device's lock.

    Parameters
    ----------
    memory : BlockSource
        What its blocks come from.
    queues : iterable of Queue
        Those whose work may use them.
    least : int, default `MIN_BLOCK_SIZE`
        Bytes of the smallest block.
    use : MemoryUsage, default `DEVICE`
        What they are for.

    Attributes
    ----------
    deferred_frees : collections.deque
        Deferred-free list: dying buffers append `(span, points)`. Garbage collection
        may run at any moment, also in the pool: a dying buffer does nothing else.
    beside : list of Pool
        Pools of other memory, which this one gives back with its own; see `put_beside`.
    counts : PoolStatistics
    """

    def __init__(
        self,
        memory: BlockSource,
        queues: Iterable[Queue] = (),
        least: int = MIN_BLOCK_SIZE,
        use: MemoryUsage = MemoryUsage.DEVICE,
    ) -> None:
        self.deferred_frees: DeferredFrees = collections.deque()
        self.beside: list[Pool] = []
        self._least, self._use = least, use
        self._memory = memory
        self._queues = tuple(queues)
        self._small = Suballocator(alignment=GRANULE)
        self._large = Suballocator(alignment=GRANULE)
        # By address; and the addresses in order.
        self._regions: dict[int, Region] = {}
        self._starts: list[int] = []
        # By address; in order, without dedicated blocks; and those of dead spans.
        self._leases: dict[int, Lease] = {}
        self._lease_starts: list[int] = []
        self._dead_leases: collections.deque[weakref.ref[MemorySpan]] = (
            collections.deque()
        )
        self._freed = FreedSpans()
        # Bytes of those, as many as were pending when last looked at.
        self._pending_bytes = 0
        self.counts = PoolStatistics()
        self._joint: JointPeaks | None = None
        # False while an operation is under way, and after one that ended early.
        self._consistent = True
        local = max(
            (heap.size for heap in memory.logical.info.heaps if heap.device_local),
            default=_MAX_BLOCK_SIZE * _HEAP_FRACTION,
        )
        self._block_limit = min(_MAX_BLOCK_SIZE, round_up(local // _HEAP_FRACTION))

    def put_beside(self, other: "Pool") -> None:
        """Give another pool's memory back, too; count it with its own if of one use."""
        self.beside.append(other)
        if other._use is self._use:
            self._joint = other._joint = self._joint or JointPeaks(self._counted)

    def allocate(self, size: int, name: str) -> MemorySpan:
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

    def allocate_each(
        self,
        sizes: Sequence[int],
        name: str = "",
        wanted: Sequence[Sequence[int]] = (),
        idle: bool = False,
    ) -> list[MemorySpan]:
        """Return a span for each size, as `allocate` does.

        The device is asked once what it has done: asking takes longer than the rest.

        Parameters
        ----------
        sizes : sequence of int
            Bytes.
        name : str
            For the memory dump.
        wanted : sequence of sequence of int
            Rows of an address for each size, the best first: a freed span there is
            taken before all others, also with pending points.
        idle : bool
            Take none there with pending points: the host is to write to it.
        """
        if self._consistent:
            # What `_begin` does then, without a call.
            self._consistent = False
            freed = self.deferred_frees
            if len(freed) == 1 and len(sizes) == 1 and not idle:
                span = self._hand_over(sizes[0], name, wanted)
                if span is not None:
                    self._consistent = True
                    return [span]
            if freed or self._dead_leases:
                self._process_deferred_frees()
        elif not self._begin():
            return [self._allocate_reentrant(size, name) for size in sizes]
        statistics, query = self.counts, True
        spans: list[MemorySpan] = []
        try:
            # All of them before any other, which could be one that is wanted.
            found = self._take(sizes, wanted, idle) if wanted else ()
            for number, size in enumerate(sizes):
                # `round_up`, without a call.
                rounded = (size + GRANULE - 1) // GRANULE * GRANULE or GRANULE
                span = found[number] if found else None
                if span is None:
                    span = self._find_span(rounded, query) or self._grow(rounded)
                    query = False
                span.lease.request = (name, size)
                statistics.in_use += rounded
                if statistics.in_use > statistics.peak_in_use:
                    statistics.peak_in_use = statistics.in_use
                spans.append(span)
        except BaseException:
            self.deferred_frees.extend([(span, span.points) for span in spans])
            raise
        if self._joint is not None:
            self._joint.note()
        statistics.total_allocations += len(spans)
        self._consistent = True
        return spans

    def _begin(self) -> bool:
        """Begin an operation; return False within another, which must end first.

        That is where a signal handler or a finalizer asks for memory.
        """
        if not self._consistent:
            if is_within(_OPERATIONS, self, sys._getframe(1).f_back):
                return False
            self._rebuild()
        self._consistent = False
        if self.deferred_frees or self._dead_leases:
            self._process_deferred_frees()
        return True

    def _rebuild(self) -> None:
        """Rebuild all derived state from the blocks and the leases."""
        self._memory.finish_frees()
        for start, region in tuple(self._regions.items()):
            if region.block.freed:
                del self._regions[start]
        for span in tuple(self._freed):
            if span.lease() is None:
                self._make_lease(span)
        spans = self._live_spans()
        idle = [span for span in spans if span.lease.request is None]
        idle.sort(key=lambda span: max((row.value for row in span.points), default=0))
        self._freed = FreedSpans(idle)
        self._starts = sorted(self._regions)
        self._lease_starts = sorted(self._leases)
        regions = tuple(self._regions.values())
        for space in {self._small, self._large, *[row.space for row in regions]}:
            space.restore(
                {r.block.address: r.block.size for r in regions if r.space is space},
                {s.address: s.size for s in spans if s.region.space is space},
            )
        statistics = self.counts
        statistics.reserved = sum([region.block.size for region in regions])
        self._pending_bytes = 0
        statistics.in_use = sum([span.size for span in spans]) - self._freed.bytes

    def _live_spans(self) -> list[MemorySpan]:
        """Return the live spans; drop the leases of the others."""
        spans = []
        for address, lease in tuple(self._leases.items()):
            span = lease()
            if span is not None and lease.region.block.address in self._regions:
                spans.append(span)
            else:
                self._add_submitted(lease.region)
                lease.request = None
                del self._leases[address]
        return spans

    def _add_submitted(self, region: Region) -> None:
        """Make a region's free ranges wait for all that was submitted."""
        submitted = [TimelinePoint(each, each.submitted) for each in self._queues]
        region.points = latest((*region.points, *submitted))

    def _process_deferred_frees(self) -> None:
        """Move deferred frees into the bins, and reclaim leaked spans."""
        deferred_frees, dead_lease = self.deferred_frees, self._dead_leases
        freed, bins = self._freed, self._freed.bins
        newly_freed: dict[int, MemorySpan] = {}
        while deferred_frees:
            span, points = deferred_frees[0]
            lease = span.lease
            if lease.request is not None:
                if len(points) == 1 and points[0].value <= points[0].queue.completed:
                    span.points = ()
                else:
                    span.points = latest(points)
                lease.request = None
                # `FreedSpans.add`, without a call.
                bin_of_size = bins.get(span.size)
                if bin_of_size is None:
                    bin_of_size = bins[span.size] = Bin()
                bin_of_size[span.address] = span
                freed.bytes += span.size
                self.counts.in_use -= span.size
                if dead_lease:
                    newly_freed[span.address] = span
            deferred_frees.popleft()
        while dead_lease:
            self._reclaim(dead_lease.popleft(), newly_freed)

    def _reclaim(
        self, dead_lease: weakref.ref[MemorySpan], newly_freed: dict[int, MemorySpan]
    ) -> None:
        """Free a leaked span, whose pending work is not known any more.

        Garbage collection may clear the reference before the buffer's finalizer defers
        the free: that one is among `newly_freed`, or will be skipped in the list.
        """
        assert isinstance(dead_lease, Lease)
        if self._leases.get(dead_lease.address) is not dead_lease:
            return
        span = newly_freed.get(dead_lease.address)
        if span is not None and span.lease is dead_lease:
            self._make_lease(span)
            return
        self._add_submitted(dead_lease.region)
        if dead_lease.request is not None:
            self.counts.in_use -= dead_lease.size
            dead_lease.request = None
        self._forget(dead_lease.address)
        dead_lease.region.space.free(dead_lease.address)

    def _hand_over(
        self, size: int, name: str, wanted: Sequence[Sequence[int]]
    ) -> MemorySpan | None:
        """Return the only span that is deferred if it is the wanted one.

        What `_process_deferred_frees` and `_take` do, where the last result has died
        just before the next one of its kind needs memory.
        """
        span, points = self.deferred_frees[0]
        lease, address = span.lease, span.address
        rounded = (size + GRANULE - 1) // GRANULE * GRANULE or GRANULE
        if lease.request is None or span.size != rounded or self._dead_leases:
            return None
        for (best,) in wanted:
            if best == address:
                span.points = latest(points)
                # In this order, an interrupt leaves the span deferred, or leaked.
                lease.request = (name, size)
                self.deferred_frees.popleft()
                self.counts.reuses += 1
                self.counts.total_allocations += 1
                return span
            if best in self._freed.bins.get(rounded, ()):
                break
        return None

    def _forget(self, address: int) -> None:
        """Drop a lease."""
        del self._leases[address]
        starts = self._lease_starts
        at = bisect.bisect_left(starts, address)
        if starts[at : at + 1] == [address]:
            del starts[at]

    def _make_lease(self, span: MemorySpan) -> None:
        """Make the pool know a span that nobody owns."""
        lease = Lease(span, self._dead_leases.append)
        lease.region, lease.address, lease.size = span.region, span.address, span.size
        lease.request = None
        # The old one, whose span seems dead, is replaced before the span forgets it.
        self._leases[span.address] = span.lease = lease

    def _find_span(self, size: int, query: bool) -> MemorySpan | None:
        """Return a span without new memory and without waiting, or None."""
        if freed := self._freed.bins.get(size):
            # The last one, if it is known to be done: who allocates the same sizes each
            # time gets the same addresses, and commands that are already recorded.
            last = freed[next(reversed(freed))]
            for queue, value in last.points:
                if value > queue.completed:
                    break
            else:
                last.points = ()
                return self._reuse(freed, last=True)
            first = freed[next(iter(freed))]
            if first.done() if query else first.known_done():
                return self._reuse(freed)
        known = self._freed.bytes - self._pending_bytes
        if known * _SLACK_FRACTION > self.counts.peak_in_use:
            self._coalesce()
        span = self._suballocate(size)
        if span is not None:
            return span
        if freed:
            return self._reuse(freed)
        for pending in (False, True):
            if self._coalesce(pending):
                span = self._suballocate(size)
                if span is not None:
                    return span
        return None

    def _take(
        self, sizes: Sequence[int], wanted: Sequence[Sequence[int]], idle: bool
    ) -> list[MemorySpan | None]:
        """Return the spans at wanted addresses, None where the memory is not free."""
        found: list[MemorySpan | None] = [None] * len(sizes)
        missing: Sequence[int] = range(len(sizes))
        bins = self._freed.bins
        for addresses in wanted:
            left = []
            for number in missing:
                rounded = (sizes[number] + GRANULE - 1) // GRANULE * GRANULE or GRANULE
                freed = bins.get(rounded)
                span = freed.get(addresses[number]) if freed else None
                if span is None or (idle and not span.done()):
                    left.append(number)
                else:
                    assert freed is not None
                    found[number] = span
                    # `FreedSpans.remove`, without a call.
                    del freed[span.address]
                    self._freed.bytes -= rounded
            missing = left
        self.counts.reuses += len(sizes) - len(missing)
        if missing:
            self._take_merged(sizes, wanted, missing, found, idle)
        return found

    def _take_merged(
        self,
        sizes: Sequence[int],
        wanted: Sequence[Sequence[int]],
        missing: Sequence[int],
        found: list[MemorySpan | None],
        idle: bool,
    ) -> None:
        """Find spans at wanted addresses where these were merged, or cut, since.

        Rather in the free space than in freed spans of other sizes, which are merged
        for it: parameters that an optimizer replaces take turns with other memory.
        """
        for number in missing:
            size = round_up(sizes[number]) or GRANULE
            best: tuple[int, list[MemorySpan]] | None = None
            for row in wanted:
                parts = self._parts_at(row[number], size)
                if parts is not None and not (parts and (idle or best)):
                    best = row[number], parts
                    if not parts:
                        break
            if best is not None:
                for span in best[1]:
                    self._merge(span)
                found[number] = self._suballocate(size, best[0], idle)

    def _parts_at(self, start: int, size: int) -> list[MemorySpan] | None:
        """Return the freed spans that unused bytes lie in; None if some are in use."""
        space = self._small if size < _LARGE_REQUEST else self._large
        parts: list[MemorySpan] = []
        reached, end = start, start + size
        while reached < end:
            at = bisect.bisect_right(self._lease_starts, reached) - 1
            lease = self._leases[self._lease_starts[at]] if at >= 0 else None
            if lease is not None and lease.address + lease.size > reached:
                span = lease() if lease.request is None else None
                if span is None:
                    return None
                parts.append(span)
                reached = lease.address + lease.size
            else:
                reached = space.free_end(reached)
                if not reached:
                    return None
        return parts

    def _merge(self, span: MemorySpan) -> None:
        """Merge a freed span into the free space; its region takes over its points."""
        if not span.known_done():
            span.region.points = latest((*span.region.points, *span.points))
        self._freed.remove(span)
        # Without both, its death is none of the pool's business.
        self._forget(span.address)
        del span.lease
        span.region.space.free(span.address)

    def _reuse(self, freed: Bin, last: bool = False) -> MemorySpan:
        _, span = freed.popitem(last)
        self._freed.bytes -= span.size
        self.counts.reuses += 1
        return span

    def _suballocate(
        self, size: int, wanted: int | None = None, idle: bool = False
    ) -> MemorySpan | None:
        """Return a span from the free space, at the address if one is wanted, or None.

        With `idle` only where no work is pending on the free space of its block.
        """
        space = self._small if size < _LARGE_REQUEST else self._large
        if wanted is None:
            address = space.allocate(size)
        else:
            address = wanted if space.allocate_at(wanted, size) else None
        if address is None:
            return None
        start = self._starts[bisect.bisect_right(self._starts, address) - 1]
        region = self._regions[start]
        if not region.done() and idle:
            space.free(address)
            return None
        bisect.insort(self._lease_starts, address)
        return self._make_span(region, address, size)

    def _make_span(self, region: Region, address: int, size: int) -> MemorySpan:
        offset = address - region.block.address
        span = MemorySpan(region, offset, size, address, region.points)
        self._make_lease(span)
        return span

    def _coalesce(self, pending: bool = False) -> bool:
        """Coalesce cached spans into the free space; return whether there were any.

        Parameters
        ----------
        pending : bool, default False
            Also those with unfinished work, whose points their region takes over.
        """
        before, asked = self._freed.bytes, pending
        for size, freed in tuple(self._freed.bins.items()):
            # Oldest first, so the first pending one ends the search. Once the device
            # was asked about one, it is known of the others too.
            while freed:
                span = freed[next(iter(freed))]
                if span.points and not pending:
                    if not (span.known_done() if asked else span.done()):
                        asked = True
                        break
                self._merge(span)
            if not freed:
                del self._freed.bins[size]
        self._pending_bytes = self._freed.bytes
        return self._freed.bytes < before

    def _grow(self, size: int) -> MemorySpan:
        """Return a span of a new block; everything freed has been merged."""
        statistics = self.counts
        space = self._small if size < _LARGE_REQUEST else self._large
        held = space.used_bytes + space.free_bytes
        part = min(max(held // _GROWTH_FRACTION, self._least), self._block_limit)
        block_size = size if size * 2 > part else round_up(part)
        most = max(statistics.peak_in_use, statistics.in_use + size)
        if statistics.reserved + block_size > most + most // _SLACK_FRACTION:
            self._release_empty_blocks(wait=True)
        try:
            self._add_block(block_size, space)
        except OutOfDeviceMemory:
            self._release_unused()
            span = self._suballocate(size)
            if span is not None:
                return span
            self._add_last_block(size, space)
        span = self._suballocate(size)
        assert span is not None
        return span

    def _add_block(self, size: int, space: Suballocator) -> None:
        region = self._add_region(size, space)
        bisect.insort(self._starts, region.block.address)

    def _add_region(self, size: int, space: Suballocator) -> Region:
        """Add a block whose bytes are handed out from a space, and by nobody else."""
        block = self._memory.allocate(size, self._use, f"pool {gibibytes(size)}")
        try:
            region = self._regions[block.address] = Region(block, space)
        except BaseException:
            self._memory.free(block)
            raise
        space.add(block.address, block.size)
        statistics = self.counts
        statistics.reserved += block.size
        statistics.peak_reserved = max(statistics.peak_reserved, statistics.reserved)
        return region

    def _allocate_reentrant(self, size: int, name: str) -> MemorySpan:
        """Return a span of a dedicated block, inside another operation."""
        rounded = max(GRANULE, round_up(size))
        space = Suballocator(alignment=GRANULE)
        region = self._add_region(rounded, space)
        address = space.allocate(rounded)
        assert address is not None
        span = self._make_span(region, address, rounded)
        span.lease.request = (name, size)
        statistics = self.counts
        statistics.in_use += rounded
        statistics.peak_in_use = max(statistics.peak_in_use, statistics.in_use)
        statistics.total_allocations += 1
        if self._joint is not None:
            self._joint.note()
        return span

    def _release_empty_blocks(self, wait: bool = False) -> int:
        """Return empty blocks to the driver; return their bytes.

        Parameters
        ----------
        wait : bool, default False
            Wait for the work that still uses them; otherwise those are kept.
        """
        freed = 0
        for start, region in tuple(self._regions.items()):
            space = region.space
            if space.is_free(start) and (wait or region.done()):
                wait_all(region.points)
                space.remove(start)
                freed += region.block.size
                self.counts.reserved -= region.block.size
                self._memory.free(region.block)
                del self._regions[start]
        self._starts = sorted(self._regions)
        return freed

    def release_unused(self) -> None:
        """Release all unused memory: dead cycles, pending frees, empty blocks."""
        if self._begin():
            self._release_unused()
            self._consistent = True

    def _release_unused(self) -> None:
        gc.collect()
        self._process_deferred_frees()
        for span in self._freed:
            wait_all(span.points)
        for region in tuple(self._regions.values()):
            wait_all(region.points)
        self._coalesce()
        self._release_empty_blocks()
        for each in self.beside:
            each.release_unused()

    def _add_last_block(self, size: int, space: Suballocator) -> None:
        """Add a block of exactly this size, or fail with the numbers."""
        try:
            self._add_block(size, space)
        except OutOfDeviceMemory as error:
            live = self._live_allocations()
            raise with_numbers(error, size, self.counts, live) from None

    def trim(self) -> int:
        """Return empty blocks to the driver without waiting; return the bytes freed."""
        if not self._begin():
            return 0
        self._coalesce()
        freed = self._release_empty_blocks()
        self._consistent = True
        for each in self.beside:
            freed += each.trim()
        return freed

    def look(self) -> None:
        """Count what has died since the last operation."""
        if self._begin():
            self._consistent = True

    def close(self) -> None:
        """Free every block; the device must be idle."""
        for each in self.beside:
            each.close()
        for region in self._regions.values():
            self._memory.free(region.block)
        # What is told of it from now on begins with what is left.
        self._consistent = False
        self._freed = FreedSpans()


_OPERATIONS = frozenset(
    each.__code__
    for each in (
        Pool.allocate_each,
        Pool.release_unused,
        Pool.live,
        Pool.statistics,
        Pool.trim,
    )
)
