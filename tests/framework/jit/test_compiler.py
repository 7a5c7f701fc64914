"""Compiler of traces: recordings and their memory plans."""

import dataclasses
import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.training import Training, same, tensor
from vkbackend import Buffer, OutOfDeviceMemory
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.communication.traced import recorded
from vkbackend.framework.ir.host_step import HostStep
from vkbackend.framework.jit import compiled, compiler
from vkbackend.framework.jit.compiler import Executable, compile_trace
from vkbackend.framework.jit.tracer import Trace
from vkbackend.framework.scheduler.executor import buffer_of

pytestmark = pytest.mark.core


def ignored(_: object) -> None:
    """Return nothing."""


def built(function: Any, *inputs: fw.Tensor) -> tuple[Trace, Executable]:
    fw.eval()
    trace = Trace()
    tree, tensors = trace.isolate_outputs(trace.run(function, inputs, {}, list(inputs)))
    state = {
        id(before): buffer_of(before) for _, before in trace.rebound_arrays.values()
    }
    found = compile_trace(trace, state)
    del tree, tensors
    return trace, found


def test_intermediate_results_share_memory(gpu: GpuDevice) -> None:
    def chain(x: fw.Tensor) -> fw.Tensor:
        for _ in range(6):
            x = x @ x
        return x

    _, found = built(chain, fw.ones((16, 16), device=gpu))
    assert found.eager == 6 * 1024
    assert found.planned == found.alive == 2 * 1024
    assert found.kept == 1024


