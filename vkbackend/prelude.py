"""What goes before a recording: copies of inputs and of arguments that change.

A prelude is a short command buffer, kept with what it copies: where the same is copied
again, and it has finished, nothing is recorded.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from .arena import Arena, Chunk
from .buffer import Buffer
from .command import Copier
from .errors import ArgumentError
from .timeline import Queue, TimelinePoint

Copy = tuple[Buffer, int, Buffer, int, int]
"""Source and offset, destination and offset, size, all in bytes."""

KEPT = 8
"""Preludes of a recording before the one not used for longest is recorded anew."""


class Prelude:
    """Recorded copies that go before a recording, and their own place for arguments.

    Attributes
    ----------
    commands : int
        The command buffer.
    key : tuple
        What is copied; buffers by `id`.
    buffers : list of weak reference
        Those buffers: while they live, the identities in `key` are theirs.
    value : int
        The last submission of it; 0 before the first.
    content : memoryview or None
        Mapped memory that is copied to the arguments.
    place : tuple of int
        Where that is: a `VkBuffer` and an offset.
    """

    __slots__ = ("buffers", "commands", "content", "key", "place", "value")

    def __init__(self, commands: int) -> None:
        self.commands = commands
        self.key: tuple[object, ...] = ()
        self.buffers: list[weakref.ref[Buffer]] = []
        self.value = 0
        self.content: memoryview | None = None
        self.place = (0, 0)

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
        # By what they copy, the one to use next first; and all, by their last use.
        self._ready: dict[tuple[object, ...], deque[Prelude]] = {}
        self._all: OrderedDict[Prelude, None] = OrderedDict()
        self._chunks: list[Chunk] = []
        self._point: TimelinePoint | None = None

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
        try:
            self._record_copies(prelude, copies, changed)
        except BaseException:
            self._queue.abandon(prelude.commands)
            raise
        prelude.key = key
        both = [each for row in copies for each in (row[0], row[2])]
        prelude.buffers = [weakref.ref(buffer) for buffer in both]
        self._all[prelude] = None
        self._ready.setdefault(key, deque()).append(prelude)
        return prelude

    def _spare(self, old: Prelude | None) -> Prelude:
        """Return an open prelude: `old`, the one not used for longest, or a new one."""
        queue = self._queue
        if old is None and len(self._all) >= KEPT:
            oldest = next(iter(self._all))
            old = oldest if queue.reached(oldest.value) else None
        if old is None:
            return Prelude(queue.begin(reusable=True))
        del self._all[old]
        # Those of one kind are in the order of their use too.
        kind = self._ready[old.key]
        kind.popleft()
        if not kind:
            del self._ready[old.key]
        queue.begin(reusable=True, again=old.commands)
        return old

    def _record_copies(
        self, prelude: Prelude, copies: Sequence[Copy], changed: bool
    ) -> None:
        for source, start, destination, offset, size in copies:
            here, there = source.span, destination.span
            self._copier.record(
                prelude.commands,
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
                prelude.commands,
                prelude.place,
                (there.region.block.buffer, there.offset),
                self._arguments.size,
            )
        self._queue.finish(prelude.commands, last=False)

    def _give_place(self, prelude: Prelude) -> None:
        """Give a prelude mapped memory for as much as `content` has."""
        assert self._arguments is not None
        size = self._arguments.size
        at = self._chunks[-1].take(size) if self._chunks else None
        if at is None:
            self._chunks.append(self._arena.lend())
            at = self._chunks[-1].take(size)
        if at is None:
            raise ArgumentError(
                f"Recording.submit: the arguments that change are {size} bytes; at most"
                f" {self._arena.chunk_size} bytes fit"
            )
        block = self._chunks[-1].block
        assert block.mapped is not None
        prelude.content = block.mapped[at : at + size]
        prelude.place = block.buffer, at

    def sent(self, prelude: Prelude, point: TimelinePoint) -> None:
        """Note that a prelude has been submitted."""
        prelude.value = point.value
        self._point = point
        self._all.move_to_end(prelude)

    def drop(self) -> None:
        """Give everything back; may be called at any moment, by garbage collection."""
        for prelude in self._all:
            self._queue.retire(prelude.commands, prelude.value)
        for chunk in self._chunks:
            self._arena.give_back(chunk, self._point)


def _check(row: Copy) -> None:
    """Raise ArgumentError unless a copy lies inside its buffers."""
    source, start, destination, offset, size = row
    if not 0 <= start <= start + size <= source.size:
        source.check_range("Recording.submit", start, size)
    if not 0 <= offset <= offset + size <= destination.size:
        destination.check_range("Recording.submit", offset, size)
