"""All rewrites of a graph, one after the other."""

from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.rewrites import rewritten
from vkbackend.framework.ir.lazy_graph import Node, Operand


def is_generated(node: Node) -> bool:
    """Return whether a node runs in a generated kernel on any device."""
    return node.op.is_elementwise


def test_nodes_take_another_order_and_then_another_shape() -> None:
    first = apply("exp", memory((6, 5)))
    turned = apply("neg", Operand(first.outputs[0], Layout((5, 6), (1, 5))))
    scaled = apply("mul", result(turned), memory((1, 6)))
    last = apply(
        "mul", Operand(scaled.outputs[0], Layout.contiguous((5, 2, 3))), memory((2, 1))
    )
    nodes = [first, turned, scaled, last]
    found = rewritten(nodes, {id(last.outputs[0])}, is_generated)
    assert [node.layouts[0].shape for node in found] == [(5, 2, 3)] * 4
    assert found[0].inputs[0].layout == Layout((5, 2, 3), (1, 15, 5))
    assert [node.outputs for node in found] == [node.outputs for node in nodes]


def test_what_need_not_change_stays() -> None:
    first = apply("exp", memory((6, 5)))
    nodes = [first, apply("neg", result(first))]
    found = rewritten(nodes, {id(nodes[1].outputs[0])}, is_generated)
    assert list(found) == nodes
