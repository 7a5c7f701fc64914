"""The pool's logic on a memory and queues that are only pretended."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
from tests.vkbackend.gate import held
from tests.vkbackend.kernels import fill, filled, words
from vkbackend import transfer
from vkbackend.errors import OutOfDeviceMemory
from vkbackend.info import Heap
from vkbackend.memory import Block
from vkbackend.pool import GRANULE, LEAST_BLOCK, Pool, Span, round_up
from vkbackend.timeline import TimelinePoint

MIB = 1 << 20


class FakeQueue:
    """A queue whose work finishes when it is waited for."""

    name = "fake"

    def __init__(self) -> None:
        self.completed = 0
        self.waits: list[int] = []

    def reached(self, value: int) -> bool:
        return value <= self.completed

    def wait(self, value: int, timeout_seconds: float | None = None) -> bool:
        self.waits.append(value)
        self.completed = max(self.completed, value)
        return True


class FakeMemory:
    """Blocks without bytes, from a heap of limited size."""

    def __init__(self, heap: int) -> None:
        self.heap = heap
        self.held = 0
        self.next_address = 1 << 32
        self.logical = self
        self.info = self
        self.heaps = (Heap(heap, True),)
        self.kind = "software"

    def allocate(self, size: int, use: object, name: str) -> Block:
        if self.held + size > self.heap:
            raise OutOfDeviceMemory("vkAllocateMemory: the heap is full")
        self.held += size
        address = self.next_address
        self.next_address += size
        return Block(0, 0, address, size, 0, None, False)

    def free(self, block: Block) -> None:
        self.held -= block.size


def make_pool(heap: int = 1024 * MIB) -> tuple[Pool, FakeMemory]:
    memory = FakeMemory(heap)
    return Pool(memory), memory  # type: ignore[arg-type]


def release(pool: Pool, span: Span, *points: TimelinePoint) -> None:
    pool.graveyard.append((span, points))


def point(queue: FakeQueue, value: int) -> TimelinePoint:
    return TimelinePoint(queue, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "rounded"), [(0, 0), (1, 256), (256, 256), (257, 512)]
)
def test_round_up(size: int, rounded: int) -> None:
    assert round_up(size) == rounded


def test_finished_memory_is_reused() -> None:
    pool, _ = make_pool()
    span = pool.allocate(1000, "")
    release(pool, span)
    assert pool.allocate(1000, "") is span
    assert pool.statistics()["reuses"] == 1


def test_fresh_memory_before_pending() -> None:
    pool, _ = make_pool()
    span = pool.allocate(1000, "")
    release(pool, span, point(FakeQueue(), 1))
    assert pool.allocate(1000, "").address != span.address


def test_pending_memory_comes_with_its_points() -> None:
    pool, _ = make_pool(64 * MIB)
    queue = FakeQueue()
    span = pool.allocate(8 * MIB, "")
    release(pool, span, point(queue, 3))
    again = pool.allocate(8 * MIB, "")
    assert again.address == span.address
    assert again.points == (point(queue, 3),)
    assert queue.waits == []


def test_points_that_passed_are_dropped() -> None:
    pool, _ = make_pool(64 * MIB)
    queue = FakeQueue()
    span = pool.allocate(8 * MIB, "")
    release(pool, span, point(queue, 3))
    assert pool.statistics()["deferred"] == 8 * MIB
    queue.completed = 3
    assert pool.statistics()["deferred"] == 0
    assert pool.allocate(8 * MIB, "").points == ()


def test_steady_loop_does_not_grow() -> None:
    pool, memory = make_pool()
    queue = FakeQueue()
    held = []
    for step in range(50):
        spans = [pool.allocate(size * MIB, "") for size in (3, 5, 7, 11)]
        for span in spans:
            release(pool, span, point(queue, step + 1))
        held.append(memory.held)
    assert len(set(held[5:])) == 1
    assert queue.waits == []


def test_takes_pending_memory_before_it_grows() -> None:
    """What runs ahead of the device gets memory together with its unfinished work."""
    pool, memory = make_pool()
    queue = FakeQueue()
    for step in range(200):
        span = pool.allocate((step % 40 + 1) * MIB, "")
        release(pool, span, *span.points, point(queue, step + 1))
    assert memory.held <= 80 * MIB  # Of 4,100 MiB in all.
    pool.close()
    assert memory.held == 0


def test_a_merged_span_comes_with_the_points_of_its_block() -> None:
    pool, memory = make_pool()
    queue = FakeQueue()
    for number in range(1, 9):
        release(pool, pool.allocate(MIB // 4, ""), point(queue, number))
    large = pool.allocate(MIB - GRANULE, "")
    assert large.points == (point(queue, 8),)
    assert memory.held == LEAST_BLOCK
    queue.completed = 8
    assert pool.allocate(MIB // 2, "").points == ()
    assert queue.waits == []


def test_waits_for_an_empty_block_before_there_are_too_many() -> None:
    pool, memory = make_pool()
    queue = FakeQueue()
    release(pool, pool.allocate(100 * MIB, ""), point(queue, 1))
    pool.allocate(150 * MIB, "")
    assert queue.waits == [1]
    assert memory.held == 150 * MIB


def test_small_requests_stay_out_of_large_blocks() -> None:
    pool, memory = make_pool()
    large = pool.allocate(100 * MIB, "")
    release(pool, large)
    small = pool.allocate(MIB // 2, "")
    assert small.region is not large.region
    assert pool.allocate(90 * MIB, "").region is large.region
    assert memory.held == 100 * MIB + LEAST_BLOCK


def test_blocks_grow_with_what_is_reserved() -> None:
    pool, memory = make_pool()
    sizes = []
    for _ in range(4000):
        sizes.append(pool.allocate(100_000, "").region.block.size)
        assert memory.held <= 2 * MIB + pool.statistics()["in_use"] * 9 / 8
    assert min(sizes) == LEAST_BLOCK
    assert max(sizes) > 16 * MIB


def test_empty_blocks_go_back() -> None:
    pool, memory = make_pool()
    keep = pool.allocate(MIB // 2, "")
    drop = pool.allocate(100 * MIB, "")
    release(pool, drop)
    assert pool.trim() == 100 * MIB
    assert memory.held == LEAST_BLOCK
    release(pool, keep)
    assert pool.trim() == LEAST_BLOCK
    assert memory.held == 0


def test_blocks_with_pending_work_stay() -> None:
    pool, _ = make_pool()
    queue = FakeQueue()
    release(pool, pool.allocate(5 * MIB, ""), point(queue, 1))
    assert pool.trim() == 0
    queue.completed = 1
    assert pool.trim() == 5 * MIB


def test_out_of_memory_waits_and_trims_first() -> None:
    pool, _ = make_pool(128 * MIB)
    queue = FakeQueue()
    release(pool, pool.allocate(100 * MIB, ""), point(queue, 7))
    span = pool.allocate(120 * MIB, "")
    assert queue.waits == [7]
    assert span.size == 120 * MIB


def test_small_block_when_a_large_one_does_not_fit() -> None:
    pool, memory = make_pool(128 * MIB)
    held = [pool.allocate(100 * MIB, "")]
    held.append(pool.allocate(20 * MIB, ""))
    assert memory.held <= 128 * MIB


def test_out_of_memory_gives_numbers() -> None:
    pool, _ = make_pool(128 * MIB)
    pool.allocate(100 * MIB, "weights")
    with pytest.raises(
        OutOfDeviceMemory,
        match=r"asked 100.00 MiB; pool holds 100.00 MiB, 100.00 MiB in use;"
        r" largest: weights 100.00 MiB",
    ):
        pool.allocate(100 * MIB, "more")


def test_a_failed_allocation_changes_nothing() -> None:
    pool, _ = make_pool(128 * MIB)
    span = pool.allocate(100 * MIB, "")
    before = pool.statistics()
    with pytest.raises(OutOfDeviceMemory):
        pool.allocate(100 * MIB, "")
    assert pool.statistics() == before
    release(pool, span)
    pool.allocate(100 * MIB, "")


def test_dump_names_what_lives() -> None:
    pool, _ = make_pool()
    span = pool.allocate(300, "bias")
    assert pool.live() == [{"name": "bias", "address": span.address, "size": 300}]


@given(st.lists(st.tuples(st.integers(0, 3 * MIB), st.integers(0, 4)), max_size=60))
def test_live_spans_never_overlap(steps: list[tuple[int, int]]) -> None:
    pool, _ = make_pool()
    queue = FakeQueue()
    live: deque[Span] = deque()
    pending: list[tuple[int, int, TimelinePoint]] = []
    for number, (size, deaths) in enumerate(steps, start=1):
        span = pool.allocate(size, "")
        end = span.address + span.size
        assert span.size >= max(size, GRANULE)
        assert span.address % GRANULE == 0
        assert all(
            end <= other.address or span.address >= other.address + other.size
            for other in live
        )
        # Memory with unfinished work comes with its point or a later one.
        for start, stop, last in pending:
            if start < end and span.address < stop and not last.done():
                assert any(later.value >= last.value for later in span.points)
        live.append(span)
        for _ in range(min(deaths, len(live))):
            dead = live.popleft()
            released = point(queue, number)
            pending.append((dead.address, dead.address + dead.size, released))
            release(pool, dead, *dead.points, released)
        queue.completed = max(queue.completed, number - 3)
    for span in live:
        release(pool, span)
    assert pool.statistics()["in_use"] == 0


@pytest.mark.usefixtures("_no_collector")
def test_thousand_buffers_leave_nothing(device: vkbackend.Device) -> None:
    before = device.memory_stats()
    held = []
    for size in range(1000):
        held.append(device.allocate(size * 37, name=f"buffer {size}"))
        if size % 3 == 0:
            held.pop(0)
    assert device.memory_stats()["allocations"] > before["allocations"]
    held.clear()
    device.synchronize()
    after = device.memory_stats()
    for key in ("in_use", "allocations", "deferred"):
        assert after[key] == before[key]
    device.empty_cache()


def write_into_freed_memory(device: vkbackend.Device) -> bool:
    """Free a buffer that is being written; return whether its next owner is spared."""
    size = 8 * MIB
    dying = device.allocate(size)
    address = dying.address
    mine = np.full(size // 4, 7, np.uint32)
    with held(device.compute_queue) as gate:
        fill(device, dying, 1)
        del dying
        others = []
        while (reused := device.allocate(size)).address != address:
            others.append(reused)
            assert len(others) < 64, "the freed memory never came back"
        try:
            device.upload(mine, reused)
        except AssertionError:  # Without a queue for it, an upload waits.
            gate.open()
            device.upload(mine, reused)
        if device.transfer_queue is not device.compute_queue:
            # Time for a copy that waits for nothing, if it is such.
            device.transfer_queue.wait(device.transfer_queue.submitted, 0.1)
        gate.open()
        device.synchronize()
    return bool((words(device, reused) == mine).all())


@pytest.mark.core
def test_freed_memory_waits_for_its_work(device: vkbackend.Device) -> None:
    assert write_into_freed_memory(device)


def test_freed_memory_needs_the_waiting(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "wait_all", lambda points: None)
    monkeypatch.setattr(transfer, "cross_queue_waits", lambda queue, points: {})
    assert not write_into_freed_memory(device)


@pytest.mark.usefixtures("_no_collector")
def test_freed_memory_serves_the_same_queue(device: vkbackend.Device) -> None:
    size = 16 * MIB
    device.empty_cache()
    before = device.memory_stats()["reserved"]
    for value in range(1, 9):
        buffer = filled(device, np.zeros(size // 4, np.uint32))
        batch = device.batch()
        batch.fill(buffer, value)
        batch.submit()
        assert (words(device, buffer) == value).all()
    assert device.memory_stats()["reserved"] - before < 1 << 30


def test_none_is_taken_where_not_all_fit() -> None:
    pool, _ = make_pool(64 * MIB)
    before = pool.statistics()["in_use"]
    with pytest.raises(OutOfDeviceMemory):
        pool.allocate_each([MIB, 2 * MIB, 1024 * MIB])
    statistics = pool.statistics()
    assert statistics["in_use"] == before
    assert len(pool.allocate_each([MIB, 2 * MIB])) == 2
