"""Which sums of resampling are of groups, and how large these are."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.kernels.resample import grouped_sum_dispatch, sums_by_groups


@pytest.mark.parametrize(
    ("taps", "wanted"), [([31], False), ([32], True), ([3, 3, 4], True)]
)
def test_long_sums_are_of_groups_on_hardware(
    taps: list[int], wanted: bool, discrete: DeviceInfo
) -> None:
    assert sums_by_groups(discrete, taps) is wanted
    assert not sums_by_groups(dataclasses.replace(discrete, kind="software"), taps)


@pytest.mark.parametrize(
    ("shape", "tables", "group", "across"),
    [
        ((7, 818), [(1, 820)], 128, 128),
        ((7, 8, 4), [(1, 10), (1, 6)], 8, 4),
        ((7, 1, 999, 1), [(1, 3), (1, 1001), (1, 3)], 128, 1),
        ((7, 99, 99), [(1, 101), (1, 101)], 256, 128),
    ],
)
def test_groups(
    shape: tuple[int, ...], tables: list[tuple[int, int]], group: int, across: int
) -> None:
    found = grouped_sum_dispatch(float32, shape, tables, ["table"] * len(tables))
    assert (found.constants["GROUP"], found.constants["ACROSS"]) == (group, across)
    assert found.constants["DIMS"] == len(tables)
    assert found.push["count"] == 7
    assert found.push["columns"] == shape[-1]
