from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkbackend.command.hazards import HazardTracker, Range

pytestmark = pytest.mark.null

RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4, unique=True
)


def touched(ranges: list[Range]) -> set[int]:
    return {byte for start, end in ranges for byte in range(start, end)}


@given(work=st.lists(st.tuples(RANGES, RANGES), max_size=12))
def test_against_sets_of_bytes(work: list[tuple[list[Range], list[Range]]]) -> None:
    tracker = HazardTracker()
    read: set[int] = set()
    written: set[int] = set()
    for reads, writes in work:
        now_read, now_written = touched(reads), touched(writes)
        conflict = bool(now_read & written or now_written & (read | written))
        assert tracker.conflicts(reads, writes) == conflict
        if conflict:
            tracker.clear()
            read, written = set(), set()
        tracker.record(reads, writes)
        read |= now_read
        written |= now_written


@given(ranges=RANGES, probe=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_without_barriers_in_between(ranges: list[Range], probe: Range) -> None:
    tracker = HazardTracker()
    for one in ranges:
        tracker.record((), (one,))
    meets = bool(touched([probe]) & touched(ranges))
    assert tracker.conflicts((probe,), ()) == meets
    assert tracker.conflicts((), (probe,)) == meets


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ("read", "read", False),
        ("read", "write", True),
        ("write", "read", True),
        ("write", "write", True),
    ],
)
def test_kinds_of_hazard(first: str, second: str, waits: bool) -> None:
    base = 1 << 47
    for start, length in product((0, 255, 256, 511, 512), (1, 256)):
        tracker = HazardTracker()
        earlier = ((base + 256, base + 512),)
        later = ((base + start, base + start + length),)
        tracker.record(*((earlier, ()) if first == "read" else ((), earlier)))
        overlap = start < 512 and start + length > 256
        arguments = (later, ()) if second == "read" else ((), later)
        assert tracker.conflicts(*arguments) == (waits and overlap)


def test_in_place_work_does_not_conflict_with_itself() -> None:
    tracker = HazardTracker()
    assert not tracker.conflicts(((0, 64),), ((0, 64),))


def test_clear_forgets() -> None:
    tracker = HazardTracker()
    tracker.record(((0, 64),), ((64, 128),))
    tracker.clear()
    assert not tracker.conflicts(((64, 128),), ((0, 128),))
