"""Measuring candidates: who wins, what is refused, what is scheduled anew.

No test depends on how long anything takes: times are made up.
"""

import itertools
import json
import math
import os
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend import config
from vkbackend.errors import ShaderError
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import bfloat16, float16, float32, int32
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.codegen.ir import reductions
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels import reduce, rowwise
from vkbackend.framework.kernels.reduce import reduce_dispatches, sum_like
from vkbackend.framework.kernels.reduce_variants import LEAST_WHOLE
from vkbackend.framework.scheduler import kernel_search

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("untuned")]

COUNT = 30_000
"""Elements of which a sum is cut into chunks."""

Times = Callable[[Sequence[float]], None]


@pytest.fixture
def of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sums take two dispatches, of chunks.

    On hardware so few elements would be a row of a generated kernel.
    """
    monkeypatch.setattr(reductions, "SMALL", 0)
    monkeypatch.setattr(reduce, "is_vec4_readable", lambda *_: False)


@pytest.fixture
def ways(of_chunks: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Let sums have these candidates, which multiply the result; of one chunk each."""
    found: dict[str, float] = {"whole": 1.0}

    def refuse() -> list[Dispatch]:
        raise ShapeError("sum: not this way")

    def rule(gpu: Any, x: Any, dims: Any, dtype: Any, scale: float) -> dict[str, Any]:
        def way(factor: float) -> list[Dispatch]:
            changed = sum_like("SUM", x.dtype, dtype, scale * factor)
            return reduce_dispatches(gpu, changed, x, dims, 1)

        ways = {name: lambda factor=row: way(factor) for name, row in found.items()}
        return {**ways, "never": lambda: None, "refused": refuse}

    monkeypatch.setitem(REGISTRY["sum"].rules, "candidates", rule)  # type: ignore[attr-defined]  # a primitive
    return found


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    """Return what sets the seconds of the default and of each candidate, in turn."""

    def use(seconds: Sequence[float]) -> None:
        turns = itertools.cycle(seconds)

        def timed(gpu: object, run: Callable[[], None], repeat: int) -> float:
            run()
            return next(turns)

        monkeypatch.setattr(kernel_search, "seconds_of", timed)

    return use


def total(gpu: GpuDevice) -> float:
    """Return the sum of as many ones, computed by a schedule or a new one."""
    x = fw.ones(COUNT, device=gpu)
    fw.eval(x)
    return float(x.sum().item())


def grids(gpu: GpuDevice) -> int:
    """Return the dispatches of the latest schedule."""
    return len(list(gpu.plans.values())[-1].launches)


def test_nothing_is_measured_by_default(gpu: GpuDevice, ways: dict[str, float]) -> None:
    assert total(gpu) == COUNT
    assert autotune.measured == []
    assert grids(gpu) == 2


def test_the_quickest_is_used_and_kept(
    gpu: GpuDevice, ways: dict[str, float], times: Times
) -> None:
    fw.autotune()
    times([1.0, 0.9])
    assert total(gpu) == COUNT
    [found] = autotune.measured
    assert found.tuning_key.startswith("sum x=float32[32768/16] dims=(0,)")
    assert found.verdict.choice == "whole"
    assert found.verdict.seconds == {"default": 1.0, "whole": 0.9}
    # None of the candidates is what the rule chooses.
    assert found.verdict.default == ""
    assert grids(gpu) == 1
    # And again, without asking twice.
    assert total(gpu) == COUNT
    assert len(autotune.measured) == 1
    assert autotune.settings().spent > 0
    # Later processes only read it.
    fw.autotune(False)
    autotune._tables.clear()
    gpu.plans.clear()
    assert total(gpu) == COUNT
    assert grids(gpu) == 1


@pytest.mark.parametrize(
    ("seconds", "winner"),
    [([1.0, 0.98], "default"), ([1.0, 0.96], "whole"), ([1.0, 1.5], "default")],
)
def test_a_candidate_must_be_clearly_quicker(
    seconds: list[float],
    winner: str,
    gpu: GpuDevice,
    ways: dict[str, float],
    times: Times,
) -> None:
    fw.autotune()
    times(seconds)
    total(gpu)
    assert [row.verdict.choice for row in autotune.measured] == [winner]


ROUNDS = [1.0, 0.5, 9.0, 0.6, 1.1, 9.0, 0.9, 0.7, 0.1, 8.0]


