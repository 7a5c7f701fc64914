"""Element-wise nodes take the iteration order of what reads them, where they may."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.layout_propagation import propagate_layouts
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.lazy_graph import Node, Operand
from vkbackend.framework.scheduler.plan import built_plans


def is_generated(node: Node) -> bool:
    """Return whether a node runs in a generated kernel on any device."""
    return node.op.is_elementwise or node.op.reduction is not None


TURNED = Layout((5, 2, 3), (1, 15, 5))
"""Of the elements of a (2, 3, 5) tensor."""


def reader_of(node: Node, layout: Layout) -> Node:
    return apply("add", Operand(node.outputs[0], layout), memory(layout.shape))


def test_a_chain_is_made_as_it_is_read() -> None:
    first = apply("exp", memory((2, 3, 5)))
    second = apply("mul", result(first), memory((3, 1)))
    reader = reader_of(second, TURNED)
    nodes = propagate_layouts(
        [first, second, reader], {id(reader.outputs[0])}, is_generated
    )
    assert [node.layouts[0].shape for node in nodes] == [(5, 2, 3)] * 3
    assert nodes[0].inputs[0].layout == TURNED
    assert nodes[1].inputs[1].layout == Layout((5, 2, 3), (0, 0, 1))
    assert [nodes[1].inputs[0].layout, nodes[2].inputs[0].layout] == [
        Layout.contiguous((5, 2, 3))
    ] * 2
    assert nodes[2].outputs is reader.outputs


def test_dimensions_of_one_element_are_passed_over() -> None:
    node = apply("exp", memory((1, 5, 7)))
    reader = reader_of(node, Layout((7, 5, 1), (1, 7, 0)))
    made, _ = propagate_layouts([node, reader], {id(reader.outputs[0])}, is_generated)
    assert made.inputs[0].layout == Layout((7, 5, 1), (1, 7, 0))


@pytest.mark.parametrize(
    "layout",
    [
        Layout.contiguous((2, 3, 5)),
        Layout((5, 6), (1, 5)),  # two dimensions that are one
        Layout((4, 2, 3), (1, 15, 5), 1),
        Layout((5, 3), (1, 5)),
        Layout((5, 2, 3), (1, 0, 5)),
    ],
)
def test_what_is_no_other_order_stays(layout: Layout) -> None:
    node = apply("exp", memory((2, 3, 5)))
    reader = reader_of(node, layout)
    nodes = [node, reader]
    assert propagate_layouts(nodes, {id(reader.outputs[0])}, is_generated) == nodes


def test_what_others_need_stays() -> None:
    node = apply("exp", memory((2, 3, 5)))
    reader, other = reader_of(node, TURNED), apply("neg", result(node))
    ends = {id(each.outputs[0]) for each in (reader, other)}
    for nodes, external in (
        ([node, reader], ends | {id(node.outputs[0])}),
        ([node, reader, other], ends),
    ):
        assert propagate_layouts(nodes, external, is_generated) == nodes


def test_a_copy_of_what_is_moved_is_element_wise() -> None:
    """Alone, a kernel of its own transposes it."""
    node = apply("exp", memory((2, 3, 5)))
    copied = Node.of(
        REGISTRY["transposed_copy"],
        (Operand(node.outputs[0], TURNED),),
        (Layout.contiguous((5, 2, 3)),),
        (float32,),
    )
    ends = {id(copied.outputs[0])}
    made, last = propagate_layouts([node, copied], ends, is_generated)
    assert made.inputs[0].layout == TURNED
    assert (last.op.name, last.outputs) == ("copy", copied.outputs)
    assert last.signature is apply("copy", result(made)).signature
    alone = [node, copied]
    ends |= {id(node.outputs[0])}
    assert propagate_layouts(alone, ends, is_generated) == alone


CALLS: dict[str, tuple[Callable[..., fw.Tensor], int]] = {
    "all turned": (lambda x, y: x.permute(2, 0, 1).exp() * 2, 1),
    "beside row-major": (lambda x, y: (x.permute(2, 0, 1) * 2).sin() + y, 1),
    "turned back": (lambda x, y: (x.mT.exp() * 2).mT + x, 1),
    "made row-major": (lambda x, y: (x.mT * 2 + 1).contiguous(), 1),
    "both": (lambda x, y: x.permute(2, 0, 1) * y.permute(0, 2, 1).exp().mT, 1),
}


@pytest.mark.device
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fixture", ["gpu", "quads"])
def test_results_in_one_kernel_as_in_torch(
    name: str, fixture: str, request: pytest.FixtureRequest
) -> None:
    gpu: GpuDevice = request.getfixturevalue(fixture)
    call, kernels = CALLS[name]
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(s).astype("f4") for s in ((2, 3, 5), (5, 2, 3))]
    given = [fw.tensor(each, device=gpu) for each in data]
    fw.eval(*given)
    wanted = call(*map(torch.tensor, data))
    for _ in range(2):
        with built_plans() as plans, gpu.fresh_plan_cache():
            found = call(*given)
            fw.eval(found)
        assert [len(plan.kernel_groups) for plan in plans] == [kernels]
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["sum", "exp"])
@pytest.mark.device
def test_many_columns_are_reduced_where_they_lie(name: str, quads: GpuDevice) -> None:
    """On hardware: rows of a generated kernel would be read across memory."""
    call: Callable[..., fw.Tensor] = {
        "sum": lambda x: x.mT.sum(1),
        "exp": lambda x: x.mT.exp().sum(1),
    }[name]
    data = np.random.default_rng(0).uniform(1, 2, (1030, 260)).astype("f4")
    x = fw.tensor(data, device=quads)
    fw.eval(x)
    with quads.gpu.profile() as profile, quads.fresh_plan_cache():
        found = call(x)
        fw.eval(found)
    assert any(span.name.startswith("reduce/") for span in profile.spans)
    np.testing.assert_allclose(found.numpy(), call(torch.tensor(data)), rtol=2e-5)
