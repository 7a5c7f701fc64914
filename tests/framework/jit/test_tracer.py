"""Tracer: recorded nodes, refusals, outputs."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base import trace_hooks
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.jit.outputs import Slot, fill_slots
from vkbackend.framework.jit.tracer import ANY, Trace
from vkbackend.framework.nn.parameter import zero_gradient

pytestmark = pytest.mark.core


@pytest.fixture
def x(gpu: GpuDevice) -> fw.Tensor:
    made = fw.tensor([1.0, 2.0], device=gpu)
    fw.eval()
    return made


def run(function: Any, *inputs: fw.Tensor) -> tuple[Trace, Any]:
    trace = Trace()
    return trace, trace.run(function, inputs, {}, list(inputs))


def test_operations_wait_until_they_are_run(gpu: GpuDevice, x: fw.Tensor) -> None:
    trace, y = run(lambda x: x * 2 + 1, x)
    assert [node.op.name for node in trace.nodes] == ["mul", "add"]
    assert gpu.pending == []
    trace.run_now()
    assert y.tolist() == [3.0, 5.0]


def test_views_are_inputs_from_their_first_element(x: fw.Tensor) -> None:
    trace, y = run(lambda x: x * 2, x[1:])
    trace.run_now()
    assert y.tolist() == [4.0]


def test_storages_that_were_there_before_are_noted(x: fw.Tensor) -> None:
    before = x.array.value

    def change() -> None:
        inner = x * 2
        inner.add_(1)
        x.add_(inner)
        x.mul_(2)

    trace, _ = run(change)
    ((array, value),) = trace.rebound_arrays.values()
    assert array is x.array
    assert value is before
    trace.run_now()
    assert x.tolist() == [8.0, 14.0]


def test_results_get_values_of_their_own(x: fw.Tensor) -> None:
    twice: list[fw.Tensor] = []

    def both(y: fw.Tensor) -> list[fw.Tensor]:
        twice.append(y * 2)
        return [twice[0], y, x, twice[0], twice[0].detach()]

    trace, result = run(both, x)
    tree, tensors = trace.isolate_outputs(result)
    assert [slot.number for slot in tree] == [0, 1, 2, 0, 3]
    assert len({id(each.array.value) for each in tensors}) == 4
    trace.run_now()
    assert [each.tolist() for each in tensors] == [[2, 4], [1, 2], [1, 2], [2, 4]]


def test_shared_elements_are_found_and_parted(x: fw.Tensor) -> None:
    other = fw.zeros(2, device=x.device)
    fw.eval()
    trace, y = run(lambda: other.copy_(x) + 1)
    assert other.array.value is x.array.value
    trace.isolate_outputs(y)
    assert other.array.value is not x.array.value
    assert not trace.has_shared_storage()
    trace.run_now()
    other.array.replace(x.array.value)
    trace.unshare()
    assert other.array.value is not x.array.value
    assert other.tolist() == [1, 2]


def test_gradients_on_entry_are_noted(x: fw.Tensor) -> None:
    w, v = (fw.ones(2, device=x.device, requires_grad=True) for _ in range(2))

    def step() -> None:
        zero_gradient(v, set_to_none=True)
        (w * v).sum().backward()

    trace, _ = run(step)
    entries = {key: entry for key, (_, entry) in trace.leaves.items()}
    assert entries == {id(w): None, id(v): ANY}
    trace.run_now()


def test_changes_on_the_host_are_noted() -> None:
    y = fw.ones(2)
    trace, _ = run(lambda: y.add_(1))
    assert trace.changes_host
    assert trace.rebound_arrays == {}


def test_slots_are_filled() -> None:
    y = fw.ones(1)
    assert fill_slots((Slot(0), [Slot(0)], {"a": Slot(0)}, 3), [y]) == (
        y,
        [y],
        {"a": y},
        3,
    )


def test_copies_that_share_are_made_anew_by_each_replay(gpu: GpuDevice) -> None:
    state = fw.tensor([1.0, 2.0], device=gpu)

    @fw.jit
    def step(x: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        before, inputs = state.repeat(1), x.roll(2)
        before.mul_(10)
        inputs.add_(1)
        state.add_(1)
        return before + inputs, state.repeat(1)

    x = fw.tensor([100.0, 200.0], device=gpu)
    results = [step(x) for _ in range(4)]
    assert [first.tolist() for first, _ in results] == [
        [111 + 10 * k, 221 + 10 * k] for k in range(4)
    ]
    assert [second.tolist() for _, second in results] == [
        [2 + k, 3 + k] for k in range(4)
    ]
    assert x.tolist() == [100, 200]
    assert (step.traces, step.replays) == (1, 3)


def elsewhere(function: Any) -> Any:
    """Return what a function returns in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_other_threads_see_what_was_there_before(gpu: GpuDevice) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(gpu)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    batch = fw.tensor([[1.0, 2.0], [3.0, 5.0]], device=gpu)

    def state() -> list[Any]:
        found = model.state_dict().values()
        # Counts of batches are on the host, where changes are made at once.
        return [each.tolist() for each in found if each.is_gpu]

    def doubled() -> Any:
        return (model[0].weight.detach() * 2).tolist()

    seen = []

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        seen.append((elsewhere(state), elsewhere(doubled)))
        return loss.detach()

    states = [(state(), doubled())]
    for _ in range(3):
        step(batch)
        states.append((state(), doubled()))
    assert states[0] != states[1] != states[2]
    assert len(seen) == step.traces
    assert seen == states[: len(seen)]
    assert elsewhere(state) == states[3][0]


