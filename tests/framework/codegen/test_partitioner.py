"""Grouping: any graph stays a valid program, and simple ones become one kernel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkbackend.framework.base.shape import Layout, Shape
from vkbackend.framework.codegen import partitioner
from vkbackend.framework.codegen.partitioner import (
    MAX_MEMORY_OPERANDS,
    MAX_OPERATIONS,
    MAX_REDUCTIONS,
    FusionNode,
    boundaries,
    group,
    is_broadcast_row,
)

SHAPE, ROWS, KEPT = (4, 3), (4,), (4, 1)
SAME = Layout.contiguous(SHAPE)
OF_ROW = Layout(SHAPE, (1, 0))
TURNED = Layout(SHAPE, (1, 4))


# Ways in which an operation of a shape may read another one's result.
LAYOUTS: dict[Shape | None, list[Layout]] = {
    SHAPE: [SAME, SAME, OF_ROW, TURNED],
    ROWS: [Layout(ROWS, (1,))],
    KEPT: [Layout(KEPT, (1, 1))],
    (2, 3): [Layout((2, 3), (3, 1))],
    None: [SAME],
}


@st.composite
def graphs(draw: st.DrawFn) -> list[FusionNode]:
    """Draw operations of several shapes, sums and kernels, wired at random."""
    items: list[FusionNode] = []
    for number in range(draw(st.integers(1, 14))):
        shape = draw(st.sampled_from([SHAPE, SHAPE, SHAPE, ROWS, KEPT, (2, 3), None]))
        split = 1 if shape == SHAPE and draw(st.booleans()) else None
        count = draw(st.integers(0, min(3, number)))
        sources = draw(st.lists(st.integers(0, max(0, number - 1)), max_size=count))
        reads = tuple(
            (source, draw(st.sampled_from(LAYOUTS[shape])))
            for source in sources
            if number
        )
        operands, alone = draw(st.integers(1, 4)), draw(st.booleans()) or bool(split)
        outside = tuple(draw(st.sets(st.integers(-3, -1))))
        items.append(FusionNode(shape, reads, operands, split, alone, outside))
    return items


def stays(source: FusionNode, reader: FusionNode, layout: Layout) -> bool:
    """Return whether an element of a kernel's own is read where it was made."""
    if source.shape == SHAPE and not source.split:
        return reader.shape == SHAPE and layout == SAME
    if source.shape == (2, 3) or reader.shape != SHAPE:
        return layout.is_contiguous
    return layout == OF_ROW


@given(graphs(), st.booleans(), st.booleans())
def test_groups_are_a_valid_program(
    items: list[FusionNode], reductions: bool, siblings: bool
) -> None:
    groups = group(items, reductions=reductions, siblings=siblings)
    assert sorted(member for members in groups for member in members) == list(
        range(len(items))
    )
    done: set[int] = set()
    for members in groups:
        assert members == sorted(members)
        kinds = {items[member].shape for member in members}
        if any(items[member].split for member in members) and len(members) > 1:
            assert kinds <= {SHAPE, ROWS, KEPT}
            assert all(items[member].alone for member in members)
        else:
            assert len(kinds) == 1
        for member in members:
            item = items[member]
            assert len(members) == 1 or item.shape is not None
            for source, layout in item.reads:
                # A result is read from its own kernel only where it was made.
                own = source in members and stays(items[source], item, layout)
                assert source in done or own
        done.update(members)


@given(graphs(), st.booleans())
def test_groups_keep_their_limits(items: list[FusionNode], siblings: bool) -> None:
    for members in group(items, siblings=siblings):
        assert len(members) <= MAX_OPERATIONS
        if len(members) > 1:
            total = sum(items[member].memory_operands for member in members)
            assert total <= MAX_MEMORY_OPERANDS


def item(*reads: int, shape: Shape | None = SHAPE, operands: int = 1) -> FusionNode:
    layout = Layout.contiguous(shape or ())
    return FusionNode(shape, tuple((read, layout) for read in reads), operands)


def total(*reads: int, split: int = 1) -> FusionNode:
    """Return a sum of rows."""
    return FusionNode(SHAPE, tuple((read, SAME) for read in reads), 0, split)


def test_chain_is_one_kernel() -> None:
    assert group([item(), item(0), item(1), item(2)]) == [[0, 1, 2, 3]]


