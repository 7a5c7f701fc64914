"""Growth of times with sizes: `python -m vkbackend.tools.bench growth`.

Each class of kernels (`growth_classes`) is timed at sizes from 1 Ki elements to as many
as memory takes: powers of two, and between two of them an odd one, 3/2 of the lesser.
The *work* w(n) of a size n is what its time should be in proportion to: the bytes that
it moves or, where that is more, its operations at 16 for a byte.

A *step* is between neighbouring sizes n < m. It is t(m) / t(n) over w(m) / w(n): how
much more the time grows than the work does. Where both sizes take no longer than a
launch it is below 1, at full rate it is 1, and where a slower kernel takes over it is
above.
Both sizes of a step above `--step` (1.5) are measured once more, on a GPU that was kept
busy, and the least times count: its clock falls where kernels are compiled in between,
or are short. Steps are printed if they remain.

`flat` is t/w of the largest size over t/w of 1 Mi elements, and `worst` the largest t/w
from there on over the least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from vkbackend import Error

from ..exit_status import outcome
from . import results
from .clock import device_seconds, keep_busy, wall_seconds
from .growth_classes import CLASSES, Inputs, KernelClass, Sized
from .measure import device_to_measure

FIRST = 1 << 10
FLAT_FROM = 1 << 20
"""Elements from which time should be in proportion to work."""

_ROUNDS = 3
_WARM_SECONDS = 0.01
"""Of work before it is timed: while kernels compile, a device's clock falls."""
_RAISED, _BUSY, _FACTOR = 0.3, 0.03, 2048
"""Seconds for which a GPU multiplies matrices before sizes are timed again, and before
each of them, and the sides of these."""
_MOST_REPEATS = 100
_TICK = 1e-9


class Point(NamedTuple):
    """A size of a class.

    Attributes
    ----------
    seconds : float
    work : float
    """

    seconds: float
    work: float

    @property
    def cost(self) -> float:
        """Seconds for each unit of work."""
        return self.seconds / self.work


Points = Mapping[int, Point]


