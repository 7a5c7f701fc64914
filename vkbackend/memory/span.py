"""Spans: suballocated byte ranges of blocks, and the pool's leases on them."""

import collections
import weakref
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Protocol

from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import OutOfDeviceMemory

from .memory import Block, MemoryUsage, gibibytes
from .tlsf import Suballocator

GRANULE = 256
"""Bytes: spans start at and are multiples of this."""


class BlockSource(Protocol):
    """What a pool has its blocks from; see `Memory`."""

    logical: LogicalDevice

    def allocate(self, size: int, use: MemoryUsage, name: str) -> Block:
        """Return a new block of at least so many bytes."""

    def free(self, block: Block) -> None:
        """Free a block, unless it is free."""

    def finish_frees(self) -> None:
        """Finish interrupted frees."""


class _Referable:
    __slots__ = ("__weakref__",)


@dataclass(eq=False, slots=True)
class MemorySpan(_Referable):
    """Span: a suballocated byte range of a block.

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
    lease : Lease
        The pool's record of it, until it is coalesced into the free space.
    """

    region: "Region"
    offset: int
    size: int
    address: int
    points: tuple[TimelinePoint, ...]
    lease: "Lease" = field(init=False, repr=False)

    def done(self) -> bool:
        """Return whether no work uses it any more; does not wait."""
        points = self.points
        if points:
            # Often that is known, without a call for each.
            for queue, value in points:
                if value > queue.completed:
                    points = tuple([each for each in points if not each.done()])
                    break
            else:
                points = ()
            self.points = points
        return not points

    def known_done(self) -> bool:
        """Return whether it is known, without asking the device, that none does."""
        return all([point.value <= point.queue.completed for point in self.points])


@dataclass(eq=False, slots=True)
class Region:
    """Region: a block, its suballocator, and the pending work on its free ranges."""

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


DeferredFrees = collections.deque[tuple[MemorySpan, tuple[TimelinePoint, ...]]]
"""Spans whose buffers are gone, each with the work that may still use it."""


class Lease(weakref.ref[MemorySpan]):
    """Lease: weak reference to a span with its allocation record, which outlives it.

    Attributes
    ----------
    region : Region
        The block it lies in.
    address, size : int
        Of its bytes.
    request : (str, int) or None
        Name and size that its owner asked for; None while nobody owns it.
    """

    __slots__ = ("address", "region", "request", "size")

    region: "Region"
    address: int
    size: int
    request: tuple[str, int] | None


def is_within(
    operations: Container[CodeType], owner: object, frame: FrameType | None
) -> bool:
    """Return whether a frame, or one that it was called by, is an owner's operation."""
    while frame is not None:
        if frame.f_code in operations and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False


def round_up(size: int) -> int:
    """Return `size` rounded up to whole granules."""
    return (size + GRANULE - 1) // GRANULE * GRANULE


def with_numbers(
    error: OutOfDeviceMemory,
    size: int,
    counts: PoolStatistics,
    live: Iterable[tuple[int, str, int]],
) -> OutOfDeviceMemory:
    """Return the driver's error with what was asked, what a pool holds, and for whom.

    Parameters
    ----------
    error : OutOfDeviceMemory
    size : int
        Bytes.
    counts : PoolStatistics
    live : iterable of (int, str, int)
        Address, name and bytes of each allocation.
    """
    largest = sorted(live, key=lambda row: -row[2])[:3]
    holders = ", ".join(
        f"{name or 'unnamed'} {gibibytes(held)}" for _, name, held in largest
    )
    return OutOfDeviceMemory(
        f"{error}; asked {gibibytes(size)}; pool holds {gibibytes(counts.reserved)},"
        f" {gibibytes(counts.in_use)} in use; largest: {holders or 'none'}",
        error.result,
    )
