"""Arenas: pieces, chunks in flight, what happens when they run out."""

import pytest

from tests.vkbackend.fake_memory import FakeQueue
from vkbackend import ArgumentError, OutOfDeviceMemory, TimelinePoint
from vkbackend.memory.memory import Block, MemoryUsage
from vkbackend.memory.staging_arena import Arena


class FakeMemory:
    """Blocks with bytes of the host."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def allocate(self, size: int, use: MemoryUsage, name: str) -> Block:
        block = Block(0, 0, 0, size, 0, memoryview(bytearray(size)), True)
        self.blocks.append(block)
        return block

    def free(self, block: Block) -> None:
        self.blocks.remove(block)


@pytest.fixture
def memory() -> FakeMemory:
    return FakeMemory()


@pytest.fixture
def arena(memory: FakeMemory) -> Arena:
    return Arena(memory, MemoryUsage.UPLOAD, 1000, 3)  # type: ignore[arg-type]


def point(queue: FakeQueue, value: int) -> TimelinePoint:
    return TimelinePoint(queue, value)  # type: ignore[arg-type]


def test_pieces_do_not_overlap(arena: Arena) -> None:
    pieces = [arena.take(100) for _ in range(20)]
    taken = {(id(block), offset + i) for block, offset in pieces for i in range(100)}
    assert len(taken) == 2000
    assert all(offset % 16 == 0 for _, offset in pieces)


def test_pieces_too_large(arena: Arena) -> None:
    with pytest.raises(ArgumentError, match="too large: 1001 bytes; at most 1000"):
        arena.take(1001)


def test_finished_chunks_are_filled_again(arena: Arena, memory: FakeMemory) -> None:
    queue = FakeQueue()
    for step in range(20):
        arena.take(900)
        arena.commit(point(queue, step + 1))
        queue.completed = step + 1
    assert len(memory.blocks) <= 2
    assert queue.waits == []


def test_waits_for_the_oldest_when_all_are_in_flight(
    arena: Arena, memory: FakeMemory
) -> None:
    queue = FakeQueue()
    for step in range(6):
        arena.take(900)
        arena.commit(point(queue, step + 1))
    assert len(memory.blocks) == 3
    assert queue.waits == [1, 2, 3]


def test_one_submission_may_take_more(arena: Arena, memory: FakeMemory) -> None:
    pieces = {id(arena.take(900)[0]) for _ in range(7)}
    assert len(pieces) == 7
    arena.commit(point(FakeQueue(), 1))


def test_abandoned_pieces_are_free_later(arena: Arena, memory: FakeMemory) -> None:
    arena.take(900)
    arena.abandon()
    arena.take(900)
    arena.abandon()
    arena.take(900)
    assert len(memory.blocks) == 1


def test_a_shared_chunk_waits_for_its_last_user(arena: Arena) -> None:
    queue = FakeQueue()
    first, _ = arena.take(400)
    arena.commit(point(queue, 1))
    arena.take(400)
    arena.commit(point(queue, 2))
    queue.completed = 1
    assert arena.take(900)[0] is not first


def test_close(arena: Arena, memory: FakeMemory) -> None:
    arena.take(1)
    arena.close()
    assert memory.blocks == []


class Owner:
    """Something that can be referred to weakly."""


def test_a_lent_chunk_is_taken_by_nobody_else(arena: Arena, memory: FakeMemory) -> None:
    queue = FakeQueue()
    arena.take(100)
    arena.commit(point(queue, 1))
    queue.completed = 1
    owner = Owner()
    chunk = arena.allocate_for(owner)
    assert chunk.take(1000) == 0
    for step in range(6):
        assert arena.take(900)[0] is not chunk.block
        arena.commit(point(queue, step + 2))
    chunk.point = point(queue, 9)
    del owner
    queue.completed = 8
    assert arena.take(900)[0] is not chunk.block
    arena.commit(point(queue, 10))
    queue.completed = 9
    taken = set()
    for step in range(4):
        taken.add(id(arena.take(900)[0]))
        arena.commit(point(queue, step + 11))
    assert id(chunk.block) in taken


def test_close_frees_what_is_lent(arena: Arena, memory: FakeMemory) -> None:
    owner = Owner()
    arena.allocate_for(owner)
    arena.close()
    assert memory.blocks == []


@pytest.mark.parametrize("failures", [1, 2])
def test_where_there_is_no_memory_room_is_made_once(
    memory: FakeMemory, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    rooms: list[None] = []
    arena = Arena(memory, MemoryUsage.ARGUMENTS, 1000, 3, lambda: rooms.append(None))  # type: ignore[arg-type]
    allocate, asked = memory.allocate, []

    def scarce(size: int, use: MemoryUsage, name: str) -> Block:
        asked.append(size)
        if len(asked) <= failures:
            raise OutOfDeviceMemory("vkAllocateMemory: no memory", -2)
        return allocate(size, use, name)

    monkeypatch.setattr(memory, "allocate", scarce)
    if failures == 1:
        assert arena.take(10)[0].size == 1000
    else:
        with pytest.raises(OutOfDeviceMemory, match="no memory"):
            arena.take(10)
        assert arena.take(10)[0].size == 1000
    assert len(rooms) == 1
