"""Arena allocator of short-lived host-visible memory: argument blocks, staging."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import ArgumentError, OutOfDeviceMemory

from .memory import Block, Memory, MemoryUsage


@dataclass(eq=False, slots=True)
class Chunk:
    """Chunk: a bump-allocated block, reset once its last user is done."""

    block: Block
    top: int = 0
    point: TimelinePoint | None = None
    owner: "weakref.ref[object] | None" = None

    @property
    def owned(self) -> bool:
        """Whether somebody has it who still lives."""
        return self.owner is not None and self.owner() is not None

    def take(self, size: int, alignment: int = 16) -> int | None:
        """Return the offset of a piece; None if it does not fit."""
        offset = -(-self.top // alignment) * alignment
        if offset + size > self.block.size:
            return None
        self.top = offset + size
        return offset


class Arena:
    """Arena of host-visible chunks; the caller holds the device's lock.

    Pieces are allocated, used by one submission, and bound to its timeline point by
    `commit`. A chunk is reused once the points of all its pieces have passed.

    Parameters
    ----------
    memory : Memory
        Where chunks come from.
    use : MemoryUsage
        What they are for.
    chunk_size : int
        Bytes of a chunk, and the most that one piece can have.
    chunks : int
        With this many chunks in flight, `take` waits for the oldest.
    on_out_of_memory : callable, optional
        Called once when a chunk cannot be allocated, before the retry.
    """

    def __init__(
        self,
        memory: Memory,
        use: MemoryUsage,
        chunk_size: int,
        chunks: int,
        on_out_of_memory: Callable[[], object] | None = None,
    ) -> None:
        self.chunk_size = chunk_size
        self._memory = memory
        self._use = use
        self._max_chunks = chunks
        self._on_out_of_memory = on_out_of_memory
        self._chunks: list[Chunk] = []
        self._current: Chunk | None = None
        self._uncommitted: list[Chunk] = []

    def take(self, size: int, alignment: int = 16) -> tuple[Block, int]:
        """Return a piece as (block, offset); waits only when all chunks are in flight.

        Parameters
        ----------
        size, alignment : int
            Bytes.
        """
        if size > self.chunk_size:
            raise ArgumentError(
                f"arena {self._use.value}: the piece is too large: {size} bytes;"
                f" at most {self.chunk_size} bytes fit"
            )
        offset = self._current.take(size, alignment) if self._current else None
        if self._current is None or offset is None:
            self._current = self._next_chunk()
            offset = self._current.take(size, alignment)
        assert offset is not None
        if self._current not in self._uncommitted:
            self._uncommitted.append(self._current)
        return self._current.block, offset

    def _next_chunk(self) -> Chunk:
        """Return an empty chunk: an idle one, a new one, or the oldest after a wait."""
        ours = [chunk for chunk in self._chunks if not chunk.owned]
        idle = [chunk for chunk in ours if chunk not in self._uncommitted]
        for chunk in idle:
            if chunk.point is None or chunk.point.done():
                chunk.top = 0
                return chunk
        if idle and len(ours) >= self._max_chunks:
            oldest = idle[0]
            assert oldest.point is not None
            oldest.point.wait()
            oldest.top = 0
            # Back of the line, so that `idle` stays oldest first.
            self._chunks.remove(oldest)
            self._chunks.append(oldest)
            return oldest
        try:
            chunk = self._new_chunk()
        except OutOfDeviceMemory:
            if self._on_out_of_memory is None:
                raise
            self._on_out_of_memory()
            chunk = self._new_chunk()
        self._chunks.append(chunk)
        return chunk

    def _new_chunk(self) -> Chunk:
        name = f"{self._use.value} arena"
        return Chunk(self._memory.allocate(self.chunk_size, self._use, name))

    def allocate_for(self, owner: object) -> Chunk:
        """Return an empty chunk that is the owner's for as long as it lives.

        The owner keeps its `point`: the last use.
        """
        chunk = self._next_chunk()
        chunk.owner = weakref.ref(owner)
        if chunk is self._current:
            self._current = None
        return chunk

    def commit(self, point: TimelinePoint) -> None:
        """Bind everything allocated since the last commit to a submission."""
        for chunk in self._uncommitted:
            chunk.point = point
        self._uncommitted.clear()

    def abandon(self) -> None:
        """Drop the allocations since the last commit: they were never submitted."""
        self._uncommitted.clear()

    def close(self) -> None:
        """Free the chunks; the device must be idle."""
        for chunk in self._chunks:
            self._memory.free(chunk.block)
        self._chunks.clear()
        self._uncommitted.clear()
        self._current = None
