"""Compiled traces: whether they fit, and their results."""

import copy
from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.memory_limit import room_for
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.jit.compiled import CompiledTrace
from vkbackend.framework.jit.signature import signature_of
from vkbackend.framework.jit.tracer import Trace

pytestmark = pytest.mark.core


def ignored(_: object) -> None:
    """Return nothing."""


def begun(function: Any, *inputs: fw.Tensor) -> tuple[CompiledTrace, Any]:
    """Return a program that has run once, and what it returned then."""
    fw.eval()
    trace = Trace()
    call = signature_of(inputs, {})
    tree, tensors = trace.isolate_outputs(trace.run(function, inputs, {}, list(inputs)))
    made = CompiledTrace(function, trace, call, tree, tensors)
    return made, made.begin(trace, inputs)


def compiled(function: Any, *inputs: fw.Tensor) -> CompiledTrace:
    return begun(function, *inputs)[0]


def test_it_runs_on_its_inputs(gpu: GpuDevice) -> None:
    x = fw.tensor([1.0, 2.0], device=gpu)
    made, answer = begun(lambda x: x * 3, x)
    assert answer.tolist() == [3, 6]
    other = fw.tensor([5.0, 7.0], device=gpu)
    assert made.replay([other]).tolist() == [15, 21]
    assert made.replays == 2


def test_it_reads_what_changed_outside(gpu: GpuDevice) -> None:
    x, w = fw.ones(2, device=gpu), fw.ones(2, device=gpu)
    made = compiled(lambda x: x * w, x)
    assert made.fits()
    w.add_(1)
    held = w.clone()
    assert made.fits()
    assert made.replay([x]).tolist() == [2, 2]
    w.copy_(fw.full((2,), 7.0, device=gpu))
    assert made.fits()
    assert (made.replay([x]).tolist(), held.tolist()) == ([7, 7], [2, 2])


def test_it_does_not_fit_where_a_constant_has_two_storages(gpu: GpuDevice) -> None:
    x, w = fw.ones(2, device=gpu), fw.ones(2, device=gpu)
    other = copy.deepcopy(w)
    made = compiled(lambda x: x * w + other, x)
    assert made.fits()
    w.add_(1)
    assert not made.fits()


def test_it_takes_back_what_changed_outside(gpu: GpuDevice) -> None:
    w = fw.ones(2, device=gpu)
    made = compiled(lambda: ignored(w.add_(1)))
    w.mul_(10)
    assert made.fits()
    made.replay([])
    assert w.tolist() == [21, 21]


def test_it_no_longer_fits_when_a_storage_is_gone(gpu: GpuDevice) -> None:
    held = [fw.ones(2, device=gpu)]
    made = compiled(lambda: ignored(held[0].add_(1)))
    held.clear()
    assert not made.fits()


def test_it_says_what_it_takes(gpu: GpuDevice) -> None:
    x = fw.ones((16, 16), device=gpu)
    made = compiled(lambda x: (x @ x) @ x, x)
    found = made.statistics()
    assert found["planned"] == found["eager"] == 2048
    assert (found["kept"], found["dispatches"], found["replays"]) == (1024, 2, 1)


def test_forgotten_it_hears_nothing(gpu: GpuDevice) -> None:
    w, v = fw.ones(2, device=gpu), fw.ones(2, device=gpu)
    made = compiled(lambda: ignored(w.add_(v)))
    made.forget()
    heard = made._state_moved
    v.add_(1)
    w.add_(1)
    assert made._state_moved is heard
    assert not made.fits()


def test_gradients_may_be_dropped_by_hand(gpu: GpuDevice) -> None:
    """As `zero_grad` does it: what was there before does not matter."""
    w = fw.ones(2, device=gpu).requires_grad_()

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        with fw.no_grad():
            w.sub_(w.grad)
        return loss.detach()

    x = fw.tensor([1.0, 2.0], device=gpu)
    assert [step(x).item() for _ in range(4)] == [3, -2, -7, -12]
    assert (step.traces, step.replays) == (1, 3)
    assert w.grad.tolist() == [1, 2]


def test_a_gradient_that_is_read_before_it_is_dropped_counts(gpu: GpuDevice) -> None:
    w, total = fw.ones(2, device=gpu).requires_grad_(), fw.zeros(2, device=gpu)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        if w.grad is not None:
            total.add_(w.grad)
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        return loss.detach()

    def called(number: int) -> float:
        step(fw.full((2,), float(number), device=gpu))
        return float(total[0].item())

    with pytest.warns(UserWarning, match="step runs without replay .* a gradient that"):
        found = [called(number) for number in range(6)]
    assert found == [0, 0, 1, 3, 6, 10]


