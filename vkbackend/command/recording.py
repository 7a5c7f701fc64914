"""Recordings: a batch's commands, recorded once and replayed unchanged.

What may change between replays lies in memory: the argument blocks that kernels read
through an address, and the content of buffers. Both are copied in by a replay prologue
(`replay_prologue`), the first command buffer of the same submission, so they are in
order with everything else on the queue, and a host that runs ahead waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vkbackend.driver.queue import (
    Queue,
    TimelinePoint,
    accepted_point,
    retry_if_overtaken,
)
from vkbackend.errors import ArgumentError
from vkbackend.memory.buffer import Buffer, mark
from vkbackend.memory.staging_arena import Arena

from .batch import ADDRESS_SIZE, ARGUMENT_ALIGNMENT, Batch
from .replay_prologue import Copy, ReplayPrologues

if TYPE_CHECKING:
    from vkbackend.device import Device

_NO_WAITS: dict[Queue, int] = {}


class Recording:
    """Recorded command buffer for repeated submission; made by `Device.record`.

    It keeps the buffers and kernels that it uses alive.

    Attributes
    ----------
    content : bytearray
        Arguments of the dispatches that take them from memory. Change them, and submit
        with `changed`.
    places : tuple of (int or None)
        Offset of each dispatch's arguments in `content`; None where they are fixed.
    dispatches, barriers : int
        Number of commands recorded.
    """

    def __init__(
        self,
        device: Device,
        batch: Batch,
        arena: Arena,
        unpublished: dict[Recording, None],
    ) -> None:
        if not len(batch):
            raise ArgumentError("record: the batch is empty; add commands first")
        self._device = device
        self._queue = device.compute_queue
        self._unpublished = unpublished
        self._read, self._written = batch.touched()
        self._pipelines = batch.pipelines()
        self.dispatches, self.barriers = batch.counts
        self.content = bytearray()
        self._point: TimelinePoint | None = None
        self._reserved_point: TimelinePoint | None = None
        self._arguments: Buffer | None = None
        blocks = batch.argument_blocks()
        self.places = self._allocate_arguments(blocks)
        self._prologues = ReplayPrologues(
            self._queue,
            device.logical.functions.vkCmdCopyBuffer2,
            arena,
            self._arguments,
        )
        self._record(batch)

    def _allocate_arguments(
        self, blocks: Sequence[bytes | None]
    ) -> tuple[int | None, ...]:
        places: list[int | None] = []
        for block in blocks:
            places.append(None if block is None else len(self.content))
            if block is not None:
                self.content += block + bytes(-len(block) % ARGUMENT_ALIGNMENT)
        if self.content:
            buffer = self._device.allocate(len(self.content), name="arguments")
            self._device.upload(bytes(self.content), buffer)
            self._arguments = buffer
            self._read = (*self._read, buffer)
        return tuple(places)

    def _record(self, batch: Batch) -> None:
        base = self._arguments.address if self._arguments is not None else 0
        addresses = iter([base + place for place in self.places if place is not None])

        def store(_: bytes) -> bytes:
            return next(addresses).to_bytes(ADDRESS_SIZE, "little")

        queue = self._queue
        with self._device.logical.lock:
            self._device.check_open("record")
            self._commands = queue.allocate_for(self)
            self._label = batch.encode(self._commands.handle, store)
            queue.commands.seal(self._commands)

    @retry_if_overtaken
    def submit(
        self,
        copies: Sequence[Copy] = (),
        changed: bool = False,
        after: Mapping[Queue, int] | None = None,
    ) -> TimelinePoint:
        """Submit the commands once more; does not wait for the device.

        After an exception, also Ctrl-C, `point` tells whether the device does the work.

        Parameters
        ----------
        copies : sequence of (Buffer, int, Buffer, int, int)
            Copied first, in this order, with nothing between them: source, offset,
            destination, offset, size. They must not touch one another.
        changed : bool, default False
            Whether `content` has changed.
        after : mapping of Queue to int, optional
            Submissions of the other queues that are waited for, by their last ones; by
            default all.

        Returns
        -------
        TimelinePoint
            When it will be finished.
        """
        device, queue = self._device, self._queue
        self._reserved_point = None
        with device.logical.lock:
            device.check_open("Recording.submit")
            queue.throttle()
            prologue = None
            changed = changed and self._arguments is not None
            if copies or changed:
                prologue = self._prologues.take(copies, changed)
                if changed:
                    assert prologue.content is not None
                    prologue.content[:] = self.content
            waits = self._waits(after)
            point = self._reserved_point = self._point = queue.reserve()
            self._unpublished[self] = None
            for source, _, destination, _, _ in copies:
                source.mark_read(point)
                destination.mark_written(point)
            if prologue is None:
                queue.resubmit(self._commands, None, waits, self._label, point)
            else:
                first = self._prologues.mark_submitted(prologue, point)
                queue.resubmit(first, self._commands, waits, self._label, point)
            counters = device.counters
            counters.dispatches += self.dispatches
            counters.barriers += self.barriers
        return point

    @property
    def point(self) -> TimelinePoint | None:
        """Timeline point of the last `submit`; None if it was not accepted.

        After an exception from `submit` it finds out which, and may wait for the device
        to do so.
        """
        return accepted_point(self._reserved_point)

    @property
    def value(self) -> int:
        """Number of the last submission; 0 before the first."""
        return 0 if self._point is None else self._point.value

    def _waits(self, after: Mapping[Queue, int] | None) -> dict[Queue, int]:
        """Return semaphore waits for work of the other queues, on any buffer."""
        waits = _NO_WAITS
        for other in self._device.queues.beside_compute:
            last = other.submitted if after is None else after.get(other, 0)
            if other.completed < last and not other.reached(last):
                waits = {**waits, other: last}
        return waits

    def settle(self) -> None:
        """Publish the last timeline point to the buffers; see `Device.settle`."""
        point = self._point
        if point is not None:
            mark(self._read, self._written, point)
