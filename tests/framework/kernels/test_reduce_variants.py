"""Ways to reduce: all are right, and the usual one is among them."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.kernels.test_reduce import KINDS, placed, sums
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels import reduce_variants
from vkbackend.framework.kernels.reduce import (
    MIN_CHUNK,
    reduce_dispatches,
    wanted_groups,
)
from vkbackend.framework.kernels.reduce_variants import (
    SINGLE_PASS_CONFIGS,
    reduce_candidates,
)
from vkbackend.framework.ops.reduce import sum


@pytest.mark.parametrize("way", range(len(SINGLE_PASS_CONFIGS)))
def test_ways_to_reduce_everything(
    way: int, quads: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = quads.gpu.info
    size, groups, at_once = SINGLE_PASS_CONFIGS[way]
    if size > info.max_workgroup_invocations:
        pytest.skip("the device has smaller workgroups")
    monkeypatch.setattr(reduce_variants, "LEAST_WHOLE", 1 << 14)
    used = []

    def chosen(*args: Any) -> list[Dispatch]:
        name = f"{groups} workgroups of {size}, {at_once} quads at once"
        used.append(reduce_candidates(*args)[name]())
        return used[-1]

    monkeypatch.setattr(sum, "reduce_dispatches", chosen)
    for count in (1 << 16, 70_004):
        data = np.random.default_rng(0).integers(-40, 40, count).astype(np.float32)
        x = fw.tensor(data, device=quads)
        assert x.sum().item() == data.sum()
        assert x[4:].sum().item() == data[4:].sum()
    (only,) = used[0]
    assert (only.constants["LOCAL_X"], only.defines["IN_FLIGHT"]) == (
        size,
        str(at_once),
    )
    assert only.grid == (1, 1, min(groups, (1 << 16) // MIN_CHUNK))


def test_what_is_small_or_has_many_results_has_fewer_ways(quads: GpuDevice) -> None:
    info = quads.gpu.info
    for shape in ((1 << 20,), (64, 1 << 20)):
        ways = reduce_candidates(info, sums(), placed(shape), (len(shape) - 1,))
        assert not [name for name in ways if "quads" in name]
    for shape in ((8, 1 << 20), ((1 << 23) + 1,)):
        whole = reduce_candidates(info, sums(), placed(shape), tuple(range(len(shape))))
        assert [name for name in whole if "quads" in name]


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_to_choose_from(device: vkbackend.Device, kind: str) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    x = placed((1 << 18 if kind == "software" else 1 << 24,))
    ways = reduce_candidates(info, sums(), x, (0,))
    parts = [math.prod(way()[0].grid) for name, way in ways.items() if "chunks" in name]
    usual = math.prod(reduce_dispatches(info, sums(), x, (0,))[0].grid)
    if "uniform loads" in ways:
        assert ways["uniform loads"]() == reduce_dispatches(info, sums(), x, (0,))
        usual = wanted_groups(info, 1)
    # Once, so that a verdict can name it.
    assert parts.count(usual) == 1
    assert min(parts) < usual < max(parts)
    # Long turns of one invocation are less exact; short ones save a dispatch.
    assert "chunks for 1 workgroups" not in ways
    few = reduce_candidates(info, sums(), placed((1000,)), (0,))
    assert len(few["chunks for 1 workgroups"]()) == 1
