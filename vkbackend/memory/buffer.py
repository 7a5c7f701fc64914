"""Buffer: device memory with its address and the timeline points of pending work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vkbackend.driver.queue import TimelinePoint, latest
from vkbackend.errors import ArgumentError

from .span import DeferredFrees, MemorySpan

if TYPE_CHECKING:
    from vkbackend.device import Device

ByteRange = tuple["Buffer", int, int]
"""A buffer, an offset and a size, both in bytes."""


class Buffer:
    """Buffer of device memory, freed when the last reference to it is gone.

    Made by `Device.allocate` and `Device.import_pages`. Freeing never waits: the memory
    is reused only in ways that respect the work still using it.

    Attributes
    ----------
    device : Device
        Where it lies.
    address : int
        Device address of its first byte. A buffer also converts to it with
        `operator.index`, so it can be packed as a kernel argument.
    size : int
        Bytes.
    name : str
        For memory dumps and messages.
    last_write : TimelinePoint or None
        The last submission that writes it.
    last_reads : tuple of TimelinePoint
        Submissions that may still read it, at most one for each queue; for a new buffer
        also those that still use its memory from before.
    """

    __slots__ = (
        "__weakref__",
        "_deferred_frees",
        "address",
        "device",
        "last_reads",
        "last_write",
        "name",
        "size",
        "span",
    )

    def __init__(
        self,
        device: Device,
        span: MemorySpan,
        size: int,
        name: str,
        deferred_frees: DeferredFrees,
    ) -> None:
        # Attributes that freeing needs come first: the rest may be interrupted.
        self.last_write: TimelinePoint | None = None
        self.last_reads = span.points
        self.span = span
        self._deferred_frees = deferred_frees
        self.device = device
        self.address = span.address
        self.size = size
        self.name = name

    def __index__(self) -> int:
        return self.address

    @property
    def address_range(self) -> tuple[int, int]:
        """Device addresses of its first byte, and of that after its last."""
        return self.address, self.address + self.size

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<Buffer{name} {self.size} bytes at {self.address:#x}>"

    def __del__(self) -> None:
        try:
            deferred_frees = self._deferred_frees
        except AttributeError:  # interrupted before the span was its own
            return
        deferred_frees.append((self.span, self.points()))

    def points(self) -> tuple[TimelinePoint, ...]:
        """Return the submissions that may still use it."""
        if self.last_write is None:
            return self.last_reads
        return (self.last_write, *self.last_reads)

    def mark_written(self, point: TimelinePoint) -> None:
        """Record a submission that writes it; `point` is after all that used it."""
        self.last_write = point
        self.last_reads = ()

    def mark_read(self, point: TimelinePoint) -> None:
        """Record a submission that reads it."""
        reads = self.last_reads
        if not reads or (len(reads) == 1 and reads[0].queue is point.queue):
            self.last_reads = (point,)
        else:
            self.last_reads = latest((*reads, point))

    def check_range(self, where: str, offset: int, size: int) -> None:
        """Raise ArgumentError unless the bytes lie inside the buffer.

        Parameters
        ----------
        where : str
            The caller, for the message.
        offset, size : int
            Bytes.
        """
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ArgumentError(
                f"{where}: the byte range leaves the buffer: offset {offset}, size"
                f" {size}; {self!r} holds {self.size} bytes"
            )


def mark(
    read: Iterable[Buffer], written: Iterable[Buffer], point: TimelinePoint
) -> None:
    """Record a submission on all buffers that it reads and writes.

    `mark_read` and `mark_written` inlined, because there may be hundreds of buffers.
    """
    queue, only = point.queue, (point,)
    for buffer in read:
        reads = buffer.last_reads
        if not reads or (len(reads) == 1 and reads[0].queue is queue):
            buffer.last_reads = only
        else:
            buffer.mark_read(point)
    for buffer in written:
        buffer.last_write = point
        buffer.last_reads = ()
