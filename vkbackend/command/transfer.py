"""Transfers between host and device: through mapped memory, or the transfer queue."""

import collections
import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.queue import (
    Queue,
    TimelinePoint,
    latest,
    retry_if_overtaken,
    wait_all,
)
from vkbackend.driver.queues import Queues
from vkbackend.driver.target import Staging
from vkbackend.memory.buffer import Buffer
from vkbackend.memory.host_allocator import HostAllocator, HostBlock
from vkbackend.memory.memory import Block, Memory, MemoryUsage
from vkbackend.memory.staging_arena import Arena

from .copy import Copier, cross_queue_waits
from .memcpy_threads import MemcpyThreads, thread_count

# Bytes up to which reading uncached mapped memory beats a staged copy: on an NVIDIA
# H200, 256 bytes take 4 us, 1 KiB 30 us, and a staged copy 50 us.
_UNCACHED_READ = 256

_PINNED_UPLOAD = 1 << 20
"""Bytes from which pinned memory is not copied by the host: waiting takes longer."""

_SMALL_READ = 128 << 10
"""Bytes up to which fresh memory costs nothing: the C library keeps it at hand."""


@dataclass(eq=False, slots=True)
class _StagingChunk:
    """Staging memory of a read; `reader` is its token while the read runs."""

    block: Block
    point: TimelinePoint | None = None
    reader: weakref.ref[Any] | None = None

    def idle(self) -> bool:
        if self.reader is not None and self.reader() is not None:
            return False
        return self.point is None or self.point.done()


class _ReadToken:
    """Token of a read in flight: its chunks are free once it is collected."""


