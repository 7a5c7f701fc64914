"""Memory by lifetimes: what is alive together lies apart, in as little as possible."""

import random
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkbackend.framework.scheduler import memory_planner
from vkbackend.framework.scheduler.memory_planner import (
    GRANULE,
    LiveRange,
    aligned_size,
    asap_levels,
    barrier_intervals,
    host_waits,
    late_order,
    list_schedule,
    peak_live_bytes,
    place,
    shared_buffers,
)

live_ranges = st.lists(
    st.builds(
        lambda size, first, life: LiveRange(size, first, first + life),
        st.integers(0, 5000),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=40,
)
numbers = st.lists(st.integers(0, 7), max_size=3)
accesses = st.lists(st.tuples(numbers, numbers), max_size=30)


limits = st.sampled_from([GRANULE, 20 * GRANULE, 64 * GRANULE, sys.maxsize])


@given(live_ranges, limits)
def test_what_is_alive_together_lies_apart(wanted: list[LiveRange], most: int) -> None:
    pieces, offsets, sizes = place(wanted, most)
    placed = list(zip(wanted, pieces, offsets))
    for k, (one, piece, start) in enumerate(placed):
        assert start % GRANULE == 0
        assert start + aligned_size(one.size) <= sizes[piece]
        for other, where, begin in placed[:k]:
            together = one.first <= other.last and other.first <= one.last
            if together and piece == where:
                apart = start + aligned_size(one.size) <= begin
                assert apart or begin + aligned_size(other.size) <= start


@given(live_ranges, limits)
def test_only_what_is_too_large_itself_makes_a_piece_so(
    wanted: list[LiveRange], most: int
) -> None:
    pieces, _, sizes = place(wanted, most)
    for piece, size in enumerate(sizes):
        members = [aligned_size(a.size) for a, k in zip(wanted, pieces) if k == piece]
        assert size <= most or size == max(members)
        assert members


@given(live_ranges, limits)
def test_total_is_between_the_bounds(wanted: list[LiveRange], most: int) -> None:
    total = place(wanted, most).size
    assert (
        peak_live_bytes(wanted)
        <= total
        <= sum(aligned_size(area.size) for area in wanted)
    )


def test_most_alive_counts_both_ends() -> None:
    assert (
        peak_live_bytes([LiveRange(GRANULE, 0, 2), LiveRange(GRANULE, 2, 3)])
        == 2 * GRANULE
    )
    assert (
        peak_live_bytes([LiveRange(GRANULE, 0, 1), LiveRange(GRANULE, 2, 3)]) == GRANULE
    )
    assert peak_live_bytes([]) == 0


def test_a_chain_needs_two_areas() -> None:
    chain = [LiveRange(1000, k, k + 1) for k in range(50)]
    assert place(chain).size == 2 * 1024


def test_nothing_is_placed_in_nothing() -> None:
    assert place([]) == ([], [], [])
    assert place([LiveRange(0, 0, 0)]) == ([0], [0], [GRANULE])


def test_waves() -> None:
    assert barrier_intervals([([0], [1]), ([0], [2]), ([1], [3]), ([4], [2])]) == [
        0,
        0,
        1,
        1,
    ]
    # A write after a read of the same wave waits.
    assert barrier_intervals([([0], [1]), ([], [0])]) == [0, 1]


@given(accesses)
def test_waves_keep_conflicts_apart(work: list[tuple[list[int], list[int]]]) -> None:
    for found in (barrier_intervals(work), asap_levels(work)):
        for late, (reads, writes) in enumerate(work):
            for early, (read, written) in enumerate(work[:late]):
                conflict = {*written} & {*reads, *writes} or {*read} & {*writes}
                if conflict:
                    assert found[early] < found[late]


@given(accesses)
def test_levels_are_never_later(work: list[tuple[list[int], list[int]]]) -> None:
    assert all(a <= b for a, b in zip(asap_levels(work), barrier_intervals(work)))


@given(accesses, st.randoms())
def test_light_work_moves_within_what_it_needs(
    work: list[tuple[list[int], list[int]]], order: random.Random
) -> None:
    loads = [order.randrange(100) for _ in work]
    light = [load < 30 for load in loads]
    found, first = list_schedule(work, loads, light), asap_levels(work)
    for late, (reads, writes) in enumerate(work):
        assert light[late] or found[late] == first[late]
        assert first[late] <= found[late] <= max(first)
        for early, (read, written) in enumerate(work[:late]):
            if {*written} & {*reads, *writes} or {*read} & {*writes}:
                assert found[early] < found[late]


def test_a_sort_goes_beside_a_product() -> None:
    # A chain of four, and beside its first a sort whose result is read at the end.
    chain = [([k], [k + 1]) for k in range(4)]
    work = [chain[0], ([9], [10]), ([10], [11]), *chain[1:3], ([3, 11], [4])]
    loads = [5, 1, 1, 80, 300, 5]
    light = [load == 1 for load in loads]
    assert asap_levels(work) == [0, 0, 1, 1, 2, 3]
    assert list_schedule(work, loads, light) == [0, 1, 2, 1, 2, 3]
    assert list_schedule(work, loads, [False] * 6) == asap_levels(work)
    assert list_schedule([], [], []) == []


def test_large_results_are_not_made_long_before_their_turn() -> None:
    # Each piece makes something large of an early value, and adds it to a sum.
    work = []
    for k in range(10):
        work += [([0], [100 + k]), ([100 + k, 1], [1])]
    large = [k % 2 == 0 for k in range(20)]
    assert asap_levels(work)[::2] == [0] * 10
    found = asap_levels(work, large)
    assert found[1::2] == list(range(1, 11))
    assert found[::2] == [0, 0, 0, 0, 1, 1, 2, 3, 4, 5]
    assert list_schedule(work, [1] * 20, [False] * 20, large) == found


def test_few_large_results_are_made_at_once() -> None:
    work = [([0], [1 + k]) for k in range(10)]
    assert asap_levels(work, [True] * 10) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]


