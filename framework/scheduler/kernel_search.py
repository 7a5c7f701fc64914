"""Kernel search: benchmarks the candidates for a kernel; see `autotune`.

A tuning key without a cached result comes up while a graph is planned. Its candidates
then run in turn, round by round, on scratch data of the node's own shapes, and the
graph is planned again with the result. Other work on the device is not disturbed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import vkbackend
from vkbackend import Verdict
from vkbackend.errors import Error

from ..autotune import autotune
from ..autotune.autotune import SearchSpace
from ..base.dtype import DType, bfloat16, decode, encode, float16, float32, float64
from ..base.shape import Layout
from ..ir.lazy_graph import Node, Value
from .executor import buffer_of, run_plan, seconds_of
from .plan import Plan, build_plan

MARGIN = 0.97
"""Share of the default's time that a candidate must stay below to replace it."""

ROUNDS = 5
"""Measurements per candidate; the median counts. The best is measured twice."""

PRUNE_RATIO = 2.0
"""Ratio to the best time of the first round above which a candidate is dropped."""

MIN_SECONDS = 2e-4
MAX_REPEATS = 32
"""Upper limit of repetitions that stretch one measurement to its target time."""

MIN_BYTES = 1 << 16
MAX_BYTES = 1 << 30
"""Bytes of inputs and outputs above which a node is not benchmarked."""

Run = Callable[[], None]

_BLOCK = 1 << 20
"""Distinct random numbers of an input; larger inputs repeat them."""

# Tolerance of a candidate against the default's result, relative to the largest
# element: a few times the effect of another summation order on sums of 10^4 products.
# A kernel that reads a wrong element is off by as much as the elements are large.
_BOUNDS = {float64: 1e-9, float32: 1e-4, float16: 1e-2, bfloat16: 3e-2}


def autotuned_plan(
    gpu: vkbackend.Device, nodes: Sequence[Node], build: Callable[[], Plan]
) -> Plan:
    """Return the plan of `build`, after benchmarking its open tuning keys.

    Parameters
    ----------
    gpu : vkbackend.Device
        Device of the plan.
    nodes : sequence of Node
        Nodes of the plan.
    build : callable
        Makes the plan; called again after a benchmark.
    """
    if not autotune.measures(gpu):
        return build()
    with autotune.collecting_keys() as collected:
        plan = build()
    if not collected:
        return plan
    alone = {node.op.tuning_key(node): node for node in nodes}
    search_spaces = {
        tuning_key: search_space or _single_node_space(gpu, alone[tuning_key])
        for tuning_key, search_space in collected.items()
    }
    search_spaces = {
        name: row for name, row in search_spaces.items() if _is_worth_it(row)
    }
    if not search_spaces:
        return plan
    del plan
    for tuning_key, search_space in search_spaces.items():
        measure(gpu, tuning_key, search_space)
    return build()


def _is_worth_it(search_space: SearchSpace) -> bool:
    """Return whether there are several candidates, and work of a size to measure."""
    return bool(search_space.names) and MIN_BYTES <= _size(search_space) <= MAX_BYTES


def _single_node_space(gpu: vkbackend.Device, node: Node) -> SearchSpace:
    """Return the search space of a node with hand-written kernels."""
    wanted = set(map(id, node.outputs))
    return SearchSpace((node,), wanted, *node.op.candidate_names(gpu.info, node))


def measure(gpu: vkbackend.Device, tuning_key: str, search_space: SearchSpace) -> None:
    """Benchmark a search space and cache the result, as far as the budget allows.

    Parameters
    ----------
    gpu : vkbackend.Device
    tuning_key : str
    search_space : SearchSpace
        Its nodes are not run.
    """
    settings = autotune.settings()
    left = settings.budget - settings.spent
    if left <= 0:
        return
    start = time.perf_counter()
    verdict = None
    with autotune.paused():
        try:
            verdict = _Benchmark(gpu, tuning_key, search_space, start + left).verdict()
        except Error:
            # No time or no memory is left: the heuristic chooses, and may ask again.
            pass
    settings.spent += time.perf_counter() - start
    if verdict is not None:
        autotune.keep_result(gpu.info, tuning_key, verdict)


def _size(search_space: SearchSpace) -> int:
    """Return the bytes that are read and written."""
    read = sum(count * value.dtype.itemsize for value, count in _inputs(search_space))
    return read + sum(
        value.nbytes
        for node in search_space.nodes
        for value in node.outputs
        if id(value) in search_space.live_out
    )


def _inputs(search_space: SearchSpace) -> list[tuple[Value, int]]:
    """Return the input values in memory, and their element counts."""
    made = {id(value) for node in search_space.nodes for value in node.outputs}
    found: dict[int, tuple[Value, int]] = {}
    for node in search_space.nodes:
        for value, layout in node.inputs:
            if id(value) not in made:
                _, known = found.get(id(value), (value, 0))
                found[id(value)] = value, max(known, _storage_elements(layout))
    return list(found.values())


def _storage_elements(layout: Layout) -> int:
    """Return the element count of the storage under a layout."""
    if layout.numel == 0:
        return 0
    steps = zip(layout.shape, layout.strides)
    return layout.offset + 1 + sum((size - 1) * step for size, step in steps)


