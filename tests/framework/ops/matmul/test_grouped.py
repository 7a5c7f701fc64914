"""Grouped products: gradients, groups of every kind, offsets that are wrong."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import IndexRangeError
from vkbackend.framework.ops.matmul.grouped import gather_mm, grouped_mm


def test_rows_beyond_the_groups_are_zero(place: Any) -> None:
    offs = fw.tensor([1, 1, 3], device=place)
    found = grouped_mm(
        fw.ones(5, 2, device=place), fw.ones(3, 2, 4, device=place), offs
    )
    wanted = np.zeros((5, 4))
    wanted[:3] = 2
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_no_groups(place: Any) -> None:
    offs = fw.zeros(0, dtype=fw.int32, device=place)
    a, b = fw.ones(4, 3, device=place), fw.ones(0, 3, 2, device=place)
    np.testing.assert_array_equal(grouped_mm(a, b, offs).numpy(), np.zeros((4, 2)))
    assert grouped_mm(a.T, a, offs).shape == (0, 3, 3)


@pytest.mark.parametrize("ends", [[3, 1, 4], [1, 2, 9], [-1, 2, 3]])
def test_offsets_that_fall_or_exceed(ends: list[int], place: Any) -> None:
    wrong = next(b for a, b in zip([0, *ends], ends, strict=False) if not a <= b <= 4)
    a, b = fw.ones(4, 2, device=place), fw.ones(3, 2, 2, device=place)
    with pytest.raises(IndexRangeError, match=f"offset {wrong} is out of range"):
        grouped_mm(a, b, fw.tensor(ends, device=place)).numpy()


def test_numbers_of_no_matrix(place: Any) -> None:
    a, b = fw.ones(1, 2, device=place), fw.ones(3, 2, 2, device=place)
    numbers = fw.tensor([0, 3], dtype=fw.int32, device=place)
    with pytest.raises(IndexRangeError, match="index 3 is out of range: weight has"):
        gather_mm(a, b, numbers).numpy()


def test_the_host_reads_no_offsets(gpu: Any) -> None:
    a, b = fw.ones(4, 2, device=gpu), fw.ones(3, 2, 2, device=gpu)
    offs = fw.tensor([1, 2, 4], dtype=fw.int32, device=gpu)
    step = fw.jit(lambda x, ends: grouped_mm(x, b, ends))
    for ends in (offs, offs, fw.clamp(offs, max=2)):
        found = step(a, ends).numpy()
    assert (step.traces, step.replays) == (1, 2)
    np.testing.assert_array_equal(found[:, 0], [2, 2, 0, 0])
