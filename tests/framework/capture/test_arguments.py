"""Signatures of calls."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.capture.arguments import (
    alike,
    quick_key,
    take_apart,
    with_tensors,
)
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.errors import TraceError


@dataclass(frozen=True)
class Batch:
    inputs: Any
    name: str


class Pair(NamedTuple):
    first: Any
    second: Any


def key(*args: Any, **kwargs: Any) -> object:
    return take_apart(args, kwargs).key


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


def test_whether_gradients_are_recorded_counts() -> None:
    recorded = key(1)
    with fw.no_grad():
        assert key(1) != recorded


def test_other_objects_count_by_identity_and_are_kept() -> None:
    one, other = object(), object()
    assert key(one) == key(one)
    assert key(one) != key(other)
    assert take_apart((one,), {}).kept == [one]


def test_tensors_on_the_host_are_named() -> None:
    call = take_apart((1,), {"x": [fw.ones(2)]})
    assert call.on_host == ["x[0]"]
    assert call.fed == []


@pytest.mark.core
def test_tensors_on_a_device_count_by_what_they_are_like(gpu: GpuDevice) -> None:
    x, y = fw.ones((2, 3), device=gpu), fw.zeros((2, 3), device=gpu)
    assert key(x) == key(y) == key(fw.ones((4, 3), device=gpu)[2:])
    assert key(x) != key(fw.ones((3, 2), device=gpu).T)
    assert key(x) != key(x.half())
    assert [take_apart((x,), {"y": y}).fed[k] is each for k, each in enumerate((x, y))]
    w = fw.ones(3, device=gpu, requires_grad=True)
    assert take_apart((w,), {}).fed == []
    with pytest.raises(TraceError, match="argument w is a result"):
        key(w=w * 2)


@pytest.mark.core
def test_which_arguments_are_one_tensor_counts(gpu: GpuDevice) -> None:
    x, y = fw.ones(2, device=gpu), fw.zeros(2, device=gpu)
    assert key(x, x) == key(y, y) != key(x, y) == key(y, x)
    assert key([x], {"a": x}) != key([x], {"a": y})
    assert key(x, y, x) != key(x, y, y)
    assert len(take_apart((x, y, x), {}).fed) == 2
    assert quick_key((x, x)) is None


def test_arrays_are_refused() -> None:
    with pytest.raises(TraceError, match=r"argument 0\['a'\] is a NumPy array"):
        key({"a": np.ones(3)})


def test_tensors_are_exchanged_in_place() -> None:
    x = fw.ones(1)
    nested = (x, [x, 1], {"a": x}, Pair(x, "b"))
    assert with_tensors(nested, lambda each: "t") == (
        "t",
        ["t", 1],
        {"a": "t"},
        Pair("t", "b"),
    )


def test_mappings_and_records_keep_their_class() -> None:
    x = fw.ones(1)
    nested: list[Any] = [
        OrderedDict(a=x),
        defaultdict(list, a=[x]),
        MappingProxyType({"a": x}),
        Batch(x, "b"),
        {x},
    ]
    found = with_tensors(nested, lambda each: "t")
    assert [type(each) for each in found] == [type(each) for each in nested]
    assert found[0] == found[2] == {"a": "t"}
    assert found[1]["a"] == ["t"]
    assert found[1]["new"] == []
    assert (found[3], found[4]) == (Batch("t", "b"), {"t"})
    assert nested[3].inputs is x


@pytest.mark.core
def test_fields_of_records_are_fed(gpu: GpuDevice) -> None:
    x, y = fw.ones(2, device=gpu), fw.zeros(2, device=gpu)
    assert take_apart((Batch(x, "b"),), {}).fed[0] is x
    assert key(Batch(x, "b")) == key(Batch(y, "b")) != key(Batch(x, "c"))


@pytest.mark.core
def test_a_quick_key_is_of_tensors_that_are_fed(gpu: GpuDevice) -> None:
    x, y = fw.ones((2, 3), device=gpu), fw.zeros((2, 3), device=gpu)
    assert quick_key((x, y)) == quick_key((y, x)) is not None
    assert quick_key((x,)) != quick_key((x.T,))
    assert quick_key((x,)) != quick_key((x.half(),))
    assert quick_key((x, 1)) is None
    assert quick_key((x.requires_grad_(),)) is None
    assert quick_key((fw.ones(2),)) is None