class _Unmeasured(Error):
    """Benchmark without a result: no budget, or the nodes run differently alone."""


class _Benchmark:
    """Benchmark of the candidates for one tuning key, on scratch data."""

    def __init__(
        self,
        gpu: vkbackend.Device,
        tuning_key: str,
        search_space: SearchSpace,
        deadline: float,
    ) -> None:
        self.gpu = gpu
        self.tuning_key = tuning_key
        self.own, self.names = search_space.own, search_space.names
        self.deadline = deadline
        rng = np.random.default_rng(0)
        self.values = {
            id(value): _scratch(gpu, rng, count, value.dtype)
            for value, count in _inputs(search_space)
        }
        self.nodes = [self._clone(node) for node in search_space.nodes]
        self.live_out = [self.values[each] for each in search_space.live_out]
        self.slots = {
            id(value): slot for slot, value in enumerate(self.values.values())
        }

    def _clone(self, node: Node) -> Node:
        """Return a copy of a node over scratch values."""
        values = tuple(self.values[id(value)] for value in node.values)
        copy = Node(node.signature, values, tuple(map(_untraced, node.numbers)))
        self.values |= zip(map(id, node.outputs), copy.outputs)
        return copy

    def verdict(self) -> Verdict:
        """Return the tuning result, or raise `_Unmeasured`."""
        runs = self._valid_candidates()
        first = self._seconds(runs, 1, 1)
        limit = PRUNE_RATIO * min(first.values())
        runs = {
            name: run
            for name, run in runs.items()
            if name == autotune.DEFAULT or first[name] <= limit
        }
        repeat = _repeats(min(first.values()))
        found = self._seconds(runs, repeat, ROUNDS)
        best = min(found, key=found.__getitem__)
        if _is_faster(found, best):
            # The best of many is often only lucky: it must win once more, alone.
            pair = {name: runs[name] for name in (autotune.DEFAULT, best)}
            found |= self._seconds(pair, repeat, ROUNDS)
        choice = best if _is_faster(found, best) else autotune.DEFAULT
        return Verdict(choice, first | found, self.own)

    def _check_time(self) -> None:
        if time.perf_counter() >= self.deadline:
            raise _Unmeasured(f"autotune: no time is left for {self.tuning_key}")

    def _valid_candidates(self) -> dict[str, Run]:
        """Return the candidates whose results match the default's, each run once."""
        run, wanted = self._run_candidate(autotune.DEFAULT)
        dtypes = [value.dtype for value in self.live_out]
        runs = {autotune.DEFAULT: run}
        for name in self.names:
            self._check_time()
            try:
                run, got = self._run_candidate(name)
            except Error:
                continue  # it needs a feature that the device lacks
            if all(map(is_close, got, wanted, dtypes)):
                runs[name] = run
        return runs

    def _run_candidate(self, name: str) -> tuple[Run, list[np.ndarray]]:
        """Plan and run a candidate; return a function to rerun it, and its results."""
        with autotune.forced_candidate(self.tuning_key, name):
            plan = build_plan(
                self.gpu,
                self.nodes,
                dict(self.slots),
                fusing=len(self.nodes) > 1,
                external=set(map(id, self.live_out)),
            )
        if len(plan.kernel_groups) > 1:
            raise _Unmeasured(f"autotune: {self.tuning_key} is about several kernels")

        def run() -> None:
            run_plan(self.gpu, plan, self.nodes)

        run()
        return run, [_read(self.gpu, value) for value in self.live_out]

    def _seconds(
        self, runs: Mapping[str, Run], repeat: int, rounds: int
    ) -> dict[str, float]:
        """Return the median time of each candidate, measured round by round."""
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                self._check_time()
                times[name].append(seconds_of(self.gpu, run, repeat))
        from statistics import median

        return {name: median(row) for name, row in times.items()}


def _is_faster(seconds: Mapping[str, float], name: str) -> bool:
    """Return whether a candidate beats the default by the margin."""
    return seconds[name] < MARGIN * seconds[autotune.DEFAULT]


def _repeats(seconds: float) -> int:
    """Return the repetitions of one measurement."""
    if seconds <= 0:
        return MAX_REPEATS
    return min(MAX_REPEATS, max(1, math.ceil(MIN_SECONDS / seconds)))


def _untraced(number: float) -> float:
    """Return a number as a plain constant, untraced."""
    return int(number) if isinstance(number, int) else float(number)


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
    stored = np.frombuffer(gpu.read(buffer_of(value)), value.dtype.storage)
    return decode(stored[: value.numel], value.dtype).astype(value.dtype.arithmetic)


def is_close(got: np.ndarray, wanted: np.ndarray, dtype: DType) -> bool:
    """Return whether a candidate's result matches the default's up to rounding."""
    if not dtype.is_float:
        return np.array_equal(got, wanted)
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return False
    apart = np.abs(got[finite] - wanted[finite])
    # A NaN is no smaller than anything.
    return bool(np.all(apart <= _BOUNDS[dtype] * np.abs(wanted[finite]).max(initial=0)))
