import pytest

from tests.vkbackend.fake_memory import MIB, FakeQueue, make_pool, point, release

pytestmark = pytest.mark.null


def test_dump_names_what_lives() -> None:
    pool, _ = make_pool()
    span = pool.allocate(300, "bias")
    assert pool.live() == [{"name": "bias", "address": span.address, "size": 300}]


def test_statistics_count_what_is_freed_too() -> None:
    pool, memory = make_pool()
    queue = FakeQueue()
    spans = pool.allocate_each([1000, 300, 2 * MIB])
    release(pool, spans.pop(), point(queue, 1))
    release(pool, spans.pop())
    found = pool.statistics()
    assert found["in_use"] == 1024
    assert found["deferred"] == 2 * MIB
    assert found["reserved"] == memory.held
    assert found["cached"] == memory.held - 1024 - 2 * MIB
    assert (found["allocations"], found["total_allocations"]) == (1, 3)


def test_peaks_begin_again() -> None:
    pool, _ = make_pool()
    release(pool, pool.allocate(3 * MIB, ""))
    assert pool.statistics()["peak_in_use"] == 3 * MIB
    pool.reset_peaks()
    assert pool.statistics()["peak_in_use"] == 0


def test_a_pool_that_is_gone_is_not_counted_any_more() -> None:
    """Nor do allocations note peaks that two pools have together."""
    pool, _ = make_pool()
    others = [make_pool()[0] for _ in range(2)]
    for each in others:
        pool.put_beside(each)
    spans = [each.allocate(MIB, "") for each in (pool, *others)]
    assert pool.statistics()["in_use"] == 3 * MIB
    pool.remove_beside(others[0])
    assert pool.statistics()["in_use"] == 2 * MIB
    assert pool._joint is not None
    pool.remove_beside(others[1])
    assert pool.statistics()["peak_in_use"] == MIB
    assert pool._joint is None
    del spans
