"""Chains of steps are divided into blocks of few sizes."""

import itertools

import pytest

from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.partitioner import FusionNode, boundaries, group
from vkbackend.framework.codegen.repeated_steps import (
    BLOCKS,
    MIN_STEPS,
    blocks_of_steps,
)

SHAPE = (4, 8)
SAME = Layout.contiguous(SHAPE)
ADD, MULTIPLY, TANH = "add", "multiply", "tanh"


def node(kind: str | None, *reads: int, external: tuple[int, ...] = ()) -> FusionNode:
    shape = SHAPE if kind else None
    return FusionNode(
        shape,
        tuple((read, SAME) for read in reads),
        len(external),
        external_reads=external,
        kind=kind,
    )


def total(count: int, *, of_kernels: bool = True, continued: bool = False) -> list:
    """Return the sum of the results of kernels, or of values from outside."""
    nodes: list[FusionNode] = []
    last = None
    for k in range(count):
        if of_kernels:
            nodes.append(node(None))
            reads, external = (len(nodes) - 1,), ()
        else:
            reads, external = (), (k,)
        if last is not None:
            nodes.append(node(ADD, last, *reads, external=external))
        elif continued or not of_kernels:
            nodes.append(node(ADD, *reads, external=(*external, 1000)))
        last = len(nodes) - 1
    return nodes


def sizes(nodes: list[FusionNode]) -> list[int]:
    """Return the sums in each kernel."""
    groups = [
        [each for each in members if nodes[each].kind] for members in group(nodes)
    ]
    return [len(members) for members in groups if members]


@pytest.mark.parametrize("of_kernels", [True, False])
def test_sums_of_every_length_have_few_kernels(of_kernels: bool) -> None:
    found = {
        size
        for count in range(2, 70)
        for size in sizes(total(count, of_kernels=of_kernels))
    }
    assert found <= {*BLOCKS, *range(1, MIN_STEPS)}


def test_short_sums_are_one_kernel() -> None:
    for count in range(2, MIN_STEPS):
        assert sizes(total(count)) == [count - 1]


def test_blocks_are_in_order_and_the_last_step_is_alone() -> None:
    assert sizes(total(39)) == [16, 16, 4, 1, 1]
    assert sizes(total(21)) == [16, 1, 1, 1, 1]


def test_a_sum_that_continues_one_is_divided_at_any_length() -> None:
    assert sizes(total(3, continued=True)) == [1, 1, 1]
    assert sizes(total(7, continued=True)) == [1, 4, 1, 1]


def test_recurrences_are_divided() -> None:
    nodes = [node(MULTIPLY, external=(0,))]
    for k in range(20):
        nodes.append(node(ADD, len(nodes) - 1, external=(k + 1,)))
        nodes.append(node(MULTIPLY, len(nodes) - 1, external=(99,)))
    blocks = blocks_of_steps(nodes)
    adds = [blocks[at] for at, each in enumerate(nodes) if each.kind == ADD]
    assert [len([*each]) for _, each in itertools.groupby(adds)] == [16, 1, 1, 1, 1]


def test_formulas_are_not_divided() -> None:
    """Nothing new is read in a step of an iteration, or the steps differ."""
    newton = [node(MULTIPLY, external=(0, 1))]
    for _ in range(12):
        newton.append(node(MULTIPLY, len(newton) - 1, external=(1,)))
    assert len(group(newton)) == 1
    mixed = [node(TANH, external=(0,))]
    for k in range(10):
        mixed.append(node(f"kind {k}", len(mixed) - 1, external=(k,)))
    assert len(group(mixed)) == 1


def test_the_reason_says_so() -> None:
    nodes = total(12)
    reasons = {why for _, _, why in boundaries(nodes, group(nodes))}
    assert any("steps of a loop" in why for why in reasons)
