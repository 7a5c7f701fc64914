"""Which sums by index are taken in shared memory, and by what regions."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import float16
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.shared_sum import (
    CELLS,
    Region,
    region_of,
    shared_sum_dispatch,
)


@pytest.mark.parametrize(
    ("source", "rows", "size", "wanted"),
    [
        ((1, 4096, 4096), 4096, 8, Region(1, 2048, 4)),
        ((1, 4096, 4096), 4096, 4, Region(1, 1024, 8)),
        ((4096, 4096, 1), 4096, 8, Region(1, 4096, 1)),
        ((2039, 8191, 1), 8191, 8, Region(1, 8191, 1)),
        ((65536, 256, 1), 256, 8, Region(16, 256, 1)),
        ((500, 400, 3), 300, 8, Region(1, 300, 4)),
        # Of 1 Mi rows a workgroup holds too few, 16 lines are too few for the device,
        # and few entries do not pay for all rows.
        ((1, 1 << 20, 16), 1 << 20, 8, None),
        ((16, 8192, 1), 8192, 8, None),
        ((4096, 100, 1), 4096, 8, None),
    ],
)
def test_regions(
    source: tuple[int, int, int],
    rows: int,
    size: int,
    wanted: Region | None,
    discrete: DeviceInfo,
) -> None:
    assert region_of(discrete, source, rows, size) == wanted
    software = dataclasses.replace(discrete, kind="software")
    assert region_of(software, source, rows, size) is None
    if wanted is not None:
        assert wanted.lines * wanted.span * wanted.columns <= CELLS


def test_a_workgroup_for_each_region(discrete: DeviceInfo) -> None:
    shape = (3, 500, 30)
    source = StridedSpec(shape, float16, Layout.contiguous(shape))
    found = shared_sum_dispatch(
        discrete, source, 3000, Region(1, 1500, 4), None, "", {}
    )
    assert found.grid[0] * found.grid[1] == 3 * 2 * 8
    assert (found.push["ranges"], found.push["strips"]) == (2, 8)
    assert (found.push["base"], found.constants["HAS_BASE"]) == ("source", 0)
    assert found.constants["CELLS"] == 8192
