"""Solutions of linear systems by LU factors in one matrix and their pivots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..base.dtype import bool_, int32
from ..base.shape import TensorSpec
from ..dispatch.declare import composite
from . import triangular
from .elementwise.compare import where
from .factorization import WIDE, adjoint, back
from .host_checks import read
from .indexing.masked import tril, triu
from .lu_solution import lu_solution, ordered_rows, solved
from .matmul.matmul import matmul
from .pivots import host_order, orders_by_kernel, pivot_order, row_order
from .source import band_like
from .view import reshape

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


@composite(dtypes={"compact": WIDE, "rows": (int32,), "b": WIDE})
def _pivoted_solution(
    compact: Tensor, rows: Tensor, b: Tensor, turned: bool, ordered: bool
) -> Tensor:
    """Return `pivoted_solution`, of pivots, or if `ordered` of the order of rows."""
    if ordered:
        size = compact.layout.shape[-1]
        matrix, order = reshape(compact, (-1, size, size)), reshape(rows, (-1, size))
        return lu_solution(matrix, order, b, turned)
    places = host_order("lu_solve", rows, compact.layout.shape[-1])
    return back(solved(read(compact), places, read(b), turned), b)


@_pivoted_solution.spec
def _pivoted_solution_spec(
    compact: TensorSpec, rows: TensorSpec, b: TensorSpec, turned: bool, ordered: bool
) -> TensorSpec:
    return b


@_pivoted_solution.vjp
def _pivoted_solution_vjp(
    grad: Tensor,
    compact: Tensor,
    rows: Tensor,
    out: Tensor,
    turned: bool,
    ordered: bool,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, None, Tensor]:
    by_b = _pivoted_solution(compact, rows, grad, not turned, ordered)
    if not needs[0]:
        return None, None, by_b
    # Of U X = Y and L Y = P^T B the gradients by U and by L are products.
    x, slope = (by_b, out) if turned else (out, by_b)
    *batch, size, columns = slope.layout.shape
    order = rows if ordered else row_order("lu_solve", rows, size)
    count = math.prod(batch)
    flat = reshape(slope, (count, size, columns)), reshape(order, (count, size))
    moved = reshape(ordered_rows(*flat), (*batch, size, columns))
    half = matmul(adjoint(_unit_lower(compact)), moved)
    by_lower = matmul(moved, adjoint(matmul(triu(compact), x)))
    by_upper = matmul(half, adjoint(x))
    by_factors = where(_band(compact, -size, -1), by_lower, by_upper) * -1.0
    return by_factors, None, by_b


def _band(like: Tensor, low: int, high: int) -> Tensor:
    """Return where column minus row is from `low` to `high`."""
    shape, size = like.layout.shape, like.layout.shape[-1]
    found: Tensor = band_like(like, shape, size, size, low, high, bool_)
    return found


def _unit_lower(compact: Tensor) -> Tensor:
    """Return L of factors in one matrix."""
    return where(_band(compact, 0, 0), 1.0, tril(compact, -1))


def pivoted_solution(
    compact: Tensor, pivots: Tensor, b: Tensor, turned: bool
) -> Tensor:
    """Return X of A X = B by factors and pivots of A, or of A^H X = B if `turned`.

    Parameters
    ----------
    compact : Tensor, shape (..., n, n)
    pivots : Tensor, int32, shape (..., n)
    b : Tensor, shape (..., n, k)
        Of the same batch.
    turned : bool
    """
    size = compact.layout.shape[-1]
    ordered = triangular.by_kernel(b) and orders_by_kernel(pivots, size)
    rows = pivot_order(pivots, size) if ordered else pivots
    return _pivoted_solution(compact, rows, b, turned, ordered)
