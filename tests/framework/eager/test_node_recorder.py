"""What is watched to be asked for again, and what is not such."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base import trace_hooks
from vkbackend.framework.eager.node_recorder import Watcher, nodes_of, recipe_of
from vkbackend.framework.ir.lazy_graph import Array
from vkbackend.framework.scheduler.scheduler import append_all, unfused


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    return fw.device(device.info.name)


def watched(place: Any, function: Any, *tensors: Any) -> tuple[Watcher, Any]:
    watcher = Watcher(place)
    with trace_hooks.listening(watcher), fw.no_grad():
        answer = function(*tensors)
    return watcher, answer


def ramp(place: Any, start: int) -> Any:
    return fw.tensor(np.arange(start, start + 6, dtype=np.float32), device=place)


def test_nodes_on_other_values(place: Any) -> None:
    x, y = ramp(place, 0), ramp(place, 5)
    watcher, answer = watched(place, lambda a, b: (a * 2 + b).exp() - a, x, y)
    rows = watcher.rows({x.array.value: 0, y.array.value: 1})
    assert rows is not None
    assert [row.form.op.name for row in rows] == ["mul", "add", "exp", "sub"]
    assert [row.sources for row in rows] == [(0,), (2, 1), (3,), (4, 0)]
    values = [ramp(place, 0).array.value, ramp(place, -9).array.value]
    nodes = nodes_of(rows, values)
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
    watcher, _ = watched(place, REFUSED[what], x)
    assert watcher.rows(numbers) is None


def test_answers_that_are_not_made_anew(place: Any) -> None:
    x, y = ramp(place, 1), ramp(place, 2)
    for function in (lambda a, b: a, lambda a, b: (a + b, a), lambda a, b: OTHER[0]):
        OTHER[:] = [ramp(place, 3)]
        watcher, answer = watched(place, function, x, y)
        assert recipe_of(watcher, place, [x, y], answer) is None


def test_tensors_that_share_a_value_are_not_told_apart(place: Any) -> None:
    x = ramp(place, 1)
    watcher, answer = watched(place, lambda a, b: a + b, x, x)
    assert recipe_of(watcher, place, [x, x], answer) is None


def test_a_recipe_answers_as_the_function_does(place: Any) -> None:
    x, y = ramp(place, 1), ramp(place, 2)
    watcher, answer = watched(
        place, lambda a, b: ((a * b).sum(), (a - b).reshape(2, 3)), x, y
    )
    recipe = recipe_of(watcher, place, [x, y], answer)
    assert recipe is not None
    assert recipe.holds()
    with unfused(place):
        assert not recipe.holds()
    x, y = ramp(place, 4), ramp(place, 7)
    total, difference = recipe.again([x, y])
    assert total.item() == (x.numpy() * y.numpy()).sum()
    assert difference.tolist() == [[-3.0] * 3] * 2
