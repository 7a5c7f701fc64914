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

**After an interrupt.** What is known for certain changes in single steps: the blocks,
and the lease of each span, which says whether it is lent. All else follows from that,
and is made anew before the next operation if one ended early. A lease also notes the
death of its span: one that dies while the pool counts on it was lost on the way to its
owner, or in a finalizer, and its bytes are free again after all that was submitted.
"""

# Longer than most: `_rebuild` must know every step that an interrupt can end.

import bisect
import collections
import gc
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from vkbackend.driver.queue import Queue, TimelinePoint, latest, wait_all
from vkbackend.errors import OutOfDeviceMemory

from .memory import Memory, Use, gibibytes
from .span import Lease, Region, Span
from .tlsf import Suballocator

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

    def __init__(self, memory: Memory, queues: Iterable[Queue] = ()) -> None:
        self.graveyard: collections.deque[tuple[Span, tuple[TimelinePoint, ...]]] = (
            collections.deque()
        )
        self._memory = memory
        self._queues = tuple(queues)
        self._small = Suballocator(alignment=GRANULE)
        self._large = Suballocator(alignment=GRANULE)
        # By address; and the addresses in order.
        self._regions: dict[int, Region] = {}
        self._starts: list[int] = []
        # By address; and those whose span is dead.
        self._leases: dict[int, Lease] = {}
        self._lost: collections.deque[weakref.ref[Span]] = collections.deque()
        self._bins: dict[int, collections.deque[Span]] = {}
        # Bytes in the bins, and those of them that were pending when last looked at.
        self._binned = 0
        self._pending = 0
        self._statistics = PoolStatistics()
        # False while an operation is under way, and after one that ended early.
        self._whole = True
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
        if self._whole:
            # What `_begin` does then, without a call.
            self._whole = False
            if self.graveyard or self._lost:
                self._bury()
        elif not self._begin():
            return [self._allocate_apart(size, name) for size in sizes]
        statistics, ask = self._statistics, True
        spans: list[Span] = []
        try:
            for size in sizes:
                rounded = max(GRANULE, round_up(size))
                span = self._take(rounded, ask) or self._grow(rounded)
                ask = False
                span.lease.lent = (name, size)
                statistics.in_use += rounded
                if statistics.in_use > statistics.peak_in_use:
                    statistics.peak_in_use = statistics.in_use
                spans.append(span)
        except BaseException:
            self.graveyard.extend([(span, span.points) for span in spans])
            raise
        statistics.total_allocations += len(spans)
        self._whole = True
        return spans

    def _begin(self) -> bool:
        """Begin an operation; return False within another, which must end first.

        That is where a signal handler or a finalizer asks for memory.
        """
        if not self._whole:
            if self._under_way():
                return False
            self._rebuild()
        self._whole = False
        if self.graveyard or self._lost:
            self._bury()
        return True

    def _under_way(self) -> bool:
        """Return whether the operation that called `_begin` was called by another."""
        frame = sys._getframe(2).f_back
        while frame is not None:
            if frame.f_code in _OPERATIONS and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _rebuild(self) -> None:
        """Find everything anew from the blocks and the leases."""
        self._memory.finish_frees()
        for start, region in tuple(self._regions.items()):
            if region.block.freed:
                del self._regions[start]
        for span in tuple(self._freed()):
            if span.lease() is None:
                self._make_lease(span)
        spans = self._surviving()
        idle = [span for span in spans if span.lease.lent is None]
        idle.sort(key=lambda span: max((row.value for row in span.points), default=0))
        bins: dict[int, collections.deque[Span]] = {}
        for span in idle:
            bins.setdefault(span.size, collections.deque()).append(span)
        self._bins = bins
        self._starts = sorted(self._regions)
        regions = tuple(self._regions.values())
        for space in {self._small, self._large, *[row.space for row in regions]}:
            space.restore(
                {r.block.address: r.block.size for r in regions if r.space is space},
                {s.address: s.size for s in spans if s.region.space is space},
            )
        statistics = self._statistics
        statistics.reserved = sum([region.block.size for region in regions])
        self._binned, self._pending = sum([span.size for span in idle]), 0
        statistics.in_use = sum([span.size for span in spans]) - self._binned

    def _surviving(self) -> list[Span]:
        """Return the spans that live, and let go of the leases of the others."""
        spans = []
        for address, lease in tuple(self._leases.items()):
            span = lease()
            if span is not None and lease.region.block.address in self._regions:
                spans.append(span)
            else:
                self._add_submitted(lease.region)
                lease.lent = None
                del self._leases[address]
        return spans

    def _add_submitted(self, region: Region) -> None:
        """Let what is free in a region wait for all that was submitted."""
        submitted = [TimelinePoint(each, each.submitted) for each in self._queues]
        region.points = latest((*region.points, *submitted))

    def _bury(self) -> None:
        """Move the spans of dead buffers into the bins, and take lost ones back."""
        graveyard, lost = self.graveyard, self._lost
        buried: dict[int, Span] = {}
        while graveyard:
            span, points = graveyard[0]
            lease = span.lease
            if lease.lent is not None:
                span.points = latest(points)
                lease.lent = None
                freed = self._bins.get(span.size)
                if freed is None:
                    freed = self._bins[span.size] = collections.deque()
                freed.append(span)
                self._binned += span.size
                self._statistics.in_use -= span.size
                if lost:
                    buried[span.address] = span
            graveyard.popleft()
        while lost:
            self._take_back(lost.popleft(), buried)

    def _take_back(self, lost: weakref.ref[Span], buried: dict[int, Span]) -> None:
        """Free the bytes of a span that is dead; its work is not known any more.

        Garbage collection may take one for dead before its buffer's finalizer puts it
        into the graveyard: that one has been buried, or will be passed over there.
        """
        assert isinstance(lost, Lease)
        if self._leases.get(lost.address) is not lost:
            return
        span = buried.get(lost.address)
        if span is not None and span.lease is lost:
            self._make_lease(span)
            return
        self._add_submitted(lost.region)
        if lost.lent is not None:
            self._statistics.in_use -= lost.size
            lost.lent = None
        del self._leases[lost.address]
        lost.region.space.free(lost.address)

    def _make_lease(self, span: Span) -> None:
        """Make the pool know a span that nobody owns."""
        lease = Lease(span, self._lost.append)
        lease.region, lease.address, lease.size = span.region, span.address, span.size
        lease.lent = None
        # The old one, whose span seems dead, is replaced before the span forgets it.
        self._leases[span.address] = span.lease = lease

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
        start = self._starts[bisect.bisect_right(self._starts, address) - 1]
        return self._make_span(self._regions[start], address, size)

    def _make_span(self, region: Region, address: int, size: int) -> Span:
        if region.points:
            region.done()
        offset = address - region.block.address
        span = Span(region, offset, size, address, region.points)
        self._make_lease(span)
        return span

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
                # Without both, its death is none of the pool's business.
                del self._leases[span.address]
                del span.lease
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
            self._give_everything_back()
            span = self._carve(size)
            if span is not None:
                return span
            self._add_last_block(size, space)
        span = self._carve(size)
        assert span is not None
        return span

    def _add_block(self, size: int, space: Suballocator) -> None:
        region = self._add_region(size, space)
        bisect.insort(self._starts, region.block.address)

    def _add_region(self, size: int, space: Suballocator) -> Region:
        """Add a block whose bytes are handed out from a space, and by nobody else."""
        block = self._memory.allocate(size, Use.DEVICE, f"pool {gibibytes(size)}")
        try:
            region = self._regions[block.address] = Region(block, space)
        except BaseException:
            self._memory.free(block)
            raise
        space.add(block.address, size)
        statistics = self._statistics
        statistics.reserved += size
        statistics.peak_reserved = max(statistics.peak_reserved, statistics.reserved)
        return region

    def _allocate_apart(self, size: int, name: str) -> Span:
        """Return a span of a block of its own, while another operation goes on."""
        rounded = max(GRANULE, round_up(size))
        space = Suballocator(alignment=GRANULE)
        region = self._add_region(rounded, space)
        address = space.allocate(rounded)
        assert address is not None
        span = self._make_span(region, address, rounded)
        span.lease.lent = (name, size)
        statistics = self._statistics
        statistics.in_use += rounded
        statistics.peak_in_use = max(statistics.peak_in_use, statistics.in_use)
        statistics.total_allocations += 1
        return span

    def _return_empty(self, wait: bool = False) -> int:
        """Return blocks that nobody has to the driver; return their bytes.

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
                self._statistics.reserved -= region.block.size
                self._memory.free(region.block)
                del self._regions[start]
        self._starts = sorted(self._regions)
        return freed

    def give_everything_back(self) -> None:
        """Free all that can be: dead cycles, pending frees, empty blocks."""
        if self._begin():
            self._give_everything_back()
            self._whole = True

    def _give_everything_back(self) -> None:
        gc.collect()
        self._bury()
        for span in self._freed():
            wait_all(span.points)
        for region in tuple(self._regions.values()):
            wait_all(region.points)
        self._merge()
        self._return_empty()

    def _add_last_block(self, size: int, space: Suballocator) -> None:
        """Add a block of exactly this size, or fail with the numbers."""
        try:
            self._add_block(size, space)
        except OutOfDeviceMemory as error:
            statistics = self._statistics
            largest = sorted(self._lent(), key=lambda row: -row[2])[:3]
            holders = ", ".join(
                f"{name or 'unnamed'} {gibibytes(held)}" for _, name, held in largest
            )
            raise OutOfDeviceMemory(
                f"{error}; asked {gibibytes(size)}; pool holds"
                f" {gibibytes(statistics.reserved)}, {gibibytes(statistics.in_use)} in"
                f" use; largest: {holders or 'none'}",
                error.result,
            ) from None

    def trim(self) -> int:
        """Return empty blocks to the driver without waiting; return the bytes freed."""
        if not self._begin():
            return 0
        self._merge()
        freed = self._return_empty()
        self._whole = True
        return freed

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts as they are now, by name."""
        begun = self._begin()
        statistics = self._statistics
        pending = [span.size for span in self._freed() if not span.done()]
        statistics.deferred = sum(pending)
        statistics.cached = (
            statistics.reserved - statistics.in_use - statistics.deferred
        )
        statistics.blocks = len(self._regions)
        statistics.allocations = len(self._lent())
        self._whole = begun
        return asdict(statistics)

    def live(self) -> list[dict[str, int | str]]:
        """Return name, address and size in bytes of every allocation, for a dump."""
        self._whole = self._begin()
        return [
            {"name": name, "address": address, "size": size}
            for address, name, size in self._lent()
        ]

    def _lent(self) -> list[tuple[int, str, int]]:
        """Return address, name and size of what is lent."""
        return [
            (lease.address, *lease.lent)
            for lease in tuple(self._leases.values())
            if lease.lent is not None
        ]

    def close(self) -> None:
        """Free every block; the device must be idle."""
        for region in self._regions.values():
            self._memory.free(region.block)
        # What is told of it from now on begins with what is left.
        self._whole = False
        self._bins.clear()


_OPERATIONS = frozenset(
    each.__code__
    for each in (
        Pool.allocate_each,
        Pool.give_everything_back,
        Pool.live,
        Pool.statistics,
        Pool.trim,
    )
)


def round_up(size: int) -> int:
    """Return `size` rounded up to whole granules."""
    return (size + GRANULE - 1) // GRANULE * GRANULE
