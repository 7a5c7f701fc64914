"""Outputs of traced functions: fresh in each call, or refused."""

import functools
from array import array
from collections import UserList, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.jit.outputs import Copied, Slot, fill_slots

pytestmark = pytest.mark.device


def number(gpu: GpuDevice, value: float) -> fw.Tensor:
    return fw.full((1,), value, device=gpu)


def test_slots_are_filled_and_arrays_copied() -> None:
    tensor, held = fw.ones(1), np.zeros(1)
    tree = {"a": [Slot(0), Copied(held)], "b": Slot(0)}
    one, other = fill_slots(tree, [tensor]), fill_slots(tree, [tensor])
    assert one["a"][0] is one["b"] is tensor
    one["a"][1][0] = 1
    assert (held[0], other["a"][1][0]) == (0, 0)


class Slotted:
    """Has a place for a tensor that is no attribute in a dictionary."""

    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a


def of_objects(x: fw.Tensor) -> Any:
    made = np.empty(1, object)
    made[0] = x * 2
    return made


def enclosed(x: fw.Tensor) -> Any:
    y = x * 2
    return lambda: y


REFUSED = [
    enclosed,
    of_objects,
    lambda x: deque([x * 2]),
    lambda x: Slotted(x * 2),
    lambda x: SimpleNamespace(a=[x * 2]),
    lambda x: SimpleNamespace(a=SimpleNamespace(a=x * 2)),
    lambda x: functools.partial(print, x * 2),
    lambda x: (x * 2).tolist,
    lambda x: [UserList([x * 2])],
    lambda x: {"a": x * 2}.values(),
    lambda x: {x * 2: 1},
    lambda x: ValueError(x * 2),
    lambda x: (x * 2, deque([x])),
]


@pytest.mark.parametrize("function", REFUSED)
def test_tensors_within_other_objects_are_refused(
    gpu: GpuDevice, function: Callable[[fw.Tensor], Any]
) -> None:
    with pytest.raises(TraceError, match=r"the result holds a .*; "):
        fw.jit(function)(number(gpu, 1.0))


MADE = [
    lambda: np.zeros(1),
    lambda: np.ma.zeros(1),
    lambda: np.zeros(2)[:1],
    lambda: bytearray(1),
    lambda: deque([0]),
    lambda: array("d", [0]),
    lambda: [0],
    lambda: fw.zeros(1),
]


@pytest.mark.parametrize("make", MADE)
def test_each_call_makes_arrays_of_the_host(
    gpu: GpuDevice, make: Callable[[], Any]
) -> None:
    step = fw.jit(lambda x: (x * 2, make()))
    held = []
    for k in range(5):
        y, made = step(number(gpu, k))
        assert (float(y), float(made[0])) == (2 * k, 0)
        made[0] = 7
        held.append(made)
    assert len({id(each) for each in held}) == 5
    assert step.replays >= 3


def test_what_was_there_stays_what_it_is(gpu: GpuDevice) -> None:
    held, names = np.zeros(2), deque(["a"])
    step = fw.jit(lambda x: (x * 2, held, held[:1], names))
    for k in range(4):
        _, found, view, named = step(number(gpu, k))
        assert found is held
        assert view.base is held
        assert named is names
    assert step.replays == 3


def test_an_object_with_a_state_may_be_returned(gpu: GpuDevice) -> None:
    states = {"a": [number(gpu, 1.0)]}
    holder = UserList([states])

    def step(x: fw.Tensor) -> Any:
        states["a"][0].add_(x)
        return x * 2, [holder]

    replayed = fw.jit(step)
    for k in range(4):
        _, (found,) = replayed(number(gpu, k))
        assert found is holder
    assert float(states["a"][0]) == 7
    assert replayed.replays == 3


def test_one_tensor_twice_is_one_tensor(gpu: GpuDevice) -> None:
    def step(x: fw.Tensor) -> Any:
        y = x * 2
        return y, {"again": y}, y + 1

    replayed = fw.jit(step)
    for k in range(4):
        y, held, z = replayed(number(gpu, k))
        assert held["again"] is y
        y.add_(1)
        assert (float(y), float(z)) == (2 * k + 1, 2 * k + 1)
    assert replayed.replays == 3
