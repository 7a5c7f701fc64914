"""Replays in parts, between which the host runs steps."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.vkbackend.command.test_transfer import with_transfer_queues
from tests.vkbackend.gate import held
from vkbackend.driver.physical_device import choose
from vkbackend.driver.queue import Queue
from vkbackend.framework import optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.traced import is_recorded, recorded
from vkbackend.framework.ir.host_step import HostStep
from vkbackend.framework.jit import segments
from vkbackend.framework.jit.segments import (
    Exchange,
    SegmentBuilder,
    SegmentedRecording,
)
from vkbackend.framework.scheduler.executor import buffer_of


class Doubled(HostStep):
    """Twice what it takes, as often as it is asked; it notes what it has seen."""

    def __init__(self, name: str = "", seen: list[Any] | None = None) -> None:
        self.name, self.seen = name, [] if seen is None else seen
        self.error: Exception | None = None

    def run(self, data: np.ndarray) -> np.ndarray:
        self.seen.append((self.name, data.tolist()))
        if self.error is not None:
            raise self.error
        return data * 2


def test_steps_run_in_order_in_each_replay(gpu: GpuDevice) -> None:
    seen: list[Any] = []
    first, second, third = (Doubled(name, seen) for name in "abc")

    @fw.jit
    def f(x: fw.Tensor) -> Any:
        assert is_recorded(x)
        y = recorded(x + 1, first, x.shape)
        z = recorded(x * 0 + 3, second, x.shape)
        return y * z, recorded(x, third, x.shape), y[:0]

    for k in range(3):
        x = fw.tensor([1.0, 2.0], device=gpu) + k
        product, last, _ = f(x)
        host = np.array([1.0, 2.0]) + k
        assert product.tolist() == ((host + 1) * 2 * 6).tolist()
        assert last.tolist() == (host * 2).tolist()
    assert [name for name, _ in seen] == ["a", "b", "c"] * 3
    assert (f.traces, f.replays) == (1, 2)
    assert f.memory_stats()["dispatches"] > 0


@pytest.mark.parametrize("returns", [True, False])
def test_steps_take_and_make_in_memory_of_their_own(
    gpu: GpuDevice, returns: bool
) -> None:
    """Also what is given and returned; a step takes a copy, or kernels write there."""
    made: list[Any] = []
    used: list[Any] = []

    class Own(Doubled):
        def __init__(self, is_there: bool) -> None:
            super().__init__()
            self.is_there = is_there

        def in_place(self, size: int) -> bool:
            return self.is_there

        def allocate(self, device: Any, size: int) -> Any:
            made.append(device.allocate(size))
            return made[-1]

        def run_on_device(self, device: Any, source: Any, target: Any) -> bool:
            used.append((source[0] in made, target[0] in made))
            return False

    first, second, third = Own(True), Own(False), Own(returns)

    @fw.jit
    def f(x: fw.Tensor) -> Any:
        y = recorded(recorded(x + 1, first, x.shape) * 3, second, x.shape)
        z = recorded(w, third, x.shape)
        return (y, z) if returns else (y + 1, z + 1)

    w, more = fw.tensor([5.0, 6.0], device=gpu), 0 if returns else 1
    for k in range(3):
        y, z = f(fw.tensor([1.0, 2.0], device=gpu) * k)
        assert y.tolist() == [12.0 * (k + 1) + more, 12.0 * (2 * k + 1) + more]
        assert z.tolist() == [10.0 + more, 12.0 + more]
        w += 0
    assert f.replays == 2
    assert used[-3:] == [(True, True)] * 3


@pytest.mark.usefixtures("_no_collector")
def test_a_failed_replay_keeps_no_memory(gpu: GpuDevice) -> None:
    """Although nothing is submitted after it that would let go of it."""
    gc.collect()
    x, step = fw.ones(1 << 16, device=gpu), Doubled()
    fw.eval(x)
    gpu.gpu.empty_cache()
    before = gpu.gpu.memory_stats()["in_use"]
    f = fw.jit(lambda x: recorded(x + 1, step, x.shape) * 3)
    for _ in range(2):
        f(x)
    step.error = ValueError("the host fails")
    with pytest.raises(ValueError, match="the host fails") as caught:
        f(x)
    assert gpu.in_flight is None
    step.error = None  # its traceback has the replay
    del caught, f
    gc.collect()
    gpu.gpu.empty_cache()
    assert gpu.gpu.memory_stats()["in_use"] == before


def test_an_argument_is_a_step_s_own_until_then(gpu: GpuDevice) -> None:
    """It is copied in first, and steps before have memory that is used again."""

    @fw.jit
    def f(x: fw.Tensor, y: fw.Tensor) -> Any:
        for _ in range(4):
            x = recorded(x * 0.5, Doubled(), x.shape)
        return x + 0, recorded(y, Doubled(), y.shape)

    count = 1 << 17  # in memory of the device
    for k in range(3):
        x, y = (fw.full((count,), each, device=gpu) for each in (k + 1.0, k + 10.0))
        first, second = f(x, y)
        assert set(first.tolist()) == {k + 1.0}
        assert set(second.tolist()) == {2 * k + 20.0}
    assert f.replays == 2


@pytest.mark.parametrize("count", [1 << 16, 1000])
def test_what_is_a_part_of_the_result_lies_there(gpu: GpuDevice, count: int) -> None:
    """Where it could begin, unless it has other uses."""
    seen: list[bool] = []

    class Joined(Doubled):
        def in_place(self, size: int) -> bool:
            return True

        def source_within(self) -> int:
            return 4 * count

        def run_on_device(self, device: Any, source: Any, target: Any) -> bool:
            assert source[2] == 4 * count
            assert target[2] == 8 * count
            seen.append(source[:2] == (target[0], target[1] + 4 * count))
            own = device.read(*source)
            device.upload(own, target[0], target[1])
            device.upload(own, target[0], target[1] + 4 * count)
            return True

    @fw.jit
    def f(x: fw.Tensor) -> Any:
        y = recorded(x + 1, Joined(), (2 * count,))
        kept = x + 2
        z = recorded(kept, Joined(), (2 * count,))
        return y * 1, z * 1, kept

    for k in range(3):
        y, z, kept = f(fw.full((count,), float(k), device=gpu))
        assert set(y.tolist()) == {k + 1.0}
        assert set(z.tolist()) == {k + 2.0} == set(kept.tolist())
    assert f.replays == 2
    aligned = count * 4 % 256 == 0
    assert seen[-2:] == [aligned, False]


def test_a_step_begins_once_all_is_submitted_that_can_be(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever follows it and does not need it; in the caller's thread."""
    events: list[str] = []
    submit = vkbackend.Recording.submit

    class Noted(Doubled):
        def run(self, data: np.ndarray) -> np.ndarray:
            assert threading.current_thread() is threading.main_thread()
            events.append(self.name)
            return super().run(data)

    def noted(self: vkbackend.Recording, *given: Any) -> Any:
        events.append("submit")
        return submit(self, *given)

    monkeypatch.setattr(vkbackend.Recording, "submit", noted)
    w = fw.eye(8, device=gpu) * 2

    @fw.jit
    def f(x: fw.Tensor) -> fw.Tensor:
        y = recorded(x + 1, Noted("a"), x.shape)
        y = recorded(y + 1, Noted("b"), x.shape)
        last = recorded(y * 2, Noted("c"), x.shape)
        return last + (y @ w @ w @ w)[0]

    for _ in range(3):
        events.clear()
        found = f(fw.zeros(8, 8, device=gpu))
        np.testing.assert_array_equal(found.numpy(), 4 * 6 + 8 * 6)
    assert f.replays == 2
    assert events == ["submit", "a", "submit", "b", "submit", "submit", "c", "submit"]