@given(accesses, st.randoms())
def test_what_needs_a_host_step_comes_late(
    work: list[tuple[list[int], list[int]]], order: random.Random
) -> None:
    steps = [order.random() < 0.2 for _ in work]
    waits = host_waits(work, steps)
    number = [sum(steps[: k + 1]) for k in range(len(work))]
    for late, (reads, writes) in enumerate(work):
        least = 0
        for early, (read, written) in enumerate(work[:late]):
            if {*written} & {*reads, *writes} or {*read} & {*writes}:
                least = max(least, number[early] if steps[early] else waits[early])
            if steps[early] and steps[late]:
                least = max(least, waits[early])
        assert waits[late] == least
    assert host_waits(
        [([], [0]), ([0], [1]), ([0], [2]), ([1], [3])],
        steps=[False, True, False, False],
    ) == [0, 0, 0, 1]


def test_equal_live_ranges_are_placed_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = []
    add = memory_planner._Allocation.add

    def counting(allocation: Any, *row: int) -> None:
        placed.append(row)
        add(allocation, *row)

    monkeypatch.setattr(memory_planner._Allocation, "add", counting)
    equal = [LiveRange(100, k % 2, k % 2 + 1) for k in range(400)]
    found = place(equal)
    assert len(placed) == 2
    assert found.size == peak_live_bytes(equal) == 400 * GRANULE
    placed.clear()
    place([LiveRange(memory_planner.MAX_BUNDLE_BYTES, 0, 1)] * 3)
    assert len(placed) == 3


@given(live_ranges)
def test_whole_buffers_are_shared_one_after_the_other(wanted: list[LiveRange]) -> None:
    places, lengths = shared_buffers(wanted)
    for k, each in enumerate(wanted):
        assert lengths[places[k]] >= each.size
        for other, found in zip(places[:k], wanted[:k]):
            apart = each.last < found.first or found.last < each.first
            assert apart or other != places[k]
    most = max(
        [sum(e.first <= at <= e.last for e in wanted) for at in range(30)], default=0
    )
    assert len(lengths) == most


def test_buffers_that_fit_are_taken() -> None:
    ranges = [LiveRange(8, 0, 1), LiveRange(2, 0, 1), LiveRange(3, 2, 3)]
    assert shared_buffers(ranges) == ([0, 1, 0], [8, 2])
    assert shared_buffers([LiveRange(2, 0, 0), LiveRange(3, 1, 1)]) == ([0, 0], [3])


def test_what_is_large_comes_just_before_its_use() -> None:
    """Copies for a later host step, of two parts, and not what needs no other."""
    memory, copy, token, ordered, first = range(5)
    accesses = [
        ([memory], [first]),  # 0: its use needs no host step
        ([memory], [copy]),  # 1 and 2: parts of one
        ([memory], [copy]),
        ([first], [9]),  # 3
        ([9], [token]),  # 4: after a host step
        ([copy, token], [ordered]),  # 5
    ]
    order = [(0, 0), (0, 0), (0, 1), (0, 1), (1, 2), (1, 3)]
    steps = [False] * 3 + [True] + [False] * 2
    found = late_order(accesses, order, steps, [True] * 6)
    assert found == [(0, 0), (1, 2.5), (1, 2.5), (0, 1), (1, 2), (1, 3)]
    assert late_order(accesses, order, steps, [False] * 6) == order


@given(accesses, st.lists(st.booleans(), min_size=30, max_size=30))
def test_late_work_keeps_its_order(
    wanted: list[tuple[list[int], list[int]]], bits: list[bool]
) -> None:
    """Each piece still comes after what it depends on."""
    steps = bits[: len(wanted)]
    levels = list_schedule(wanted, [1] * len(wanted), [False] * len(wanted))
    order = list(zip(host_waits(wanted, steps), levels))
    found = late_order(wanted, order, steps, bits[::-1][: len(wanted)])
    for k, (reads, writes) in enumerate(wanted):
        assert found[k] >= order[k]
        for j, (more, made) in enumerate(wanted[:k]):
            conflict = {*made} & {*reads, *writes} or {*more} & {*writes}
            if conflict and order[j] <= order[k]:
                assert found[j] <= found[k]
