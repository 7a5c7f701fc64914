"""One workload beside its peer."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import measure
from vkbackend.tools.bench.workload import Bench, Case, Workload


def doubled(factor: float, runs: int = 1) -> Workload:
    """Return a workload whose peer multiplies by `factor`."""

    def make(bench: Bench, count: int) -> Case:
        x, px = bench.uniform(count)
        theirs = bench.choose(numpy=lambda: [np.multiply(px, factor)])
        return Case(lambda: [x * 2.0], theirs, moved=8 * count, runs=runs)

    return Workload("double_{}", "float32", {"small": (1000,)}, make)


def test_results_are_compared(peer: Peer, place: Any) -> None:
    right = measure(doubled(2.0), "small", peer, place, 2)
    assert right.error == 0
    assert right.ratio is not None
    assert right.ratio > 0
    wrong = measure(doubled(2.5), "small", peer, place, 1)
    assert wrong.error == pytest.approx(0.2, rel=1e-3)
    lost = measure(doubled(float("nan")), "small", peer, place, 1)
    assert lost.error is not None
    assert np.isnan(lost.error)


def test_peak_is_that_of_the_workload_alone(peer: Peer, place: Any) -> None:
    def make(bench: Bench, count: int) -> Case:
        kept = [bench.uniform(count)[0] for _ in range(3)]
        return Case(lambda: [kept[0] * 2.0], None)

    held = fw.ones(1 << 18, device=place)
    fw.eval(held)
    three = Workload("three", "float32", {"small": (1 << 18,)}, make)
    found = measure(three, "small", peer, place, 1)
    assert 3 << 20 <= found.peak < 8 << 20
    assert held.shape == (1 << 18,)


def test_results_are_compared_with_exact_ones(
    peer: Peer, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = []

    @contextlib.contextmanager
    def exactly() -> Iterator[None]:
        inside.append(True)
        yield
        inside.append(False)

    def make(bench: Bench, count: int) -> Case:
        x, px = bench.uniform(count)

        def theirs() -> list[Any]:
            # As TF32 is: not exact unless it is asked for.
            return [px * (2.0 if inside == [True] else 2.1)]

        return Case(lambda: [x * 2.0], theirs)

    monkeypatch.setattr(peer, "exactly", exactly)
    rough = Workload("rough_{}", "float32", {"small": (100,)}, make)
    assert measure(rough, "small", peer, place, 1).error == 0
    assert inside == [True, False]


def test_random_results_are_not_compared(peer: Peer, place: Any) -> None:
    def make(bench: Bench, count: int) -> Case:
        x, px = bench.uniform(count)
        return Case(lambda: [x * 2.0], lambda: [px], tolerance=None)

    drawn = Workload("drawn_{}", "float32", {"small": (10,)}, make)
    found = measure(drawn, "small", peer, place, 1)
    assert found.error is None
    assert found.ratio is not None


def test_without_a_peer(peer: Peer, place: Any) -> None:
    def make(bench: Bench, count: int) -> Case:
        x, _ = bench.uniform(count)
        return Case(lambda: [x.exp()], None)

    alone = Workload("alone_{}", "float32", {"small": (10,)}, make)
    found = measure(alone, "small", peer, place, 1)
    assert (found.peer_seconds, found.error, found.ratio) == (None, None, None)
    assert found.seconds > 0


def test_what_a_run_took_is_counted_without_its_first_ones(
    peer: Peer, place: Any
) -> None:
    calls = []

    def make(bench: Bench, count: int) -> Case:
        x, _ = bench.uniform(count)

        def ours() -> list[Any]:
            calls.append(None)
            # The first calls, which warm up, read more.
            reads = 2 if len(calls) > 4 else 9
            return [fw.tensor([(x * 2.0).sum().item() for _ in range(reads)])]

        return Case(ours, None, wall=True, runs=2)

    case = Workload("read_{}", "float32", {"small": (10,)}, make)
    found = measure(case, "small", peer, place, 3)
    assert found.counts["host_reads"] == 1
    assert found.counts["pipeline_builds"] == 0
    assert found.host_seconds is not None
    assert 0 < found.host_seconds
