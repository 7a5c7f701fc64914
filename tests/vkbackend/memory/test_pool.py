"""The pool's logic on a memory and queues that are only pretended."""

# Longer than most: all interrupts are tried on one pretended memory.

import gc
import sys
from collections import deque
from types import FrameType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
from tests.interruption import DEVICE_LAYER, each_interruption
from tests.vkbackend.fake_memory import (
    MIB,
    FakeMemory,
    FakeQueue,
    make_pool,
    point,
    release,
)
from tests.vkbackend.gate import held
from tests.vkbackend.kernels import fill, filled, words
from vkbackend import Buffer, Device
from vkbackend.command import transfer
from vkbackend.driver.physical_device import choose
from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import OutOfDeviceMemory
from vkbackend.memory.pool import MIN_BLOCK_SIZE, Pool
from vkbackend.memory.span import GRANULE, MemorySpan, round_up


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


def test_the_wanted_span_is_handed_over_with_its_points() -> None:
    pool, _ = make_pool()
    queue = FakeQueue()
    span, other = pool.allocate(1000, ""), pool.allocate(1000, "")
    for wanted in ([[span.address]], [[other.address], [span.address]]):
        in_use = pool.statistics()["in_use"]
        release(pool, span, point(queue, 1))
        (found,) = pool.allocate_each((900,), "new", wanted)
        assert found is span
        assert found.points == (point(queue, 1),)
        assert pool.statistics()["in_use"] == in_use
        live = {each["address"]: each["size"] for each in pool.live()}
        assert live == {span.address: 900, other.address: 1000}


def test_a_better_place_comes_before_the_span_that_just_died() -> None:
    pool, _ = make_pool()
    queue = FakeQueue()
    span, better = pool.allocate(1000, ""), pool.allocate(1000, "")
    release(pool, better)
    assert pool.statistics()["deferred"] == 0  # it lies in its bin now
    release(pool, span, point(queue, 1))
    wanted = [[better.address], [span.address]]
    assert pool.allocate_each((1000,), "", wanted) == [better]


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


def test_a_wanted_place_is_taken_where_it_is_free() -> None:
    """Of several the first, also with pending points; else any other."""
    pool, _ = make_pool()
    queue = FakeQueue()
    a, b, c, d = pool.allocate_each([1000, 1000, 1000, 600])
    places = [span.address for span in (a, b, c, d)]
    for span in (c, a, b):
        release(pool, span, point(queue, 1))
    again = pool.allocate_each([1000, 600, 1000], wanted=[places[1:], [0, 0, 0]])
    assert again[0].address == places[1]
    assert again[0].points == (point(queue, 1),)
    assert len({span.address for span in again}) == 3
    assert again[1].size == 768  # There is none of this size at the place.
    release(pool, again[0])
    rows = [places[3], 5], [places[1], 5]
    taken = pool.allocate_each([1000, 1000], wanted=rows)
    assert taken[0].address == places[1]
    assert pool.statistics()["in_use"] == 1024 * 3 + 768 * 2


def test_no_wanted_place_goes_to_another_request() -> None:
    pool, _ = make_pool()
    spans = pool.allocate_each([1000] * 4)
    places = [span.address for span in spans]
    for span in spans[:3]:
        release(pool, span)
    held = spans[3].address
    again = pool.allocate_each([1000] * 3, wanted=[[held, places[2], places[0]]])
    assert [span.address for span in again] == [places[1], places[2], places[0]]


def test_a_wanted_place_is_taken_out_of_merged_space() -> None:
    """With the points of its block, and not where the host is to write."""
    pool, _ = make_pool()
    queue = FakeQueue()
    spans = pool.allocate_each([1000, 600, 2000])
    places = [span.address for span in spans]
    for span in spans:
        release(pool, span, point(queue, 1))
    release(pool, pool.allocate(MIB - GRANULE, ""))  # They are merged for it.
    pool.trim()
    (other,) = pool.allocate_each([2000], wanted=[places[2:]], idle=True)
    assert other.address != places[2]
    release(pool, other)
    pool.trim()
    for rows in ([places[::-1]], [[0, 0, 0], places[::-1]]):
        again = pool.allocate_each([2000, 600, 1000], wanted=rows)
        assert [span.address for span in again] == places[::-1]
        assert [span.points for span in again] == [(point(queue, 1),)] * 3
        for span in again:
            release(pool, span)
        pool.trim()
    queue.completed = 1
    (span,) = pool.allocate_each([2000], wanted=[places[2:]], idle=True)
    assert (span.address, span.points) == (places[2], ())


