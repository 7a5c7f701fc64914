"""Launches of triangular systems and Cholesky factors."""

import dataclasses

import pytest

import vkbackend
from vkbackend.framework.base.dtype import float32, float64, int32
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.ir.kernel_call import MAX_GROUPS
from vkbackend.framework.kernels.linalg import (
    PANELS,
    cholesky_dispatch,
    lu_dispatch,
    panel_columns,
    solves_triangles,
    triangular_dispatch,
)


def matrices(*shape: int) -> TensorSpec:
    return TensorSpec(shape, float32)


def test_columns_and_matrices_have_workgroups() -> None:
    step = triangular_dispatch(matrices(5, 70, 70), matrices(5, 70, 33), True, False)
    assert step.grid == (2, 1, 5)
    assert (step.push["n"], step.push["columns"]) == (70, 33)
    assert (step.constants["UPPER"], step.constants["UNIT"]) == (1, 0)


def test_each_small_matrix_has_a_workgroup() -> None:
    step = cholesky_dispatch(matrices(7, 12, 12))
    assert step.grid == (7, 1, 1)
    assert step.constants["N"] == 12
    with pytest.raises(AssertionError, match="no small matrix"):
        cholesky_dispatch(matrices(1, 65, 65))


def test_each_panel_has_a_workgroup(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, max_workgroup_invocations=1024)
    step = lu_dispatch(info, matrices(3, 100, 32))
    assert step.grid == (3, 1, 1)
    assert (step.push["rows"], step.constants["LOCAL_X"]) == (100, 128)
    assert step.defines == {"COLUMNS": "32", "ROWS": "1"}
    assert lu_dispatch(info, matrices(1, 2050, 16)).defines["ROWS"] == "3"
    assert [panel_columns(info, float32, rows) for rows in (1024, 1025)] == [*PANELS]
    assert panel_columns(info, float64, 4) == PANELS[1]
    with pytest.raises(AssertionError, match="no panel"):
        lu_dispatch(info, matrices(1, 100, PANELS[0] + 1))


def test_more_matrices_than_workgroups(device: vkbackend.Device) -> None:
    assert solves_triangles(device.info, float32, MAX_GROUPS, 32 * MAX_GROUPS)
    assert not solves_triangles(device.info, float32, MAX_GROUPS + 1, 1)
    assert not solves_triangles(device.info, float32, 1, 32 * MAX_GROUPS + 1)
    assert not solves_triangles(device.info, int32, 1, 1)
    single = dataclasses.replace(device.info, supported=frozenset())
    assert not solves_triangles(single, float64, 1, 1)
    few = dataclasses.replace(device.info, max_workgroup_invocations=128)
    assert not solves_triangles(few, float32, 1, 1)
    small = dataclasses.replace(device.info, max_shared_memory=1 << 14)
    assert not solves_triangles(small, float32, 1, 1)
