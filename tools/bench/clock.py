"""Timing of the library on the device's clock, or on the host's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import Tensor

Run = Callable[[], Sequence[Tensor]]


def device_seconds(gpu: vkbackend.Device, run: Run, repeat: int) -> float:
    """Return the device's time for one run; its batches are submitted repeated."""
    with gpu.profile(repeat=repeat, each=False) as profile:
        kept = run()
        fw.eval(*kept)
    return sum(span.seconds for span in profile.spans) / repeat


def wall_seconds(gpu: vkbackend.Device, run: Run, repeat: int) -> float:
    """Return the time from the call to the end of its work, over `repeat` calls."""
    gpu.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        kept = run()
        fw.eval(*kept)
    gpu.synchronize()
    return (time.perf_counter() - start) / repeat
