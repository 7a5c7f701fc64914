"""Command batches: dispatches, copies and fills, recorded and submitted at once.

Commands collect as plain tuples. A barrier goes in front of a command that touches
bytes which commands since the last barrier wrote, or writes bytes which they read;
commands between two barriers form a barrier interval and may overlap on the device.
`submit` records all in one tight loop and submits once.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from vkbackend.driver.command_buffer import CommandBuffer, memory_barrier
from vkbackend.driver.queue import (
    Queue,
    TimelinePoint,
    accepted_point,
    retry_if_overtaken,
)
from vkbackend.errors import ArgumentError
from vkbackend.memory.buffer import Buffer, ByteRange, mark
from vkbackend.memory.staging_arena import Arena
from vkbackend.shader.pipeline import Pipeline
from vkbackend.vk import generated as vk

from .copy import copy_command, cross_queue_waits
from .hazards import HazardTracker, Range

if TYPE_CHECKING:
    from vkbackend.device import Device

_COMPUTE = vk.VK_SHADER_STAGE_COMPUTE_BIT
_KERNEL = vk.VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT
_COPY = vk.VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT
# Accesses are named one by one: with the catch-all MEMORY_READ and MEMORY_WRITE a
# dependent dispatch takes 4.0 us instead of 1.6 us on an NVIDIA H200.
_KERNEL_WRITES = vk.VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT
_KERNEL_ACCESSES = vk.VK_ACCESS_2_SHADER_STORAGE_READ_BIT | _KERNEL_WRITES
_COPY_WRITES = vk.VK_ACCESS_2_TRANSFER_WRITE_BIT
_COPY_ACCESSES = vk.VK_ACCESS_2_TRANSFER_READ_BIT | _COPY_WRITES
_KERNEL_BARRIER = ctypes.byref(
    memory_barrier((_KERNEL, _KERNEL_WRITES), (_KERNEL, _KERNEL_ACCESSES))
)
_FULL_BARRIER = ctypes.byref(
    memory_barrier(
        (_KERNEL | _COPY, _KERNEL_WRITES | _COPY_WRITES),
        (_KERNEL | _COPY, _KERNEL_ACCESSES | _COPY_ACCESSES),
    )
)
ADDRESS_SIZE = 8
"""Bytes of a device address."""

ARGUMENT_ALIGNMENT = 16
"""Bytes to which the arguments of dispatches are aligned in memory."""

Dispatch = tuple[Pipeline, bytes, int, int, int]
Command = Dispatch | Callable[[int], object] | None
"""A dispatch, a function that records something else, or None for a barrier."""


class Recorded(Protocol):
    """A command buffer for any number of submissions."""

    commands: CommandBuffer


class Batch:
    """Commands for the compute queue; made by `Device.batch`, used by one thread.

    Buffers are kept alive until `submit`. What the host uploads before `submit` is seen
    by every command of the batch.
    """

    def __init__(self, device: Device, queue: Queue, layout: int, arena: Arena) -> None:
        self._device = device
        self._logical = device.logical
        self._queue = queue
        self._layout = layout
        self._arena = arena
        self._max_groups = device.info.max_workgroup_count
        self._hazards = HazardTracker()
        self._reserved_point: TimelinePoint | None = None
        self._reset()

    def _reset(self) -> None:
        self._commands: list[Command] = []
        self._recorded: Recorded | None = None
        self._recorded_counts = 0, 0
        self._read: dict[Buffer, None] = {}
        self._written: dict[Buffer, None] = {}
        self._count = 0
        self._barriers = 0
        self._barrier_due = False
        self._hazards.clear()

    def __len__(self) -> int:
        """Return the number of commands, barriers not counted."""
        return len(self._commands) - self._barriers

    def dispatch(
        self,
        pipeline: Pipeline,
        groups: tuple[int, int, int],
        arguments: bytes | Mapping[str, object],
        reads: Sequence[Buffer | ByteRange] = (),
        writes: Sequence[Buffer | ByteRange] = (),
    ) -> None:
        """Add a dispatch.

        Parameters
        ----------
        pipeline : Pipeline
            The kernel.
        groups : tuple of int
            Workgroups in x, y and z; with a 0 nothing runs.
        arguments : bytes or mapping
            What `pipeline.packer` returns, or values by name.
        reads, writes : sequence of Buffer or (Buffer, offset, size)
            Everything the kernel reads and writes, in bytes. What is not listed is not
            protected.

        Raises
        ------
        ArgumentError
            If something does not fit; the batch is as it was.
        """
        try:
            x, y, z = map(operator.index, groups)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"{pipeline.name}: {groups!r} is no grid ({error}); give workgroups in"
                " x, y and z as three ints"
            ) from None
        self.check_grid(pipeline, (x, y, z))
        if type(arguments) is not bytes:
            if not isinstance(arguments, Mapping):
                raise ArgumentError(
                    f"{pipeline.name}: arguments must be bytes or a mapping of names"
                    f" to values, not {type(arguments).__name__}"
                )
            arguments = pipeline.packer(tuple(arguments))(*arguments.values())
        if not pipeline.takes(len(arguments)):
            raise ArgumentError(
                f"{pipeline.name}: the argument bytes have the wrong size:"
                f" {len(arguments)}; the kernel takes {pipeline.argument_size}"
            )
        read = self._ranges(pipeline.name, reads)
        written = self._ranges(pipeline.name, writes)
        if x and y and z:
            self._add((pipeline, arguments, x, y, z), read, written)
            self._track(reads, writes)
            self._count += 1

    def check_grid(self, pipeline: Pipeline, groups: tuple[int, int, int]) -> None:
        """Raise ArgumentError if the device cannot run so many workgroups at once."""
        x, y, z = groups
        most_x, most_y, most_z = self._max_groups
        if not (0 <= x <= most_x and 0 <= y <= most_y and 0 <= z <= most_z):
            raise ArgumentError(
                f"{pipeline.name}: the grid does not fit: {groups} workgroups;"
                f" {self._device.info.name} allows {self._max_groups}"
            )

    def extend(
        self,
        commands: Sequence[Dispatch | None],
        reads: Iterable[Buffer],
        writes: Iterable[Buffer],
    ) -> None:
        """Add dispatches whose barriers the caller has placed; nothing is checked.

        For graphs that are replayed: their hazards are known beforehand.

        Parameters
        ----------
        commands : sequence of (Pipeline, bytes, int, int, int) or None
            Kernel, arguments and workgroups in x, y and z; None is a barrier.
        reads, writes : iterable of Buffer
            Everything that any of the kernels reads and writes.
        """
        if self._commands:
            self._barrier()
        barriers = commands.count(None)
        self._commands += commands
        self._count += len(commands) - barriers
        self._barriers += barriers
        self._read.update(dict.fromkeys(reads))
        self._written.update(dict.fromkeys(writes))
        # The hazards of these commands are not tracked.
        self._barrier_due = True

    def begin_recorded(
        self,
        recorded: Recorded,
        dispatches: int,
        barriers: int,
        reads: Iterable[Buffer],
        writes: Iterable[Buffer],
    ) -> None:
        """Begin a batch, which is empty, with commands that are recorded already.

        They are submitted together with what is added later, which runs after them.

        Parameters
        ----------
        recorded : Recorded
            The command buffer, which is sealed; it is kept alive until `submit`.
        dispatches, barriers : int
            What it has of both.
        reads, writes : iterable of Buffer
            Everything that any of the kernels reads and writes.
        """
        self._recorded = recorded
        self._recorded_counts = dispatches, barriers
        self._read.update(dict.fromkeys(reads))
        self._written.update(dict.fromkeys(writes))

    def copy(
        self,
        source: Buffer,
        destination: Buffer,
        source_offset: int = 0,
        destination_offset: int = 0,
        size: int | None = None,
    ) -> None:
        """Add a copy of bytes; source and destination must not overlap.

        Parameters
        ----------
        source, destination : Buffer
            Where from and where to.
        source_offset, destination_offset : int, default 0
            Bytes.
        size : int, optional
            Bytes; None copies to the end of the source.
        """
        if size is None:
            size = source.size - source_offset
        (read,) = self._ranges("copy", [(source, source_offset, size)])
        (written,) = self._ranges("copy", [(destination, destination_offset, size)])
        if read[0] < written[1] and written[0] < read[1]:
            raise ArgumentError(
                f"copy: source and destination overlap: {size} bytes at offsets"
                f" {source_offset} and {destination_offset} of {source!r}; copy through"
                f" another buffer"
            )
        if size:
            record = copy_command(
                self._logical.functions.vkCmdCopyBuffer2,
                (source.span.region.block.buffer, source.span.offset + source_offset),
                (
                    destination.span.region.block.buffer,
                    destination.span.offset + destination_offset,
                ),
                size,
            )
            self._add(record, [read], [written])
            self._track([source], [destination])

    def fill(self, buffer: Buffer, value: int = 0) -> None:
        """Add a fill of a whole buffer with one 32-bit word.

        Parameters
        ----------
        buffer : Buffer
            What to fill. A size that is no multiple of four is rounded up, into bytes
            that belong to the buffer's own allocation.
        value : int, default 0
            The word, from 0 to 2**32 - 1.
        """
        value = operator.index(value)
        if not 0 <= value < 1 << 32:
            raise ArgumentError(
                f"fill: the value does not fit: {value}; it must be in [0, 2**32)"
            )
        (written,) = self._ranges("fill", [buffer])
        if buffer.size:
            block, offset = buffer.span.region.block, buffer.span.offset
            size = (buffer.size + 3) // 4 * 4
            fill = self._logical.functions.vkCmdFillBuffer
            self._add(
                lambda commands: fill(commands, block.buffer, offset, size, value),
                [],
                [written],
            )
            self._track([], [buffer])

    def _ranges(self, where: str, entries: Sequence[Buffer | ByteRange]) -> list[Range]:
        """Return the address ranges of buffers or parts of them, checked."""
        device = self._device
        ranges = []
        for entry in entries:
            if type(entry) is Buffer:
                buffer, bounds = entry, entry.address_range
            else:
                buffer, offset, size = entry  # type: ignore[misc]
                buffer.check_range(where, offset, size)
                start = buffer.address + offset
                bounds = (start, start + size)
            if buffer.device is not device:
                raise ArgumentError(
                    f"{where}: {buffer!r} is on another device:"
                    f" {buffer.device.name}; the batch is on {device.name}"
                )
            ranges.append(bounds)
        return ranges

    def _track(
        self,
        reads: Sequence[Buffer | ByteRange],
        writes: Sequence[Buffer | ByteRange],
    ) -> None:
        """Keep the buffers alive until their timeline points are set."""
        for entries, touched in ((reads, self._read), (writes, self._written)):
            for entry in entries:
                touched[entry if type(entry) is Buffer else entry[0]] = None  # type: ignore[index]

    def _add(self, command: Command, reads: list[Range], writes: list[Range]) -> None:
        """Append a command, after a barrier if it needs one."""
        hazards = self._hazards
        if self._barrier_due or hazards.conflicts(reads, writes):
            self._barrier()
        hazards.record(reads, writes)
        self._commands.append(command)

    def _barrier(self) -> None:
        self._hazards.clear()
        self._commands.append(None)
        self._barriers += 1
        self._barrier_due = False

    def touched(self) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
        """Return the buffers that the commands read, and those that they write."""
        return tuple(self._read), tuple(self._written)

    def pipelines(self) -> frozenset[Pipeline]:
        """Return the kernels that the commands dispatch."""
        return frozenset(
            command[0] for command in self._commands if type(command) is tuple
        )

    def argument_blocks(self) -> list[bytes | None]:
        """Return each dispatch's arguments; None where they are push constants."""
        return [
            command[1] if command[0].indirect else None
            for command in self._commands
            if type(command) is tuple
        ]

    @property
    def counts(self) -> tuple[int, int]:
        """Dispatches and barriers so far."""
        return self._count, self._barriers

    @retry_if_overtaken
    def submit(self) -> TimelinePoint:
        """Record and submit everything; does not wait for the device.

        The batch is empty afterwards and can be used again. After an exception, also
        Ctrl-C, `point` tells whether the device does the work.

        Returns
        -------
        TimelinePoint
            When it will be finished; for an empty batch, the end of earlier work.
        """
        queue = self._queue
        self._reserved_point = None
        with self._logical.lock:
            self._device.check_open("Batch.submit")
            self._device.settle()
            recorded = self._recorded
            if not self._commands and recorded is None:
                self._reserved_point = TimelinePoint(queue, queue.submitted)
                return self._reserved_point
            commands = queue.begin()
            try:
                profile = self._device.open_profile
                chosen, timestamped = (
                    profile.instrument(self._commands) if profile else (None, None)
                )
                label = self.encode(commands, self._store, chosen)
                waits = self._waits()
                queue.finish(commands)
                point = self._reserved_point = queue.reserve()
                if timestamped is not None:
                    timestamped.point = point
                self._arena.commit(point)
                mark(self._read, self._written, point)
                before = None if recorded is None else recorded.commands
                queue.send(commands, waits, label, point, before)
            except BaseException:
                queue.abandon(commands)
                self._arena.abandon()
                raise
            dispatches, barriers = self._recorded_counts
            self._logical.counters.dispatches += self._count + dispatches
            self._logical.counters.barriers += self._barriers + barriers
        self._reset()
        return point

    @property
    def point(self) -> TimelinePoint | None:
        """Timeline point of the last `submit`; None if it was not accepted.

        After an exception from `submit` it finds out which, and may wait for the device
        to do so. What the batch reads and writes has the point either way.
        """
        return accepted_point(self._reserved_point)

    def encode(
        self,
        commands: int,
        store: Callable[[bytes], bytes],
        chosen: Sequence[Command] | None = None,
    ) -> str:
        """Record the commands into a command buffer; return the last kernel's name.

        Parameters
        ----------
        commands : int
            A command buffer that is recording.
        store : callable
            Puts arguments into memory and returns their address as push bytes.
        chosen : sequence of Command, optional
            What to record in place of the batch's own commands.
        """
        functions = self._logical.functions
        bind, push = functions.vkCmdBindPipeline, functions.vkCmdPushConstants
        dispatch, barrier = functions.vkCmdDispatch, functions.vkCmdPipelineBarrier2
        layout = self._layout
        copies = len(self) > self._count
        dependency = _FULL_BARRIER if copies else _KERNEL_BARRIER
        bound: Pipeline | None = None
        for command in self._commands if chosen is None else chosen:
            if command is None:
                barrier(commands, dependency)
            elif type(command) is tuple:
                pipeline, packed, x, y, z = command
                if pipeline is not bound:
                    bind(commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle)
                    bound = pipeline
                if pipeline.indirect:
                    packed = store(packed)
                if packed:
                    push(commands, layout, _COMPUTE, 0, len(packed), packed)
                dispatch(commands, x, y, z)
            else:
                command(commands)  # type: ignore[operator]
        return bound.name if bound else "copy"

    def _store(self, packed: bytes) -> bytes:
        """Put arguments into memory; return their address as push bytes."""
        block, offset = self._arena.take(len(packed))
        assert block.mapped is not None
        block.mapped[offset : offset + len(packed)] = packed
        return (block.address + offset).to_bytes(ADDRESS_SIZE, "little")

    def _waits(self) -> dict[Queue, int]:
        """Return the semaphore waits for other queues, by queue."""
        for other in self._device.queues.beside_compute:
            if not other.reached(other.submitted):
                break
        else:
            return {}
        points = [b.last_write for b in self._read if b.last_write is not None]
        for buffer in self._written:
            points += buffer.points()
        return cross_queue_waits(self._queue, points)
