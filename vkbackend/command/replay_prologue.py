"""What goes before a recording: copies of inputs and of arguments that change.

A prelude is a short command buffer, kept with what it copies: where the same is copied
again, and it has finished, nothing is recorded.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from vkbackend.driver.command_buffer import CommandBuffer
from vkbackend.driver.queue import Queue, TimelinePoint
from vkbackend.errors import ArgumentError
from vkbackend.memory.buffer import Buffer
from vkbackend.memory.staging_arena import Arena, Chunk

from .copy import Copier

Copy = tuple[Buffer, int, Buffer, int, int]
"""Source and offset, destination and offset, size, all in bytes."""

KEPT = 8
"""Preludes of a recording before the one not used for longest is recorded anew."""


class Prelude:
    """Recorded copies that go before a recording, and their own place for arguments.

    Attributes
    ----------
    commands : CommandBuffer or None
        None before the first recording.
    key : tuple
        What is copied; buffers by `id`. Empty while it is being recorded.
    buffers : list of weak reference
        Those buffers: while they live, the identities in `key` are theirs.
    chunk : Chunk or None
        Where its mapped memory comes from.
    content : memoryview or None
        Mapped memory that is copied to the arguments.
    place : tuple of int
        Where that is: a `VkBuffer` and an offset.
    """

    __slots__ = (
        "__weakref__",
        "buffers",
        "chunk",
        "commands",
        "content",
        "key",
        "place",
    )

    def __init__(self) -> None:
        self.commands: CommandBuffer | None = None
        self.key: tuple[object, ...] = ()
        self.buffers: list[weakref.ref[Buffer]] = []
        self.chunk: Chunk | None = None
        self.content: memoryview | None = None
        self.place = (0, 0)

    @property
    def value(self) -> int:
        """Number of the last submission of it; 0 before the first."""
        return 0 if self.commands is None else self.commands.value

    def holds(self) -> bool:
        """Return whether all that it copies from and to is there."""
        for reference in self.buffers:
            if reference() is None:
                return False
        return True


class Preludes:
    """The preludes of one recording; the caller holds the device's lock.

    Parameters
    ----------
    queue : Queue
        Where they are submitted.
    copy : callable
        `vkCmdCopyBuffer2` of the device.
    arena : Arena
        Where their mapped memory comes from.
    arguments : Buffer or None
        Where arguments that change are copied to.
    """

    def __init__(
        self,
        queue: Queue,
        copy: Callable[..., None],
        arena: Arena,
        arguments: Buffer | None,
    ) -> None:
        self._queue = queue
        self._copier = Copier(copy)
        self._arena = arena
        self._arguments = arguments
        # By what they copy, the one to use next first; and all, by their last use. One
        # whose recording was stopped is among the latter only.
        self._ready: dict[tuple[object, ...], deque[Prelude]] = {}
        self._all: OrderedDict[Prelude, None] = OrderedDict()
        self._chunks: list[Chunk] = []

    def take(self, copies: Sequence[Copy], changed: bool) -> Prelude:
        """Return what copies this and is not in use, recorded now if need be."""
        key: tuple[object, ...] = (changed,)
        if copies:
            key += tuple(
                [
                    (id(source), start, id(destination), offset, size)
                    for source, start, destination, offset, size in copies
                ]
            )
        ready = self._ready.get(key)
        old = None
        if ready and self._queue.reached(ready[0].value):
            old = ready[0]
            if old.holds():
                ready.rotate(-1)
                return old
        for row in copies:
            _check(row)
        prelude = self._spare(old)
        self._open(prelude)
        self._record_copies(prelude, copies, changed)
        both = [each for row in copies for each in (row[0], row[2])]
        prelude.buffers = [weakref.ref(buffer) for buffer in both]
        prelude.key = key
        self._ready.setdefault(key, deque()).append(prelude)
        return prelude

    def _spare(self, old: Prelude | None) -> Prelude:
        """Return a prelude to record: `old`, one not used for long, or a new one.

        It is in no queue of those that are ready.
        """
        if old is None:
            old = next((each for each in self._all if not each.key), None)
        if old is None and len(self._all) >= KEPT:
            oldest = next(iter(self._all))
            old = oldest if self._queue.reached(oldest.value) else None
        if old is None:
            old = Prelude()
            self._all[old] = None
        kind = self._ready.get(old.key)
        if kind is not None and old in kind:
            kind.remove(old)
            if not kind:
                del self._ready[old.key]
        old.key = ()
        return old

    def _open(self, prelude: Prelude) -> None:
        if prelude.commands is None:
            prelude.commands = self._queue.lend(prelude)
        else:
            self._queue.commands.begin(prelude.commands, often=True)

    def _record_copies(
        self, prelude: Prelude, copies: Sequence[Copy], changed: bool
    ) -> None:
        assert prelude.commands is not None
        commands = prelude.commands.handle
        for source, start, destination, offset, size in copies:
            here, there = source.span, destination.span
            self._copier.record(
                commands,
                (here.region.block.buffer, here.offset + start),
                (there.region.block.buffer, there.offset + offset),
                size,
            )
        if changed:
            assert self._arguments is not None
            if prelude.content is None:
                self._give_place(prelude)
            there = self._arguments.span
            self._copier.record(
                commands,
                prelude.place,
                (there.region.block.buffer, there.offset),
                self._arguments.size,
            )
        self._queue.commands.seal(prelude.commands, last=False)

    def _give_place(self, prelude: Prelude) -> None:
        """Give a prelude mapped memory for as much as `content` has."""
        assert self._arguments is not None
        size = self._arguments.size
        at = self._chunks[-1].take(size) if self._chunks else None
        if at is None:
            self._chunks.append(self._arena.lend(self))
            at = self._chunks[-1].take(size)
        if at is None:
            raise ArgumentError(
                f"Recording.submit: the arguments that change are {size} bytes; at most"
                f" {self._arena.chunk_size} bytes fit"
            )
        chunk = self._chunks[-1]
        block = chunk.block
        assert block.mapped is not None
        prelude.chunk = chunk
        prelude.place = block.buffer, at
        prelude.content = block.mapped[at : at + size]

    def sent(self, prelude: Prelude, point: TimelinePoint) -> CommandBuffer:
        """Return a prelude's command buffer, which is about to be submitted."""
        if prelude.chunk is not None:
            prelude.chunk.point = point
        self._all.move_to_end(prelude)
        assert prelude.commands is not None
        return prelude.commands


def _check(row: Copy) -> None:
    """Raise ArgumentError unless a copy lies inside its buffers."""
    source, start, destination, offset, size = row
    if not 0 <= start <= start + size <= source.size:
        source.check_range("Recording.submit", start, size)
    if not 0 <= offset <= offset + size <= destination.size:
        destination.check_range("Recording.submit", offset, size)
