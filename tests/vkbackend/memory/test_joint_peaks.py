"""Peaks of pools beside each other, on memory that is only pretended."""

import pytest

from tests.vkbackend.memory.test_pool import MIB, make_pool, release
from vkbackend.memory.memory import MemoryUsage
from vkbackend.memory.pool import Pool

pytestmark = pytest.mark.null


def make_pools() -> tuple[Pool, Pool]:
    pools = make_pool()[0], make_pool()[0]
    pools[0].put_beside(pools[1])
    return pools


def test_a_peak_is_what_was_in_use_at_once() -> None:
    """What dies in a pool counts no more, also before that pool has looked."""
    for first in (0, 1):
        pools = make_pools()
        one, other = pools[first], pools[1 - first]
        release(one, one.allocate(8 * MIB, ""))
        kept = other.allocate(5 * MIB, "")
        assert pools[0].statistics()["peak_in_use"] == 8 * MIB
        more = one.allocate(4 * MIB, "")
        assert pools[0].statistics()["peak_in_use"] == 9 * MIB
        assert [each.counts.peak_in_use for each in (one, other)] == [8 * MIB, 5 * MIB]
        release(one, more)
        release(other, kept)
        assert pools[0].statistics()["peak_in_use"] == 9 * MIB
        assert pools[0].statistics()["in_use"] == 0


def test_peaks_begin_with_what_there_is() -> None:
    own, side = make_pools()
    kept = [own.allocate(2 * MIB, ""), side.allocate(MIB, "")]
    release(side, side.allocate(6 * MIB, ""))
    assert own.statistics()["peak_in_use"] == 9 * MIB
    own.reset_peaks()
    found = own.statistics()
    assert (found["peak_in_use"], found["in_use"]) == (3 * MIB, 3 * MIB)
    assert found["peak_reserved"] == found["reserved"]
    del kept


def test_blocks_count_as_they_are_reserved() -> None:
    own, side = make_pools()
    release(own, own.allocate(64 * MIB, ""))
    assert own.trim() == 64 * MIB
    release(side, side.allocate(48 * MIB, ""))
    assert own.statistics()["peak_reserved"] == 64 * MIB
    kept = own.allocate(32 * MIB, "")
    assert own.statistics()["peak_reserved"] == 80 * MIB
    assert side.statistics()["peak_reserved"] == 48 * MIB
    del kept


def test_what_a_pool_had_before_others_came_counts() -> None:
    own, side = make_pool()[0], make_pool()[0]
    release(own, own.allocate(8 * MIB, ""))
    own.put_beside(side)
    kept = side.allocate(MIB, "")
    assert own.statistics()["peak_in_use"] == 8 * MIB
    own.beside.remove(side)
    assert own.statistics()["peak_in_use"] == 8 * MIB
    del kept


def test_memory_of_another_use_is_not_counted() -> None:
    own, memory = make_pool()
    side = Pool(memory, use=MemoryUsage.READBACK)  # type: ignore[arg-type]  # a fake
    own.put_beside(side)
    kept = side.allocate(MIB, "")
    assert own.statistics()["peak_in_use"] == own.statistics()["reserved"] == 0
    del kept
