"""What is watched to be asked for again, and what is not such."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base import trace_hooks
from vkbackend.framework.eager.node_recorder import (
    NodeRecorder,
    recorded_call_of,
    replay_nodes,
)
from vkbackend.framework.ir.lazy_graph import Array
from vkbackend.framework.scheduler.scheduler import append_all


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    return fw.device(device.name)


def recorded(place: Any, function: Any, *tensors: Any) -> tuple[NodeRecorder, Any]:
    recorder = NodeRecorder(place)
    with trace_hooks.listening(recorder), fw.no_grad():
        answer = function(*tensors)
    return recorder, answer


def ramp(place: Any, start: int) -> Any:
    return fw.tensor(np.arange(start, start + 6, dtype=np.float32), device=place)


def test_nodes_on_other_values(place: Any) -> None:
    x, y = ramp(place, 0), ramp(place, 5)
    recorder, answer = recorded(place, lambda a, b: (a * 2 + b).exp() - a, x, y)
    recorded_nodes = recorder.recorded_nodes({x.array.value: 0, y.array.value: 1})
    assert recorded_nodes is not None
    assert [row.signature.op.name for row in recorded_nodes] == [
        "mul",
        "add",
        "exp",
        "sub",
    ]
    assert [row.sources for row in recorded_nodes] == [(0,), (2, 1), (3,), (4, 0)]
    values = [ramp(place, 0).array.value, ramp(place, -9).array.value]
    nodes = replay_nodes(recorded_nodes, values)
    assert [node.outputs[0] for node in nodes] == values[2:]
    out = fw.Tensor.make(Array(values[-1]), answer.layout, place)
    append_all(place, nodes)
    counts = np.arange(6, dtype=np.float32)
    expected = np.exp(counts * 3 - 9) - counts
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)


REFUSED = {
    "a change in place": lambda x: x.mul_(2.0),
    "a draw": lambda x: x + fw.rand(6, device=x.device),
    "a value that is read": lambda x: x * x.sum().item(),
    "other tensors": lambda x: x + OTHER[0],
}
OTHER: list[Any] = []


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_be_another_thing_next_time(what: str, place: Any) -> None:
    OTHER[:] = [ramp(place, 1)]
    x = ramp(place, 1)
    numbers = {x.array.value: 0}
    recorder, _ = recorded(place, REFUSED[what], x)
    assert recorder.recorded_nodes(numbers) is None


def test_answers_that_are_not_made_anew(place: Any) -> None:
    x, y = ramp(place, 1), ramp(place, 2)
    for function in (lambda a, b: a, lambda a, b: (a + b, a), lambda a, b: OTHER[0]):
        OTHER[:] = [ramp(place, 3)]
        recorder, answer = recorded(place, function, x, y)
        assert recorded_call_of(recorder, place, [x, y], answer) is None


def test_tensors_that_share_a_value_are_not_told_apart(place: Any) -> None:
    x = ramp(place, 1)
    recorder, answer = recorded(place, lambda a, b: a + b, x, x)
    assert recorded_call_of(recorder, place, [x, x], answer) is None


def test_a_recipe_answers_as_the_function_does(place: Any) -> None:
    x, y = ramp(place, 1), ramp(place, 2)
    recorder, answer = recorded(
        place, lambda a, b: ((a * b).sum(), (a - b).reshape(2, 3)), x, y
    )
    recorded_call = recorded_call_of(recorder, place, [x, y], answer)
    assert recorded_call is not None
    x, y = ramp(place, 4), ramp(place, 7)
    total, difference = recorded_call.replay([x, y])
    assert total.item() == (x.numpy() * y.numpy()).sum()
    assert difference.tolist() == [[-3.0] * 3] * 2
