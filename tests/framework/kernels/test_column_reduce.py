"""Which rows are reduced by columns, and by what workgroups."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.column_reduce import (
    column_reduce_dispatch,
    reduces_columns,
)


@pytest.mark.parametrize(
    ("source", "rows", "dtype", "counts", "wanted"),
    [
        ((1, 16, 1 << 20), 16, "float32", False, True),
        ((1, 16, 1 << 20), 16, "float32", True, True),
        ((1, 300, 1 << 20), 256, "float16", False, True),
        ((64, 512, 512), 128, "int64", False, True),
        ((10000, 7, 2), 3, "float32", False, True),
        # Results do not fit, columns are few, or lines are contiguous.
        ((1, 300, 1 << 20), 257, "float16", False, False),
        ((64, 512, 512), 129, "int64", False, False),
        ((64, 512, 512), 129, "float32", True, False),
        ((4, 16, 4096), 16, "float32", False, False),
        ((1 << 20, 16, 1), 16, "float32", False, False),
        # Elements are more than are counted.
        ((1, 64, 1 << 25), 16, "float32", False, False),
    ],
)
def test_which_pay(
    source: tuple[int, int, int],
    rows: int,
    dtype: str,
    counts: bool,
    wanted: bool,
    discrete: DeviceInfo,
) -> None:
    given = source, rows, DTYPES[dtype], counts
    assert reduces_columns(discrete, *given) == wanted
    assert not reduces_columns(dataclasses.replace(discrete, kind="software"), *given)


@pytest.mark.parametrize(
    ("rows", "dtype", "operation", "threads", "cells"),
    [
        (16, "float32", "sum", 256, 4096),
        (3, "float16", "max", 256, 1024),
        (17, "float32", "mean", 64, 2048),
        (256, "int32", "sum", 32, 8192),
        (128, "int64", "prod", 32, 4096),
    ],
)
def test_workgroups(
    rows: int, dtype: str, operation: str, threads: int, cells: int
) -> None:
    shape = (3, 40, 5000)
    source = StridedSpec(shape, DTYPES[dtype], Layout.contiguous(shape))
    given = source, rows, operation, None, False, "", {}, True
    found = column_reduce_dispatch(*given)
    assert found.constants["LOCAL_X"] == threads
    assert found.constants["CELLS"] == cells
    assert found.constants["COUNTS"] == (cells if operation == "mean" else 1)
    assert found.grid[0] * found.grid[1] * threads >= 15000
    assert (found.push["base"], found.constants["HAS_BASE"]) == ("source", 0)
