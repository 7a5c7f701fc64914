"""Timing of variants of a kernel: constants replaced for a while, and a table."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import vkbackend.framework as fw
from vkbackend.errors import Error
from vkbackend.framework import Tensor

from .clock import device_seconds, wall_seconds

_BATCH_SECONDS = 0.02
# Work before the first timing of a variant, twice: a board that has idled while the
# variant was compiled, and results were read, begins at a low clock, which the second
# time's estimate does not have. A kernel of 2.5 ms took 8.6 ms without (NVIDIA H200,
# driver 580.159.04, 2026-11-28).
_WARM_SECONDS = 0.12
_MOST_WARM_REPEATS = 10_000
_MOST_REPEATS = 200
_ROUNDS = 3
_MOST_COMPARED = 1 << 18

Run = Callable[[], Sequence[Tensor]]


class Variant(NamedTuple):
    """A variant of a kernel.

    Attributes
    ----------
    name : str
    constants : sequence of (object, key, value)
        Attributes of modules, or keys of mappings, and what they are meanwhile.
    """

    name: str
    constants: Sequence[tuple[Any, Any, Any]]


class Timing(NamedTuple):
    """Seconds of a variant, and its largest difference from the first one's results."""

    name: str
    seconds: float
    difference: float


@contextmanager
def applied(device: Any, variant: Variant) -> Iterator[None]:
    """Have a device plan with the constants of a variant, and afterwards anew."""
    with ExitStack() as stack:
        for owner, name, value in variant.constants:
            if isinstance(owner, Mapping):
                stack.enter_context(mock.patch.dict(owner, {name: value}))
            else:
                stack.enter_context(mock.patch.object(owner, name, value))
        device.plans.clear()
        try:
            yield
        finally:
            fw.eval()
            device.plans.clear()


def timings(
    device: Any, variants: Sequence[Variant], run: Run, until: float
) -> Iterator[Timing]:
    """Yield the timings of variants, until `time.monotonic()` exceeds `until`.

    One that fails is named on stderr and left out.
    """
    expected: list[np.ndarray] | None = None
    for variant in variants:
        if time.monotonic() > until:
            print("bench: the time is spent; more with --seconds", file=sys.stderr)
            return
        try:
            with applied(device, variant):
                found = [_sample(x) for x in run()]
                seconds = _seconds(device, run)
        except Error as error:
            print(f"bench: {variant.name}: {error}", file=sys.stderr)
            continue
        expected = expected or found
        yield Timing(variant.name, seconds, _difference(found, expected))


def _seconds(device: Any, run: Run) -> float:
    """Return the median seconds of a run, of a device that is warm."""
    gpu = device.gpu
    software = gpu.info.kind == "software"
    clock = wall_seconds if software else device_seconds
    once = clock(gpu, run, 1)
    for _ in range(0 if software else 2):
        once = clock(gpu, run, _repeats(_WARM_SECONDS, once, _MOST_WARM_REPEATS))
    repeats = _repeats(_BATCH_SECONDS, once, _MOST_REPEATS)
    return statistics.median(clock(gpu, run, repeats) for _ in range(_ROUNDS))


def _repeats(seconds: float, once: float, most: int) -> int:
    """Return how often to run what takes `once` for it to last that long."""
    return max(1, min(most, round(seconds / max(once, 1e-9))))


def _sample(x: Tensor) -> np.ndarray:
    """Return some results, all over the tensor."""
    flat = x.reshape(-1)
    step = max(1, flat.shape[0] // _MOST_COMPARED) | 1
    return flat[::step].float().numpy().astype(np.float64)


def _difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Return the largest difference, as a share of the largest result."""
    shares = [0.0]
    for x, y in zip(found, expected):
        scale = float(np.abs(y).max()) or 1.0
        shares.append(float(np.abs(x - y).max()) / scale)
    return max(shares)


def print_table(title: str, rows: Sequence[Timing], operations: float) -> None:
    """Print timings, the quickest first; the first of `rows` is what is chosen now."""
    print(title)
    for row in sorted(rows, key=lambda row: row.seconds):
        mark = "*" if row is rows[0] else " "
        print(
            f"  {mark} {row.seconds * 1e6:10.1f} us"
            f" {rows[0].seconds / row.seconds:6.2f}x"
            f" {operations / row.seconds * 1e-12:7.1f} TFLOP/s"
            f"  differs by {row.difference:.1e}  {row.name}",
            flush=True,
        )
