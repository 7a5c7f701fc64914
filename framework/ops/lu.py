"""LU factorisations of batches of matrices, and solutions by them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import int32
from ..base.errors import DomainError, DTypeError, LinAlgError, ShapeError
from ..dispatch.autocast_policy import autocast_passthrough
from . import factorization as factors
from .elementwise.cast import cast, need_one_dtype
from .elementwise.compare import eq
from .factorization import back, turned
from .factorization_results import PLU, LUFactor, LUFactorEx
from .host_checks import read
from .indexing.masked import tril, triu
from .indexing.scatter import take_along_dim
from .linear_algebra import _matrix, _together, solve_triangular
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.slice import narrow
from .pivots import orders_by_kernel, pivot_order, unpacked
from .selection.sort import argsort
from .source import arange_like, fill_like
from .triangular import host_lu, lu_by_kernel
from .triangular import lu as lu_of
from .view import expand, unsqueeze

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


@autocast_passthrough
@shown_as("LinalgLuFactorExBackward0", "A")
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:  # noqa: N803
    """Return both factors of `lu` in one matrix, and the pivots, from 1 on.

    Without `pivot` rows keep their order.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float32, float64 or complex
        Matrices.
    pivot : bool, default True
        Whether rows are exchanged for the largest pivot.
    """
    _matrix("lu_factor", A, square=False)
    if A.is_meta:
        return _without_data(A)
    if pivot and A.layout.shape[-2] == A.layout.shape[-1]:
        both, _, found = factors.pivoted_lu_factors(A)
        return LUFactor(both, found)
    _, order, pivots = host_lu(read(A), pivot)
    rows, columns = A.layout.shape[-2:]
    least = min(rows, columns)
    places = type(A).from_host(order.astype(np.int32), A.device, int32)
    sorted_rows = take_along_dim(
        A, expand(unsqueeze(cast(places, int32), -1), tuple(A.layout.shape)), -2
    )
    square = narrow(narrow(sorted_rows, -2, 0, least), -1, 0, least)
    both = factors.lu_factors(square)
    if columns > least:
        rest = narrow(sorted_rows, -1, least, columns - least)
        upper = solve_triangular(both, rest, upper=False, unitriangular=True)
        both = cat([both, upper], -1)
    elif rows > least:
        rest = narrow(sorted_rows, -2, least, rows - least)
        both = cat([both, solve_triangular(both, rest, upper=True, left=False)], -2)
    return LUFactor(both, type(A).from_host(pivots + 1, A.device, int32))


def _without_data(x: Tensor) -> LUFactor:
    """Return factors and pivots on the meta device."""
    *batch, rows, columns = x.layout.shape
    pivots: Tensor = fill_like(x, (*batch, min(rows, columns)), 0, int32)
    return LUFactor(fill_like(x, x.layout.shape, 0, x.dtype), pivots)


@shown_as("LinalgLuFactorExBackward0", "A")
def lu_factor_ex(
    A: Tensor,  # noqa: N803
    *,
    pivot: bool = True,
    check_errors: bool = False,
) -> LUFactorEx:
    """Return `lu_factor`, and where each U is singular.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    pivot : bool, default True
    check_errors : bool, default False
        Raise for a singular matrix.

    Returns
    -------
    LUFactorEx
        Its `info`, int32, has for each matrix the place, from 1 on, of the first zero
        on the diagonal of U, and 0 if there is none.

    Raises
    ------
    LinAlgError
        If errors are checked, and a matrix is singular.
    """
    both, pivots = lu_factor(A, pivot=pivot)
    if A.is_meta:
        return LUFactorEx(both, pivots, fill_like(A, A.layout.shape[:-2], 0, int32))
    if not min(A.layout.shape[-2:]):
        return LUFactorEx(both, pivots, fill_like(A, A.layout.shape[:-2], 0, int32))
    info = factors.first_zero(both.detach())
    if check_errors and (place := int(read(info).max(initial=0))):
        raise LinAlgError(
            f"lu_factor_ex: U is singular: its diagonal is 0 at {place},"
            " counted from 1; give matrices of full rank"
        )
    return LUFactorEx(both, pivots, info)


def _need_pivots(name: str, factored: Tensor, pivots: Tensor) -> None:
    """Raise unless pivots have the dtype and the shape that `lu_factor` returns."""
    if pivots.dtype is not int32:
        raise DTypeError(
            f"{name}: the pivots are {pivots.dtype.name}; they must be int32, as"
            " lu_factor returns them"
        )
    *batch, rows, columns = factored.layout.shape
    if (found := tuple(pivots.layout.shape)) != (*batch, min(rows, columns)):
        raise ShapeError(
            f"{name}: the pivots' shape is {found}; factors of shape"
            f" {tuple(factored.layout.shape)} have {(*batch, min(rows, columns))}"
        )


def _order(name: str, pivots: Tensor, rows: int) -> np.ndarray:
    """Return the order of rows that pivots make."""
    *batch, count = pivots.layout.shape
    swaps = read(pivots).reshape(math.prod(batch), count) - 1
    if (wrong := (swaps < 0) | (swaps >= rows)).any():
        raise DomainError(
            f"{name}: a pivot is {swaps[wrong][0] + 1}; they must be from 1 to {rows},"
            " as lu_factor returns them"
        )
    order = np.tile(np.arange(rows), (len(swaps), 1))
    every = np.arange(len(swaps))
    for j in range(swaps.shape[1]):
        at = swaps[:, j]
        order[every, j], order[every, at] = order[every, at], order[every, j].copy()
    return order.reshape(*pivots.layout.shape[:-1], rows)


@shown_as("LinalgLuBackward0", "A")
def lu(A: Tensor, *, pivot: bool = True) -> PLU:  # noqa: N803
    """Return P, unit lower triangular L and upper triangular U of A = P L U.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float32, float64 or complex
        Matrices.
    pivot : bool, default True
        Whether rows are exchanged for the largest pivot; P is the identity if not.
    """
    rows, columns = A.layout.shape[-2:] if A.ndim > 1 else (0, 1)
    if not pivot or rows != columns or A.is_meta:
        return lu_unpack(*lu_factor(A, pivot=pivot))
    if not A.needs_grad and lu_by_kernel(A):
        return PLU(*unpacked(lu_of(A), tuple(A.layout.shape)))
    both, order, _ = factors.pivoted_lu_factors(A)
    return PLU(_permutation(A, order), *_triangles(both))


def _permutation(like: Tensor, order: Tensor) -> Tensor:
    """Return the matrices that put rows back, given the row that became each."""
    rows = order.layout.shape[-1]
    places: Tensor = arange_like(like, (rows,), 0, 1, int32)
    moved = eq(unsqueeze(places, -1), unsqueeze(order, -2))
    return cast(moved, like.dtype)


@shown_as("LuUnpackBackward0", "LU_data")
def lu_unpack(
    LU_data: Tensor,  # noqa: N803
    LU_pivots: Tensor,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> PLU:
    """Return the three factors of what `lu_factor` returned.

    Parameters
    ----------
    LU_data : Tensor, shape (..., m, n)
    LU_pivots : Tensor, shape (..., min(m, n)), int32
    unpack_data, unpack_pivots : bool, default True
        Otherwise L and U, or P, have no elements.

    Returns
    -------
    PLU
        P (..., m, m), L (..., m, min(m, n)) and U (..., min(m, n), n).

    Raises
    ------
    ShapeError
        If the factors are no matrices, or the pivots do not have their shape.
    DTypeError
        If the pivots are not int32.
    DomainError
        If a pivot is not from 1 to m, where the host orders the rows; a kernel takes
        the nearest row.
    """
    if LU_data.ndim < 2:
        shape = tuple(LU_data.shape)
        raise ShapeError(f"lu_unpack: the shape is {shape}; it must be at least 2-D")
    p = lower = upper = fill_like(LU_data, (0,), 0, LU_data.dtype)
    if unpack_pivots:
        _need_pivots("lu_unpack", LU_data, LU_pivots)
        p = _permutation_by("lu_unpack", LU_data, LU_pivots)
    if unpack_data:
        lower, upper = _triangles(LU_data)
    return PLU(p, lower, upper)


def _permutation_by(name: str, factored: Tensor, pivots: Tensor) -> Tensor:
    """Return P of factors and pivots that fit them."""
    rows = factored.layout.shape[-2]
    if orders_by_kernel(pivots, rows):
        return _permutation(factored, pivot_order(pivots, rows))
    order = _order(name, pivots, rows)
    return back(np.eye(rows)[order].swapaxes(-1, -2), factored)


def _triangles(both: Tensor) -> tuple[Tensor, Tensor]:
    """Return L and U of both factors in one matrix."""
    rows, columns = both.layout.shape[-2:]
    least = min(rows, columns)
    ones: Tensor = fill_like(both, (rows, least), 1, both.dtype)
    lower = tril(narrow(both, -1, 0, least), -1) + triu(tril(ones))
    return lower, triu(narrow(both, -2, 0, least))


@shown_as("LinalgLuSolveBackward0", "LU", "B")
def lu_solve(
    LU: Tensor,  # noqa: N803
    pivots: Tensor,
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Tensor:
    """Return X of A X = B, given `lu_factor` of A.

    With `left` False it is X A = B; `adjoint` takes A^H in the place of A.

    Parameters
    ----------
    LU : Tensor, shape (..., n, n), float32, float64 or complex
        Both factors in one matrix.
    pivots : Tensor of int32, shape (..., n)
        From 1 on.
    B : Tensor, shape (..., n, k)
        Right-hand sides, of the same dtype.
    left : bool, default True
        Which side X is on.
    adjoint : bool, default False
        Whether A^H stands for A.

    Raises
    ------
    ShapeError, DTypeError
        If the pivots are not those of `lu_factor`.
    """
    _matrix("lu_solve", LU)
    need_one_dtype("lu_solve", LU=LU, B=B)
    _need_pivots("lu_solve", LU, pivots)
    if not left:
        across = factors.adjoint(B)
        return factors.adjoint(lu_solve(LU, pivots, across, adjoint=not adjoint))
    if orders_by_kernel(pivots, size := LU.layout.shape[-1]):
        both, side = _together("lu_solve", LU, B)
        order = pivot_order(pivots, size)
        order = expand(order, (*both.layout.shape[:-2], size))
        return _solved_in_order(both, order, side, adjoint)
    permutation = _permutation_by("lu_solve", LU, pivots)
    if adjoint:
        both = factors.adjoint(LU)
        half = solve_triangular(both, B, upper=False)
        whole = solve_triangular(both, half, upper=True, unitriangular=True)
        return matmul(permutation, whole)
    moved = matmul(turned(permutation), B)
    half = solve_triangular(LU, moved, upper=False, unitriangular=True)
    return solve_triangular(LU, half, upper=True)


def _solved_in_order(
    both: Tensor,
    order: Tensor,
    b: Tensor,
    adjoint: bool,
) -> Tensor:
    """Return X of A X = B, given LU factors of A and the order of their rows."""
    if adjoint:
        across, places = factors.adjoint(both), unsqueeze(argsort(order, -1), -1)
        half = solve_triangular(across, b, upper=False)
        whole = solve_triangular(across, half, upper=True, unitriangular=True)
        return take_along_dim(whole, places, -2)
    moved = take_along_dim(b, unsqueeze(order, -1), -2)
    half = solve_triangular(both, moved, upper=False, unitriangular=True)
    return solve_triangular(both, half, upper=True)
