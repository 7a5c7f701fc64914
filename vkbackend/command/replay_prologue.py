"""Replay prologues: copies of inputs and changed arguments, submitted before a replay.

A prologue is a short command buffer, cached by its copies: a hit that is not in flight
is submitted without recording.
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

MAX_PROLOGUES = 8
"""Prologues of a recording before the least recently used one is re-recorded."""


class ReplayPrologue:
    """A command buffer of copies that precedes a replay, and its staged arguments.

    Attributes
    ----------
    commands : CommandBuffer or None
        None before the first recording.
    key : tuple
        Cache key: the copies, buffers by `id`. Empty while it is being recorded.
    buffers : list of weak reference
        Those buffers: while they live, the identities in `key` are theirs.
    chunk : Chunk or None
        Arena chunk of its mapped memory.
    content : memoryview or None
        Mapped memory: source of the copy to the arguments.
    location : tuple of int
        Its `VkBuffer` and offset.
    """

    __slots__ = (
        "__weakref__",
        "buffers",
        "chunk",
        "commands",
        "content",
        "key",
        "location",
    )

    def __init__(self) -> None:
        self.commands: CommandBuffer | None = None
        self.key: tuple[object, ...] = ()
        self.buffers: list[weakref.ref[Buffer]] = []
        self.chunk: Chunk | None = None
        self.content: memoryview | None = None
        self.location = (0, 0)

    @property
    def value(self) -> int:
        """Number of the last submission of it; 0 before the first."""
        return 0 if self.commands is None else self.commands.value

    def is_valid(self) -> bool:
        """Return whether every buffer of its copies is still alive."""
        for reference in self.buffers:
            if reference() is None:
                return False
        return True


class ReplayPrologues:
    """Prologue cache of one recording, by key; the caller holds the device's lock.

    Parameters
    ----------
    queue : Queue
        Queue of their submissions.
    copy : callable
        `vkCmdCopyBuffer2` of the device.
    arena : Arena
        Source of their mapped memory.
    arguments : Buffer or None
        Destination of the changed arguments.
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
        # By key, the one to use next first; and all, least recently used first. One
        # whose recording was interrupted is among the latter only.
        self._ready: dict[tuple[object, ...], deque[ReplayPrologue]] = {}
        self._all: OrderedDict[ReplayPrologue, None] = OrderedDict()
        self._chunks: list[Chunk] = []

    def take(self, copies: Sequence[Copy], changed: bool) -> ReplayPrologue:
        """Return an idle prologue with these copies, recorded now on a miss."""
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
            if old.is_valid():
                ready.rotate(-1)
                return old
        for row in copies:
            _check(row)
        prologue = self._reusable_prologue(old)
        self._open(prologue)
        self._record_copies(prologue, copies, changed)
        both = [each for row in copies for each in (row[0], row[2])]
        prologue.buffers = [weakref.ref(buffer) for buffer in both]
        prologue.key = key
        self._ready.setdefault(key, deque()).append(prologue)
        return prologue

    def _reusable_prologue(self, old: ReplayPrologue | None) -> ReplayPrologue:
        """Return a prologue to record: `old`, the least recently used, or a new one.

        It is removed from `_ready`.
        """
        if old is None:
            old = next((each for each in self._all if not each.key), None)
        if old is None and len(self._all) >= MAX_PROLOGUES:
            oldest = next(iter(self._all))
            old = oldest if self._queue.reached(oldest.value) else None
        if old is None:
            old = ReplayPrologue()
            self._all[old] = None
        kind = self._ready.get(old.key)
        if kind is not None and old in kind:
            kind.remove(old)
            if not kind:
                del self._ready[old.key]
        old.key = ()
        return old

    def _open(self, prologue: ReplayPrologue) -> None:
        if prologue.commands is None:
            prologue.commands = self._queue.allocate_for(prologue)
        else:
            self._queue.commands.begin(prologue.commands, often=True)

    def _record_copies(
        self, prologue: ReplayPrologue, copies: Sequence[Copy], changed: bool
    ) -> None:
        assert prologue.commands is not None
        commands = prologue.commands.handle
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
            if prologue.content is None:
                self._allocate_content(prologue)
            there = self._arguments.span
            self._copier.record(
                commands,
                prologue.location,
                (there.region.block.buffer, there.offset),
                self._arguments.size,
            )
        self._queue.commands.seal(prologue.commands, last=False)

    def _allocate_content(self, prologue: ReplayPrologue) -> None:
        """Allocate a prologue's mapped memory, as large as `content`."""
        assert self._arguments is not None
        size = self._arguments.size
        at = self._chunks[-1].take(size) if self._chunks else None
        if at is None:
            self._chunks.append(self._arena.allocate_for(self))
            at = self._chunks[-1].take(size)
        if at is None:
            raise ArgumentError(
                f"Recording.submit: the arguments that change are {size} bytes; at most"
                f" {self._arena.chunk_size} bytes fit"
            )
        chunk = self._chunks[-1]
        block = chunk.block
        assert block.mapped is not None
        prologue.chunk = chunk
        prologue.location = block.buffer, at
        prologue.content = block.mapped[at : at + size]

    def mark_submitted(
        self, prologue: ReplayPrologue, point: TimelinePoint
    ) -> CommandBuffer:
        """Record the point of a submission; return the prologue's command buffer."""
        if prologue.chunk is not None:
            prologue.chunk.point = point
        self._all.move_to_end(prologue)
        assert prologue.commands is not None
        return prologue.commands


def _check(row: Copy) -> None:
    """Raise ArgumentError unless a copy lies inside its buffers."""
    source, start, destination, offset, size = row
    if not 0 <= start <= start + size <= source.size:
        source.check_range("Recording.submit", start, size)
    if not 0 <= offset <= offset + size <= destination.size:
        destination.check_range("Recording.submit", offset, size)
