"""Grouping: any graph stays a valid program, and simple ones become one kernel."""

from hypothesis import given
from hypothesis import strategies as st

from vkbackend.framework.fusion.rules import (
    MAX_MEMORY_OPERANDS,
    MAX_OPERATIONS,
    Item,
    group,
)


@st.composite
def graphs(draw: st.DrawFn) -> list[Item]:
    """Draw operations of two shapes and some kernels among them, wired at random."""
    items = []
    for number in range(draw(st.integers(1, 14))):
        shape = draw(st.sampled_from([(4,), (4,), (4,), (2, 3), None]))
        count = draw(st.integers(0, min(3, number)))
        sources = draw(st.lists(st.integers(0, max(0, number - 1)), max_size=count))
        reads = []
        for source in sources:
            same = items[source].shape == shape or items[source].shape is None
            reads.append((source, same and draw(st.booleans())))
        items.append(Item(shape, tuple(reads), draw(st.integers(1, 4))))
    return items


@given(graphs())
def test_groups_are_a_valid_program(items: list[Item]) -> None:
    groups = group(items)
    assert sorted(member for members in groups for member in members) == list(
        range(len(items))
    )
    done: set[int] = set()
    for members in groups:
        assert members == sorted(members)
        assert len({items[member].shape for member in members}) == 1
        for member in members:
            item = items[member]
            assert len(members) == 1 or item.shape is not None
            for source, aligned in item.reads:
                # A result is read from its own kernel only element by element.
                assert source in done or (source in members and aligned)
        done.update(members)


@given(graphs())
def test_groups_keep_their_limits(items: list[Item]) -> None:
    for members in group(items):
        assert len(members) <= MAX_OPERATIONS
        if len(members) > 1:
            total = sum(items[member].memory_operands for member in members)
            assert total <= MAX_MEMORY_OPERANDS


def item(*reads: int, shape: tuple[int, ...] | None = (4,), operands: int = 1) -> Item:
    return Item(shape, tuple((read, True) for read in reads), operands)


def test_chain_is_one_kernel() -> None:
    assert group([item(), item(0), item(1), item(2)]) == [[0, 1, 2, 3]]


def test_diamond_is_one_kernel() -> None:
    assert group([item(), item(0), item(0), item(1, 2)]) == [[0, 1, 2, 3]]


def test_what_joins_nothing() -> None:
    # No common value, another shape, a kernel of its own, another order of elements.
    assert group([item(), item()]) == [[0], [1]]
    assert group([item(), item(0, shape=(2,))]) == [[0], [1]]
    assert group([item(), item(0, shape=None), item(1)]) == [[0], [1], [2]]
    assert group([item(), Item((4,), ((0, False),), 1)]) == [[0], [1]]
    # The same value read in two orders.
    assert group([item(), Item((4,), ((0, True), (0, False)), 1)]) == [[0], [1]]


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
