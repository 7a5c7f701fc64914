"""Uploads and reads: through mapped memory, or staged on the transfer queue."""

import threading

from .arena import Arena
from .buffer import Buffer
from .command import copy_command, cross_queue_waits
from .logical import LogicalDevice
from .memory import Memory, Use
from .timeline import Queue, TimelinePoint, latest, wait_all

_CHUNK_SIZE = 16 << 20
_CHUNKS = 4
# Bytes up to which reading uncached mapped memory beats a staged copy: on an NVIDIA
# H200, 256 bytes take 4 us, 1 KiB 30 us, and a staged copy 50 us.
_UNCACHED_READ = 256


class Transfer:
    """Moves bytes between the host and the buffers of one device.

    Three kinds of memory, three ways. *Mapped and cached* (software and integrated
    devices): the host copies, after waiting for the work that uses the buffer. *Mapped,
    not cached* (a discrete device's memory through its bus window): the host writes
    idle buffers and reads a few bytes; the rest is staged. *Not mapped*: all is staged.
    Staged copies go to the transfer queue, which waits for the work that they need.
    """

    def __init__(self, logical: LogicalDevice, memory: Memory, queue: Queue) -> None:
        self._logical = logical
        self._queue = queue
        self._uploads = Arena(memory, Use.UPLOAD, _CHUNK_SIZE, _CHUNKS)
        self._readbacks = Arena(memory, Use.READBACK, _CHUNK_SIZE, _CHUNKS)
        # One read at a time: its staging memory must not be filled again before the
        # bytes are out, and the device's lock is not held while it waits.
        self._reading = threading.Lock()

    def upload(self, data: memoryview, buffer: Buffer, offset: int) -> None:
        """Write bytes into a buffer; `data` may be changed afterwards.

        Waits for the work that uses the buffer if its memory is mapped and cached;
        otherwise only when staging memory has run out.
        """
        counters = self._logical.counters
        counters.uploads += 1
        counters.upload_bytes += len(data)
        block = buffer.span.region.block
        if block.mapped is None or (not block.cached and latest(buffer.points())):
            self._stage_upload(data, buffer, offset)
            return
        wait_all(buffer.points())
        start = buffer.span.offset + offset
        block.mapped[start : start + len(data)] = data
        buffer.last_write = None
        buffer.last_reads = ()

    def _stage_upload(self, data: memoryview, buffer: Buffer, offset: int) -> None:
        target = buffer.span.region.block.buffer
        for first in range(0, len(data), _CHUNK_SIZE):
            piece = data[first : first + _CHUNK_SIZE]
            with self._logical.lock:
                block, at = self._uploads.take(len(piece))
                assert block.mapped is not None
                block.mapped[at : at + len(piece)] = piece
                point = self._copy(
                    (block.buffer, at),
                    (target, buffer.span.offset + offset + first),
                    len(piece),
                    buffer.points(),
                )
                self._uploads.commit(point)
                buffer.mark_written(point)

    def read(self, buffer: Buffer, offset: int, size: int) -> bytearray:
        """Return bytes of a buffer; waits for its last write and nothing else."""
        counters = self._logical.counters
        counters.host_reads += 1
        counters.host_read_bytes += size
        block = buffer.span.region.block
        if block.mapped is None or (not block.cached and size > _UNCACHED_READ):
            return self._stage_read(buffer, offset, size)
        if buffer.last_write is not None:
            buffer.last_write.wait()
        start = buffer.span.offset + offset
        return bytearray(block.mapped[start : start + size])

    def _stage_read(self, buffer: Buffer, offset: int, size: int) -> bytearray:
        source = buffer.span.region.block.buffer
        result = bytearray(size)
        with self._reading:
            for first in range(0, size, _CHUNK_SIZE):
                count = min(_CHUNK_SIZE, size - first)
                with self._logical.lock:
                    block, at = self._readbacks.take(count)
                    point = self._copy(
                        (source, buffer.span.offset + offset + first),
                        (block.buffer, at),
                        count,
                        () if buffer.last_write is None else (buffer.last_write,),
                    )
                    buffer.mark_read(point)
                point.wait()
                assert block.mapped is not None
                result[first : first + count] = block.mapped[at : at + count]
                with self._logical.lock:
                    self._readbacks.commit(point)
        return result

    def _copy(
        self,
        source: tuple[int, int],
        destination: tuple[int, int],
        size: int,
        after: tuple[TimelinePoint, ...],
    ) -> TimelinePoint:
        """Submit one copy that starts after some points."""
        function = self._logical.functions.vkCmdCopyBuffer2
        commands = self._queue.begin()
        copy_command(function, source, destination, size)(commands)
        waits = cross_queue_waits(self._queue, after)
        return self._queue.submit(commands, waits, "copy")

    def close(self) -> None:
        """Free the staging memory; the device must be idle."""
        self._uploads.close()
        self._readbacks.close()