def test_diamond_is_one_kernel() -> None:
    assert group([item(), item(0), item(0), item(1, 2)]) == [[0, 1, 2, 3]]


def test_what_joins_nothing() -> None:
    # No common value, another shape, a kernel of its own, another order of elements.
    assert group([item(), item()]) == [[0], [1]]
    assert group([item(), item(0, shape=(2,))]) == [[0], [1]]
    assert group([item(), item(0, shape=None), item(1)]) == [[0], [1], [2]]
    assert group([item(), FusionNode(SHAPE, ((0, TURNED),), 1)]) == [[0], [1]]
    # The same value read in two orders.
    assert group([item(), FusionNode(SHAPE, ((0, SAME), (0, TURNED)), 1)]) == [[0], [1]]


def test_work_around_a_kernel_is_not_moved_across_it() -> None:
    # 3 reads 0 directly and through the kernel 1.
    groups = group([item(), item(0, shape=None), item(0), item(2, 1)])
    assert groups in ([[0, 2], [1], [3]], [[0], [1], [2, 3]])


def test_long_chains_are_cut() -> None:
    items = [item(operands=0)] + [item(k, operands=0) for k in range(150)]
    assert [len(members) for members in group(items)] == [64, 64, 23]


def test_many_operands_are_cut() -> None:
    items = [item(operands=8)] + [item(k, operands=8) for k in range(8)]
    assert [len(members) for members in group(items)] == [3, 3, 3]


def test_a_sum_with_what_comes_before_and_after_is_one_kernel() -> None:
    after = FusionNode(SHAPE, ((0, SAME), (1, OF_ROW)), 1)
    assert group([item(), total(0), after]) == [[0, 1, 2]]
    of_rows = FusionNode(ROWS, ((1, Layout(ROWS, (1,))),), 1)
    assert group([item(), total(0), of_rows, after]) == [[0, 1, 2, 3]]
    of_rows = FusionNode(KEPT, ((1, Layout(KEPT, (1, 1))),), 1)
    last = FusionNode(SHAPE, ((0, SAME), (2, OF_ROW)), 1)
    assert group([item(), total(0), of_rows, last]) == [[0, 1, 2, 3]]


def test_one_sum_after_another() -> None:
    apart = FusionNode(SHAPE, ((0, OF_ROW),), 1)
    assert group([total(), apart, total(1), FusionNode(SHAPE, ((2, OF_ROW),), 1)]) == [
        [0, 1, 2, 3]
    ]


def test_without_reductions_each_is_a_kernel_of_its_own() -> None:
    after = FusionNode(SHAPE, ((1, OF_ROW),), 1)
    items = [item(), total(0), after, item(2)]
    assert group(items, reductions=False) == [[0], [1], [2, 3]]


def leaf(*external: int, shape: Shape | None = SHAPE) -> FusionNode:
    """Return an operation on values from outside."""
    return FusionNode(shape, (), len(external), external_reads=external)


def test_siblings_join_where_they_read_a_common_value() -> None:
    reduced = FusionNode(SHAPE, (), 1, 1, external_reads=(-1,))
    items = [leaf(-1), leaf(-1), leaf(-2), reduced, reduced]
    assert group(items) == [[0], [1], [2], [3], [4]]
    assert group(items, siblings=True) == [[0, 1, 3, 4], [2]]
    # What a kernel wrote is such a value too; the numbers of both kinds are apart.
    items = [item(shape=None), item(0), item(0), leaf(0)]
    assert group(items, siblings=True) == [[0], [1, 2], [3]]


def test_what_is_no_sibling() -> None:
    # Another shape, a kernel of its own, one that needs the other through a third.
    assert group([leaf(-1), leaf(-1, shape=(2, 3))], siblings=True) == [[0], [1]]
    assert group([leaf(-1), leaf(-1, shape=None)], siblings=True) == [[0], [1]]
    needed = FusionNode(SHAPE, ((1, SAME),), 1, external_reads=(-1,))
    items = [leaf(-1), item(0, shape=None), needed]
    assert group(items, siblings=True) == [[0], [1], [2]]


