"""Recorded plans: what a recorder submits, and what a plan may overwrite."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.optim.recorded_plan import (
    CallRecorder,
    NotRepeatable,
    RecordedPlan,
    are_unshared,
)


def test_a_call_that_is_alone_has_a_plan(gpu: GpuDevice) -> None:
    x = fw.ones(3, device=gpu)
    held = x + 1.0
    recorder = CallRecorder(gpu)
    y = recorder.run(lambda: x * 2.0)
    # It was pending before, and submitted before.
    assert held.array.value.node is None
    assert [node.op.name for node in recorder.nodes] == ["mul"]
    plan = recorder.submit()
    assert plan is not None
    assert [each.op for each in plan.summaries] == ["mul"]
    assert y.tolist() == [2.0] * 3


def test_a_call_beside_other_nodes_has_none(gpu: GpuDevice) -> None:
    x = fw.ones(3, device=gpu)
    recorder = CallRecorder(gpu)
    y = recorder.run(lambda: x * 2.0)
    z = x + 1.0
    assert recorder.submit() is None
    assert (y.array.value.node, z.array.value.node) == (None, None)


def test_a_call_that_cannot_be_replayed_has_none(gpu: GpuDevice) -> None:
    recorder = CallRecorder(gpu)
    recorder.once("it is done only once")
    with pytest.raises(NotRepeatable):
        RecordedPlan(recorder, gpu)


def test_a_plan_is_of_one_generation_and_plan_cache(gpu: GpuDevice) -> None:
    plan = RecordedPlan(CallRecorder(gpu), gpu)
    assert plan._is_current()
    with gpu.fresh_plan_cache():
        assert not plan._is_current()
    assert plan._is_current()
    gpu.begin_generation()
    assert not plan._is_current()


def test_a_value_of_two_storages_is_shared(gpu: GpuDevice) -> None:
    x = fw.ones(3, device=gpu)
    fw.eval(x)
    arrays = [x.array]
    assert are_unshared(arrays, [x.array.value])
    alias = x.alias()
    assert not are_unshared(arrays, [x.array.value])
    del alias
    assert are_unshared(arrays, [x.array.value])