def test_another_trace_of_the_same_storage_is_refused(x: fw.Tensor) -> None:
    def other() -> None:
        Trace().run(lambda: x.add_(1), (), {}, [])

    def change() -> None:
        x.add_(1)
        with pytest.raises(TraceError, match="another thread's trace is changing"):
            elsewhere(other)

    trace, _ = run(change)
    trace.run_now()
    assert x.tolist() == [2.0, 3.0]


class Boom(Exception):
    """What a traced function raises."""


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
def test_operations_before_an_error_are_done(
    error: type[BaseException], x: fw.Tensor
) -> None:
    w = fw.ones(2, device=x.device, requires_grad=True)

    @fw.jit
    def step(y: fw.Tensor) -> None:
        (w * y).sum().backward()
        x.add_(y)
        raise error

    for _ in range(2):
        w.grad = None
        with pytest.raises(error):
            step(fw.tensor([0.0, 1.0, 2.0], device=x.device)[1:])
        assert w.grad is not None
        assert w.grad.tolist() == [1.0, 2.0]
    assert x.tolist() == [3.0, 6.0]
    assert trace_hooks.running == 0


@pytest.mark.parametrize("shape", [(), (3,)])
def test_changes_that_ask_nothing_of_a_device_are_made(
    shape: tuple[int, ...], gpu: GpuDevice
) -> None:
    x, y = (fw.full(shape, value, device=gpu) for value in (1.0, 2.0))
    step = fw.jit(lambda: x.copy_(y))
    for _ in range(6):
        step()
        np.testing.assert_array_equal(x.numpy(), y.numpy())
        y.add_(1)
        assert (x.numpy() == y.numpy() - 1).all()


def reads(x: fw.Tensor) -> object:
    return float(x.sum())


def changes(x: fw.Tensor) -> object:
    return x.add_(1)


@pytest.mark.parametrize("asks", [reads, changes])
def test_what_is_refused_is_an_error_though_it_is_caught(
    x: fw.Tensor, asks: Callable[[fw.Tensor], object]
) -> None:
    def function(x: fw.Tensor) -> fw.Tensor:
        with suppress(Exception):
            asks(x)
        return x * 2

    step = fw.jit(function)
    for _ in range(2):
        with pytest.raises(TraceError, match=r"is read on the host|changed in place"):
            step(x)
    assert x.tolist() == [1, 2]


def test_a_log_may_ask_in_vain(x: fw.Tensor) -> None:
    class Formatting(logging.Handler):
        """Swallows what goes wrong, as handlers do."""

        def emit(self, record: logging.LogRecord) -> None:
            with suppress(Exception):
                record.getMessage()

    logger = logging.Logger("trace")
    logger.addHandler(Formatting())

    def function(x: fw.Tensor) -> fw.Tensor:
        logger.warning("x is %s", x)
        return x * 2

    step = fw.jit(function)
    assert [step(x).tolist() for _ in range(3)] == [[2, 4]] * 3
    assert step.replays == 2


def test_storages_that_share_before_each_call_are_replayed(x: fw.Tensor) -> None:
    kept = fw.zeros(2, device=x.device)

    @fw.jit
    def double() -> None:
        x.mul_(2)

    for number in range(5):
        kept.copy_(x)
        assert kept.array.value is x.array.value
        double()
        assert kept.tolist() == [2**number, 2 * 2**number]
    assert x.tolist() == [32, 64]
    assert (double.traces, double.replays) == (2, 3)
