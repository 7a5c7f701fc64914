"""Pytrees: numbers, containers and records, and others like them."""

from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import vkbackend.framework as fw
from vkbackend.framework.jit.pytree import (
    drop_attribute,
    own_attributes,
    rebuild,
    set_attribute,
    tree_map,
)


def with_tensors(value: Any, swap: Callable[[fw.Tensor], Any]) -> Any:
    return tree_map(
        value, lambda each: swap(each) if isinstance(each, fw.Tensor) else each
    )


@dataclass(frozen=True)
class Batch:
    inputs: Any
    name: str


class Pair(NamedTuple):
    first: Any
    second: Any


class Titled(list[Any]):
    title: Any


class Named(dict[str, Any]):
    """Has its elements for attributes."""

    def __init__(self, **elements: Any) -> None:
        super().__init__(elements)
        self.__dict__ = self


class Slotted:
    __slots__ = ("__dict__", "first")


def test_tensors_are_mapped_in_place() -> None:
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


@pytest.mark.parametrize("made", [Titled(), UserDict(), Pair(1, 2)._replace(first=3)])
def test_elements_and_attributes_are_exchanged(made: Any) -> None:
    x = fw.ones(1)
    if isinstance(made, Titled):
        made.append(x)
        made.title = x
    elif isinstance(made, UserDict):
        made["a"] = x
    else:
        made = made._replace(first=x)
    found = with_tensors(made, lambda each: "t")
    assert type(found) is type(made)
    assert "t" in list(found.values() if isinstance(found, UserDict) else found)
    assert getattr(found, "title", "t") == "t"
    assert with_tensors(made, lambda each: each) is not made


def test_elements_that_are_attributes_are_exchanged() -> None:
    found = with_tensors(Named(a=fw.ones(1)), lambda each: "t")
    assert found["a"] == found.a == "t"


def test_what_stays_is_the_same_object() -> None:
    made = Titled([1])
    made.title = "a"
    assert rebuild(made, lambda each: each, always=False) is made
    assert rebuild(made, lambda each: each) is not made


def test_attributes_are_found_and_set_with_those_of_slots() -> None:
    value = Slotted()
    assert own_attributes(value) == {}
    for name in ("first", "second"):
        set_attribute(value, name, 1)
    assert own_attributes(value) == vars(value) | {"first": 1}
    drop_attribute(value, "first")
    drop_attribute(value, "second")
    assert own_attributes(value) == {}
