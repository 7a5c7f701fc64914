"""LU factorisations of batches of matrices, and solutions by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import int32
from ..base.errors import DTypeError, LinAlgError, ShapeError
from ..dispatch.autocast_policy import autocast_passthrough
from . import factorization as factors
from .elementwise.cast import cast, need_one_dtype
from .elementwise.compare import eq
from .factorization_results import PLU, LUFactor, LUFactorEx
from .host_checks import read
from .indexing.masked import tril, triu
from .indexing.scatter import take_along_dim
from .linear_algebra import _matrix, _together, solve_triangular
from .movement.concat import cat
from .movement.slice import narrow
from .pivoted_solution import pivoted_solution
from .pivots import row_order, unpacked, unpacks_by_kernel
from .source import arange_like, fill_like
from .triangular import host_lu, lu_by_kernel
from .triangular import lu as lu_of
from .view import expand, reshape, unsqueeze

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
        found = lu_of(A)
        both = reshape(found.compact, A.layout.shape)
        return PLU(*_unpacked(both, reshape(found.order, A.layout.shape[:-1])))
    both, order, _ = factors.pivoted_lu_factors(A)
    return PLU(*_unpacked(both, order))


def _unpacked(both: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U of square factors in one matrix and the order of their rows."""
    if unpacks_by_kernel(both):
        return unpacked(both, order)
    return _permutation(both, order), *_triangles(both)


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
    nothing: Tensor = fill_like(LU_data, (0,), 0, LU_data.dtype)
    if not unpack_pivots:
        parts = _triangles(LU_data) if unpack_data else (nothing, nothing)
        return PLU(nothing, *parts)
    _need_pivots("lu_unpack", LU_data, LU_pivots)
    rows = LU_data.layout.shape[-2]
    order = row_order("lu_unpack", LU_pivots, rows)
    if unpack_data and unpacks_by_kernel(LU_data):
        return PLU(*unpacked(LU_data, order))
    p = _permutation(LU_data, order)
    return PLU(p, *(_triangles(LU_data) if unpack_data else (nothing, nothing)))


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
    if B.ndim < 2 or B.layout.shape[-2] != LU.layout.shape[-1]:
        raise ShapeError(
            f"lu_solve: LU is {tuple(LU.shape)}, B {tuple(B.shape)}; rows differ"
        )
    both, side = _together("lu_solve", LU, B)
    places = expand(pivots, tuple(both.layout.shape[:-1]))
    found: Tensor = pivoted_solution(both, places, side, bool(adjoint))
    return found
