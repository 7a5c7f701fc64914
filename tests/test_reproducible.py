"""One program has one result; `tests.reproducible` tries many more."""

import numpy as np
import pytest

from tests.program_steps import programs
from tests.reproducible import RandomLimit, check_program, check_ways, differing
from tests.reproducible_chains import CHAINS, Chain
from tests.reproducible_models import Size, train
from tests.search import search
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler import scheduler

SHAPES = {
    "over_two": (5, 42),  # four neighbours are not all in one run
    "layer_norm": (300, 512),  # read as blocks on a software device
    "softmax": (64, 96),
}

# Reductions of rows and columns by kernels that others here have.
REPEATS = ("moments", "square_sums", "columns")


@pytest.mark.sampled(3)
@pytest.mark.core
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.wide] if name in REPEATS else [])
        for name in CHAINS
    ],
)
def test_chains_have_one_result(name: str, gpu: GpuDevice) -> None:
    dtype = "float16" if name == "softmax" else "float32"
    chain = Chain(name, SHAPES.get(name, (5, 37)), dtype)
    assert check_ways(gpu, lambda jitted: chain.run(gpu, jitted)) == []


@pytest.mark.parametrize(
    "name",
    [
        "vit",
        *(pytest.param(name, marks=pytest.mark.wide) for name in ("lstm", "mobile")),
    ],
)
@pytest.mark.long
def test_trainings_have_one_result(name: str, gpu: GpuDevice) -> None:
    size = Size(large=False, dtype="float32")
    assert check_ways(gpu, lambda jitted: train(name, size, 2, gpu, jitted)) == []


def test_programs_have_one_result(gpu: GpuDevice) -> None:
    search(programs(), lambda made: check_program(made, gpu), 3, 3, shrink=False)


def test_sums_taken_otherwise_are_found(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if a reduction alone had another kernel than one that is fused.
    monkeypatch.setattr(
        "vkbackend.framework.scheduler.plan._Builder._is_generated", _elementwise
    )
    chain = Chain("layer_norm", (40, 384), "float32")
    ways = check_ways(gpu, lambda jitted: chain.run(gpu, jitted))
    gpu.plans.clear()
    assert any(way.startswith("cut after each operation") for way in ways)


def _elementwise(self: object, node: scheduler.Node) -> bool:
    return node.op.is_elementwise


def test_signs_of_zero_are_told_apart() -> None:
    zeros, signed = np.zeros(3), np.array([0.0, -0.0, 0.0])
    assert differing([zeros], [zeros]) == []
    assert differing([zeros], [signed]) == ["array 0: 1 of 3 differ, by up to 0"]
    assert differing([zeros], [None]) == ["array 0 is missing in one"]


def test_limits_are_reached_now_and_then() -> None:
    limit = RandomLimit(0.5, 0)
    assert {3 >= limit for _ in range(50)} == {True, False}
