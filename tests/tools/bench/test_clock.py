"""The two clocks: what one run takes. Times are made up, for real ones vary."""

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import Tensor
from vkbackend.tools.bench import clock
from vkbackend.tools.bench.clock import (
    device_seconds,
    settled,
    wall_seconds,
    wall_times,
)
from vkbackend.tools.bench.workload import Bench


@pytest.mark.parametrize("timer", [device_seconds, wall_seconds])
def test_work_takes_time(bench: Bench, place: Any, timer: Any) -> None:
    x, _ = bench.uniform(1 << 12)
    assert timer(place.gpu, lambda: [x.exp()], 4) > 0


def test_time_on_the_host_is_that_of_one_run(
    bench: Bench, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([100.0, 106.0, 108.0] * 2)
    monkeypatch.setattr(
        clock, "time", types.SimpleNamespace(perf_counter=ticks.__next__)
    )
    x, _ = bench.uniform(4)
    runs: list[Tensor] = []

    def run() -> list[Tensor]:
        runs.append(x.exp())
        return runs[-1:]

    assert wall_seconds(place.gpu, run, 4) == 2.0
    assert len(runs) == 4
    assert wall_times(place.gpu, run, 4) == (2.0, 1.5)


def test_time_on_the_device_is_that_of_one_run() -> None:
    asked: list[tuple[int, bool]] = []
    runs: list[Tensor] = []

    @contextlib.contextmanager
    def profile(*, repeat: int, each: bool) -> Iterator[Any]:
        asked.append((repeat, each))
        spans = [types.SimpleNamespace(seconds=taken) for taken in (1.0, 7.0)]
        yield types.SimpleNamespace(spans=spans)

    gpu: Any = types.SimpleNamespace(profile=profile)

    def run() -> list[Tensor]:
        runs.append(fw.ones(1, device="cpu"))
        return runs

    assert device_seconds(gpu, run, 4) == 2.0
    # The device repeats the work, of which it is told once.
    assert asked == [(4, False)]
    assert len(runs) == 1


def test_times_have_settled_once_they_fall_no_more() -> None:
    assert not settled([])
    assert not settled([1.0] * 5)
    assert settled([1.0] * 6)
    # One that is late by chance says nothing, and of those before only some count.
    assert settled([9.0, 1.1, 1.0, 1.1, 5.0, 1.0, 1.2])
    assert not settled([9.0, 5.0, 3.0, 2.0, 1.5, 1.2])
    assert settled([1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
