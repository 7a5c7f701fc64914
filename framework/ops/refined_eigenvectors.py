"""Eigenvectors of symmetric matrices, refined by products of matrices.

Rows of which an approximation is known are rotated towards each other, all at once, by
angles that their products with the matrix give; what is left is the square of what was.
Rows of eigenvalues too near for that stay as they are.

Sources: Ogita and Aishima, "Iterative refinement for symmetric eigenvalue
decomposition", Japan Journal of Industrial and Applied Mathematics 35, 2018; Björck and
Bowie, "An iterative algorithm for computing the best estimate of an orthogonal matrix",
SIAM Journal on Numerical Analysis 8, 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import bool_
from ..dispatch.replayable import replayable
from ..kernels.gemm.tiles import SIMT
from .elementwise.cast import cast
from .elementwise.compare import eq, where
from .matmul.matmul import _bmm
from .reduce.sum import sum
from .source import band_like
from .view import transpose

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

STEPS = 2.0**-7, 2.0**-10, 2.0**-20
"""Largest angles of the steps from float32 to float64. Each leaves the square of what
was, and the fourth power of its angles in the lengths, which the next takes away."""


def _identity(like: Tensor) -> Tensor:
    """Return an identity matrix (1, n, n)."""
    size = like.layout.shape[-1]
    return cast(band_like(like, (1, size, size), size, size, 0, 0, bool_), like.dtype)


def _left(rows: Tensor, one: Tensor) -> Tensor:
    """Return the identity without the products of rows."""
    return one - _bmm(rows, transpose(rows, 1, 2), SIMT)


@replayable
def orthogonal(rows: Tensor) -> Tensor:
    """Return rows (matrices, n, n) nearer to orthogonal: what is left is a square."""
    return rows + _bmm(_left(rows, _identity(rows)) * 0.5, rows, SIMT)


@replayable
def refined(rows: Tensor, matrix: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Return better eigenvectors, and the eigenvalues (matrices, n, 1) of those given.

    Parameters
    ----------
    rows : Tensor, shape (matrices, n, n)
        Nearly orthogonal ones.
    matrix : Tensor, shape (matrices, n, n)
        Symmetric.
    most : float
        The largest angle; rows that are farther apart are not rotated.
    """
    one = _identity(rows)
    times = _bmm(rows, matrix, SIMT)
    moved = _bmm(times, transpose(rows, 1, 2), SIMT)
    left = _left(rows, one)
    # Sums of a reduction are exacter than those of a product.
    values = sum(times * rows, 2, True) / sum(rows * rows, 2, True)
    across = transpose(values, 1, 2)
    # Both halves alike, so that angles are of rotations.
    both = (moved + transpose(moved, 1, 2)) + (values + across) * left
    both, apart = both * 0.5, values - across
    turns = both.abs() <= apart.abs() * most
    angle = where(turns, both / where(eq(apart, 0.0), 1.0, apart), 0.0)
    # Not those of a row with itself
    angle = angle * (1.0 - one)
    change = angle + (_bmm(angle, angle, SIMT) + left) * 0.5
    return rows + _bmm(change, rows, SIMT), values
