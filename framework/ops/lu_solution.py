"""Solutions of linear systems and inverses by kernels, of small and large matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import float32, float64, int32
from ..base.shape import TensorSpec, ceil_div
from ..dispatch.declare import primitive
from ..ir.kernel_call import MAX_GROUPS, Dispatch, StridedSpec
from ..kernels.linalg import (
    EDGE,
    MOST_AT_ONCE,
    MOST_IN_SHARED,
    STEPPED,
    TILES,
    small_solve_dispatch,
    solution_dispatches,
)
from .elementwise.cast import cast
from .elementwise.compare import eq
from .indexing.scatter import gather
from .selection.sort import argsort
from .source import arange_like
from .triangular import (
    first_zero,
    host_lu,
    is_one_node,
    small_by_kernel,
    solve,
    substituted,
)
from .view import expand, reshape, transpose, unsqueeze

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)


@primitive(dtypes=_REAL, outputs=("out", "info"))
def _small_solve(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return X of A X = B, and the first pivots that are 0, from 1 on, or 0."""


@_small_solve.spec
def _small_solve_spec(a: TensorSpec, b: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return b, TensorSpec(b.shape[:1], int32)


@_small_solve.kernel
def _small_solve_kernel(gpu: DeviceInfo, a: StridedSpec, b: StridedSpec) -> Dispatch:
    return small_solve_dispatch(b, True)


@_small_solve.reference
def _small_solve_reference(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    factors, order, _ = host_lu(a)
    return solved(factors, order, b, False), first_zero(factors)


@primitive(dtypes=_REAL, outputs=("out", "info"))
def _small_inverse(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return inverses, and the first pivots that are 0, from 1 on, or 0."""


@_small_inverse.spec
def _small_inverse_spec(a: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return a, TensorSpec(a.shape[:1], int32)


@_small_inverse.kernel
def _small_inverse_kernel(gpu: DeviceInfo, a: StridedSpec) -> Dispatch:
    return small_solve_dispatch(a, False)


@_small_inverse.reference
def _small_inverse_reference(a: np.ndarray) -> tuple[np.ndarray, ...]:
    return _small_solve_reference(a, np.broadcast_to(np.eye(a.shape[-1]), a.shape))


@primitive(dtypes={"factors": _REAL, "order": (int32,), "b": _REAL})
def _lu_solve(factors: Tensor, order: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """Return X of A X = B by LU factors of A and the order of its rows."""


@_lu_solve.spec
def _lu_solve_spec(
    factors: TensorSpec, order: TensorSpec, b: TensorSpec, transposed: bool
) -> TensorSpec:
    return b


@_lu_solve.kernel
def _lu_solve_kernel(
    gpu: DeviceInfo,
    factors: StridedSpec,
    order: StridedSpec,
    b: StridedSpec,
    transposed: bool,
) -> list[Dispatch]:
    return solution_dispatches(b, True, transposed)


@_lu_solve.reference
def _lu_solve_reference(
    factors: np.ndarray, order: np.ndarray, b: np.ndarray, transposed: bool
) -> np.ndarray:
    return solved(factors, order, b, transposed)


def solved(
    factors: np.ndarray, order: np.ndarray, b: np.ndarray, turned: bool
) -> np.ndarray:
    """Return X of A X = B by factors of A and the order of its rows, on the host.

    Or of A^H X = B if `turned`.
    """
    places = order[..., None]
    if not turned:
        side = np.take_along_axis(b.astype(factors.dtype), places, -2)
        half = substituted(factors, side, False, True)
        return substituted(factors, half, True, False)
    across, found = np.swapaxes(factors, -1, -2).conj(), np.empty_like(b)
    half = substituted(across, b.copy(), False, False)
    np.put_along_axis(found, places, substituted(across, half, True, True), -2)
    return found


@primitive(dtypes={"factors": _REAL, "order": (int32,)})
def _lu_inverse(factors: Tensor, order: Tensor) -> Tensor:
    """Return the inverse of A by its LU factors and the order of its rows."""


@_lu_inverse.spec
def _lu_inverse_spec(factors: TensorSpec, order: TensorSpec) -> TensorSpec:
    return factors


@_lu_inverse.kernel
def _lu_inverse_kernel(
    gpu: DeviceInfo, factors: StridedSpec, order: StridedSpec
) -> list[Dispatch]:
    return solution_dispatches(factors, False, False)


@_lu_inverse.reference
def _lu_inverse_reference(factors: np.ndarray, order: np.ndarray) -> np.ndarray:
    one = np.broadcast_to(np.eye(factors.shape[-1]), factors.shape)
    return solved(factors, order, one, False)


def is_small_system(a: Tensor) -> bool:
    """Return whether one workgroup solves each system of matrices (..., n, n)."""
    return small_by_kernel(a) and a.layout.shape[-1] <= MOST_IN_SHARED[a.dtype]


def small_solution(a: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return X of A X = B, or the inverse of A, and the first pivots that are 0.

    Parameters
    ----------
    a : Tensor, shape (..., n, n)
        Of which `is_small_system` is true.
    b : Tensor, shape (..., n, k), or None
        For the inverse.
    """
    *batch, size, _ = a.layout.shape
    matrix = reshape(a, (-1, size, size))
    if b is None:
        found, info = _small_inverse(matrix)
        return reshape(found, a.layout.shape), reshape(info, tuple(batch))
    columns = b.layout.shape[-1]
    found, info = _small_solve(matrix, reshape(b, (-1, size, columns)))
    return reshape(found, b.layout.shape), reshape(info, tuple(batch))


def _in_steps(matrices: int, size: int, columns: int) -> bool:
    """Return whether one node solves with factors, in steps of few rows."""
    groups = matrices * ceil_div(columns, EDGE)
    one = is_one_node(matrices, size, columns)
    return one and groups < STEPPED and matrices <= MAX_GROUPS


def lu_inverse(compact: Tensor, order: Tensor) -> Tensor:
    """Return the inverse, (matrices, n, n), by factors and the order of rows."""
    matrices, size, _ = compact.layout.shape
    if _in_steps(matrices, size, size):
        return _lu_inverse(compact, order)
    places: Tensor = arange_like(compact, (size,), 0, 1, int32)
    # Rows of the identity, in the order of the factors
    side = cast(eq(unsqueeze(order, 2), places), compact.dtype)
    half = solve(compact, side, False, True)
    return solve(compact, half, True, False)


def lu_solution(
    compact: Tensor, order: Tensor, b: Tensor, transposed: bool = False
) -> Tensor:
    """Return X of A X = B, by factors and the order of rows; or of A^T X = B.

    Parameters
    ----------
    compact : Tensor, shape (matrices, n, n)
    order : Tensor, int32, shape (matrices, n)
    b : Tensor, shape (..., n, k)
    transposed : bool, default False
    """
    matrices, size, _ = compact.layout.shape
    columns = b.layout.shape[-1]
    side = reshape(b, (-1, size, columns))
    # Of few rows each triangle is one dispatch, where each step is one.
    at_once = TILES[compact.dtype] < size <= MOST_AT_ONCE and not transposed
    if _in_steps(matrices, size, columns) and not at_once:
        return reshape(_lu_solve(compact, order, side, transposed), b.layout.shape)
    if not transposed:
        half = solve(compact, ordered_rows(side, order), False, True)
        return reshape(solve(compact, half, True, False), b.layout.shape)
    turned = transpose(compact, 1, 2)
    half = solve(turned, side, False, False)
    moved = solve(turned, half, True, True)
    return reshape(ordered_rows(moved, argsort(order, 1)), b.layout.shape)


def ordered_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return the rows of (matrices, rows, columns) in another order for each matrix."""
    return gather(x, 1, expand(unsqueeze(order, 2), tuple(x.layout.shape)))
