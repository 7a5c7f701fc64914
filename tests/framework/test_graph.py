"""Values, the arrays that hold them, and nodes."""

import vkbackend.framework as fw
from vkbackend.framework.graph import Array, Node, Value
from vkbackend.framework.op import REGISTRY
from vkbackend.framework.shape import Layout


def test_arrays_hold_their_value() -> None:
    value = Value(3, fw.float32)
    first, second = Array(value), Array(value)
    assert value.holders == 2
    del second
    assert value.holders == 1
    other = Value(3, fw.float32)
    first.rebind(other)
    assert (value.holders, other.holders, first.version) == (0, 1, 1)


def test_a_node_makes_its_values() -> None:
    layouts = (Layout.contiguous((2, 3)), Layout.contiguous(()))
    dtypes = (fw.float32, fw.int32)
    node = Node(REGISTRY["exp"], (), layouts, dtypes)
    assert [value.numel for value in node.outputs] == [6, 1]
    assert tuple(value.dtype for value in node.outputs) == dtypes
    assert all(value.node is node for value in node.outputs)
    assert all(value.holders == 0 for value in node.outputs)