def test_a_step_does_not_wait_for_many_segments(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which are more than a device has in flight, as of many small buckets."""
    monkeypatch.setattr(segments, "SEGMENTS_AHEAD", 2)
    seen: list[Any] = []
    builder = SegmentBuilder(gpu.gpu)
    for k in range(5):
        x, made = _memory(fw.ones(2, device=gpu) * k), _memory(fw.ones(2, device=gpu))
        builder.launch([], [x[0]])
        builder.batch.copy(x[0], x[0], 0, 4, 4)
        builder.exchange(Exchange(Doubled(str(k), seen), fw.float32, x, made))
    builder.finish()
    builder.homes.clear()  # copies have no arguments
    recording = SegmentedRecording(builder)
    submit = vkbackend.Recording.submit

    def noted(self: vkbackend.Recording, *given: Any) -> Any:
        seen.append(("submit", []))
        return submit(self, *given)

    monkeypatch.setattr(vkbackend.Recording, "submit", noted)
    recording.submit()
    order = " ".join([name for name, _ in seen]).replace("submit", "*")
    assert order == "* * * 0 * 1 * 2 3 4 *"


@pytest.mark.parametrize("returns", [True, False])
def test_steps_run_whoever_uses_what_they_make(gpu: GpuDevice, returns: bool) -> None:
    """Other processes wait in theirs, and may need what this one does not."""
    seen: list[Any] = []
    first, second = (Doubled(name, seen) for name in "ab")

    @fw.jit
    def f(x: fw.Tensor) -> Any:
        recorded(x + 1, first, x.shape)
        y = recorded(recorded(x, second, x.shape) * 3, first, x.shape)
        return y if returns else None

    for k in range(3):
        made = f(fw.tensor([1.0, 2.0], device=gpu) * k)
        assert made is None or made.tolist() == [12.0 * k, 24.0 * k]
        assert seen == [
            ("a", [k + 1.0, 2 * k + 1.0]),
            ("b", [1.0 * k, 2.0 * k]),
            ("a", [6.0 * k, 12.0 * k]),
        ]
        seen.clear()
    assert (f.traces, f.replays) == (1, 2)


def test_a_step_of_an_optimizer(gpu: GpuDevice) -> None:
    """The gradient is doubled on the host; rates and draws change from step to step."""

    def losses(jitted: bool) -> list[Any]:
        fw.manual_seed(3)
        p = fw.nn.Parameter(fw.tensor([1.0, -2.0, 3.0, 4.0], device=gpu))
        optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
        step_of = Doubled()

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            noise = fw.rand(4, device=gpu)
            loss = ((p - x) ** 2 * noise).sum()
            loss.backward()
            grad = p.grad
            p.grad = recorded(grad, step_of, grad.shape) if jitted else grad * 2
            optimizer.step()
            return loss + fw.rand(1, device=gpu)

        run = fw.jit(step) if jitted else step
        found = []
        for k in range(5):
            optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
            found.append(run(fw.ones(4, device=gpu) * k).tolist())
        found.append(p.tolist())
        if jitted:
            assert run.replays >= 2  # type: ignore[attr-defined]
        return found

    for found, wanted in zip(losses(True), losses(False)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_an_error_of_a_step_is_raised(gpu: GpuDevice) -> None:
    step = Doubled()

    @fw.jit
    def f(x: fw.Tensor) -> fw.Tensor:
        return recorded(x, step, x.shape) + 1

    x = fw.tensor([1.0], device=gpu)
    step.error = DistributedError("rank 1 was killed")
    for _ in range(2):
        with pytest.raises(DistributedError, match="rank 1 was killed"):
            f(x)
    step.error = None
    assert f(x).tolist() == [3.0]
    step.error = DistributedError("rank 2 was killed")
    with pytest.raises(DistributedError, match="rank 2 was killed"):
        f(x)
    step.error = None
    assert f(x * 2).tolist() == [5.0]


def test_what_cannot_be_replayed_runs_the_steps_once(gpu: GpuDevice) -> None:
    step = Doubled()
    calls: list[int] = []

    @fw.jit
    def f(x: fw.Tensor) -> fw.Tensor:
        calls.append(1)
        return recorded(x + 1, step, x.shape) + 1

    for _ in range(2):
        assert f(fw.tensor([1.0], device=gpu)).tolist() == [5.0]
    assert (len(step.seen), f.replays) == (2, 0)


def test_a_function_that_fails_afterwards(gpu: GpuDevice) -> None:
    made: list[fw.Tensor] = []

    @fw.jit
    def f(x: fw.Tensor) -> fw.Tensor:
        made.append(recorded(x, Doubled(), x.shape))
        raise ValueError("later")

    x = fw.tensor([1.0], device=gpu)
    with pytest.raises(ValueError, match="later"):
        f(x)
    with pytest.raises(RuntimeError, match="after a collective was"):
        made[0].tolist()
    assert (x + 1).tolist() == [2.0]


def test_the_device_goes_on_beside_a_step(gpu: GpuDevice) -> None:
    """A step ends only once what does not need it has been computed."""
    free = threading.Event()

    class Waiting(HostStep):
        def run(self, data: np.ndarray) -> np.ndarray:
            if not free.wait(60):
                raise TimeoutError("nothing went on meanwhile")
            return data * 2

    x = fw.tensor([1.0, 2.0], device=gpu)
    exchange = Exchange(Waiting(), fw.float32, _memory(x), _memory(x + 0))
    builder = SegmentBuilder(gpu.gpu)
    other, target = gpu.gpu.allocate(16), exchange.target[0]
    builder.launch([], [exchange.source[0]])
    builder.batch.copy(other, other, 0, 8, 8)
    builder.exchange(exchange)
    builder.launch([other], [other])
    builder.batch.copy(other, other, 0, 8, 8)
    builder.launch([target], [other])
    builder.batch.copy(target, other, 0, 0, 8)
    builder.finish()
    assert [each.ended for each in builder.segments] == [0, 0, 1]
    builder.homes.clear()  # copies have no arguments
    recording = SegmentedRecording(builder)
    middle = recording._parts[1]
    submit = middle.submit

    def submitted(*given: Any) -> Any:
        point = submit(*given)
        point.wait()
        free.set()
        return point

    middle.submit = submitted  # type: ignore[method-assign]
    recording.submit()
    found = np.frombuffer(gpu.gpu.read(other, 0, 8), np.float32)
    assert found.tolist() == [2.0, 4.0]


def test_what_needs_no_step_is_submitted_before_what_does(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates by exchanged gradients come after the whole backward pass."""
    built: list[SegmentBuilder] = []
    init = SegmentedRecording.__init__

    def noted(self: SegmentedRecording, builder: SegmentBuilder) -> None:
        built.append(builder)
        init(self, builder)

    monkeypatch.setattr(SegmentedRecording, "__init__", noted)
    w = fw.eye(8, device=gpu) * 2

    @fw.jit
    def f(x: fw.Tensor) -> list[fw.Tensor]:
        updates = []
        for k in range(3):
            x = x @ w
            updates.append(recorded(x + k, Doubled(), x.shape) + 1)
        return updates

    x = np.eye(8)
    for _ in range(3):
        found = f(fw.tensor(x, dtype=fw.float32, device=gpu))
    for k, each in enumerate(found):
        wanted = 2 * (2.0 ** (k + 1) * x + k) + 1
        np.testing.assert_array_equal(each.numpy(), wanted)
    (builder,) = built
    before = [len(each.batch) for each in builder.segments if not each.ended]
    after = [each for each in builder.segments if each.ended]
    assert sum(before) >= 3  # products, and what steps take with them or apart
    assert [each.ended for each in after] == [1, 2, 3]


def test_all_is_submitted_before_anything_has_run(gpu: GpuDevice) -> None:
    """A step that the device makes is waited for by the device alone."""

    class Copied(HostStep):
        def run(self, data: np.ndarray) -> np.ndarray:
            raise AssertionError("the device makes the elements")

        def run_on_device(self, device: Any, source: Any, target: Any) -> bool:
            device.settle()
            device.transfer.copy(source[:2], target[:2], source[2])
            return True

    x, y, z = (fw.ones(4, device=gpu) * k for k in (1, 2, 3))
    start, taken, made = (_memory(each) for each in (x, y, z))
    builder = SegmentBuilder(gpu.gpu)
    builder.launch([start[0]], [taken[0]])
    builder.batch.copy(start[0], taken[0], 0, 0, 16)
    builder.exchange(Exchange(Copied(), fw.float32, taken, made))
    builder.launch([made[0]], [start[0]])
    builder.batch.copy(made[0], start[0], 0, 4, 12)
    builder.finish()
    builder.homes.clear()  # copies have no arguments
    recording = SegmentedRecording(builder)
    gpu.gpu.upload(np.arange(4, dtype=np.float32), start[0])
    with held(gpu.gpu.compute_queue) as gate:
        before = gpu.gpu.counters.submits
        point = recording.submit()
        assert gpu.gpu.counters.submits - before == 3
        assert not gate.point.done()
        assert not point.done()
        gate.open()
        found = np.frombuffer(gpu.gpu.read(start[0], 0, 16), np.float32)
    assert found.tolist() == [0.0, 0.0, 1.0, 2.0]


@pytest.mark.device
def test_a_segment_waits_for_the_copies_of_the_steps_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for those of later ones, although all are submitted in one go."""
    device = with_transfer_queues(vkbackend.Device(choose()))

    class Copied(HostStep):
        def __init__(self, outward: bool) -> None:
            self.outward = outward

        def run(self, data: np.ndarray) -> np.ndarray:
            raise AssertionError("the device makes the elements")

        def run_on_device(self, device: Any, source: Any, target: Any) -> bool:
            device.settle()
            device.transfer.copy(source[:2], target[:2], source[2], self.outward)
            return True

    sent, send = [], Queue._send

    def noted(self: Queue, *given: Any) -> None:
        sent.append((self.name, [each.name for each in given[2]]))
        send(self, *given)

    buffers = [device.allocate(16) for _ in range(6)]
    start, taken, made, given, more, end = buffers
    builder = SegmentBuilder(device)
    builder.launch([start], [taken, given])
    builder.batch.copy(start, taken, 0, 0, 16)
    builder.batch.copy(start, given, 0, 0, 16)
    builder.exchange(Exchange(Copied(False), fw.float32, (taken, 0, 16), (made, 0, 16)))
    builder.exchange(Exchange(Copied(True), fw.float32, (given, 0, 16), (more, 0, 16)))
    builder.launch([made], [end])
    builder.batch.copy(made, end, 0, 0, 8)
    builder.launch([more], [end])
    builder.batch.copy(more, end, 0, 8, 8)
    builder.finish()
    builder.homes.clear()  # copies have no arguments
    recording = SegmentedRecording(builder)
    device.upload(np.arange(4, dtype=np.float32), start)
    device.synchronize()
    monkeypatch.setattr(Queue, "_send", noted)
    with held(device.compute_queue) as gate:
        sent.clear()
        recording.submit()
        assert [waits for name, waits in sent if name == "compute"] == [
            [],
            ["transfer"],
            ["transfer", "readback"],
        ]
        gate.open()
    found = np.frombuffer(device.read(end), np.float32)
    assert found.tolist() == [0.0, 1.0, 0.0, 1.0]
    device.close()


def _memory(x: fw.Tensor) -> Any:
    fw.eval(x)
    x.tolist()
    return buffer_of(x.array.value), 0, x.array.value.nbytes


def test_a_tensor_of_many_elements(gpu: GpuDevice) -> None:
    """More than a software device's loops may have, whose kernels are asked early."""
    x = fw.ones(70_000, device=gpu)
    found = fw.jit(lambda x: recorded(x, Doubled(), x.shape))(x)
    assert found.sum().item() == 140_000


def test_what_an_exchange_forbids(gpu: GpuDevice) -> None:
    source, target, other = (gpu.gpu.allocate(16) for _ in range(3))
    exchange = Exchange(Doubled(), fw.float32, (source, 0, 8), (target, 0, 8))
    assert exchange.forbids([target], [])
    assert exchange.forbids([], [target])
    assert exchange.forbids([], [source])
    assert not exchange.forbids([source, other], [other])
