"""Signatures of calls."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.jit.pytree import alike
from vkbackend.framework.jit.signature import fast_key, signature_of


@dataclass(frozen=True)
class Batch:
    inputs: Any
    name: str


class Pair(NamedTuple):
    first: Any
    second: Any


def key(*args: Any, **kwargs: Any) -> object:
    return signature_of(args, kwargs).key


def test_values_and_types_of_numbers_count() -> None:
    kinds = [1, 1.0, True, "1", None, (1,), [1], {"a": 1}, np.float32(1)]
    assert len({repr(key(kind)) for kind in kinds}) == len(kinds)
    assert key(2, [3, {"a": "b"}]) == key(2, [3, {"a": "b"}])


def test_signs_of_zero_count_and_nan_is_nan() -> None:
    for kind in (float, np.float32, complex):
        assert key(kind(0.0)) != key(kind(-0.0))
        assert key(kind("nan")) == key(kind("nan"))
    assert alike(float("nan"), -float("nan"))
    assert not alike(0.0, -0.0)
    assert not alike(1, True)


def test_names_count_and_their_order_does_not() -> None:
    assert key(a=1, b=2) == key(b=2, a=1)
    assert key(a=1) != key(b=1)


def test_their_order_counts_for_functions_that_take_any_name(gpu: GpuDevice) -> None:
    def first(x: fw.Tensor, **names: float) -> fw.Tensor:
        return x * next(iter(names.values()))

    def named(x: fw.Tensor, *, a: float, b: float) -> fw.Tensor:
        return x * a

    x, wrapped, plain = fw.ones(1, device=gpu), fw.jit(first), fw.jit(named)
    for _ in range(2):
        assert wrapped(x, a=2.0, b=3.0).tolist() == [2]
        assert wrapped(x, b=3.0, a=2.0).tolist() == [3]
        assert plain(x, a=2.0, b=3.0).tolist() == plain(x, b=3.0, a=2.0).tolist()
    assert (wrapped.traces, plain.traces) == (2, 1)


def test_whether_gradients_are_recorded_counts() -> None:
    recorded = key(1)
    with fw.no_grad():
        assert key(1) != recorded


def test_other_objects_count_by_identity_and_are_kept() -> None:
    one, other = object(), object()
    assert key(one) == key(one)
    assert key(one) != key(other)
    assert signature_of((one,), {}).identity_keys == [one]


def test_tensors_on_the_host_are_named() -> None:
    call = signature_of((1,), {"x": [fw.ones(2)]})
    assert call.on_host == ["argument x[0] is on the host"]
    assert call.inputs == []


@pytest.mark.core
def test_tensors_on_a_device_count_by_what_they_are_like(gpu: GpuDevice) -> None:
    x, y = fw.ones((2, 3), device=gpu), fw.zeros((2, 3), device=gpu)
    assert key(x) == key(y) == key(fw.ones((4, 3), device=gpu)[2:])
    assert key(x) != key(fw.ones((3, 2), device=gpu).T)
    assert key(x) != key(x.half())
    assert [
        signature_of((x,), {"y": y}).inputs[k] is each for k, each in enumerate((x, y))
    ]
    w = fw.ones(3, device=gpu, requires_grad=True)
    assert signature_of((w,), {}).inputs == []
    with pytest.raises(TraceError, match="argument w is a result"):
        key(w=w * 2)


@pytest.mark.core
def test_which_arguments_are_one_tensor_counts(gpu: GpuDevice) -> None:
    x, y = fw.ones(2, device=gpu), fw.zeros(2, device=gpu)
    assert key(x, x) == key(y, y) != key(x, y) == key(y, x)
    assert key([x], {"a": x}) != key([x], {"a": y})
    assert key(x, y, x) != key(x, y, y)
    assert len(signature_of((x, y, x), {}).inputs) == 2
    assert fast_key((x, x)) == ()


class Level(IntEnum):
    LOW = 1


class Titled(list[Any]):
    title = 0.0


class Scaled(float):
    scale = 1.0


class Extra(Batch):
    __slots__ = ("slot",)


def titled(make: Callable[[], Any]) -> Any:
    made = make()
    object.__setattr__(made, "title", 1.0)
    return made


@pytest.mark.parametrize(
    "make", [Titled, lambda: Scaled(1), lambda: Level.LOW, lambda: Batch(1, "a")]
)
def test_attributes_beyond_what_a_value_holds_count(make: Callable[[], Any]) -> None:
    value = titled(make)
    before = key(value)
    assert key(value) == before
    object.__setattr__(value, "title", 2.0)
    again = signature_of((value,), {})
    looked_at = any(each is value for each in again.identity_keys)
    assert again.key != before or looked_at


def test_slots_and_defaults_count() -> None:
    value = Extra(1, "a")
    before = key(value)
    object.__setattr__(value, "slot", 1)
    assert key(value) != before
    assert key(defaultdict(int)) != key(defaultdict(float))


def test_keys_of_mappings_count() -> None:
    one, other = object(), object()
    assert key({one: 1}) != key({other: 1})
    assert key({1: 1}) != key({True: 1}) != key({1.0: 1})
    assert key({(1, one): 1}) != key({(1, other): 1})
    assert any(each is one for each in signature_of(({one: 1},), {}).identity_keys)


def test_elements_of_structured_arrays_count_by_value() -> None:
    array = np.zeros(2, [("a", "f8")])
    before = key(array[0])
    assert key(array[1]) == before
    array["a"] = 1
    assert key(array[0]) != before


def test_arrays_are_named() -> None:
    call = signature_of(({"a": np.ones(3)},), {})
    assert call.on_host == ["argument 0['a'] is a NumPy array"]


@pytest.mark.core
def test_fields_of_records_are_inputs(gpu: GpuDevice) -> None:
    x, y = fw.ones(2, device=gpu), fw.zeros(2, device=gpu)
    assert signature_of((Batch(x, "b"),), {}).inputs[0] is x
    assert key(Batch(x, "b")) == key(Batch(y, "b")) != key(Batch(x, "c"))


@pytest.mark.core
def test_a_fast_key_is_of_inputs_alone(gpu: GpuDevice) -> None:
    x, y = fw.ones((2, 3), device=gpu), fw.zeros((2, 3), device=gpu)
    assert fast_key((x, y)) == fast_key((y, x)) != ()
    assert fast_key((x,)) != fast_key((x.T,))
    assert fast_key((x,)) != fast_key((x.half(),))
    assert fast_key((x, 1)) == ()
    assert fast_key((x.requires_grad_(),)) == ()
    assert fast_key((fw.ones(2),)) == ()
