"""Values, the arrays that hold them, and nodes."""

import sys
from types import FrameType
from typing import Any

import vkbackend.framework as fw
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.lazy_graph import (
    Array,
    Node,
    Operand,
    Value,
    lazy_node,
    observe,
    pin,
    pinned_array,
)


def test_arrays_hold_their_value() -> None:
    value = Value(3, fw.float32)
    first, second = Array(value), Array(value)
    assert value.external_refs == 2
    del second
    assert value.external_refs == 1
    other = Value(3, fw.float32)
    first.rebind(other)
    assert (value.external_refs, other.external_refs, first.version) == (0, 1, 1)


def test_a_node_makes_its_values() -> None:
    layouts = (Layout.contiguous((2, 3)), Layout.contiguous(()))
    dtypes = (fw.float32, fw.int32)
    node = Node.of(REGISTRY["exp"], (), layouts, dtypes)
    assert [value.numel for value in node.outputs] == [6, 1]
    assert tuple(value.dtype for value in node.outputs) == dtypes
    assert all(value.node is node for value in node.outputs)
    assert all(value.external_refs == 0 for value in node.outputs)


def test_equal_forms_are_one_object() -> None:
    layouts, dtypes = (Layout.contiguous((2, 3)),), (fw.float32,)
    exp, log = REGISTRY["exp"], REGISTRY["log"]
    first = Node.of(exp, (), layouts, dtypes, (("n", 1),)).signature
    assert first is Node.of(exp, (), layouts, dtypes, (("n", 1),)).signature
    others = [
        Node.of(log, (), layouts, dtypes, (("n", 1),)),
        Node.of(exp, (), layouts, (fw.float16,), (("n", 1),)),
        Node.of(exp, (), layouts, dtypes, (("n", True),)),
        Node.of(exp, (), layouts, dtypes, (("n", 1),), (("s", 2.0),)),
    ]
    assert first not in [node.signature for node in others]


def test_a_form_does_not_hold_the_numbers() -> None:
    value = Value(6, fw.float32)
    layout = Layout.contiguous((6,))
    nodes = [
        Node.of(
            REGISTRY["add"],
            (Operand(value, layout),),
            (layout,),
            (fw.float32,),
            (),
            (("b", b),),
        )
        for b in (1.0, 2.0)
    ]
    assert nodes[0].signature is nodes[1].signature
    assert [node.scalars for node in nodes] == [(("b", 1.0),), (("b", 2.0),)]
    assert nodes[0].inputs == (Operand(value, layout),)


def test_a_lazy_node_is_what_the_constructors_make() -> None:
    signature = Node.of(
        REGISTRY["exp"], (), (Layout.contiguous((6,)),), (fw.float32,)
    ).signature
    node = lazy_node(signature, (), (2.0,))
    (value,) = node.outputs
    assert (node.values, node.arrays, value.external_refs) == ((), (), 0)
    assert (value.numel, value.dtype, value.buffer) == (6, fw.float32, None)
    assert (value.node, node.signature, node.numbers) == (node, signature, (2.0,))


def test_an_array_that_is_kept_is_what_keeping_makes_of_one() -> None:
    memory = object()
    slow = Array(Value(6, fw.float32, buffer=memory))
    pin(slow.value)
    quick = pinned_array(6, fw.float32, memory)
    assert type(quick.value) is type(slow.value)
    for name in ("numel", "dtype", "node", "buffer", "external_refs", "observers"):
        assert getattr(quick.value, name) == getattr(slow.value, name)
    assert quick.version == slow.version
    heard: list[bool] = []
    observe(quick.value, heard.append)
    second = Array(quick.value)
    assert quick.value.external_refs == 2
    value = quick.value
    del quick, second
    assert value.external_refs == 0
    assert heard == [True, False, False]


class Changing:
    """A storage to which another thread gives new content while it is looked at."""

    def __init__(self, *values: Value) -> None:
        self.values = [*values]

    @property
    def value(self) -> Value:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


def test_what_is_shared_is_what_the_storage_holds() -> None:
    old, new = Value(3, fw.float32), Value(3, fw.float32)
    changing: Any = Changing(old, new)
    shared = Array.sharing(changing)
    assert shared.value is new
    assert (old.external_refs, new.external_refs) == (0, 1)


def test_none_is_lost_who_comes_while_another_is_counted() -> None:
    """Another thread may run after any line."""
    value = Value(3, fw.float32)
    pin(value)
    others: list[Array] = []

    def traced(frame: FrameType, event: str, _: object) -> Any:
        before = sys.gettrace()
        sys.settrace(None)
        others.append(Array(value))
        sys.settrace(before)
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        Array(value)
        array = Array(value)
        array.rebind(value)
    finally:
        sys.settrace(before)
    assert len(others) > 10
    assert value.external_refs == len(others) + 1
