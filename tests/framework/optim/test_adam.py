"""Adam and AdamW."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.optim.against_torch import STEPS, compare
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device, GpuDevice

OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3},
    {"lr": 0.1, "weight_decay": 0.1},
    {"weight_decay": 0},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_steps_are_pytorchs(
    name: str, options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = getattr(optim, name), getattr(torch.optim, name)
    optimizer = compare(ours, theirs, options, place, rng)
    steps = [state["step"] for state in optimizer.state.values()]
    assert sorted(steps) == [STEPS - 1, STEPS, STEPS]


def test_bad_betas_are_named() -> None:
    with pytest.raises(ValueError, match=r"AdamW: betas are \(0.9, 1.0\)"):
        optim.AdamW([fw.ones(1, requires_grad=True)], betas=(0.9, 1.0))


@pytest.mark.core
def test_a_parameters_update_is_one_dispatch(gpu: GpuDevice) -> None:
    parameters = [fw.ones(size, device=gpu, requires_grad=True) for size in (3, 50, 7)]
    optimizer = optim.AdamW(parameters)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = fw.tensor(np.ones(parameter.shape, np.float32), device=gpu)
        before = gpu.gpu.counters.snapshot()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.5
    change = gpu.gpu.counters.snapshot() - before
    assert change.dispatches <= len(parameters)
    assert change.submits == 1
    assert change.pipeline_builds == 0
    assert change.host_reads == 0