@pytest.mark.parametrize(
    ("again", "seconds", "winner"),
    [
        ([1.2, 1.0] * 5, {"default": 1.2, "whole": 1.0}, "whole"),
        # Who was only lucky does not win twice.
        ([1.0, 0.98] * 5, {"default": 1.0, "whole": 0.98}, "default"),
        ([1.0, 9.0] * 5, {"default": 1.0, "whole": 9.0}, "default"),
    ],
)
def test_the_median_counts_and_must_be_repeated(
    again: list[float],
    seconds: dict[str, float],
    winner: str,
    gpu: GpuDevice,
    ways: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fw.autotune()
    # A round that does not count, then five: default and candidate in turn.
    turns = iter([1, 1, *ROUNDS, *again])
    monkeypatch.setattr(kernel_search, "seconds_of", lambda *_: next(turns))
    total(gpu)
    [found] = autotune.measured
    assert found.verdict.seconds == seconds
    assert found.verdict.choice == winner
    assert next(turns, None) is None


def test_a_default_that_is_best_is_not_measured_again(
    gpu: GpuDevice, ways: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fw.autotune()
    turns = iter([1, 1, *[1.0, 1.1] * kernel_search.ROUNDS])
    monkeypatch.setattr(kernel_search, "seconds_of", lambda *_: next(turns))
    total(gpu)
    assert autotune.measured[0].verdict.seconds == {"default": 1.0, "whole": 1.1}


def test_hopeless_candidates_are_measured_once(
    gpu: GpuDevice, ways: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fw.autotune()
    # And cannot win because all became slower after that.
    seconds = iter([1.0, 5.0] + [9.0] * kernel_search.ROUNDS)
    monkeypatch.setattr(kernel_search, "seconds_of", lambda *_: next(seconds))
    total(gpu)
    [found] = autotune.measured
    assert found.verdict.seconds == {"default": 9.0, "whole": 5.0}
    assert found.verdict.choice == "default"


def test_a_wrong_candidate_cannot_win(
    gpu: GpuDevice, ways: dict[str, float], times: Times
) -> None:
    fw.autotune()
    ways.clear()
    ways |= {"twice": 2.0, "nothing": float("nan"), "right": 1.0}
    times([1.0, 0.6])
    assert total(gpu) == COUNT
    [found] = autotune.measured
    assert set(found.verdict.seconds) == {"default", "right"}
    assert found.verdict.choice == "right"


@pytest.mark.usefixtures("of_chunks")
def test_a_candidate_that_does_not_build_cannot_win(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, times: Times
) -> None:
    fw.autotune()
    times([1.0])
    rule = REGISTRY["sum"].rules["kernel"]  # type: ignore[attr-defined]  # a primitive

    def broken(*arguments: Any, **named: Any) -> list[Dispatch]:
        [*_, last] = rule(*arguments, **named)
        return [Dispatch("reduce/none_such", last.grid, last.push)]

    monkeypatch.setitem(
        REGISTRY["sum"].rules,  # type: ignore[attr-defined]  # a primitive
        "candidates",
        lambda *a, **named: {"broken": lambda: broken(*a, **named)},
    )
    assert total(gpu) == COUNT
    [found] = autotune.measured
    assert found.verdict.seconds == {"default": 1.0}


def test_what_cannot_be_measured_is_left_to_the_rule(
    gpu: GpuDevice, ways: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fw.autotune()

    def fails(*_: object) -> float:
        raise ShaderError("out of order")

    monkeypatch.setattr(kernel_search, "seconds_of", fails)
    assert total(gpu) == COUNT
    assert (autotune.measured, grids(gpu)) == ([], 2)


@pytest.mark.parametrize(
    ("limit", "size"), [("MAX_BYTES", 4 * COUNT), ("MIN_BYTES", 4 * COUNT + 5)]
)
def test_large_and_small_work_is_not_measured(
    limit: str,
    size: int,
    gpu: GpuDevice,
    ways: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fw.autotune()
    monkeypatch.setattr(kernel_search, limit, size)
    assert total(gpu) == COUNT
    assert autotune.measured == []


def test_without_a_choice_there_is_nothing_to_measure(
    gpu: GpuDevice, ways: dict[str, float]
) -> None:
    ways.clear()
    fw.autotune()
    assert total(gpu) == COUNT
    assert autotune.measured == []


def test_a_schedule_made_before_is_made_anew(
    gpu: GpuDevice, ways: dict[str, float], times: Times
) -> None:
    assert total(gpu) == COUNT
    assert grids(gpu) == 2
    fw.autotune()
    times([1.0, 0.5])
    assert total(gpu) == COUNT
    assert grids(gpu) == 1
    fw.autotune(False, kept=False)
    assert total(gpu) == COUNT
    assert grids(gpu) == 2


def test_what_must_wait_is_measured_later(
    gpu: GpuDevice, ways: dict[str, float], times: Times
) -> None:
    fw.autotune()
    times([1.0, 0.5])
    with fw.profile(gpu.name):
        assert total(gpu) == COUNT
    assert (autotune.measured, grids(gpu)) == ([], 2)
    assert total(gpu) == COUNT
    assert (len(autotune.measured), grids(gpu)) == (1, 1)


def test_jit_measures_once_and_traces_again_for_new_verdicts(
    gpu: GpuDevice, ways: dict[str, float], times: Times
) -> None:
    # Without work that might join it, which on hardware makes another kernel.
    step = fw.jit(lambda x: x.sum())
    x = fw.ones(COUNT, device=gpu)
    assert [step(x).item() for _ in range(2)] == [COUNT] * 2
    assert (step.traces, step.replays) == (1, 1)
    assert step.memory_stats()["dispatches"] == 2
    fw.autotune()
    times([1.0, 0.5])
    assert [step(x).item() for _ in range(3)] == [COUNT] * 3
    assert (step.traces, len(autotune.measured)) == (2, 1)
    assert step.memory_stats()["dispatches"] == 1


def test_a_report_measures_nothing(
    gpu: GpuDevice, ways: dict[str, float], times: Times
) -> None:
    fw.autotune()
    times([1.0, 0.5])
    report = fw.fusion_report(total, gpu)
    assert autotune.measured == []
    assert [len(row.kernels) for row in report.schedules][-1] == 1


def test_when_the_budget_is_spent_the_rules_choose(
    gpu: GpuDevice,
    ways: dict[str, float],
    times: Times,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fw.autotune(budget=5)
    times([1.0, 0.5])
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr(kernel_search, "time", clock)
    assert total(gpu) == COUNT
    assert (autotune.measured, grids(gpu)) == ([], 2)
    assert autotune.settings().spent >= 5
    gpu.plans.clear()
    asked = next(ticks)
    assert total(gpu) == COUNT
    assert next(ticks) == asked + 1


def softmax_grad(x: fw.Tensor) -> fw.Tensor:
    x = x.detach().requires_grad_()
    y = x.softmax(1)
    y.backward(y.detach())
    assert x.grad is not None
    return x.grad


def norm_grad(x: fw.Tensor) -> fw.Tensor:
    x = x.detach().requires_grad_()
    weight = fw.ones(x.shape[1], device=x.device, requires_grad=True)
    y = fw.nn.functional.layer_norm(x, x.shape[1], weight)
    y.backward(y.detach())
    assert x.grad is not None
    return x.grad


CALLS: dict[str, Callable[[fw.Tensor], fw.Tensor]] = {
    "bmm": lambda x: x @ x.T,
    "sum": lambda x: x.sum(),
    "mapped_sum": lambda x: x.count_nonzero(),
    "amax": lambda x: x.amax(),
    "amin": lambda x: x.amin(),
    "softmax": lambda x: x.softmax(1),
    "softmax_grad": softmax_grad,
    "layer_norm_dx_dgamma": norm_grad,
    "layer_norm": lambda x: fw.nn.functional.layer_norm(x, x.shape[1]),
}
FLOATS_ONLY = {"softmax", "softmax_grad", "layer_norm", "layer_norm_dx_dgamma"}
TO_ONE = ("sum", "mapped_sum", "amax", "amin")


def shape_for(name: str, gpu: GpuDevice) -> tuple[int, int]:
    """Return a shape for which there is more than one way.

    From `LEAST_WHOLE` elements on hardware has most ways to reduce everything to one
    result, and a software device has one.
    """
    if name not in TO_ONE:
        return 120, 700
    software = gpu.gpu.info.kind == "software"
    return 1500 if software else 1 + LEAST_WHOLE // 700, 700


# The other dtype of floats repeats the candidates of float32.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(
            name,
            dtype,
            marks=[pytest.mark.wide] if dtype == "bfloat16" else [],
        )
        for name in CALLS
        for dtype in ("float32", "int32", "bfloat16")
    ],
)
def test_every_candidate_of_the_library_is_right(
    name: str,
    dtype: str,
    registers: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
    times: Times,
) -> None:
    gpu = registers
    if dtype == "bfloat16" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device has no 16-bit storage")
    if dtype == "int32" and name in FLOATS_ONLY:
        pytest.skip("the op is for floats")
    wrong = []

    def is_close(*arguments: Any) -> bool:
        wrong.append(not honest(*arguments))
        return not wrong[-1]

    honest = kernel_search.is_close
    monkeypatch.setattr(kernel_search, "is_close", is_close)
    monkeypatch.setattr(rowwise, "LEAST_COMPOSED", 1 << 30)
    fw.autotune()
    times([1.0])
    shape = shape_for(name, gpu)
    values = np.arange(math.prod(shape)).reshape(shape) % 7 - 3
    x = fw.tensor(values.astype(np.float32), dtype, gpu)
    fw.eval(x)
    CALLS[name](x).float().numpy()
    asked = {row.tuning_key.split()[0]: row for row in autotune.measured}
    verdict = asked[name].verdict
    assert len(verdict.seconds) > 1
    # The rule's own choice has a name too, and is measured once.
    assert verdict.default
    assert verdict.default not in verdict.seconds
    assert wrong
    assert not any(wrong)


def test_results_are_compared_as_the_dtype_allows() -> None:
    wanted = np.array([1000.0, 1.0, -3.0], np.float32)
    for dtype, bound in ((float32, 0.1), (float16, 10), (bfloat16, 30)):
        assert kernel_search.is_close(wanted + 0.99 * np.float32(bound), wanted, dtype)
        assert not kernel_search.is_close(
            wanted + 1.01 * np.float32(bound), wanted, dtype
        )
    ints = np.array([1, 2])
    assert kernel_search.is_close(ints, ints.copy(), int32)
    assert not kernel_search.is_close(ints, ints + 1, int32)
    odd = np.array([np.nan, np.inf, 1], np.float32)
    assert kernel_search.is_close(odd, odd.copy(), float32)
    assert not kernel_search.is_close(
        odd, np.array([0, np.inf, 1], np.float32), float32
    )
    assert not kernel_search.is_close(np.array([np.nan]), np.array([1.0]), float32)
    assert kernel_search.is_close(wanted[:0], wanted[:0], float32)


PROGRAM = """
import itertools, json, warnings
warnings.simplefilter("ignore")
import vkbackend.framework as fw
from vkbackend.framework.autotune import autotune
from vkbackend.framework.codegen.ir import reductions
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.kernels import reduce
from vkbackend.framework.kernels.reduce import reduce_dispatches, sum_like
from vkbackend.framework.scheduler import kernel_search
reductions.SMALL = 0
reduce.is_vec4_readable = lambda *_: False
def rule(gpu, x, dims, dtype, scale):
    one = sum_like("SUM", x.dtype, dtype, scale)
    return {"whole": lambda: reduce_dispatches(gpu, one, x, dims, 1)}
REGISTRY["sum"].rules["candidates"] = rule
turns = itertools.cycle([1.0, 0.5])
kernel_search.seconds_of = lambda gpu, run, repeat: next(turns)
place = fw.device()
x = fw.ones(30000, device=place)
fw.eval(x)
found = x.sum().item()
kept = autotune.verdicts(place.gpu.info).rows()
launches = len(list(place.plans.values())[-1].launches)
choices = [row.choice for row in kept.values()]
print(json.dumps([found, len(autotune.measured), choices, launches]))
"""


@pytest.mark.wide
def test_a_second_process_uses_what_the_first_measured(tmp_path: Path) -> None:
    def run(switch: str) -> Any:
        variables = {**os.environ, config.CACHE.name: str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**variables, config.AUTOTUNE.name: switch},
            timeout=300,
        )
        return json.loads(done.stdout.splitlines()[-1])

    assert run("kept") == [COUNT, 0, [], 2]
    assert run("1") == [COUNT, 1, ["whole"], 1]
    assert run("kept") == [COUNT, 0, ["whole"], 1]
    # One that may measure need not, and one may do without.
    assert run("1") == [COUNT, 0, ["whole"], 1]
    assert run("0")[3] == 2
    [file] = (tmp_path / "tuning").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert run("kept") == [COUNT, 0, [], 2]
