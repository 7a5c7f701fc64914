"""Tiles of kernels over rows to choose from, and the choice by measurement."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen.rowwise_kernel import (
    RowTile,
    build_rows,
    fuses_rows,
    row_tile,
    subgroup_of,
)
from vkbackend.framework.codegen.rowwise_variants import row_tiles
from vkbackend.framework.scheduler import kernel_search, lowering_cache

pytestmark = pytest.mark.device


@pytest.fixture
def fusing(gpu: GpuDevice) -> GpuDevice:
    if not fuses_rows(gpu.gpu.info):
        pytest.skip("the device has no kernels over rows")
    return gpu


@pytest.mark.parametrize("kind", ["software", "discrete"])
@pytest.mark.parametrize(
    "size", [(4096, 3), (4096, 64), (50, 5000), (64, 40_000), (3, 4096), (2, 1)]
)
def test_the_usual_tile_is_one_of_those_to_choose_from(
    device: vkbackend.Device, kind: str, size: tuple[int, int]
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    found = row_tiles(info, *size)
    assert row_tile(info, *size) in found.values()
    assert len(found) == len(set(found.values()))
    lanes = subgroup_of(info)
    usual = row_tile(info, *size)
    assert len(found) > 1 or usual.group == lanes
    assert kind == "discrete" or min(found.values()).group == usual.group
    for group, workgroup, rounds in found.values():
        assert workgroup % group == 0
        assert workgroup <= info.max_workgroup_invocations
        assert group <= (lanes**2 if lanes else workgroup)
        assert not rounds or 4 * group * rounds >= size[1]


def composed_softmax(x: fw.Tensor) -> fw.Tensor:
    powers = (x - x.amax(1, keepdim=True)).exp()
    return powers / powers.sum(1, keepdim=True)


@pytest.mark.sampled(2)
@pytest.mark.core
@pytest.mark.parametrize("kind", ["software", "discrete"])
@pytest.mark.parametrize("columns", [200, 1001])
def test_every_tile_is_right(
    kind: str, columns: int, fusing: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = fusing
    skip_where_it_crashes(gpu.gpu.info)
    # A small workgroup, so that a kernel takes little time to compile.
    info = dataclasses.replace(gpu.gpu.info, kind=kind, max_workgroup_invocations=32)
    data = np.random.default_rng(2).uniform(-2, 2, (70, columns)).astype(np.float32)
    x, host = fw.tensor(data, device=gpu), fw.tensor(data, device="cpu")
    wanted = composed_softmax(host).numpy()
    used: list[RowTile] = []
    for tile in row_tiles(info, *data.shape).values():

        def build(
            nodes: Any, results: Any, *_: Any, tile: RowTile = tile, **__: Any
        ) -> Any:
            used.append(tile)
            return build_rows(nodes, results, info, 0, tile)

        monkeypatch.setattr(lowering_cache, "build_chosen_rows", build)
        gpu.plans.clear()
        np.testing.assert_allclose(composed_softmax(x).numpy(), wanted, 1e-5)
    gpu.plans.clear()
    assert len(used) > 1


@pytest.mark.usefixtures("untuned")
def test_a_kernel_of_several_ops_is_measured(
    fusing: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = fusing
    x = fw.tensor(np.linspace(-1, 1, 200 * 150, dtype=np.float32).reshape(200, 150))
    x = x.to(gpu)
    fw.eval(x)
    before = composed_softmax(x).numpy()
    [usual] = list(gpu.plans.values())[-1].launches
    fw.autotune()

    def seconds(_: object, runs: Any, *__: object) -> dict[str, float]:
        return {name: 1.0 if name == autotune.DEFAULT else 0.5 for name in runs}

    monkeypatch.setattr(kernel_search._Benchmark, "_seconds", seconds)
    after = composed_softmax(x).numpy()
    [found] = autotune.measured
    assert found.tuning_key == "rows x=float32[256/8,128/2]"
    assert found.verdict.choice != autotune.DEFAULT
    [other] = list(gpu.plans.values())[-1].launches
    assert other.pipeline is not usual.pipeline
    np.testing.assert_allclose(after, before, 1e-5)
    fw.eval(composed_softmax(x))
    assert len(autotune.measured) == 1


@pytest.mark.usefixtures("untuned")
def test_a_verdict_is_for_all_that_sums_such_rows(
    fusing: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result does not depend on what was fused, and measured, with the sum."""
    data = np.random.default_rng(5).normal(size=(200, 150)).astype("f4")
    x = fw.tensor(data, device=fusing)
    fw.autotune()

    def seconds(_: object, runs: Any, *__: object) -> dict[str, float]:
        *_, last = [name for name in runs if name != autotune.DEFAULT]
        return {name: 0.1 if name == last else 1.0 for name in runs}

    monkeypatch.setattr(kernel_search._Benchmark, "_seconds", seconds)
    fused = (x * x).sum(1).numpy()
    assert [row.verdict.choice for row in autotune.measured] != [autotune.DEFAULT]
    fw.autotune(False)
    squares = x * x
    fw.eval(squares)
    np.testing.assert_array_equal(squares.sum(1).numpy(), fused)


@pytest.mark.usefixtures("untuned")
def test_what_draws_random_numbers_can_be_measured(
    fusing: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_search, "seconds_of", lambda *_: 1.0)
    fw.autotune()
    x = fw.ones(200, 150, device=fusing)
    fw.eval(x)
    step = fw.jit(lambda x: (fw.nn.functional.dropout(x, 0.5) * 2).sum(1) + 1)
    first, second = step(x).numpy(), step(x).numpy()
    assert step.traces == 1
    assert not np.array_equal(first, second)
    assert [row.tuning_key.split()[0] for row in autotune.measured] == ["rows"]
