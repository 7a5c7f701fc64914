"""Linear algebra, under PyTorch's names.

`ops.factorization` says where factorisations are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import ops
from .base.errors import LinAlgError, ShapeError
from .dispatch.keywords import takes_keywords as _taking
from .ops import least_squares as _squares
from .ops import linear_algebra as _functions
from .ops import lu as _lu
from .ops import matrix_exponential as _exponential
from .ops import matrix_functions as _others
from .ops.matmul.combined import need_room_for_powers
from .ops.matmul.combined import vecdot as _vecdot

if TYPE_CHECKING:
    from .tensor.tensor import Tensor

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

cholesky = _taking(_functions.cholesky)
cholesky_ex = _taking(_functions.cholesky_ex)
cond = _taking(_others.cond)
det = _taking(_functions.det)
diagonal = _taking(_others.linalg_diagonal)
eig = _taking(_functions.eig)
eigh = _taking(_functions.eigh)
eigvals = _taking(_functions.eigvals)
eigvalsh = _taking(_functions.eigvalsh)
householder_product = _taking(_others.householder_product)
inv = _taking(_functions.inv)
inv_ex = _taking(_functions.inv_ex)
lstsq = _taking(_squares.lstsq)
lu = _taking(_lu.lu)
lu_factor = _taking(_lu.lu_factor)
lu_factor_ex = _taking(_lu.lu_factor_ex)
lu_solve = _taking(_lu.lu_solve)
matmul = ops.matmul
matrix_exp = _taking(_exponential.matrix_exp)
matrix_norm = _taking(_others.matrix_norm)
matrix_power = _taking(_others.matrix_power)
matrix_rank = _taking(_squares.matrix_rank)
multi_dot = _taking(_others.multi_dot)
norm = _taking(_others.norm)
pinv = _taking(_squares.pinv)
qr = _taking(_functions.qr)
slogdet = _taking(_functions.slogdet)
solve = _taking(_functions.solve)
solve_ex = _taking(_functions.solve_ex)
solve_triangular = _taking(_functions.solve_triangular)
svd = _taking(_functions.svd)
svdvals = _taking(_functions.svdvals)
tensorinv = _taking(_others.tensorinv)
tensorsolve = _taking(_others.tensorsolve)
vecdot = _taking(_vecdot)
vector_norm = _taking(_others.vector_norm)


@_taking
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return cross products of vectors of 3 along a dimension.

    Parameters
    ----------
    input, other : Tensor
        Of as many dimensions, which broadcast but for `dim`.
    dim : int, default -1
        Of size 3.

    Raises
    ------
    ShapeError
        If shapes do not fit.
    """
    if input.ndim != other.ndim:
        raise ShapeError(
            f"linalg.cross: input is {tuple(input.shape)}, other {tuple(other.shape)};"
            " they must have as many dimensions"
        )
    if (
        -input.ndim <= dim < input.ndim
        and not input.shape[dim] == other.shape[dim] == 3
    ):
        raise ShapeError(
            f"linalg.cross: dimension {dim} of shapes {tuple(input.shape)} and"
            f" {tuple(other.shape)} must have size 3 in both"
        )
    first, second = ops.broadcast_tensors(input, other)
    return ops.cross(first, second, dim)


@_taking
def vander(x: Tensor, N: int | None = None) -> Tensor:  # noqa: N803 - PyTorch's name
    """Return the matrix of powers of each element, ascending from 0.

    Parameters
    ----------
    x : Tensor, shape (..., n)
    N : int or None
        How many powers, at least 2; None means n.

    Returns
    -------
    Tensor, shape (..., n, N)

    Raises
    ------
    ShapeError
        If `N` is less than 2, or a device cannot index the powers.
    """
    if N is not None and N < 2:
        raise ShapeError(f"vander: N is {N}; it must be at least 2")
    x = x if x.ndim else ops.reshape(x, (1,))
    count = x.shape[-1] if N is None else N
    need_room_for_powers(x, count, x.dtype)
    one: Tensor = ops.fill_like(x, (*x.shape, 1), 1, x.dtype)
    if count == 1:
        return one
    rest = ops.unsqueeze(x, -1).expand(*x.shape, count - 1)
    return ops.cat([one, ops.cumprod(rest, -1)], -1)


def __dir__() -> list[str]:
    return sorted(__all__)
