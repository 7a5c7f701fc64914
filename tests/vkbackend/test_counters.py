"""Counters: copies and differences."""

from vkbackend.counters import Counters


def test_snapshot_does_not_change() -> None:
    counters = Counters()
    before = counters.snapshot()
    counters.dispatches += 3
    assert before == Counters()


def test_difference() -> None:
    assert Counters(dispatches=5, uploads=2) - Counters(dispatches=3) == Counters(
        dispatches=2, uploads=2
    )
