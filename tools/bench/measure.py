"""Measurement of one workload against the peer, with its results compared."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import Tensor

from .baseline import Peer
from .clock import device_seconds, wall_times
from .workload import Bench, Case, Workload

_BATCH_SECONDS = 0.02
# Whole steps follow one another, as in training: a loop that waits for each is another.
_STEPS_SECONDS = 0.1
_MAX_REPEATS = 400
# Pause before each batch of GEMMs, so that a board at its power limit does not slow one
# side down for the power that the other one drew.
_REST_SECONDS = 0.05
_COMPARED = 1 << 20
"""Elements of a result that are read back and compared: the first and the last."""
COUNTED = (
    "submits",
    "resubmits",
    "pipeline_builds",
    "device_allocations",
    "host_reads",
)
"""What is counted of a run that the host's clock times, see `vkbackend.Counters`."""


def device_to_measure(name: str | None) -> Any:
    """Return the Vulkan device of that name; if there is none, say so, return None."""
    device = fw.device(name)
    if device.is_gpu:
        return device
    print("bench: there is no Vulkan device to measure", file=sys.stderr)
    return None


class Measurement(NamedTuple):
    """Medians of one workload.

    Attributes
    ----------
    seconds, peer_seconds : float
        Of one run; `peer_seconds` is None where the peer cannot.
    error : float or None
        Largest difference, as a share of the largest result; None where results are
        not compared.
    case : Case
        What was measured.
    peak : int
        Most bytes of the device's memory that ours took at once, also to warm up.
    host_seconds : float or None
        Until a run of ours returned, before its work ended; None where the device's
        clock is meant.
    counts : dict
        Of a run of ours, by the names in `COUNTED`; empty like `host_seconds`.
    """

    seconds: float
    peer_seconds: float | None
    error: float | None
    case: Case
    peak: int = 0
    host_seconds: float | None = None
    counts: Mapping[str, float] = MappingProxyType({})

    @property
    def ratio(self) -> float | None:
        """The peer's time over ours: above 1 is faster."""
        return None if self.peer_seconds is None else self.peer_seconds / self.seconds


def measure(
    workload: Workload, size: str, peer: Peer, device: Any, rounds: int
) -> Measurement:
    """Run one workload and the peer in turns.

    Parameters
    ----------
    workload : Workload
    size : str
        One of its sizes.
    peer : Peer
    device : framework device
        A Vulkan one. A software device is timed by the host's clock.
    rounds : int
        Measurements of each, of which the median counts.
    """
    gc.collect()
    before = fw.accelerator.memory_allocated(device)
    fw.accelerator.reset_peak_memory_stats(device)
    case = workload.make(Bench(peer, device), *workload.sizes[size])
    gpu: vkbackend.Device = device.gpu
    wall = case.wall or gpu.info.kind == "software"
    error = None
    if case.theirs is not None and case.tolerance is not None:
        with peer.exactly():
            error = _difference(case, peer)

    on_host = _OnHost(gpu, case) if wall else None
    sides: list[Callable[[int], float]] = [
        on_host or (lambda repeat: device_seconds(gpu, case.ours, repeat))
    ]
    theirs = case.theirs
    if theirs is not None:
        sides.append(lambda repeat: peer.seconds(theirs, repeat, wall))
    least = _STEPS_SECONDS if case.wall else _BATCH_SECONDS
    repeats = [_repeats(side, least) for side in sides]
    times: list[list[float]] = [[] for _ in sides]
    if on_host is not None:
        on_host.begin()
    for _ in range(rounds):
        for taken, side, repeat in zip(times, sides, repeats, strict=True):
            if case.operations and not wall:
                time.sleep(_REST_SECONDS)
            if gpu.info.kind != "software":
                # The first run after the other side's took 5.8 ms where the others took
                # 1.3; steps of a vision transformer 30 to 26 ms for 0.4 s, then 22
                # (NVIDIA H200, driver 580.159.04, 2026-11-21 and 2026-11-30).
                side(max(1, repeat // 2))
            taken.append(side(repeat))
    medians = [statistics.median(taken) / case.runs for taken in times]
    peak = fw.accelerator.max_memory_allocated(device) - before
    theirs_seconds = medians[1] if len(sides) > 1 else None
    found = Measurement(medians[0], theirs_seconds, error, case, peak)
    if on_host is None:
        return found
    return found._replace(host_seconds=on_host.seconds(), counts=on_host.counts())


class _OnHost:
    """Clock of the host for runs of ours, and counters of what they took."""

    def __init__(self, gpu: vkbackend.Device, case: Case) -> None:
        self._gpu, self._case = gpu, case
        self.begin()

    def begin(self) -> None:
        """Forget the runs so far."""
        self._runs = 0
        self._returned: list[float] = []
        self._before = self._gpu.counters.snapshot()

    def __call__(self, repeat: int) -> float:
        """Return the time of one of so many runs, to the end of its work."""
        ended, returned = wall_times(self._gpu, self._case.ours, repeat)
        self._returned.append(returned)
        self._runs += repeat
        return ended

    def seconds(self) -> float:
        """Return the median time until a run returned."""
        return statistics.median(self._returned) / self._case.runs

    def counts(self) -> dict[str, float]:
        """Return what was counted of a run."""
        counted = self._gpu.counters - self._before
        runs = self._runs * self._case.runs
        return {name: getattr(counted, name) / runs for name in COUNTED}


def _repeats(side: Callable[[int], float], least: float) -> int:
    """Return the repeat count of one side for a batch of `least` seconds; warms it."""
    side(1)
    # The second may still compile, or have its memory elsewhere.
    once = min(side(1) for _ in range(3))
    return max(1, min(_MAX_REPEATS, round(least / max(once, 1e-9))))


def _difference(case: Case, peer: Peer) -> float:
    """Return the largest relative difference of the results here and in the peer.

    It is NaN where a result is in one place only.
    """
    assert case.theirs is not None
    errors = []
    for here, there in zip(case.ours(), case.theirs(), strict=True):
        for actual, expected in zip(_ends(here), _ends(there), strict=True):
            mine, wanted = _host(actual), peer.host(expected)
            scale = float(np.abs(wanted).max(initial=0)) or 1.0
            errors.append(np.abs(mine - wanted).max(initial=0) / scale)
    return float(np.max(errors, initial=0))


def _host(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.dtype is fw.bfloat16:
        tensor = tensor.to(fw.float32)
    return np.asarray(tensor.detach().numpy(), np.float64)


def _ends(array: Any) -> Sequence[Any]:
    """Return the first and the last elements, where there are many."""
    flat = array.reshape(-1)
    if flat.shape[0] <= 2 * _COMPARED:
        return [flat]
    return [flat[:_COMPARED], flat[-_COMPARED:]]
