"""Differences of results, and one case measured."""

import dataclasses
import statistics
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.sweep import timing
from vkbackend.tools.bench.sweep.forms import Given
from vkbackend.tools.bench.sweep.plan import cases
from vkbackend.tools.bench.sweep.processes import Turns
from vkbackend.tools.bench.sweep.sides import Here, Inputs, bound, side_of
from vkbackend.tools.bench.sweep.timing import (
    TOLERANCES,
    Bed,
    RefusedError,
    _alone,
    _error,
    _ours_together,
    apart,
    limited,
    measure,
)
from vkbackend.tools.bench.sweep.units import units


def test_differences_are_shares_of_the_largest() -> None:
    wanted = np.array([4.0, np.inf, np.nan])
    assert apart(wanted, wanted) == 0
    assert apart(np.array([3.0, np.inf, np.nan]), wanted) == 0.25
    assert apart(np.array([np.nan, np.inf, np.nan]), wanted) == np.inf
    assert apart(np.array([4.25, np.inf, np.nan]), wanted, 0.25) == 0
    assert apart(np.array([4.5, np.inf, np.nan]), wanted, 0.25) == 0.125


def test_calls_that_take_memory_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now)
    bed: Any = SimpleNamespace(seconds=0.01, typical=statistics.median)

    def measured(*seconds: float) -> float:
        left = list(seconds)

        def run() -> tuple[()]:
            nonlocal now
            now += left.pop(0) if len(left) > 1 else left[0]
            return ()

        return _alone(bed, run, lambda: None, False)

    assert measured(0.0096, 0.0096, 0.001, 0.001, 0.0002) == pytest.approx(0.0002)
    assert measured(0.06, 0.01) == pytest.approx(0.06)


def test_of_two_results_the_arbiter_tells_which_is_off(place: Any) -> None:
    pytest.importorskip("torch")
    peer = Peer("torch")
    here, there = Here(place), side_of(peer)
    inputs = Inputs(here, there, on_gpu=False)
    bed = Bed(here, there, inputs, peer, place.gpu, 1e-6, Turns(None))
    for dtype in ("float32", "float16"):
        (case,) = (
            each
            for each in cases({"cumsum": units()["cumsum"]}, "full", every=True)
            if (each.title, each.dtype) == ("cumsum tiny both", dtype)
        )
        results = []
        for which, side in enumerate((here, there)):
            run = bound(side, which, case.unit, case.arguments, dtype, inputs)
            assert run is not None
            results.append(run[1]())
        mine, theirs = results
        limit = TOLERANCES[dtype]
        assert _error(case, bed, mine, theirs) <= limit
        assert _error(case, bed, mine, [each * 1.1 for each in theirs]) <= limit
        assert _error(case, bed, [each * 1.1 for each in mine], theirs) > 0.05


def test_a_call_that_compiled_is_no_slow_one(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([0.7])
    monkeypatch.setattr(timing, "wall_seconds", lambda *_: next(seconds, 1e-6))
    bed: Any = SimpleNamespace(
        gpu=gpu.gpu, software=False, seconds=1e-6, typical=statistics.median
    )
    x = fw.rand(8, device=gpu)
    found, _ = _ours_together(bed, lambda: [x * 2])
    assert found < 0.5


def test_a_case_is_compared_and_timed(place: Any) -> None:
    peer = Peer("numpy")
    here, there = Here(place), side_of(peer)
    inputs = Inputs(here, there, on_gpu=False)
    bed = Bed(here, there, inputs, peer, place.gpu, 1e-6, Turns(None))
    (case,) = (
        each
        for each in cases({"add": units()["add"]}, "full", every=True)
        if (each.title, each.dtype) == ("add tiny both", "float32")
    )
    found = measure(case, bed)
    assert found.error == 0
    assert found.theirs is not None
    assert min(*found.ours, *found.theirs) > 0
    assert found.moved == 5 * 16 * 16 * 4


def test_a_gpu_is_busy_before_it_is_timed(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the device is one in software there is no clock to rise."""
    peer = Peer("numpy")
    here, there = Here(gpu), side_of(peer)
    bed = Bed(
        here, there, Inputs(here, there, on_gpu=False), peer, gpu.gpu, 1e-6, Turns(None)
    )
    monkeypatch.setattr(timing, "_BUSY", 0)
    monkeypatch.setattr(timing, "Given", lambda _: Given((8, 8)))
    counters, work = gpu.gpu.counters, []
    for kind in ("discrete", "software"):
        info = dataclasses.replace(gpu.gpu.info, kind=kind)
        monkeypatch.setattr(gpu.gpu, "info", info)
        before = counters.snapshot()
        bed.warm()
        work.append((counters - before).dispatches)
    assert work[0] > 0
    assert not work[1]


def test_a_gpu_that_another_process_left_busy_is_timed_at_once() -> None:
    turns = Turns(None)
    turns.idle = 0.0
    bed: Any = SimpleNamespace(software=False, turns=turns)  # no GPU, nor inputs
    Bed.warm(bed)


def test_what_reads_is_timed_by_the_hosts_clock(gpu: GpuDevice) -> None:
    bed: Any = SimpleNamespace(
        gpu=gpu.gpu, software=False, seconds=1e-6, typical=statistics.median
    )
    x = fw.rand(8, device=gpu)

    def reads() -> list[fw.Tensor]:
        return [x * float(x.sum().item())]

    for run, wall in ((reads, True), (lambda: [x * 2], False)):
        seconds, by_host = _ours_together(bed, run)
        assert (by_host, seconds > 0) == (wall, True)


@pytest.mark.parametrize(("compiled", "runs"), [(0, 2), (1, 3), (9, 4)])
def test_slow_runs_are_repeated_while_they_compile(
    monkeypatch: pytest.MonkeyPatch, compiled: int, runs: int
) -> None:
    """Of none that compiles for ever the time is waited for."""
    counters = SimpleNamespace(host_reads=0, pipeline_builds=0)
    bed: Any = SimpleNamespace(
        gpu=SimpleNamespace(counters=counters), software=False, seconds=1e-6
    )
    seen = []

    def seconds(_: object, __: object, repeat: int) -> float:
        seen.append(repeat)
        counters.pipeline_builds += len(seen) <= compiled + 1
        return 1.0

    monkeypatch.setattr(timing, "wall_seconds", seconds)
    assert _ours_together(bed, list) == (1.0, True)
    assert len(seen) == runs


def test_a_peer_that_takes_too_long_is_stopped() -> None:
    def endless() -> None:
        with limited(1e-3):
            while True:
                pass

    with pytest.raises(TimeoutError):
        endless()
    with limited(None):
        pass


def test_a_dtype_refused_where_the_peer_has_no_function(place: Any) -> None:
    peer = Peer("torch")
    here, there = Here(place), side_of(peer)
    inputs = Inputs(here, there, on_gpu=False)
    bed = Bed(here, there, inputs, peer, place.gpu, 1e-6, Turns(None))
    (case,) = (
        each
        for each in cases({"rope": units()["rope"]}, "small", every=True)
        if (each.title, each.dtype) == ("rope tiny forward", "int64")
    )
    with pytest.raises(RefusedError, match="int64"):
        measure(case, bed)