def test_what_the_host_writes_takes_no_place_with_pending_work() -> None:
    pool, _ = make_pool()
    queue = FakeQueue()
    span = pool.allocate(1000, "")
    release(pool, span, point(queue, 1))
    row = [[span.address]]
    (other,) = pool.allocate_each([1000], wanted=row, idle=True)
    assert other.address != span.address
    queue.completed = 1
    assert pool.allocate_each([1000], wanted=row, idle=True) == [span]


def test_wanted_places_in_what_was_freed_in_parts() -> None:
    """Also with pending points, which come with it."""
    pool, _ = make_pool()
    queue = FakeQueue()
    spans = pool.allocate_each([1024, 1024, 1024])
    start = spans[0].address
    assert [span.address for span in spans] == [start, start + 1024, start + 2048]
    release(pool, spans[0], point(queue, 1))
    (other,) = pool.allocate_each([2048], wanted=[[start]])
    assert other.address != start, "half of it is in use"
    release(pool, spans[1], point(queue, 2))
    # Another one does not take it in the meantime.
    pool.look()
    (whole,) = pool.allocate_each([2048], wanted=[[start]])
    assert whole.address == start
    assert max(each.value for each in whole.points) == 2
    release(pool, whole)
    parts = pool.allocate_each([1024, 512], wanted=[[start, start + 1024]])
    assert [span.address for span in parts] == [start, start + 1024]


def test_a_loop_whose_memory_takes_turns_gets_the_same_places() -> None:
    """As that of parameters, which each step replaces, beside results of the step."""
    pool, memory = make_pool()
    random = np.random.default_rng(0)
    sizes = [(random.integers(1, 9, 5) * 1000).tolist() for _ in range(6)]
    former: list[list[list[int]]] = [[] for _ in sizes]
    parameters: list[MemorySpan] = []
    misses = []
    for _ in range(24):
        live: list[list[MemorySpan]] = []
        missed = 0
        for row, wanted, number in zip(sizes, former, range(len(sizes)), strict=True):
            spans = pool.allocate_each(row, wanted=wanted)
            places = [span.address for span in spans]
            missed += sum(a not in [w[k] for w in wanted] for k, a in enumerate(places))
            former[number] = [places, *wanted[:1]]
            live.append(spans)
            del spans
            if number > 1:
                for span in live[number - 2]:
                    release(pool, span)
                live[number - 2].clear()
        for span in parameters:
            release(pool, span)
        parameters = live.pop()
        for spans in live:
            for span in spans:
                release(pool, span)
        misses.append(missed)
    assert misses[-6:] == [0] * 6
    assert memory.held == MIN_BLOCK_SIZE


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
    assert memory.held == MIN_BLOCK_SIZE
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
    assert memory.held == 100 * MIB + MIN_BLOCK_SIZE


def test_blocks_grow_with_what_is_reserved() -> None:
    pool, memory = make_pool()
    held = []
    for _ in range(4000):
        held.append(pool.allocate(100_000, ""))
        assert memory.held <= 2 * MIB + held[0].size * len(held) * 9 / 8
    sizes = [span.region.block.size for span in held]
    assert min(sizes) == MIN_BLOCK_SIZE
    assert max(sizes) > 16 * MIB


