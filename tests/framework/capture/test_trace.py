"""Traces: what is collected, what is refused, what stays."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.capture.trace import ANY, Slot, Trace, filled
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.nn.parameter import zero_gradient

pytestmark = pytest.mark.core


@pytest.fixture
def x(gpu: GpuDevice) -> fw.Tensor:
    made = fw.tensor([1.0, 2.0], device=gpu)
    fw.eval()
    return made


def run(function: Any, *fed: fw.Tensor) -> tuple[Trace, Any]:
    trace = Trace()
    return trace, trace.run(function, fed, {}, list(fed))


def test_operations_wait_until_they_are_run(gpu: GpuDevice, x: fw.Tensor) -> None:
    trace, y = run(lambda x: x * 2 + 1, x)
    assert [node.op.name for node in trace.nodes] == ["mul", "add"]
    assert gpu.pending == []
    trace.run_now()
    assert y.tolist() == [3.0, 5.0]


def test_parts_are_fed_from_their_first_element(x: fw.Tensor) -> None:
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
        return [twice[0], y, x, twice[0]]

    trace, result = run(both, x)
    tree, tensors = trace.settle(result)
    assert [slot.number for slot in tree] == [0, 1, 2, 3]
    assert len({id(each.array.value) for each in tensors}) == 4
    trace.run_now()
    assert [each.tolist() for each in tensors] == [[2, 4], [1, 2], [1, 2], [2, 4]]


def test_shared_elements_are_found_and_parted(x: fw.Tensor) -> None:
    other = fw.zeros(2, device=x.device)
    fw.eval()
    trace, y = run(lambda: other.copy_(x) + 1)
    assert other.array.value is x.array.value
    trace.settle(y)
    assert other.array.value is not x.array.value
    assert not trace.shares()
    trace.run_now()
    other.array.replace(x.array.value)
    trace.part()
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
    assert filled((Slot(0), [Slot(0)], {"a": Slot(0)}, 3), [y]) == (y, [y], {"a": y}, 3)


def test_copies_that_share_are_made_anew_by_each_replay(gpu: GpuDevice) -> None:
    state = fw.tensor([1.0, 2.0], device=gpu)

    @fw.jit
    def step(x: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        before, fed = state.repeat(1), x.roll(2)
        before.mul_(10)
        fed.add_(1)
        state.add_(1)
        return before + fed, state.repeat(1)

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
