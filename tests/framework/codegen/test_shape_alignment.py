"""Element-wise nodes walk over the shapes of what they can be fused with."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.codegen.graphs import apply, memory
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.shape_alignment import align_shapes
from vkbackend.framework.ir.lazy_graph import Node, Operand
from vkbackend.framework.scheduler.plan import built_plans

FLAT, IMAGES = (2, 3, 20), (2, 3, 4, 5)


def is_generated(node: Node) -> bool:
    """Return whether a node runs in a generated kernel on any device."""
    return node.op.is_elementwise or node.op.reduction is not None


def viewed(node: Node, shape: tuple[int, ...]) -> Operand:
    """Return a node's result in another shape."""
    return Operand(node.outputs[0], Layout.contiguous(shape))


def shapes(*nodes: Node) -> list[tuple[int, ...]]:
    return [node.layouts[0].shape for node in align_shapes(nodes, is_generated)]


def test_what_is_read_takes_the_shape_of_its_reader() -> None:
    scaled = apply("mul", memory(FLAT), memory((3, 1)))
    last = apply("neg", viewed(scaled, IMAGES))
    made, same = align_shapes([scaled, last], is_generated)
    assert made.inputs[1].layout == Layout(IMAGES, (0, 1, 0, 0))
    assert made.outputs is scaled.outputs
    assert same is last


def test_a_reader_takes_the_shape_of_what_it_reads() -> None:
    # Images cannot be walked over as one line of each: their columns are broadcast.
    images = apply("mul", memory(IMAGES), memory((4, 1)))
    more = apply("exp", memory(IMAGES))
    flat = apply("add", viewed(images, FLAT), viewed(more, FLAT))
    last = apply("neg", viewed(flat, FLAT))
    assert shapes(images, more, flat, last) == [IMAGES] * 4


def test_what_has_readers_of_two_shapes_keeps_one() -> None:
    node = apply("exp", memory(IMAGES))
    columns = apply("mul", viewed(node, FLAT), memory((20,)))
    rows = apply("mul", viewed(node, (30, 4)), memory((30, 1)))
    assert shapes(node, columns, rows) == [IMAGES, IMAGES, (30, 4)]


def test_shapes_without_common_lines_stay() -> None:
    node = apply("mul", memory((6, 20)), memory((6, 1)))
    last = apply("mul", viewed(node, (8, 15)), memory((8, 1)))
    assert shapes(node, last) == [(6, 20), (8, 15)]


def test_a_part_or_another_order_is_no_other_shape() -> None:
    node = apply("exp", memory(FLAT))
    for layout in (
        Layout((2, 3, 2, 10), (60, 20, 10, 1), 0)._replace(shape=(2, 3, 1, 10)),
        Layout((2, 3, 5, 4), (60, 20, 1, 5)),
        Layout((2, 2, 3, 20), (0, 60, 20, 1)),
    ):
        last = apply("neg", Operand(node.outputs[0], layout))
        nodes = [node, last]
        assert align_shapes(nodes, is_generated) == nodes


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "flat, then images": lambda t, x, y: (
        t.relu((x.reshape(2, 3, 20) * y).exp()).reshape(2, 3, 4, 5).sin()
    ),
    "images, then flat": lambda t, x, y: (
        ((x * y.reshape(3, 1, 1)).reshape(2, 3, 20) + y).reshape(-1) * 2
    ),
    "sums of rows": lambda t, x, y: (
        (x * 2).exp().reshape(2, 60) - x.reshape(2, 60)
    ).sum(1),
    "one dimension of one": lambda t, x, y: (
        (x.reshape(2, 1, 3, 20).cos() * y).reshape(2, 60) + 1
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_kernel_has_the_same_results(name: str, gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(each).astype("f4") for each in (IMAGES, (3, 1)))
    with built_plans() as plans:
        found = CALLS[name](fw, *(fw.tensor(each, device=gpu) for each in (x, y)))
        found = found.numpy()
    wanted = CALLS[name](torch, *map(torch.from_numpy, (x, y))).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    groups = [each for plan in plans for each in plan.kernel_groups]
    assert len(groups) == 1


def test_a_norm_and_what_follows_are_one_kernel(gpu: GpuDevice) -> None:
    x = fw.randn(4, 6, 5, 7, device=gpu)
    for norm in (fw.nn.BatchNorm2d(6), fw.nn.GroupNorm(3, 6)):
        norm = norm.to(gpu)
        with built_plans() as plans:
            fw.eval(fw.relu(norm(x)) + x)
        names = [
            {plan.summaries[number].op for number in each}
            for plan in plans
            for each in plan.kernel_groups
        ]
        assert {"normalized", "relu", "add"} in names
