"""A timer counts executions; what it measures is no test's business."""

from vkbackend.framework.utils.benchmark import Timer


def test_runs_are_counted() -> None:
    calls: list[int] = []
    timer = Timer("calls.append(1)", globals={"calls": calls}, label="append")
    found = timer.timeit(10)
    assert len(calls) == 11
    assert len(found.times) == 1
    assert found.mean == found.median == found.raw_times[0] / 10
    assert found.iqr == 0
    assert "append" in repr(timer.blocked_autorange(min_run_time=1e-6))
