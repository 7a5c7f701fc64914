"""Dispatch sequences: dispatches whose command buffer is submitted again.

Kernels, grids and barriers of a sequence are fixed, so its commands depend on the
packed arguments alone. The pool tends to give the same memory to the same work, and the
same arguments come again: the second time they are recorded into a command buffer that
is submitted unchanged from then on.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vkbackend.driver.command_buffer import CommandBuffer
from vkbackend.driver.queue import (
    MAX_IN_FLIGHT,
    Queue,
    TimelinePoint,
    accepted_point,
    retry_if_overtaken,
)
from vkbackend.memory.buffer import Buffer, mark
from vkbackend.shader.pipeline import Pipeline

from .batch import ADDRESS_SIZE, ARGUMENT_ALIGNMENT, Batch, Dispatch
from .copy import cross_queue_waits

if TYPE_CHECKING:
    from vkbackend.device import Device

MAX_COMMANDS = 1 << 14
"""Commands of the longest sequence that is recorded; the driver's memory for it grows
with them. A step of fine-tuning of 28 layers has sequences of some 3,500."""

MAX_RECORDED = 2
"""Command buffers of a sequence, for as many sets of arguments: results that replace
one another lie in two places by turns."""

_NO_WAITS: dict[Queue, int] = {}

SequenceCommand = tuple[Pipeline, slice, int, int, int]
"""Kernel, place of its arguments in the packed ones, workgroups in x, y and z."""


class RecordedSequence:
    """A command buffer with the commands of a sequence for some arguments.

    Attributes
    ----------
    commands : CommandBuffer
    label : str
        Name of the last kernel.
    memory : tuple of Buffer
        Arguments of the dispatches that take them from memory, in one buffer.
    """

    __slots__ = ("__weakref__", "commands", "label", "memory")

    commands: CommandBuffer
    label: str
    memory: tuple[Buffer, ...]


class DispatchSequence:
    """Sequence of dispatches with barriers, for repeated submission.

    The caller keeps what the arguments refer to alive, and holds a lock of its own.

    Parameters
    ----------
    device : Device
        Where it runs.
    commands : sequence of (Pipeline, slice, int, int, int) or None
        Kernel, place of its arguments in the packed ones, and workgroups in x, y and z;
        None is a barrier.
    """

    def __init__(
        self, device: Device, commands: Sequence[SequenceCommand | None]
    ) -> None:
        self.device = device
        self.barriers = commands.count(None)
        self.dispatches = len(commands) - self.barriers
        self._commands = commands
        self._records = 0 < len(commands) <= MAX_COMMANDS
        self._recorded: dict[bytes, RecordedSequence] = {}
        # Arguments of the last submissions that were not recorded.
        self._seen: collections.deque[bytes] = collections.deque(maxlen=MAX_RECORDED)

    def commands(self, arguments: bytes) -> list[Dispatch | None]:
        """Return the dispatches and barriers, for `Batch.extend`."""
        return [
            row and (row[0], arguments[row[1]], row[2], row[3], row[4])
            for row in self._commands
        ]

    def submission(
        self, arguments: bytes, reads: Sequence[Buffer], writes: Sequence[Buffer]
    ) -> Batch | SequenceSubmission:
        """Return what submits the sequence.

        Parameters
        ----------
        arguments : bytes
            Packed arguments of all dispatches.
        reads, writes : sequence of Buffer
            Everything that any of the kernels reads and writes.
        """
        recorded = self._recorded_for(arguments)
        if recorded is not None:
            return SequenceSubmission(self, recorded, reads, writes)
        batch = self.device.batch()
        batch.extend(self.commands(arguments), reads, writes)
        return batch

    def begin(
        self,
        batch: Batch,
        arguments: bytes,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
    ) -> None:
        """Add the sequence to a batch that is empty; see `submission`."""
        recorded = self._recorded_for(arguments)
        if recorded is None:
            batch.extend(self.commands(arguments), reads, writes)
        else:
            reads = [*reads, *recorded.memory]
            batch.begin_recorded(
                recorded, self.dispatches, self.barriers, reads, writes
            )

    def _recorded_for(self, arguments: bytes) -> RecordedSequence | None:
        """Return the recorded commands; make them where the arguments come again."""
        if not self._records or self.device.open_profile is not None:
            return None
        recorded = self._recorded.get(arguments)
        if recorded is None:
            if arguments in self._seen:
                with contextlib.suppress(MemoryError):  # It runs without, too.
                    recorded = self._record(arguments)
            else:
                self._seen.append(arguments)
        return recorded

    def _record(self, arguments: bytes) -> RecordedSequence:
        """Record the sequence for some arguments, in place of the oldest ones."""
        device, recorded = self.device, RecordedSequence()
        queue = device.compute_queue
        batch = device.batch()
        batch.extend(self.commands(arguments), (), ())
        places: Iterator[bytes] = iter(())
        recorded.memory = ()
        blocks = [block for block in batch.argument_blocks() if block is not None]
        if blocks:
            content, offsets = bytearray(), []
            for block in blocks:
                offsets.append(len(content))
                content += block + bytes(-len(block) % ARGUMENT_ALIGNMENT)
            buffer = device.allocate(len(content), name="arguments")
            device.upload(bytes(content), buffer)
            recorded.memory = (buffer,)
            starts = [buffer.address + offset for offset in offsets]
            places = iter([each.to_bytes(ADDRESS_SIZE, "little") for each in starts])
        with device.logical.lock:
            device.check_open("submit")
            if len(self._recorded) >= MAX_RECORDED:
                del self._recorded[next(iter(self._recorded))]
            commands = recorded.commands = queue.allocate_for(recorded)
            recorded.label = batch.encode(commands.handle, lambda _: next(places))
            queue.commands.seal(commands)
        self._recorded[arguments] = recorded
        return recorded


class SequenceSubmission:
    """Submission of a recorded sequence; like a batch with nothing else in it."""

    __slots__ = ("_read", "_recorded", "_reserved_point", "_sequence", "_written")

    def __init__(
        self,
        sequence: DispatchSequence,
        recorded: RecordedSequence,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
    ) -> None:
        self._sequence = sequence
        # None once it is submitted.
        self._recorded: RecordedSequence | None = recorded
        self._read = [*reads, *recorded.memory] if recorded.memory else reads
        self._written = writes
        self._reserved_point: TimelinePoint | None = None

    @retry_if_overtaken
    def submit(self) -> TimelinePoint:
        """Submit the commands, once; does not wait for the device.

        After an exception, also Ctrl-C, `point` tells whether the device does the work.

        Returns
        -------
        TimelinePoint
            When it will be finished; of another call, the end of earlier work.
        """
        sequence, recorded = self._sequence, self._recorded
        device = sequence.device
        queue = device.compute_queue
        if recorded is None:
            point = self._reserved_point = TimelinePoint(queue, queue.submitted)
            return point
        self._reserved_point = None
        with device.logical.lock:
            device.check_open("submit")
            device.settle()
            if queue.submitted - queue.completed >= MAX_IN_FLIGHT:
                queue.throttle()
            waits = _NO_WAITS
            for other in device.queues.beside_compute:
                if other.completed < other.submitted:
                    waits = self._waits(queue)
                    break
            point = self._reserved_point = queue.reserve()
            mark(self._read, self._written, point)
            queue.resubmit(recorded.commands, None, waits, recorded.label, point)
            counters = device.counters
            counters.dispatches += sequence.dispatches
            counters.barriers += sequence.barriers
        self._recorded = None
        return point

    @property
    def point(self) -> TimelinePoint | None:
        """Timeline point of `submit`; None if it was not accepted.

        After an exception from `submit` it finds out which, and may wait for the device
        to do so. What it reads and writes has the point either way.
        """
        return accepted_point(self._reserved_point)

    def _waits(self, queue: Queue) -> dict[Queue, int]:
        """Return the semaphore waits for other queues, by queue."""
        points = [b.last_write for b in self._read if b.last_write is not None]
        for buffer in self._written:
            points += buffer.points()
        return cross_queue_waits(queue, points)
