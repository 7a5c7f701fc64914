"""Storages that a trace changes: who sees what, and when."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.ir.lazy_graph import (
    Array,
    Failed,
    ReplayOwnedArray,
    Value,
    mark_replay_owned,
    observe,
)
from vkbackend.framework.ir.traced_storage import TracedArray, isolate

pytestmark = pytest.mark.core


class Trace:
    """A trace of which a test says who looks."""

    def __init__(self) -> None:
        self.inside = True
        self.ended = False

    def visible(self) -> bool:
        return self.ended or self.inside


def diverted(array: Array) -> Trace:
    trace = Trace()
    isolate(array, trace)
    return trace


@pytest.mark.parametrize("kind", [Array, ReplayOwnedArray])
def test_a_change_is_seen_by_the_trace_until_it_ends(kind: type[Array]) -> None:
    before, after = Value(1, fw.float32), Value(1, fw.float32)
    array = Array(before)
    if kind is ReplayOwnedArray:
        observe(before, lambda _: None)
        mark_replay_owned(array)
    array.version = 3
    trace = diverted(array)
    array.replace(after)
    array.version += 1
    assert (array.value, array.version) == (after, 4)
    trace.inside = False
    assert (array.value, array.version) == (before, 3)
    assert (before.external_refs, after.external_refs) == (1, 1)
    trace.ended = True
    assert (array.value, array.version) == (after, 4)
    assert isinstance(array, TracedArray)
    array.publish()
    assert type(array) is kind
    assert (array.value, array.version, array.former) == (after, 4, None)
    assert (before.external_refs, after.external_refs) == (0, 1)


def test_joined_a_storage_remembers_what_pending_content_replaces() -> None:
    x = fw.ones(2, device="cpu").array
    before, after = x.value, Value(2, fw.float32)
    trace = diverted(x)
    after.node = fw_node(after)  # type: ignore[assignment]  # enough of one
    x.replace(after)
    trace.ended = True
    x.publish()
    assert x.former is before
    after.node, after.buffer = None, Failed(MemoryError("full"))
    x.settle(after)
    assert (x.value, x.former, x.version) == (before, None, 1)


def test_what_others_change_meanwhile_is_theirs() -> None:
    before, after, other = (Value(1, fw.float32) for _ in range(3))
    array = Array(before)
    trace = diverted(array)
    array.replace(after)
    trace.inside = False
    array.replace(other)
    array.version += 1
    assert (array.value, array.version, other.external_refs, before.external_refs) == (
        other,
        1,
        1,
        0,
    )
    trace.inside = True
    assert (array.value, array.version) == (after, 1)


def test_a_storage_that_goes_away_holds_nothing() -> None:
    before, after = Value(1, fw.float32), Value(1, fw.float32)
    array = Array(before)
    diverted(array)
    array.replace(after)
    del array
    assert (before.external_refs, after.external_refs) == (0, 0)


def fw_node(value: Value) -> object:
    """Return what stands for the node of a value."""

    class Node:
        arrays = ()
        outputs = (value,)

    return Node()