def test_empty_blocks_go_back() -> None:
    pool, memory = make_pool()
    keep = pool.allocate(MIB // 2, "")
    drop = pool.allocate(100 * MIB, "")
    release(pool, drop)
    assert pool.trim() == 100 * MIB
    assert memory.held == MIN_BLOCK_SIZE
    release(pool, keep)
    assert pool.trim() == MIN_BLOCK_SIZE
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
    weights = pool.allocate(100 * MIB, "weights")
    with pytest.raises(
        OutOfDeviceMemory,
        match=r"asked 100.00 MiB; pool holds 100.00 MiB, 100.00 MiB in use;"
        r" largest: weights 100.00 MiB",
    ):
        pool.allocate(100 * MIB, "more")
    release(pool, weights)


def test_a_failed_allocation_changes_nothing() -> None:
    pool, _ = make_pool(128 * MIB)
    span = pool.allocate(100 * MIB, "")
    before = pool.statistics()
    with pytest.raises(OutOfDeviceMemory):
        pool.allocate(100 * MIB, "")
    assert pool.statistics() == before
    release(pool, span)
    pool.allocate(100 * MIB, "")


@given(st.lists(st.tuples(st.integers(0, 3 * MIB), st.integers(0, 4)), max_size=60))
def test_live_spans_never_overlap(steps: list[tuple[int, int]]) -> None:
    pool, _ = make_pool()
    queue = FakeQueue()
    live: deque[MemorySpan] = deque()
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
        for queue in device.queues.beside_compute:
            # Time for a copy that waits for nothing, if it is such.
            queue.wait(queue.submitted, 0.1)
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


class Owner:
    """What a buffer is to the pool: its death defers the free of its span."""

    def __init__(self, pool: Pool, span: MemorySpan) -> None:
        self.pool, self.span = pool, span

    def __del__(self) -> None:
        self.pool.deferred_frees.append((self.span, ()))


def check_pool(pool: Pool, memory: FakeMemory) -> None:
    """See that what lives is right, and that nothing else is held."""
    rows = pool.live()
    numbers = pool.statistics()
    assert numbers["in_use"] == sum(max(GRANULE, round_up(row["size"])) for row in rows)
    assert numbers["reserved"] == memory.held
    spaces = {pool._small, pool._large} | {row.space for row in pool._regions.values()}
    assert sum(len(space._blocks) for space in spaces) == numbers["blocks"]
    for lease in pool._leases.values():
        block = lease.region.block
        assert pool._regions[block.address] is lease.region
        assert block.address <= lease.address
        assert lease.address + lease.size <= block.address + block.size


def come_and_go(pool: Pool) -> None:
    """Let blocks come and go, and spans be reused, merged, and left in blocks."""
    some = pool.allocate_each([300, 2 * MIB, 300])
    release(pool, some.pop())
    again, large = pool.allocate(300, "again"), pool.allocate(40 * MIB, "large")
    release(pool, large)
    del large
    pool.trim()
    some.append(pool.allocate(MIB, "cut"))
    places = [each.address for each in some]
    release(pool, some.pop())
    # One of its size, one in the free space, and one in what is freed and free.
    some += pool.allocate_each([300, MIB // 4], wanted=[[again.address, places[2]]])
    release(pool, some.pop())
    some += pool.allocate_each([MIB // 2], wanted=[[places[2]]])
    for span in (*some, again):
        release(pool, span)
    pool.release_unused()


@pytest.fixture
def _no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare what repeats an operation hundreds of times a look at all other objects."""
    monkeypatch.setattr("vkbackend.memory.pool.gc", SimpleNamespace(collect=lambda: 0))


@pytest.mark.usefixtures("_no_garbage")
def test_an_interrupt_at_any_line_leaves_it_whole() -> None:
    pool, memory = make_pool()
    kept = pool.allocate_each([MIB // 2, 3 * MIB])
    before = pool.trim(), pool.statistics(), memory.held
    places = 0
    for one in each_interruption(lambda: come_and_go(pool)):
        places += 1
        check_pool(pool, memory)
        other = pool.allocate(5 * MIB, "")
        assert other.region.block.address <= other.address, one.where
        release(pool, other)
        del other
        check_pool(pool, memory)
        pool.trim()
        after = pool.statistics()
        for key in ("in_use", "reserved", "allocations", "blocks"):
            assert after[key] == before[1][key], (one.where, key)
        assert memory.held == before[2], one.where
    assert places > 300
    for span in kept:
        release(pool, span)
    pool.trim()
    assert memory.held == 0


def test_an_interrupted_rebuild_is_done_again() -> None:
    pool, memory = make_pool()
    queue = FakeQueue()
    live = pool.allocate(100, "")
    for number, size in enumerate((200, 2 * MIB, 200), start=1):
        release(pool, pool.allocate(size, ""), point(queue, number))
    count = pool.statistics()["blocks"], len(pool._leases)

    def rebuild() -> None:
        pool._consistent = False
        pool.statistics()

    for one in each_interruption(rebuild):
        check_pool(pool, memory)
        found = pool.statistics()["blocks"], len(pool._leases)
        assert found == count, one.where
    release(pool, live)
    pool.release_unused()
    assert memory.held == 0


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_span_without_an_owner_comes_back_after_what_was_submitted(
    cyclic: bool,
) -> None:
    queue = FakeQueue()
    queue.submitted = 5
    memory = FakeMemory(64 * MIB)
    pool = Pool(memory, [queue])  # type: ignore[arg-type, list-item]
    span = pool.allocate(MIB, "")
    address = span.address
    if cyclic:
        held: list[object] = [span]
        held.append(held)
        del held
    del span
    gc.collect()
    assert pool.statistics()["in_use"] == 0
    again = pool.allocate(MIB, "")
    assert again.address == address
    assert again.points == (point(queue, 5),)


def test_an_owner_in_a_cycle_gives_its_span_back_once() -> None:
    pool, memory = make_pool()
    for _ in range(3):
        owner = Owner(pool, pool.allocate(MIB, ""))
        owner.itself = owner  # type: ignore[attr-defined]
        del owner
        gc.collect()
        assert pool.statistics()["in_use"] == 0
        check_pool(pool, memory)
    assert pool.statistics()["reuses"] == 2
    assert len(pool._leases) == 1
    span = pool.allocate(MIB, "")
    del span
    assert pool.statistics()["in_use"] == 0


def test_a_span_that_was_taken_back_is_not_buried_later() -> None:
    """As when garbage collection in another thread has not come to the finalizer."""
    pool, memory = make_pool()
    span = pool.allocate(MIB, "")
    pool._dead_leases.append(span.lease)
    assert pool.statistics()["in_use"] == 0
    other = pool.allocate(MIB, "")
    release(pool, span)
    assert pool.statistics()["in_use"] == MIB
    assert other.address == span.address
    check_pool(pool, memory)


@pytest.mark.usefixtures("_no_garbage")
def test_a_handler_within_an_operation_gets_memory_of_its_own() -> None:
    """At any line of it: both are right, and everything goes back."""
    pool, memory = make_pool()
    place, lines = 1, 1
    got: list[MemorySpan] = []

    def handle(frame: FrameType, event: str, argument: object) -> object:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(DEVICE_LAYER):
            return None
        if event == "line":
            lines += 1
            if lines == place:
                got.append(pool.allocate(3 * MIB, "handler"))
        return handle

    while place <= lines:
        lines = 0
        before = sys.gettrace()
        sys.settrace(handle)
        try:
            come_and_go(pool)
        finally:
            sys.settrace(before)
        check_pool(pool, memory)
        for span in got:
            assert pool._leases[span.address]() is span
            release(pool, span)
        got.clear()
        pool.trim()
        assert memory.held == 0, place
        place += 7


@pytest.mark.device
@pytest.mark.parametrize("first", [1, 4])
def test_an_interrupt_of_buffers_loses_none(first: int) -> None:
    device = Device(choose())
    objects = device.live_objects()

    def use() -> None:
        some = [device.allocate(8 * MIB), *device.allocate_each([100, 2 * MIB])]
        del some
        device.empty_cache()

    for one in each_interruption(use, 9, first):
        device.empty_cache()
        numbers = device.memory_stats()
        assert (numbers["in_use"], numbers["reserved"]) == (0, 0), one.where
        assert device.live_objects() == objects, one.where
    device.close()


@pytest.mark.device
def test_a_finalizer_that_was_interrupted_loses_nothing(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    before = device.memory_stats()["in_use"]
    buffer = device.allocate(8 * MIB)
    with monkeypatch.context() as patch:

        def points(self: Buffer) -> tuple[TimelinePoint, ...]:
            raise KeyboardInterrupt

        patch.setattr(Buffer, "points", points)
        del buffer
    assert device.memory_stats()["in_use"] == before
