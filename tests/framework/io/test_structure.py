"""Nested structures as JSON."""

import json
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.io.structure import pack, unpack

NESTED = {
    "numbers": [1, -(1 << 80), 2.5, 0.1, -0.0, math.inf, -math.inf, 1j, True, None],
    "texts": ("", "ä\ud800", b"\x00\xff", OrderedDict(b=1, a=())),
    3: {(1, "x"): {1, 2}, None: frozenset("a"), 2.5: fw.Size((2, 3))},
    "kinds": [fw.bfloat16, fw.device("cpu")],
}


def test_what_is_no_tensor_comes_back_with_its_type() -> None:
    tensors, text = pack(NESTED)
    loaded = unpack("load", text, tensors)
    assert repr(loaded) == repr(NESTED)
    assert math.isnan(unpack("load", pack(math.nan)[1], {}))


def test_tensors_keep_their_class_and_are_there_once() -> None:
    weight = nn.Parameter(fw.ones(2))
    frozen = nn.Parameter(fw.ones(1), requires_grad=False)
    value = [weight, weight.detach(), frozen, fw.ones(1).requires_grad_(), weight]
    value += [np.arange(3), np.float64(0.1)]
    tensors, text = pack({"a": value})
    assert list(tensors) == ["a.0", "a.2", "a.3", "a.5", "a.6"]
    one, two, three, four, again, array, number = unpack("load", text, tensors)["a"]
    assert one is again
    assert type(one) is nn.Parameter
    assert one.requires_grad
    assert type(two) is fw.Tensor
    assert not two.requires_grad
    assert type(three) is nn.Parameter
    assert not three.requires_grad
    assert four.requires_grad
    assert array.tolist() == [0, 1, 2]
    assert type(number) is np.float64
    assert number == 0.1


def test_names_that_the_format_cannot_hold_and_that_are_equal() -> None:
    value = {"__metadata__": fw.ones(1), "\ud800": fw.zeros(1), 1: fw.ones(2)}
    tensors, text = pack({**value, "1": fw.zeros(2)})
    assert list(tensors) == ["tensor", "tensor#1", "1", "1#1"]
    loaded = unpack("load", text, tensors)
    assert loaded["__metadata__"].item() == 1
    assert loaded["1"].tolist() == [0, 0]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"f": [len]}, r"obj\['f'\]\[0\] is a builtins.builtin_function_or_method"),
        ({"m": nn.Linear(1, 1)}, r"obj\['m'\] is a .*Linear; .*state_dict\(\)"),
        ({"o": optim.SGD([nn.Parameter(fw.ones(1))])}, r"obj\['o'\] is a .*SGD"),
        ({len: 1}, "keys must be strings"),
        ({"x": np.zeros(1, np.clongdouble)}, "complex256 is no dtype of files"),
        (nested(101), "levels deep; files hold 100"),
        (endless(), r"obj\[0\] contains itself"),
    ],
)
def test_what_cannot_be_saved(value: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        pack(value)


def test_the_deepest() -> None:
    value = nested(99)
    assert unpack("load", pack(value)[1], {}) == value


@pytest.mark.parametrize(
    "made",
    [
        {"tensor": "missing"},
        {"unknown": 1},
        {},
        {"dict": [[1]]},
        {"dict": [[[], 1]]},
        {"dtype": "complex32"},
        {"bytes": "?"},
        {"int": "z"},
        {"tuple": 3},
    ],
)
def test_damaged_structures(made: Any) -> None:
    with pytest.raises(FileFormatError, match="load: x: its structure is damaged"):
        unpack("load: x", json.dumps(made), {})


def test_a_structure_that_is_no_json_or_too_deep() -> None:
    for text in ("{", "[" * 100_000, "[" * 300 + "]" * 300):
        with pytest.raises(FileFormatError, match="its structure is damaged"):
            unpack("load", text, {})