def test_data_may_be_set_between_calls_only(gpu: GpuDevice) -> None:
    w = fw.ones(2, device=gpu)
    scale = fw.jit(lambda x: x * w)
    x = fw.tensor([1.0, 2.0], device=gpu)
    assert [scale(x).tolist() for _ in range(2)] == [[1, 2]] * 2
    held, w.data = w.data, fw.full((2,), 3.0, device=gpu)
    assert [scale(x).tolist() for _ in range(2)] == [[3, 6]] * 2
    assert held.tolist() == [1, 1]
    assert (scale.traces, scale.replays) == (2, 2)

    @fw.jit
    def change(other: fw.Tensor, exchange: bool) -> None:
        if exchange:
            w.data = other
        w.data -= other

    change(x, exchange=False)
    assert w.tolist() == [2, 1]
    with pytest.raises(TraceError, match="a tensor's data is set, which a replay"):
        change(x, exchange=True)


@pytest.mark.parametrize("first", [True, False])
def test_a_step_without_memory_loses_nothing(first: bool, gpu: GpuDevice) -> None:
    w = fw.ones((4, 4), device=gpu).requires_grad_()

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        w.grad = None
        loss = (x @ w).square().mean()
        loss.backward()
        with fw.no_grad():
            w.sub_(w.grad)
        return loss.detach()

    small, large = fw.ones((2, 4), device=gpu), fw.ones((3_000_000, 4), device=gpu)
    for _ in range(0 if first else 2):
        step(small)
    fw.eval()
    before = w.tolist()
    with room_for(gpu.gpu, 0), pytest.raises(MemoryError):
        step(large)
    assert w.tolist() == before
    assert w.grad is None or len(w.grad.tolist()) == 4
    step(small)
    assert w.tolist() != before


@pytest.mark.parametrize("taken", [True, False])
def test_results_stay_where_a_replay_is_interrupted(
    taken: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = fw.zeros(3, device=gpu)
    made = fw.jit(lambda x: w.add_(x) * 10)
    x = fw.ones(3, device=gpu)
    results = [made(x), made(x)]
    submit = vkbackend.Recording.submit

    def interrupted(*args: Any, **kwargs: Any) -> None:
        if taken:
            submit(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vkbackend.Recording, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made(x)
    assert [each.tolist() for each in results] == [[10] * 3, [20] * 3]
    assert w.tolist() == [2 + taken] * 3
    assert made(x).tolist() == [30 + 10 * taken] * 3


@pytest.mark.parametrize("taken", [False, True])
def test_a_handler_within_a_replay_changes_nothing_of_it(
    taken: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the replay before returned is on its way elsewhere then."""
    made, before = begun(lambda x: x * 3, fw.tensor([1.0, 2.0], device=gpu))
    other = fw.tensor([5.0, 7.0], device=gpu)
    fw.eval()
    submit = vkbackend.Recording.submit

    def submitted(recording: vkbackend.Recording, *args: Any) -> Any:
        point = submit(recording, *args) if taken else None
        with pytest.raises(vkbackend.ReentrantError):
            before.numpy()
        assert other.tolist() == [5, 7]
        return point or submit(recording, *args)

    with monkeypatch.context() as patched:
        patched.setattr(vkbackend.Recording, "submit", submitted)
        after = made.replay([other])
    assert before.tolist() == [3, 6]
    assert after.tolist() == [15, 21]


def test_who_begins_to_hold_a_state_while_it_is_taken_back_is_heard(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may: a submission lets it run."""
    v, w = fw.zeros(2, device=gpu), fw.zeros(2, device=gpu)
    made = compiled(lambda: ignored((v.add_(1), w.add_(1))))
    v.mul_(10)
    copied = fw.empty(2, device=gpu)
    submit = vkbackend.Batch.submit

    def submitted(batch: vkbackend.Batch) -> vkbackend.TimelinePoint:
        copied.copy_(w)
        return submit(batch)

    fw.eval()
    with monkeypatch.context() as patched:
        patched.setattr(vkbackend.Batch, "submit", submitted)
        assert made.fits()
    assert made.fits()
    made.replay([])
    assert copied.tolist() == [1, 1]
    assert (v.tolist(), w.tolist()) == ([11, 11], [2, 2])


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_the_host_did_is_undone_with_a_replay(
    error: type[BaseException], gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps, epochs, batches and draws count where the device has done the work."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout()).to(gpu)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    scheduler = optim.StepLR(optimizer, step_size=1)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    def state() -> list[Any]:
        steps = [each["step"] for each in optimizer.state_dict()["state"].values()]
        batches = model[1].num_batches_tracked.item()
        return [steps, scheduler.state_dict(), scheduler.get_last_lr(), batches]

    x = fw.ones((4, 2), device=gpu)
    for _ in range(3):
        step(x)
    before, random = state(), fw.get_rng_state()
    weight = model[0].weight.tolist()

    def failing(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(vkbackend.Recording, "submit", failing)
        with pytest.raises(error):
            step(x)
    assert (state(), fw.get_rng_state()) == (before, random)
    assert model[0].weight.tolist() == weight
    step(x)
    assert step.replays == 3
    assert fw.get_rng_state()[1] == random[1] + 1
    assert scheduler.last_epoch == before[1]["last_epoch"] + 1
