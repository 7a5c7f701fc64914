"""Signatures of calls."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.capture.arguments import quick_key, take_apart, with_tensors
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.errors import TraceError


class Pair(NamedTuple):
    first: Any
    second: Any


def key(*args: Any, **kwargs: Any) -> object:
    return take_apart(args, kwargs).key


def test_values_and_types_of_numbers_count() -> None:
    kinds = [1, 1.0, True, "1", None, (1,), [1], {"a": 1}, np.float32(1)]
    assert len({repr(key(kind)) for kind in kinds}) == len(kinds)
    assert key(2, [3, {"a": "b"}]) == key(2, [3, {"a": "b"}])


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


@pytest.mark.core
def test_a_quick_key_is_of_tensors_that_are_fed(gpu: GpuDevice) -> None:
    x, y = fw.ones((2, 3), device=gpu), fw.zeros((2, 3), device=gpu)
    assert quick_key((x, y)) == quick_key((y, x)) is not None
    assert quick_key((x,)) != quick_key((x.T,))
    assert quick_key((x,)) != quick_key((x.half(),))
    assert quick_key((x, 1)) is None
    assert quick_key((x.requires_grad_(),)) is None
    assert quick_key((fw.ones(2),)) is None
