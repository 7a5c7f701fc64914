"""Plans share their kernels, as long as nothing changes what these are chosen by."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler import lowering_cache as module
from vkbackend.framework.scheduler.lowering_cache import lowering_cache
from vkbackend.framework.scheduler.scheduler import unfused


def chain(gpu: GpuDevice, steps: int) -> np.ndarray:
    x = fw.ones(4, 8, device=gpu)
    for step in range(steps):
        x = (x @ fw.full((8, 8), 0.125, device=gpu) + step).relu()
    return x.numpy()


def test_plans_share_what_they_lower(gpu: GpuDevice) -> None:
    gpu.plans.clear()  # of as many as it may have, one would go for another
    chain(gpu, 3)
    known = lowering_cache(gpu)
    kernels = dict(known.kernels), dict(known.dispatches), dict(known.epilogues)
    plans = len(gpu.plans)
    chain(gpu, 7)
    assert len(gpu.plans) == plans + 1
    assert lowering_cache(gpu) is known
    assert kernels == (known.kernels, known.dispatches, known.epilogues)


def test_a_generation_begins_another(gpu: GpuDevice) -> None:
    known = lowering_cache(gpu)
    assert lowering_cache(gpu) is known
    gpu.begin_generation()
    assert lowering_cache(gpu) is not known


def test_each_plan_finds_out_anew_what_is_measured(gpu: GpuDevice) -> None:
    known = lowering_cache(gpu)
    with autotune.collecting_keys() as found:
        chain(gpu, 4)
        first = dict(found)
        found.clear()
        chain(gpu, 5)
        assert found.keys() == first.keys()
    with autotune.forced_candidate("some", "other"):
        assert lowering_cache(gpu) is not known
    assert lowering_cache(gpu) is known


def test_it_does_not_grow_without_limit(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOWERED", 8)
    for size in range(1, 12):
        expected = 2 * np.arange(size) + 1
        x = fw.arange(size, device=gpu)
        assert np.array_equal((x * 2 + 1).numpy(), expected)
        assert len(lowering_cache(gpu).kernels) <= 8


def test_unfused_plans_are_right_with_kernels_of_fused_ones(gpu: GpuDevice) -> None:
    expected = chain(gpu, 6)
    known = lowering_cache(gpu)
    with unfused(gpu):
        assert lowering_cache(gpu) is known
        assert np.array_equal(chain(gpu, 6), expected)
    assert np.array_equal(chain(gpu, 6), expected)
