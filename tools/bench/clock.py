"""Timing of the library on the device's clock, or on the host's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import Tensor

Run = Callable[[], Sequence[Tensor]]

_WINDOW, _DRIFT = 3, 0.02
"""Rounds whose best times are compared to see whether times fall, and by how much."""


def device_seconds(gpu: vkbackend.Device, run: Run, repeat: int) -> float:
    """Return the device's time for one run; its batches are submitted repeated."""
    with gpu.profile(repeat=repeat, each=False) as profile:
        kept = run()
        fw.eval(*kept)
    return sum(span.seconds for span in profile.spans) / repeat


def wall_seconds(gpu: vkbackend.Device, run: Run, repeat: int) -> float:
    """Return the time from the call to the end of its work, over `repeat` calls."""
    return wall_times(gpu, run, repeat)[0]


def wall_times(gpu: vkbackend.Device, run: Run, repeat: int) -> tuple[float, float]:
    """Return the time to the end of a call's work, and that until it returns.

    Both over `repeat` calls. Where they are alike, the host is what the device waits
    for, or the device's queue is full.
    """
    gpu.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        kept = run()
        fw.eval(*kept)
    returned = time.perf_counter()
    gpu.synchronize()
    return (time.perf_counter() - start) / repeat, (returned - start) / repeat


def keep_busy(gpu: vkbackend.Device, factor: Tensor, seconds: float) -> None:
    """Multiply a matrix by itself until its device has been busy for so long.

    The clock of a GPU that waits for the host, or has little to do, falls: an H200's to
    a sixth (driver 580.159.04, 2026-11-30).
    """
    end = time.perf_counter() + seconds
    while True:
        fw.eval(factor @ factor)
        gpu.synchronize()
        if time.perf_counter() >= end:
            return


def settled(times: Sequence[float]) -> bool:
    """Return whether the last times are no quicker than those before them.

    Parameters
    ----------
    times : sequence of float
        In order; all ranks have the same.

    Examples
    --------
    >>> settled([9.0, 5.0, 3.0, 2.0, 1.5, 1.2]), settled([9.0, 1.1, 1.0, 1.1, 1.0, 1.1])
    (False, True)
    """
    last, before = times[-_WINDOW:], times[-2 * _WINDOW : -_WINDOW]
    full = len(before) == _WINDOW
    return full and min(last) > (1 - _DRIFT) * min(before)
