"""Host-visible memory for short lives: argument blocks and staging."""

from dataclasses import dataclass

from .errors import ArgumentError
from .memory import Block, Memory, Use
from .timeline import TimelinePoint


@dataclass(eq=False, slots=True)
class _Chunk:
    """A block filled from the front, emptied at once when its last user is done."""

    block: Block
    top: int = 0
    point: TimelinePoint | None = None

    def take(self, size: int, alignment: int) -> int | None:
        offset = -(-self.top // alignment) * alignment
        if offset + size > self.block.size:
            return None
        self.top = offset + size
        return offset


class Arena:
    """Hands out pieces of host-visible chunks; the caller holds the device's lock.

    Pieces are taken, used by one submission, and given over to its timeline point with
    `commit`. A chunk is filled again once the points of all its pieces have passed.

    Parameters
    ----------
    memory : Memory
        Where chunks come from.
    use : Use
        What they are for.
    chunk_size : int
        Bytes of a chunk, and the most that one piece can have.
    chunks : int
        With this many chunks in flight, `take` waits for the oldest.
    """

    def __init__(self, memory: Memory, use: Use, chunk_size: int, chunks: int) -> None:
        self.chunk_size = chunk_size
        self._memory = memory
        self._use = use
        self._most = chunks
        self._chunks: list[_Chunk] = []
        self._current: _Chunk | None = None
        self._open: list[_Chunk] = []

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
        if self._current not in self._open:
            self._open.append(self._current)
        return self._current.block, offset

    def _next_chunk(self) -> _Chunk:
        """Return an empty chunk: a finished, a new, or the oldest one waited for."""
        idle = [chunk for chunk in self._chunks if chunk not in self._open]
        for chunk in idle:
            if chunk.point is None or chunk.point.done():
                chunk.top = 0
                return chunk
        if idle and len(self._chunks) >= self._most:
            oldest = idle[0]
            assert oldest.point is not None
            oldest.point.wait()
            oldest.top = 0
            # Back of the line, so that `idle` stays oldest first.
            self._chunks.remove(oldest)
            self._chunks.append(oldest)
            return oldest
        name = f"{self._use.value} arena"
        chunk = _Chunk(self._memory.allocate(self.chunk_size, self._use, name))
        self._chunks.append(chunk)
        return chunk

    def commit(self, point: TimelinePoint) -> None:
        """Give everything taken since the last commit over to a submission."""
        for chunk in self._open:
            chunk.point = point
        self._open.clear()

    def abandon(self) -> None:
        """Forget what was taken since the last commit: it was never submitted."""
        self._open.clear()

    def close(self) -> None:
        """Free the chunks; the device must be idle."""
        for chunk in self._chunks:
            self._memory.free(chunk.block)
        self._chunks.clear()
        self._current = None