def test_what_is_large_is_made_when_it_is_needed(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum over pieces holds a few of them, although all could be made at once."""

    def pieces(x: fw.Tensor) -> fw.Tensor:
        total = x.sum()
        for _ in range(12):
            total = (x @ x).sum() * 0.5 + total
        return total

    x = fw.ones((640, 640), device=gpu)
    size = 640 * 640 * 4
    assert size >= compiler.LARGE_BYTES
    _, found = built(pieces, x)
    assert found.planned <= 10 * size
    monkeypatch.setattr(compiler, "LARGE_BYTES", size + 1)
    _, early = built(pieces, x)
    assert early.planned >= 12 * size


def test_a_plan_longer_than_an_allocation_lies_in_pieces(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, allocate, sizes = 8192, gpu.gpu.allocate, []

    def small(size: int, *, name: str = "") -> Buffer:
        if size > most:
            raise OutOfDeviceMemory("allocate: the driver allows no such allocation")
        sizes.extend([size] if name == "plan of a replay" else [])
        return allocate(size, name=name)

    def chain(x: fw.Tensor) -> fw.Tensor:
        kept = [x]
        for _ in range(6):
            kept.append(kept[-1] @ x)
        for each in kept:
            x = x @ each
        return x

    x = tensor(gpu, np.eye(32) * 1.5)
    wanted = chain(x).numpy()
    less = dataclasses.replace(gpu.gpu.info, max_allocation_size=most + 100)
    monkeypatch.setattr(gpu.gpu, "info", less)
    monkeypatch.setattr(gpu.gpu, "allocate", small)
    step = fw.jit(chain)
    for _ in range(3):
        np.testing.assert_array_equal(step(x).numpy(), wanted)
    assert (step.traces, step.replays) == (1, 2)
    assert sum(sizes) == step.memory_stats()["planned"] > 2 * most


def test_an_input_dies_after_its_last_use(gpu: GpuDevice) -> None:
    def chain(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return ((x @ x) @ y) @ y

    x, y = fw.ones((16, 16), device=gpu), fw.ones((16, 16), device=gpu)
    _, found = built(chain, x, y)
    assert found.eager == 4 * 1024
    assert found.planned == 3 * 1024
    first, second = found.graph_inputs
    assert first is not None
    assert second is not None
    assert (first.size, second.size) == (1024, 1024)
    assert first.offset != second.offset


def test_an_unread_input_is_not_copied(gpu: GpuDevice) -> None:
    x = fw.ones(4, device=gpu)
    _, found = built(lambda x, y: x + 1, x, fw.ones(3, device=gpu))
    assert found.graph_inputs[0] is not None
    assert found.graph_inputs[1] is None


def test_an_element_wise_change_needs_no_copy(gpu: GpuDevice) -> None:
    w = fw.ones((8, 8), device=gpu)
    _, found = built(lambda: ignored(w.mul_(2).add_(1)))
    assert found.recording is not None
    assert found.recording.dispatches == 1
    assert found.recording.barriers == 0
    assert (found.planned, found.kept) == (0, 0)


def test_a_change_that_reads_other_elements_is_copied(gpu: GpuDevice) -> None:
    w = fw.ones((8, 8), device=gpu)

    def change() -> None:
        w.copy_(w @ w)

    _, found = built(change)
    assert found.recording is not None
    assert (found.recording.dispatches, found.recording.barriers) == (1, 1)
    assert found.planned == 256


def test_what_is_only_read_is_a_constant(gpu: GpuDevice) -> None:
    w, v = fw.ones(4, device=gpu), fw.ones(4, device=gpu)
    fw.eval()
    _, found = built(lambda: ignored(v.add_(w)))
    assert found.constants == [w.array.value]


def test_nothing_wanted_is_nothing_recorded(gpu: GpuDevice) -> None:
    _, found = built(lambda x: ignored(x + 1), fw.ones(1, device=gpu))
    assert found.recording is None
    assert found.graph_inputs == [None]


def test_memory_is_planned_below_what_eager_takes(gpu: GpuDevice) -> None:
    @fw.jit
    def chain(x: fw.Tensor) -> fw.Tensor:
        for _ in range(10):
            x = x @ x * 0.1
        return x

    chain(tensor(gpu, np.eye(32)))
    stats = chain.memory_stats()
    assert stats["alive"] <= stats["planned"] <= stats["eager"] // 3
    assert stats["dispatches"] >= 10
    assert stats["kept"] == 32 * 32 * 4
    chain.clear()
    assert chain.memory_stats() == {}


@pytest.mark.usefixtures("_no_collector")
def test_dropped_traces_give_their_memory_back(gpu: GpuDevice) -> None:
    def make() -> None:
        training = Training(gpu, "SGD", True)
        for _ in range(3):
            training.step(*training.batch())

    make()
    gc.collect()
    before = gpu.gpu.memory_stats()["in_use"]
    for _ in range(3):
        make()
    gc.collect()
    assert gpu.gpu.memory_stats()["in_use"] <= before


def test_memory_of_replays_is_not_taken_for_results(gpu: GpuDevice) -> None:
    w = tensor(gpu, [1.0, 2.0], requires_grad=True)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        w.grad = None
        (w * x).sum().backward()
        return x + 1

    found = []
    x = tensor(gpu, [3.0, 4.0])
    for _ in range(4):
        result = step(x)
        # Nobody holds what these are made from once they run.
        doubled = result * 2
        del result
        found.append((doubled, w.grad * 3))
        w.grad = None
        fw.eval()
    for doubled, grads in found:
        assert doubled.tolist() == [8.0, 10.0]
        assert grads.tolist() == [9.0, 12.0]
    assert x.tolist() == [3.0, 4.0]


def test_a_trace_that_cannot_be_recorded_runs_as_it_is(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ShapeError("no room for the plan")

    one, other = (Training(gpu, "SGD", jitted) for jitted in (True, False))
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "compile_trace", fails)
        fw.manual_seed(9)
        text = "without replay .* no room for the plan"
        with pytest.warns(UserWarning, match=text) as said:
            one.step(*one.batch())
    assert said[0].filename == __file__
    for _ in range(3):
        one.step(*one.batch())
    fw.manual_seed(9)
    for _ in range(4):
        other.step(*other.batch())
    same(one, other)
    assert (one.step.traces, one.step.replays) == (1, 0)


def calls_of(function: Callable[[], object]) -> int:
    """Return how many Python functions a call runs."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_the_hosts_work_does_not_grow_with_the_step(gpu: GpuDevice) -> None:
    counts = []
    for depth in (1, 12):
        layers = [nn.Linear(5, 5) for _ in range(depth)]
        model = nn.Sequential(*layers).to(gpu)
        optimizer = optim.AdamW(model.parameters())

        def step(x: fw.Tensor, model: Any = model, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        replay, x = fw.jit(step), fw.ones((3, 5), device=gpu)
        for _ in range(4):
            replay(x)
        found = []
        for _ in range(3):  # one in sixteen also asks the driver how far it is
            gpu.gpu.synchronize()
            found.append(calls_of(lambda replay=replay, x=x: replay(x)))
        counts.append(min(found))
    assert counts[0] == counts[1]


def test_small_host_steps_may_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device waits for none that is small; of large ones for the last but one."""
    monkeypatch.setattr(compiler, "BYTES_BEHIND", 100)
    sizes = [40, 40, 40, 10, 10, 10, 200]
    assert compiler.steps_in_flight(sizes) == [2, 5, 6, 6, 6, 7, 7]
    assert compiler.steps_in_flight([]) == []
    assert compiler.steps_in_flight([400] * 4) == [2, 3, 4, 4]
    # The last buckets of a model, in tenths of a megabyte: none holds up what is large.
    monkeypatch.setattr(compiler, "BYTES_BEHIND", 640)
    sizes = [280, 280, 140, 47, 47, 12, 35, 16, 770]
    assert min(compiler.steps_in_flight(sizes)[2:]) == 8
    # Nor are many kept that are small only beside the limit, or that must not be.
    assert compiler.steps_in_flight([10] * 5) == [2, 3, 4, 5, 5]
    inf = float("inf")
    assert compiler.steps_in_flight([1, inf, 1, 1, 1, 1, 100]) == [2, 3, 6, 6, 6, 7, 7]


def test_what_is_gathered_lives_no_longer_than_it_is_used(gpu: GpuDevice) -> None:
    """However little it is: as many buffers are allocated for few layers as for many.

    What is small beside the largest step would be kept otherwise.
    """
    count, given = 1 << 12, []

    class Gather(HostStep):
        def run(self, data: np.ndarray) -> np.ndarray:
            return np.concatenate([data, data])

        def in_place(self, size: int) -> bool:
            return True

        def allocate(self, device: Any, size: int) -> Buffer:
            given.append(size)
            return gpu.gpu.allocate(size)

    class Same(Gather):
        def run(self, data: np.ndarray) -> np.ndarray:
            return data

    def bytes_of(layers: int) -> int:
        def f(x: fw.Tensor) -> Any:
            large = recorded(fw.ones(64 * count, device=gpu), Same(), (64 * count,))
            for _ in range(layers):
                whole = recorded(x * 2, Gather(), (2 * count,))
                x = whole[:count] + whole[count:] + x
            return x, large[:1] + 0

        given.clear()
        built(f, fw.ones(count, device=gpu))
        return sum(given)

    assert bytes_of(4) == bytes_of(12)
