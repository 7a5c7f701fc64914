"""Running plans again and again, and how long that takes."""

import itertools
import types

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.eager.base_tensor import upload
from vkbackend.framework.ir.lazy_graph import Array, Node, Operand, Value
from vkbackend.framework.scheduler import executor
from vkbackend.framework.scheduler.executor import buffer_of, run_plan, seconds_of
from vkbackend.framework.scheduler.plan import Plan, build_plan

pytestmark = pytest.mark.core


def planned(gpu: GpuDevice) -> tuple[Plan, Node, Array]:
    """Return a plan that negates the numbers 0 to 4, its node, and its result."""
    value = upload(np.arange(5, dtype=np.float32), float32, gpu)
    layout = Layout.contiguous((5,))
    operands, params = (
        (Operand(value, layout),),
        (("compute", float32), ("tensors", ("x",))),
    )
    node = Node.of(REGISTRY["neg"], operands, (layout,), (float32,), params)
    held = Array(node.outputs[0])
    slots = {id(value): 0, id(node.outputs[0]): 1}
    return build_plan(gpu.gpu, [node], slots), node, held


def test_a_plan_runs_as_often_as_one_likes(gpu: GpuDevice) -> None:
    plan, node, held = planned(gpu)
    for _ in range(2):
        run_plan(gpu.gpu, plan, [node])
        got = np.frombuffer(gpu.gpu.read(buffer_of(held.value)), np.float32)
        np.testing.assert_array_equal(got[:5], -np.arange(5, dtype=np.float32))


def test_a_plan_runs_with_memory_and_numbers_of_its_nodes(gpu: GpuDevice) -> None:
    """Arguments are packed once; what differs from run to run must not be kept."""
    before = len(gpu.plans)
    for step in range(4):
        base = np.arange(5000, dtype=np.float32) + step
        x = fw.tensor(base, device=gpu)
        plain, scaled = x.sum(0, keepdim=True), -x * float(step)
        turned = fw.tensor(base[::-1].copy(), device=gpu).cumsum(0)
        fw.eval()
        np.testing.assert_allclose(plain.numpy(), [base.sum()], rtol=1e-6)
        np.testing.assert_array_equal(scaled.numpy(), -base * np.float32(step))
        np.testing.assert_allclose(turned.numpy(), base[::-1].cumsum(), rtol=1e-4)
    assert len(gpu.plans) <= before + 1


def test_what_was_never_computed_cannot_be_read() -> None:
    with pytest.raises(RuntimeError, match="the value was never computed"):
        buffer_of(Value(1, float32))


def test_work_is_timed_and_repeated(gpu: GpuDevice) -> None:
    plan, node, _ = planned(gpu)
    runs = []

    def run() -> None:
        runs.append(None)
        run_plan(gpu.gpu, plan, [node])

    assert seconds_of(gpu.gpu, run, 3) >= 0
    # The device's clock repeats within the batch, the host's runs it again.
    assert len(runs) == (1 if gpu.gpu.logical.timestamps else 3)


def test_the_hosts_clock_where_somebody_reads_the_devices(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not gpu.gpu.logical.timestamps:
        pytest.skip("the device has no timestamps")
    plan, node, _ = planned(gpu)
    runs = []
    ticks = iter([10.0, 16.0])
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks))
    monkeypatch.setattr(executor, "time", clock)

    def run() -> None:
        runs.append(None)
        run_plan(gpu.gpu, plan, [node])

    with fw.profile(gpu.name):
        assert seconds_of(gpu.gpu, run, 3) == 2.0
    assert len(runs) == 3


def test_long_steps_submit_what_is_recorded(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, as devices with processors of their own have them.

    Between them are results of many sizes, and parameters that take turns with those.
    """
    monkeypatch.setattr(gpu, "first_submitted", 16)
    monkeypatch.setattr(gpu, "max_pending", 16)
    rng = np.random.default_rng(0)
    sizes = [64, 24, 96, 40, 8, 120, 56, 16]
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh(), nn.LayerNorm(outputs)]
    model = nn.Sequential(*layers).to(gpu)
    optimizer = optim.AdamW(model.parameters())
    x = fw.tensor(rng.normal(size=(37, 64)).astype("f4"), device=gpu)
    sent = []
    for _ in range(24):
        before = gpu.gpu.counters.snapshot()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        change = gpu.gpu.counters.snapshot() - before
        assert change.submits > 2
        sent.append(change.submits - change.resubmits)
    assert sent[-4:] == [0] * 4


def test_equal_steps_submit_what_is_recorded(gpu: GpuDevice) -> None:
    """With the results of the host, and with other data in each step.

    Also where the last loss is still held, and gradients are clipped.
    """
    data = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)

    def train(place: Device, steps: int) -> tuple[float, list[int]]:
        fw.manual_seed(0)
        layers = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
        model = nn.Sequential(*layers).to(place)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        sent = []
        for _ in range(steps):
            before = gpu.gpu.counters.snapshot()
            optimizer.zero_grad()
            x = fw.tensor(data + np.float32(len(sent)) * data[::-1], device=place)
            loss = model(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if place.is_gpu:
                loss.item()
            change = gpu.gpu.counters.snapshot() - before
            sent.append(change.submits - change.resubmits)
        return loss.item(), sent

    found, sent = train(gpu, 12)
    assert sent[-4:] == [0] * 4
    wanted, _ = train(fw.device("cpu"), 12)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