class Transfer:
    """Transfers between the host and the buffers of one device.

    The path depends on the memory. *Mapped and cached* (software and integrated
    devices): the host copies, after waiting for the work that uses the buffer. *Mapped,
    not cached* (a discrete device's memory through its BAR): the host writes idle
    buffers, up to a size where `staging` has one, and reads a few bytes; queues for
    copies do the rest, with semaphore waits for pending work. *Not mapped*: these
    queues copy all. Much that lies in pinned memory, they copy to an idle buffer
    straight from there.

    A large read goes straight into pinned memory, which the reader gets. Where there is
    none, and into a caller's memory, it is pipelined through staging chunks: the host
    copies one out while the device fills the next. Threads share what the host copies
    where it has cores for that.

    The points of buffers and of staging memory are set before a copy is submitted, so
    an interrupt at any moment leaves nothing in use that looks free.

    Attributes
    ----------
    staging : Staging
        Sizes and threads; `restage` changes them.
    """

    def __init__(
        self,
        logical: LogicalDevice,
        memory: Memory,
        queues: Queues,
        check_open: Callable[[str], None],
    ) -> None:
        self._logical = logical
        self._check_open = check_open
        self._memory = memory
        self._queues = queues
        self._chunks: list[_StagingChunk] = []
        self._results = HostAllocator(memory, imports=True)
        self._copier = Copier(logical.functions.vkCmdCopyBuffer2)
        self._set_staging(logical.info.target.staging)

    def _set_staging(self, staging: Staging) -> None:
        self.staging, chunks = staging, staging.upload_chunks
        self._uploads = Arena(
            self._memory, MemoryUsage.UPLOAD, staging.chunk_size, chunks
        )
        threads = thread_count(staging.threads, staging.idle_cores)
        self._threads = MemcpyThreads(self._logical, threads, staging.slice_size)

    def restage(self, staging: Staging) -> None:
        """Use other sizes and threads from now on; waits for the work in flight.

        No other thread may upload or read meanwhile.

        Parameters
        ----------
        staging : Staging
        """
        with self._logical.lock:
            self._check_open("restage")
            for queue in self._queues.all:
                queue.wait(queue.submitted)
            self._close_staging()
            self._set_staging(staging)

    def upload(self, data: memoryview, buffer: Buffer, offset: int) -> None:
        """Write bytes into a buffer; `data` may be changed afterwards.

        Waits for the work that uses the buffer if its memory is mapped and cached;
        otherwise only when staging memory has run out, and for its own copy from pinned
        memory.
        """
        counters = self._logical.counters
        counters.uploads += 1
        counters.upload_bytes += len(data)
        block = buffer.span.region.block
        if (
            len(data) >= _PINNED_UPLOAD
            and not (block.cached and block.mapped is not None)
            and not latest(buffer.points())
            and self._upload_pinned(data, buffer, offset)
        ):
            return
        most = self.staging.most_mapped
        large = most is not None and len(data) > most
        if block.mapped is None or (
            not block.cached and (large or latest(buffer.points()))
        ):
            self._stage_upload(data, buffer, offset)
            return
        wait_all(buffer.points())
        # Before the copy, which other threads may use the buffer beside.
        buffer.last_write = None
        buffer.last_reads = ()
        self._copy_from_host(block, buffer.span.offset + offset, data)

    @property
    def pins(self) -> bool:
        """Whether copies from pinned memory are quicker: the device has its own."""
        return self._logical.info.kind == "discrete" and self._results.imports

    def pinned(self, size: int) -> memoryview:
        """Return writable host memory, pinned if it can be, for as long as it is used.

        Parameters
        ----------
        size : int
            Bytes, at least one.
        """
        with self._logical.lock:
            self._check_open("pinned")
            return self._results.allocate(size)[1]

    def is_pinned(self, data: memoryview) -> bool:
        """Return whether the device's queues for copies reach some host memory."""
        with self._logical.lock:
            return self._results.holding(_address_of(data), len(data)) is not None

    def _upload_pinned(self, data: memoryview, buffer: Buffer, offset: int) -> bool:
        """Copy from pinned memory to an idle buffer, and wait; False if it is none."""
        with self._logical.lock:
            self._check_open("upload")
            found = self._results.holding(_address_of(data), len(data))
            if found is None:
                return False
            block, start = found
            assert block.imported is not None

            def mark(point: TimelinePoint) -> None:
                # An interrupt below may leave the memory to others.
                block.point = point
                buffer.mark_written(point)

            target = buffer.span.region.block.buffer, buffer.span.offset + offset
            source = block.imported.buffer, start
            self._submit(
                self._queues.transfer, source, target, len(data), buffer.points(), mark
            )
            point = block.point
        assert point is not None
        point.wait()
        return True

    def _stage_upload(self, data: memoryview, buffer: Buffer, offset: int) -> None:
        target = buffer.span.region.block.buffer
        start = buffer.span.offset + offset
        step = self.staging.chunk_size
        for first in range(0, len(data), step):
            chunk = data[first : first + step]
            with self._logical.lock:
                self._check_open("upload")
                block, at = self._uploads.take(len(chunk))
                locations = (block.buffer, at), (target, start + first)

                def mark(point: TimelinePoint) -> None:
                    self._uploads.commit(point)
                    buffer.mark_written(point)

                try:
                    self._copy_from_host(block, at, chunk)
                    queue = self._queues.transfer
                    self._submit(queue, *locations, len(chunk), buffer.points(), mark)
                except BaseException:
                    self._uploads.abandon()
                    raise

    def read(
        self, buffer: Buffer, offset: int, size: int, out: memoryview | None
    ) -> memoryview:
        """Return bytes of a buffer; waits for its last write and nothing else.

        Parameters
        ----------
        buffer : Buffer
        offset, size : int
            Bytes, at least one.
        out : memoryview or None
            Where to, if not to memory of the library's own.
        """
        counters = self._logical.counters
        counters.host_reads += 1
        counters.host_read_bytes += size
        block = buffer.span.region.block
        if block.mapped is None or (not block.cached and size > _UNCACHED_READ):
            return self._stage_read(buffer, offset, size, out)
        if buffer.last_write is not None:
            buffer.last_write.wait()
        start = buffer.span.offset + offset
        if out is None:
            if size <= _SMALL_READ:
                mapped = block.mapped
                if mapped is None:
                    self._raise_closed("read")
                return memoryview(bytearray(mapped[start : start + size]))
            with self._logical.lock:
                _, out = self._results.allocate(size, pinned=False)
        self._copy_to_host(block, start, size, out, 0)
        return out

    def _stage_read(
        self, buffer: Buffer, offset: int, size: int, out: memoryview | None
    ) -> memoryview:
        if out is None and size <= _SMALL_READ:
            out = memoryview(bytearray(size))
        if out is None:
            with self._logical.lock:
                self._check_open("read")
                block, out = self._results.allocate(size)
                if block.imported is not None:
                    self._submit_readback(buffer, offset, size, block, block.imported)
            if block.imported is not None:
                assert block.point is not None
                block.point.wait()
                return out
        self._read_chunks(buffer, offset, out)
        return out

    def _read_chunks(self, buffer: Buffer, offset: int, out: memoryview) -> None:
        """Copy through staging chunks, pipelined: the device runs ahead of the host."""
        read, size = _ReadToken(), len(out)
        in_flight: collections.deque[tuple[int, _StagingChunk]] = collections.deque()
        step = self.staging.chunk_size
        for first in range(0, size, step):
            if len(in_flight) == self.staging.read_chunks:
                self._copy_out(*in_flight.popleft(), out)
            with self._logical.lock:
                self._check_open("read")
                chunk = self._acquire_chunk(read)
                count = min(step, size - first)
                self._submit_readback(buffer, offset + first, count, chunk, chunk.block)
            in_flight.append((first, chunk))
        while in_flight:
            self._copy_out(*in_flight.popleft(), out)

    def _acquire_chunk(self, read: _ReadToken) -> _StagingChunk:
        """Return an idle staging chunk, reserved for as long as the read runs."""
        # A chunk whose free was interrupted.
        self._memory.finish_frees()
        usable = (each for each in self._chunks if not each.block.freed)
        chunk = next((each for each in usable if each.idle()), None)
        if chunk is None:
            name = "readback staging"
            size = self.staging.chunk_size
            block = self._memory.allocate(size, MemoryUsage.READBACK, name)
            try:
                chunk = _StagingChunk(block)
                self._chunks.append(chunk)
            except BaseException:
                self._memory.free(block)
                raise
        chunk.reader = weakref.ref(read)
        return chunk

    def _copy_out(self, first: int, chunk: _StagingChunk, out: memoryview) -> None:
        """Wait for a staging chunk and copy it into `out`."""
        assert chunk.point is not None
        chunk.point.wait()
        self._copy_to_host(
            chunk.block, 0, min(chunk.block.size, len(out) - first), out, first
        )
        chunk.reader = None

    def _copy_to_host(
        self, block: Block, start: int, size: int, out: memoryview, first: int
    ) -> None:
        """Copy mapped bytes into `out`; a large copy releases the interpreter lock."""
        stop, end = start + size, first + size
        if size <= _SMALL_READ:
            mapped = block.mapped
            if mapped is None:
                self._raise_closed("read")
            out[first:end] = mapped[start:stop]
            return
        target = ctypes.addressof(ctypes.c_char.from_buffer(out, first))
        self._copy_unlocked("read", block, start, size, target, to_host=True)

    def _copy_from_host(self, block: Block, start: int, data: memoryview) -> None:
        """Copy bytes into mapped memory; threads share a large copy."""
        size = len(data)
        if not self._threads.shares(size):
            # From here to the copy no other thread runs, which may close the device.
            mapped = block.mapped
            if mapped is None:
                self._raise_closed("upload")
            mapped[start : start + size] = data
            return
        self._copy_unlocked(
            "upload", block, start, size, _address_of(data), to_host=False
        )

    def _copy_unlocked(
        self,
        where: str,
        block: Block,
        start: int,
        size: int,
        address: int,
        *,
        to_host: bool,
    ) -> None:
        """Copy between mapped memory and an address without the interpreter lock."""
        logical, call = self._logical, threading.RLock()
        move: Callable[[int, int, int], object] = ctypes.memmove
        if self._threads.shares(size):
            move = self._threads.move
        with call:
            try:
                logical.unlocked_calls.add(call)
                mapped = block.mapped
                if mapped is None:
                    self._raise_closed(where)
                place = ctypes.addressof(ctypes.c_char.from_buffer(mapped, start))
                ends = (address, place) if to_host else (place, address)
                moved = not logical.closing and move(*ends, size)
            finally:
                logical.unlocked_calls.discard(call)
        if not moved:
            self._raise_closed(where)

    def _raise_closed(self, where: str) -> NoReturn:
        """Raise the error of a device that was closed concurrently."""
        self._check_open(where)
        raise AssertionError(f"{where}: mapped memory is gone, and the device is open")

    def _submit_readback(
        self,
        buffer: Buffer,
        offset: int,
        size: int,
        owner: _StagingChunk | HostBlock,
        target: Block,
    ) -> None:
        """Submit a copy to host memory and set its owner's point; the lock is held."""
        place = buffer.span.region.block.buffer, buffer.span.offset + offset
        after = () if buffer.last_write is None else (buffer.last_write,)

        def mark(point: TimelinePoint) -> None:
            owner.point = point
            buffer.mark_read(point)

        there, compute = (target.buffer, 0), self._queues.compute
        newest = TimelinePoint(compute, compute.submitted)
        # A small one that comes next there waits for no semaphore.
        is_next = size <= _SMALL_READ and buffer.last_write == newest
        queue = compute if is_next else self._queues.readback
        self._submit(queue, place, there, size, after, mark)

    def copy(
        self,
        source: tuple[Buffer, int],
        destination: tuple[Buffer, int],
        size: int,
        outward: bool = False,
        apart: Buffer | None = None,
        after: Sequence[TimelinePoint] | None = None,
    ) -> TimelinePoint:
        """Submit a copy between buffers; return when it will be finished.

        It runs beside kernels where the device has a queue for transfers. It follows
        all that uses the buffers, and what uses them later follows it. The caller has
        called `Device.settle`.

        Parameters
        ----------
        source, destination : (Buffer, int)
            Buffer of this device and offset in bytes; in one buffer the bytes must not
            overlap, and copies that are in flight neither.
        size : int
            Bytes, at least one.
        outward : bool, default False
            Whether it leaves the device's memory: such copies run beside those that
            enter it, where there is a queue for each.
        apart : Buffer, optional
            One of the two, of which the caller keeps what is in flight apart: work that
            was submitted before, on other bytes of it, is not waited for. The copy
            counts as one that reads it, and so keeps it.
        after : sequence of TimelinePoint, optional
            What it follows, rather than all that uses the buffers, by a caller who
            keeps what is in flight apart in both.

        Raises
        ------
        ArgumentError
            If the bytes do not lie inside the buffers.
        """
        given, taken = source[0], destination[0]
        for buffer, offset in (source, destination):
            buffer.check_range("copy", offset, size)
        points: list[TimelinePoint] = []

        def mark(point: TimelinePoint) -> None:
            given.mark_read(point)
            if taken is apart:
                taken.mark_read(point)
            else:
                taken.mark_written(point)
            points.append(point)

        with self._logical.lock:
            self._check_open("copy")
            if after is None:
                after = () if taken is apart else taken.points()
                if given is not apart and given.last_write is not None:
                    after = (given.last_write, *after)
            places = [
                (each.span.region.block.buffer, each.span.offset + offset)
                for each, offset in (source, destination)
            ]
            queue = self._queues.readback if outward else self._queues.transfer
            self._submit(queue, places[0], places[1], size, tuple(after), mark)
        return points[-1]

    @retry_if_overtaken
    def _submit(
        self,
        queue: Queue,
        source: tuple[int, int],
        destination: tuple[int, int],
        size: int,
        after: tuple[TimelinePoint, ...],
        mark: Callable[[TimelinePoint], None],
    ) -> None:
        """Submit one copy that waits for some points, and publish its own."""
        waits = cross_queue_waits(queue, after)
        commands = queue.begin()
        try:
            self._copier.record(commands, source, destination, size)
            queue.finish(commands)
            point = queue.reserve()
            mark(point)
            queue.send(commands, waits, "copy", point)
        except BaseException:
            queue.abandon(commands)
            raise

    def trim(self) -> None:
        """Free idle staging memory; does not wait."""
        for chunk in [each for each in self._chunks if each.idle()]:
            self._memory.free(chunk.block)
            self._chunks.remove(chunk)
        self._results.trim()

    def close(self) -> None:
        """Free the staging memory; the device must be idle."""
        self._close_staging()
        self._results.close()

    def _close_staging(self) -> None:
        self._threads.close()
        self._uploads.close()
        for chunk in self._chunks:
            self._memory.free(chunk.block)
        self._chunks.clear()


def _address_of(data: memoryview) -> int:
    """Return where bytes are; read-only ones have no address for ctypes."""
    import numpy as np  # the device layer starts without it

    found: int = np.frombuffer(data, np.uint8).ctypes.data
    return found