def test_siblings_keep_their_limits() -> None:
    items = [leaf(-1)] * (2 * MAX_MEMORY_OPERANDS)
    groups = group(items, siblings=True)
    assert [len(members) for members in groups] == [MAX_MEMORY_OPERANDS] * 2


def test_rows_that_were_made_before_join_a_sum_that_comes_later() -> None:
    # 1 alone reads 0 in another shape; the sum makes them rows and elements.
    items = [item(shape=ROWS), FusionNode(SHAPE, ((0, OF_ROW),), 1), total(1)]
    assert group(items) == [[0, 1, 2]]


def test_what_joins_no_sum() -> None:
    # Rows of another length, columns, a bool that cannot be written alone.
    assert group([total(split=0), FusionNode(SHAPE, ((0, OF_ROW),), 1)]) == [[0], [1]]
    by_column = FusionNode(SHAPE, ((0, Layout(SHAPE, (0, 1))),), 1)
    assert group([total(), by_column]) == [[0], [1]]
    narrow = FusionNode(SHAPE, ((0, OF_ROW),), 1, alone=False)
    assert group([total(), narrow]) == [[0], [1]]


def test_many_sums_are_cut() -> None:
    items = [total()]
    for k in range(3 * MAX_REDUCTIONS):
        items += [FusionNode(SHAPE, ((2 * k, OF_ROW),), 0), total(2 * k + 1)]
    for members in group(items):
        assert sum(items[member].split is not None for member in members) <= (
            MAX_REDUCTIONS
        )


def test_long_work_that_each_walk_repeats_is_cut() -> None:
    items = [item(operands=0)]
    for k in range(60):
        items.append(total(k) if k % 20 == 19 else item(k, operands=0))
    groups = group(items)
    assert len(groups) > 1
    for members in groups:
        sums = sum(items[member].split is not None for member in members)
        assert not sums or len(members) * (sums + 1) <= partitioner.MAX_PASSED


@pytest.mark.parametrize(
    ("layout", "fits"),
    [
        (Layout((4, 3), (1, 0)), True),
        (Layout((2, 2, 3), (2, 1, 0)), True),
        (Layout((4, 1), (1, 1)), True),
        (Layout((4, 3), (1, 0), 1), False),
        (Layout((4, 3), (2, 0)), False),
        (Layout((4, 3), (0, 0)), False),
        (Layout((4, 3), (3, 1)), False),
    ],
)
def test_rows_broadcast(layout: Layout, fits: bool) -> None:
    assert is_broadcast_row(layout, len(layout.shape) - 1) == fits


@given(graphs())
def test_every_boundary_has_a_reason(items: list[FusionNode]) -> None:
    groups = group(items)
    group_of = {member: k for k, members in enumerate(groups) for member in members}
    edges = {
        (group_of[read], group_of[number])
        for number, item in enumerate(items)
        for read, _ in item.reads
        if group_of[read] != group_of[number]
    }
    found = boundaries(items, groups)
    assert sorted((early, late) for early, late, _ in found) == sorted(edges)
    assert all(reason for _, _, reason in found)


def reasons(items: list[FusionNode]) -> list[str]:
    return [reason for _, _, reason in boundaries(items, group(items))]


def test_reasons() -> None:
    turned = FusionNode(SHAPE, ((0, TURNED),), 1)
    assert reasons([item(), turned]) == [partitioner.PLACES]
    assert reasons([item(shape=None), item(0)]) == [partitioner.OWN_KERNEL]
    apart = [item(shape=ROWS), item(0, shape=(2, 3))]
    assert reasons(apart) == [f"{partitioner.SHAPES}: (4,) and (2, 3)"]
    many = [
        item(*([k - 1] if k else []), operands=0) for k in range(MAX_OPERATIONS + 1)
    ]
    assert reasons(many) == [partitioner.OPERATIONS]
    assert reasons([item(operands=20), item(0, operands=20)]) == [partitioner.OPERANDS]
    between = [item(), item(0, shape=None), item(0, 1)]
    assert partitioner.BETWEEN in reasons(between)
    narrow = [FusionNode(SHAPE, (), 1, alone=False), total(0)]
    assert reasons(narrow) == [partitioner.NARROW]
    totals = [item(), *(total(0) for _ in range(MAX_REDUCTIONS + 1))]
    assert partitioner.REDUCTIONS in reasons(totals)