def sizes(least: int, most: int) -> list[int]:
    """Return the sizes in the order in which they are measured.

    Powers of two come first, for time may end before the others.
    """
    powers = [1 << k for k in range(least.bit_length() - 1, most.bit_length())]
    powers = [size for size in powers if least <= size <= most]
    between = [3 * size // 2 + 1 for size in powers if 3 * size // 2 + 1 <= most]
    return powers + between


def steps(points: Points) -> list[tuple[float, int, int]]:
    """Return how much more time grows than work between neighbours, worst first."""
    found = []
    for n, m in pairwise(sorted(points)):
        grown = points[m].seconds / points[n].seconds
        found.append((grown * points[n].work / points[m].work, n, m))
    return sorted(found, reverse=True)


def flatness(points: Points) -> tuple[float | None, float | None]:
    """Return the cost of the largest size over that of 1 Mi, and worst over least."""
    costs = {n: point.cost for n, point in points.items() if n >= FLAT_FROM}
    if len(costs) < 2:
        return None, None
    last = costs[max(costs)] / costs[min(costs)]
    return last, max(costs.values()) / min(costs.values())


class Bench:
    """Measures classes on a device.

    Parameters
    ----------
    device : framework device
    most : int
        Elements at most.
    memory : int
        Bytes for the tensors of one size.
    batch : float
        Seconds of a batch of repetitions.
    """

    def __init__(self, device: Any, most: int, memory: int, batch: float) -> None:
        self.device, self.memory, self.batch = device, memory, batch
        largest = device.gpu.info.max_allocation_size
        self.most = min(most, largest // 4)
        self.inputs = Inputs(device, self.most)
        software = device.gpu.info.kind == "software"
        self.clock = wall_seconds if software else device_seconds
        self.typical = min if software else statistics.median

    def sizes(self, kind: KernelClass) -> list[int]:
        """Return the sizes of a class that fit."""
        return sizes(
            max(FIRST, kind.least), min(self.most, int(self.memory / kind.size))
        )

    def point(self, kind: KernelClass, size: int, busy: bool = False) -> Point:
        """Return the time of a size, if wanted on a GPU that was kept busy."""
        made = kind.make(self.inputs, size)
        return Point(max(self.seconds(made, busy), _TICK), made.work)

    def seconds(self, made: Sized, busy: bool = False) -> float:
        """Return the seconds of a run: of several batches, after those that warm up."""
        gpu = self.device.gpu
        wall_seconds(gpu, made.run, 1)
        once = self.clock(gpu, made.run, 1)
        if gpu.info.kind != "software":
            most = round(_WARM_SECONDS / max(once, _TICK))
            once = self.clock(gpu, made.run, max(1, min(_MOST_REPEATS, most)))
            if busy:
                self.keep_busy(_BUSY)
        if once > self.batch:
            return min(once, self.clock(gpu, made.run, 1))
        repeat = max(1, min(_MOST_REPEATS, round(self.batch / max(once, 1e-7))))
        return self.typical([self.clock(gpu, made.run, repeat) for _ in range(_ROUNDS)])

    def keep_busy(self, seconds: float) -> None:
        """Keep a GPU busy for so long; software has no clock to rise."""
        if self.device.gpu.info.kind != "software":
            factor = self.inputs.floats(_FACTOR, _FACTOR)
            keep_busy(self.device.gpu, factor, seconds)

    def measured(
        self, kind: KernelClass, until: float, step: float
    ) -> dict[int, Point]:
        """Return the points of a class, in order of size, measured until then."""
        points: dict[int, Point] = {}
        refused = self.most + 1
        for size in self.sizes(kind):
            if time.perf_counter() > until:
                break
            if size >= refused:
                continue
            try:
                points[size] = self.point(kind, size)
            except Error as error:  # a result of wider elements, or scratch memory
                print(f"{kind.name} of {size}: {error}"[:300], file=sys.stderr)
                refused = size
        again: set[int] = set()
        while suspect := {
            n for grown, *pair in steps(points) if grown > step for n in pair
        }.difference(again):
            self.keep_busy(_RAISED)
            for size in sorted(suspect):
                points[size] = min(points[size], self.point(kind, size, True))
            again |= suspect
        self.inputs.forget()
        return dict(sorted(points.items()))


def record(
    kind: KernelClass, points: Points, step: float, device: Any
) -> dict[str, Any]:
    """Return the JSON record of a class; times are microseconds."""
    flat, worst = flatness(points)
    return {
        "class": kind.name,
        "device": device.gpu.info.name,
        "commit": results.commit(),
        "largest": max(points, default=0),
        "flat": flat and round(flat, 3),
        "worst": worst and round(worst, 3),
        "steps": [
            [round(grown, 2), n, m] for grown, n, m in steps(points) if grown > step
        ],
        "microseconds": {n: round(each.seconds * 1e6, 2) for n, each in points.items()},
    }


def line(row: Mapping[str, Any]) -> str:
    """Return a record as a line of a table."""
    shown = ", ".join(f"{grown} ({n} to {m})" for grown, n, m in row["steps"])
    flat, worst = (
        "-" if row[name] is None else f"{row[name]:.2f}" for name in ("flat", "worst")
    )
    return f"{row['class']:<38} {row['largest']:>10} {flat:>6} {worst:>6}  {shown}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line says; the exit status is 1 without a device."""
    options = _parser().parse_args(arguments)
    return outcome("bench growth", lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench growth",
        description="Time each class of kernels over sizes, and find uneven steps.",
    )
    parser.add_argument("--only", default="", help="part of a class's name")
    parser.add_argument("--most", type=int, help="elements (2^30; software 2^20)")
    parser.add_argument("--memory", type=float, help="GiB at once (32; software 1)")
    parser.add_argument("--seconds", type=float, default=150, help="for all classes")
    parser.add_argument("--step", type=float, default=1.5, help="steps that are shown")
    parser.add_argument("--batch", type=float, default=0.002, help="seconds")
    parser.add_argument("--device", help="an index or part of a name")
    parser.add_argument("--output", type=Path, help="file that JSON lines are added to")
    return parser


def _run(options: argparse.Namespace) -> int:
    warnings.simplefilter("ignore")
    device = device_to_measure(options.device)
    if device is None:
        return 1
    software = device.gpu.info.kind == "software"
    most = options.most or (1 << 20 if software else 1 << 30)
    memory = int((options.memory or (1 if software else 32)) * (1 << 30))
    bench = Bench(device, most, memory, options.batch)
    chosen = [each for each in CLASSES if options.only in each.name]
    print(f"{device.description}\n{'class':<38} {'largest':>10}   flat  worst  steps")
    end = time.perf_counter() + options.seconds
    uneven = 0
    for number, kind in enumerate(chosen):
        now = time.perf_counter()
        until = now + (end - now) / (len(chosen) - number)
        row = record(
            kind, bench.measured(kind, until, options.step), options.step, device
        )
        uneven += bool(row["steps"])
        print(line(row), flush=True)
        if options.output:
            with options.output.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(f"{len(chosen)} classes, {uneven} with steps above {options.step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
