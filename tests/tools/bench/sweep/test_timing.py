"""Differences of results, and one case measured."""

import statistics
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.sweep.plan import cases
from vkbackend.tools.bench.sweep.sides import Here, Inputs, side_of
from vkbackend.tools.bench.sweep.timing import (
    Bed,
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


def test_a_case_is_compared_and_timed(place: Any) -> None:
    peer = Peer("numpy")
    here, there = Here(place), side_of(peer)
    inputs = Inputs(here, there, on_gpu=False)
    bed = Bed(here, there, inputs, peer, place.gpu, 1e-6)
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


def test_a_peer_that_takes_too_long_is_stopped() -> None:
    def endless() -> None:
        with limited(1e-3):
            while True:
                pass

    with pytest.raises(TimeoutError):
        endless()
    with limited(None):
        pass
