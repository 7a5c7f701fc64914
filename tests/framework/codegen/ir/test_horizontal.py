"""Which launches run side by side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import lines_run
from vkbackend.framework.codegen.ir.horizontal import (
    MAX_HORIZONTAL_LAUNCHES,
    MAX_HORIZONTAL_WORKGROUPS,
    HorizontalLaunch,
    horizontal_groups,
    starts_of,
    workgroup_owners,
)


def launch(
    program: str | None, reads: list[int], write: int, groups: int = 1
) -> HorizontalLaunch:
    return HorizontalLaunch(program, groups, reads, [write])


@pytest.mark.parametrize(
    ("launches", "expected"),
    [
        ([launch("a", [0], 1), launch("a", [0], 2)], [[0, 1]]),
        ([launch("a", [0], 1), launch("b", [0], 2)], [[0], [1]]),
        ([launch(None, [0], 1), launch(None, [0], 2)], [[0], [1]]),
        ([launch("a", [0], 1), launch("a", [1], 2)], [[0], [1]]),
        # Rises over b, which needs the first.
        (
            [launch("a", [0], 1), launch("b", [1], 2), launch("a", [0], 3)],
            [[0, 2], [1]],
        ),
        # Sinks under b, which the second needs.
        (
            [launch("a", [0], 1), launch("b", [0], 2), launch("a", [2], 3)],
            [[1], [0, 2]],
        ),
        # Neither: b needs the first and the second needs b.
        (
            [launch("a", [0], 1), launch("b", [1], 2), launch("a", [2], 3)],
            [[0], [1], [2]],
        ),
        # Nothing to run has no siblings.
        (
            [launch("a", [0], 1), launch("a", [0], 2, 0), launch("a", [0], 3)],
            [[0], [1, 2]],
        ),
    ],
)
def test_families(launches: list[HorizontalLaunch], expected: list[list[int]]) -> None:
    assert horizontal_groups(launches) == expected


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_where_few_launches_begin(count: int) -> None:
    """As in the shader: how many begin at a workgroup or before it."""
    owners, firsts = workgroup_owners([3, 1, 2, 4, 5][:count])
    starts = starts_of(firsts)
    found = [sum(number >= each for each in starts) for number in range(len(owners))]
    assert starts == [0, 0, 0] if count > 4 else found == owners.tolist()


def test_a_family_is_bounded() -> None:
    many = [launch("a", [0], k + 1) for k in range(MAX_HORIZONTAL_LAUNCHES + 1)]
    assert list(map(len, horizontal_groups(many))) == [MAX_HORIZONTAL_LAUNCHES, 1]
    wide = [launch("a", [0], k + 1, MAX_HORIZONTAL_WORKGROUPS // 2) for k in range(3)]
    assert horizontal_groups(wide) == [[0, 1], [2]]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", None]),
            st.lists(st.integers(0, 30), max_size=3),
        ),
        max_size=30,
    )
)
def test_the_order_stays_valid(rows: list[tuple[str | None, list[int]]]) -> None:
    launches = [
        launch(program, [read for read in reads if read <= k], k + 1)
        for k, (program, reads) in enumerate(rows)
    ]
    done = {0}
    for members in horizontal_groups(launches):
        assert len({launches[member].program for member in members}) == 1
        for member in members:
            assert done.issuperset(launches[member].reads)
        done.update(member + 1 for member in members)
    assert done == set(range(len(rows) + 1))


def test_the_work_is_linear() -> None:
    def work(count: int) -> int:
        chains = [launch(f"p{k % 7}", [k], k + 1) for k in range(count)]
        apart = [launch("a", [0], count + k + 1) for k in range(count)]
        return lines_run(lambda: horizontal_groups(chains + apart))

    assert work(4000) < 4.5 * work(1000)


def test_each_workgroup_knows_its_sibling() -> None:
    whose, firsts = workgroup_owners([2, 1, 3])
    assert whose.dtype == np.uint32
    assert whose.tolist() == [0, 0, 1, 2, 2, 2]
    assert firsts == [0, 2, 3]
