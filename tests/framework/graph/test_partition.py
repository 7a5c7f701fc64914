"""How graphs fall into kernels: the three rules, order, limits."""

from hypothesis import given
from hypothesis import strategies as st

from vkbackend.framework.codegen.partitioner import MAX_OPERATIONS
from vkbackend.framework.graph.partition import PartitionNode, partition

WHOLE, ROWS, OTHER = (4, 8), (4, 1), (5,)


def element(*reads: int, shape: tuple[int, ...] = WHOLE) -> PartitionNode:
    return PartitionNode((shape, None), reads)


def reduction(*reads: int) -> PartitionNode:
    return PartitionNode((WHOLE, ROWS), reads)


def test_nothing() -> None:
    assert partition([]) == []


def test_a_chain_is_one_kernel() -> None:
    assert partition([element(-1), element(0), element(1)]) == [[0, 1, 2]]


def test_other_shapes_and_lone_steps_stay_apart() -> None:
    steps = [
        element(-1),
        PartitionNode(None, (0,)),
        element(1),
        element(-2, shape=OTHER),
    ]
    assert partition(steps) == [[0], [1], [2], [3]]


def test_a_diamond_joins_though_its_second_half_comes_late() -> None:
    steps = [element(-1), element(0), element(0), element(1, 2)]
    assert partition(steps) == [[0, 1, 2, 3]]


def test_no_join_around_a_third_kernel() -> None:
    """The last reads the first directly and through a copy: they cannot be one."""
    steps = [element(-1), PartitionNode(None, (0,)), element(0, 1)]
    assert partition(steps) == [[0], [1], [2]]


def test_the_order_is_by_need_not_by_number() -> None:
    """Node 1 joins node 3, which needs the copy 2."""
    steps = [
        PartitionNode(None, (-1,)),
        element(-2),
        PartitionNode(None, (-3,)),
        element(1, 2),
    ]
    assert partition(steps) == [[0], [2], [1, 3]]


def test_softmax_is_one_kernel() -> None:
    steps = [reduction(-1), element(-1, 0), element(1), reduction(2), element(2, 3)]
    assert partition(steps) == [[0, 1, 2, 3, 4]]
    assert len(partition(steps, reductions=False)) == 4


def test_work_on_rows_that_comes_back_joins() -> None:
    norm = [
        element(-1, -1),
        reduction(0),
        element(1, shape=ROWS),
        element(2, shape=ROWS),
        element(-1, 3),
    ]
    assert partition(norm) == [[0, 1, 2, 3, 4]]


def test_work_on_rows_that_does_not_come_back_is_apart() -> None:
    steps = [element(-1), reduction(0), element(1, shape=ROWS), element(2, shape=ROWS)]
    assert partition(steps) == [[0, 1], [2, 3]]


def test_siblings() -> None:
    steps = [element(-1), element(-1), element(-2), reduction(-1), reduction(-1)]
    assert partition(steps) == [[0, 1, 3, 4], [2]]
    assert partition(steps, siblings=False) == [[0], [1], [2], [3], [4]]


def test_what_stays_apart_may_come_first() -> None:
    steps = [element(-1, shape=OTHER), element(0, shape=ROWS), element(0, shape=ROWS)]
    steps.append(reduction(0))
    assert partition(steps) == [[0], [1], [2], [3]]


def test_kernels_stay_within_what_fusion_takes() -> None:
    steps = [element(number - 1) for number in range(2 * MAX_OPERATIONS)]
    assert [len(kernel) for kernel in partition(steps)] == [MAX_OPERATIONS] * 2


@st.composite
def graphs(draw: st.DrawFn) -> list[PartitionNode]:
    spaces = [(WHOLE, None), (ROWS, None), (OTHER, None), (WHOLE, ROWS), None]
    steps = []
    for number in range(draw(st.integers(0, 14))):
        reads = st.lists(st.integers(-2, number - 1), min_size=1, max_size=3)
        steps.append(PartitionNode(draw(st.sampled_from(spaces)), tuple(draw(reads))))
    return steps


@given(graphs(), st.booleans(), st.booleans())
def test_each_step_runs_once_after_what_it_reads(
    steps: list[PartitionNode], reductions: bool, siblings: bool
) -> None:
    kernels = partition(steps, reductions=reductions, siblings=siblings)
    done: set[int] = set()
    for kernel in kernels:
        for number in kernel:
            reads = {read for read in steps[number].reads if read >= 0}
            assert reads <= done | set(kernel[: kernel.index(number)])
        done.update(kernel)
    assert sorted(number for kernel in kernels for number in kernel) == list(
        range(len(steps))
    )
