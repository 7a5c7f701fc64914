"""Measuring the candidates for a kernel, where somebody asked for it: see `tuning`.

A question comes up while a graph is planned. Its candidates then run in turn, round by
round, on scratch data of the node's own shapes, and the graph is planned again with the
verdict. What else is on the device stays as it is.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import vkbackend
from vkbackend import Verdict
from vkbackend.errors import Error

from . import tuning
from .dtype import DType, bfloat16, decode, encode, float16, float32, float64
from .execution import realised, run_plan, seconds_of
from .pending import Array, Node, Value
from .plan import Plan, build_plan
from .shape import Layout

MARGIN = 0.97
"""Share of the default's time that a candidate must stay below."""

ROUNDS = 5
"""Times that each candidate is measured; the median counts. The best comes twice."""

HOPELESS = 2.0
"""Times the best of the first round beyond which a candidate is measured no more."""

ENOUGH_SECONDS = 2e-4
MOST_REPEATS = 32
"""Time that one measurement should take, by repeating the work so often at most."""

LEAST_BYTES = 1 << 16
MOST_BYTES = 1 << 30
"""Memory of a node's inputs and outputs outside of which it is not measured."""

Run = Callable[[], None]

_BLOCK = 1 << 20
"""Different random numbers of an input; larger ones repeat them."""

# Distance from the default's result that a candidate may have, beside the largest
# element: some times what another order of summation makes of sums of 10^4 products. A
# kernel that reads a wrong element is as far away as the elements are large.
_BOUNDS = {float64: 1e-9, float32: 1e-4, float16: 1e-2, bfloat16: 3e-2}


def tuned(
    gpu: vkbackend.Device, nodes: Sequence[Node], build: Callable[[], Plan]
) -> Plan:
    """Return the plan that `build` makes, once its open questions are measured.

    Parameters
    ----------
    gpu : vkbackend.Device
        Where it will run.
    nodes : sequence of Node
        What is planned.
    build : callable
        Makes the plan, as often as it is called.
    """
    if not tuning.measures(gpu):
        return build()
    with tuning.asking() as asked:
        plan = build()
    if not asked:
        return plan
    del plan
    for node in nodes:
        question = node.op.question(node)
        if question in asked:
            del asked[question]
            measure(gpu, node, question)
    return build()


def measure(gpu: vkbackend.Device, node: Node, question: str) -> None:
    """Find and keep the verdict on a question, as far as the budget allows.

    Parameters
    ----------
    gpu : vkbackend.Device
    node : Node
        One that asks it; it is not run.
    question : str
    """
    settings = tuning.settings()
    left = settings.budget - settings.spent
    if left <= 0 or not LEAST_BYTES <= _size(node) <= MOST_BYTES:
        return
    start = time.perf_counter()
    verdict = None
    with tuning.paused():
        try:
            verdict = _Contest(gpu, node, question, start + left).verdict()
        except Error:
            # No time or no memory is left: the op's rule chooses, and may ask again.
            pass
    settings.spent += time.perf_counter() - start
    if verdict is not None:
        tuning.decide(gpu.info, question, verdict)


def _size(node: Node) -> int:
    """Return the bytes of a node's inputs and outputs."""
    taken = [(_reach(layout), value.dtype) for value, layout in node.inputs]
    return sum(count * dtype.itemsize for count, dtype in [*taken, *node.form.outputs])


def _reach(layout: Layout) -> int:
    """Return the elements of the storage that a layout is of."""
    if layout.numel == 0:
        return 0
    steps = zip(layout.shape, layout.strides)
    return layout.offset + 1 + sum((size - 1) * step for size, step in steps)


class _TimeUp(Error):
    """The budget for measuring is spent."""


