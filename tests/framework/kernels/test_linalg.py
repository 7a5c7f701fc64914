"""Launches of triangular systems and Cholesky factors."""

import dataclasses

import pytest

import vkbackend
from vkbackend.framework.base.dtype import DType, float32, float64, int32
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.ir.kernel_call import MAX_GROUPS, Dispatch, StridedSpec
from vkbackend.framework.kernels.linalg import (
    PANELS,
    cholesky_dispatch,
    factorises,
    lu_dispatches,
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


def test_panels_one_after_the_other(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, max_workgroup_invocations=1024)

    def steps(*shape: int, dtype: DType = float32) -> list[Dispatch]:
        layout = Layout.contiguous(shape)
        return lu_dispatches(info, StridedSpec(shape, dtype, layout))[1:]

    panel, rows, update, last, before = steps(3, 60, 60)
    assert (panel.kernel, panel.grid) == ("linalg/lu_panel", (3, 1, 1))
    assert (panel.constants["LOCAL_X"], panel.defines["ROWS"]) == (64, "1")
    assert (rows.kernel, rows.grid) == ("linalg/lu_rows", (1, 1, 3))
    assert (update.kernel, update.grid) == ("linalg/lu_update", (1, 1, 3))
    assert (last.kernel, last.push["begun"]) == ("linalg/lu_panel", 32)
    assert before.kernel == "linalg/lu_rows"
    assert len(steps(1, 20, 20)) == 1
    assert steps(1, 2050, 2050)[0].defines["ROWS"] == "3"
    assert [panel_columns(info, float32, rows) for rows in (1024, 1025)] == [*PANELS]
    assert panel_columns(info, float64, 4) == PANELS[1]
    assert factorises(info, 8192)
    assert not factorises(info, 8193)


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
