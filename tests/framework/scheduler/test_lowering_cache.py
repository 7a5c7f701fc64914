"""Plans share their kernels, as long as nothing changes what these are chosen by."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.dispatch.primitive import Primitive
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


def test_what_is_in_use_is_not_lowered_again(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else is lowered meanwhile, so that many caches begin."""
    monkeypatch.setattr(module, "MAX_LOWERED", 40)
    gpu.plans.clear()
    chain(gpu, 3)
    lowered, begun = [], {id(lowering_cache(gpu))}
    build = module.build_chosen_kernel

    def built(nodes: Any, *args: Any, **options: Any) -> Any:
        if nodes[0].layouts[0].shape == (4, 8):
            lowered.append(nodes)
        return build(nodes, *args, **options)

    dispatches = Primitive.dispatches

    def chosen(op: Primitive[..., Any], gpu: Any, specs: Any, params: Any) -> Any:
        lowered.append(specs)
        return dispatches(op, gpu, specs, params)

    monkeypatch.setattr(module, "build_chosen_kernel", built)
    monkeypatch.setattr(Primitive, "dispatches", chosen)
    caches = []
    for size in range(1, 90):
        (fw.ones(size, device=gpu) * 2 + 1).tolist()
        if size % 6 == 0:
            chain(gpu, 3 + size // 6)
        caches.append(lowering_cache(gpu))  # referenced, so that its `id` is its own
        begun.add(id(caches[-1]))
    assert len(begun) > 4
    assert not lowered


def test_a_cache_holds_none_but_the_one_before(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOWERED", 8)
    for size in range(1, 40):
        (fw.ones(size, device=gpu) * 2 + 1).tolist()
        known = lowering_cache(gpu)
        kept = [known.kernels, known.spaces, known.dispatches, known.epilogues]
        assert sum(map(len, kept)) <= 16
        assert sum([len(each.older) for each in kept]) <= 16
        assert all(type(each.older) is dict for each in kept)


def test_unfused_plans_are_right_with_kernels_of_fused_ones(gpu: GpuDevice) -> None:
    expected = chain(gpu, 6)
    known = lowering_cache(gpu)
    with unfused(gpu):
        assert lowering_cache(gpu) is known
        assert np.array_equal(chain(gpu, 6), expected)
    assert np.array_equal(chain(gpu, 6), expected)