class _Contest:
    """The candidates for one node, on scratch data."""

    def __init__(
        self, gpu: vkbackend.Device, node: Node, question: str, deadline: float
    ) -> None:
        self.gpu = gpu
        self.form = node.form
        self.question = question
        self.deadline = deadline
        self.own, self.names = node.op.candidate_names(gpu.info, node)
        rng = np.random.default_rng(0)
        self.values = tuple(
            _scratch(gpu, rng, _reach(layout), value.dtype)
            for value, layout in node.inputs
        )

    def verdict(self) -> Verdict:
        """Return which candidate is best, or raise `_TimeUp`."""
        runs = self._ready()
        first = self._seconds(runs, 1, 1)
        limit = HOPELESS * min(first.values())
        runs = {
            name: run
            for name, run in runs.items()
            if name == tuning.DEFAULT or first[name] <= limit
        }
        repeat = _repeats(min(first.values()))
        found = self._seconds(runs, repeat, ROUNDS)
        best = min(found, key=found.__getitem__)
        if _is_clear(found, best):
            # The best of many is often only lucky: it must win once more, alone.
            pair = {name: runs[name] for name in (tuning.DEFAULT, best)}
            found |= self._seconds(pair, repeat, ROUNDS)
        choice = best if _is_clear(found, best) else tuning.DEFAULT
        return Verdict(choice, first | found, self.own)

    def _check_time(self) -> None:
        if time.perf_counter() >= self.deadline:
            raise _TimeUp(f"autotune: no seconds are left for {self.question}")

    def _ready(self) -> dict[str, Run]:
        """Return the candidates that give what the default gives, each run once."""
        run, wanted = self._started(tuning.DEFAULT)
        runs = {tuning.DEFAULT: run}
        for name in self.names:
            self._check_time()
            try:
                run, got = self._started(name)
            except Error:
                continue  # it needs what the device lacks
            if all(map(close, got, wanted, self.form.dtypes)):
                runs[name] = run
        return runs

    def _started(self, name: str) -> tuple[Run, list[np.ndarray]]:
        """Plan a candidate, run it, and return how to do so and its results."""
        node = Node(self.form, self.values)
        arrays = [Array(value) for value in node.outputs]
        slots: dict[int, int] = {}
        for value in (*self.values, *node.outputs):
            slots.setdefault(id(value), len(slots))
        with tuning.forcing(self.question, name):
            plan = build_plan(self.gpu, [node], slots, fusing=False)

        def run() -> None:
            run_plan(self.gpu, plan, [node])

        run()
        return run, [_read(self.gpu, array.value) for array in arrays]

    def _seconds(
        self, runs: Mapping[str, Run], repeat: int, rounds: int
    ) -> dict[str, float]:
        """Return the median time of each candidate, all measured in turn."""
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                self._check_time()
                times[name].append(seconds_of(self.gpu, run, repeat))
        return {name: statistics.median(row) for name, row in times.items()}


def _is_clear(seconds: Mapping[str, float], name: str) -> bool:
    """Return whether a candidate is clearly quicker than the default."""
    return seconds[name] < MARGIN * seconds[tuning.DEFAULT]


def _repeats(seconds: float) -> int:
    """Return how often work is repeated to be measured."""
    if seconds <= 0:
        return MOST_REPEATS
    return min(MOST_REPEATS, max(1, math.ceil(ENOUGH_SECONDS / seconds)))


def _scratch(
    gpu: vkbackend.Device, rng: np.random.Generator, count: int, dtype: DType
) -> Value:
    """Return a value of random elements: in [-0.75, 1.25), or 0 to 3 for integers."""
    many = min(count, _BLOCK)
    if dtype.is_float:
        block = encode(rng.uniform(-0.75, 1.25, many).astype(np.float32), dtype)
    else:
        block = encode(rng.integers(0, 4, many).astype(dtype.arithmetic), dtype)
    flat = np.resize(block, count)
    buffer = gpu.allocate(flat.nbytes, name="scratch of a measurement")
    if flat.nbytes:
        gpu.upload(flat, buffer)
    return Value(count, dtype, buffer=buffer)


def _read(gpu: vkbackend.Device, value: Value) -> np.ndarray:
    stored = np.frombuffer(gpu.read(realised(value)), value.dtype.storage)
    return decode(stored[: value.numel], value.dtype).astype(value.dtype.arithmetic)


def close(got: np.ndarray, wanted: np.ndarray, dtype: DType) -> bool:
    """Return whether a candidate's result is that of the default, but for rounding."""
    if not dtype.is_float:
        return np.array_equal(got, wanted)
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return False
    apart = np.abs(got[finite] - wanted[finite])
    # A NaN is no smaller than anything.
    return bool(np.all(apart <= _BOUNDS[dtype] * np.abs(wanted[finite]).max(initial=0)))
