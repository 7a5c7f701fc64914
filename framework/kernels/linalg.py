"""Kernels of linear algebra: triangular systems, Cholesky factors, LU of panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import DType, float32, float64
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import MAX_GROUPS, Argument, Dispatch, fold_grid

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

EDGE = 32
"""Rows of a block, and columns of a workgroup, of `linalg/triangular_solve`."""

WORKGROUP = 256

SMALL = {float32: 64, float64: 48}
"""Rows of the largest matrix of `linalg/cholesky`, in up to 19 KiB of shared memory."""

MOST_SHARED = 19 << 10
"""Bytes of shared memory that the kernels take."""

PANELS = (32, 16)
"""Columns of a panel of `linalg/lu_panel` whose invocations have one row of float32
each, and of those that have more."""

PANEL_WORKGROUP = 1024


def solves_triangles(
    gpu: DeviceInfo, dtype: DType, matrices: int, columns: int
) -> bool:
    """Return whether a device has the kernels, for so many matrices and columns."""
    return (
        (dtype is float32 or (dtype is float64 and gpu.shader_float64))
        and gpu.max_workgroup_invocations >= WORKGROUP
        and gpu.max_shared_memory >= MOST_SHARED
        and max(matrices, ceil_div(columns, EDGE)) <= MAX_GROUPS
    )


def _defines(dtype: DType) -> dict[str, str]:
    return {"DOUBLE": "1"} if dtype is float64 else {}


def triangular_dispatch(
    a: TensorSpec, b: TensorSpec, upper: bool, unit: bool
) -> Dispatch:
    """Return the dispatch that solves A X = B, of (matrices, n, n) and (..., k)."""
    matrices, n, columns = b.shape
    push: dict[str, Argument] = {"a": "a", "b": "b", "out_": "out"}
    push |= {"n": n, "columns": columns}
    constants = {"LOCAL_X": WORKGROUP, "UPPER": int(upper), "UNIT": int(unit)}
    grid = ceil_div(columns, EDGE), 1, matrices
    defines = _defines(a.dtype)
    return Dispatch("linalg/triangular_solve", grid, push, constants, defines)


def cholesky_dispatch(a: TensorSpec) -> Dispatch:
    """Return the dispatch that factorises (matrices, n, n), of `SMALL` rows at most."""
    matrices, n, _ = a.shape
    assert n <= SMALL[a.dtype], f"cholesky: {n} rows are no small matrix"
    push: dict[str, Argument] = {"a": "a", "out_": "out", "matrices": matrices}
    constants = {"LOCAL_X": WORKGROUP, "N": n}
    grid, defines = fold_grid(matrices), _defines(a.dtype)
    return Dispatch("linalg/cholesky", grid, push, constants, defines)


def panel_columns(gpu: DeviceInfo, dtype: DType, rows: int) -> int:
    """Return the columns of the panels of matrices of so many rows."""
    most = min(PANEL_WORKGROUP, gpu.max_workgroup_invocations)
    return PANELS[rows > most or dtype is float64]


def lu_dispatch(gpu: DeviceInfo, a: TensorSpec) -> Dispatch:
    """Return the dispatch that factorises panels (panels, rows, columns)."""
    panels, rows, columns = a.shape
    assert columns <= PANELS[0], f"lu: {columns} columns are no panel"
    most = min(PANEL_WORKGROUP, gpu.max_workgroup_invocations)
    local = min(most, max(32, 1 << (rows - 1).bit_length()))
    push: dict[str, Argument] = {"a": "a", "factors": "factors", "order": "order"}
    push |= {"pivots": "pivots", "sign_": "sign", "panels": panels, "rows": rows}
    defines = {"COLUMNS": str(columns), "ROWS": str(ceil_div(rows, local))}
    defines |= _defines(a.dtype)
    constants = {"LOCAL_X": local}
    return Dispatch("linalg/lu_panel", fold_grid(panels), push, constants, defines)
