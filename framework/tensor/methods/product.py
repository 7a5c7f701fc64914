"""Methods for products of matrices and vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops
from ...dispatch.diagnosis import explained
from ...ops import linear_algebra, matrix_exponential, matrix_functions

if TYPE_CHECKING:
    from ..tensor import Tensor


class ProductMethods:
    """What `Tensor` has of `ops` for linear algebra; see there."""

    __slots__ = ()

    def matmul(self: Tensor, other: Tensor) -> Tensor:
        """Return the matrix product; shapes and errors as in `ops.matmul`.

        Parameters
        ----------
        other : Tensor
            The second factor.
        """
        return ops.matmul(self, other)

    def bmm(self: Tensor, other: Tensor) -> Tensor:
        """Return the products of (batch, m, k) and (batch, k, n), as `ops.bmm`.

        Parameters
        ----------
        other : Tensor, shape (batch, k, n)
            The second factors.
        """
        return ops.bmm(self, other)

    def mm(self: Tensor, other: Tensor) -> Tensor:
        """Return the product of matrices (m, k) and (k, n); see `ops.mm`.

        Parameters
        ----------
        other : Tensor, shape (k, n)
            The second factor.
        """
        return ops.mm(self, other)

    mv = ops.mv

    def dot(self: Tensor, other: Tensor) -> Tensor:
        """Return the inner product of two vectors of one dtype; see `ops.dot`.

        Parameters
        ----------
        other : Tensor, shape (n,)
            The other vector.
        """
        return ops.dot(self, other)

    def vdot(self: Tensor, other: Tensor) -> Tensor:
        """Return the inner product with another vector; see `ops.vdot`.

        Parameters
        ----------
        other : Tensor, shape (n,)
            The other vector; this one is conjugated.
        """
        return ops.vdot(self, other)

    def outer(self: Tensor, other: Tensor) -> Tensor:
        """Return the products of all pairs, (n, m), of two vectors; see `ops.outer`.

        Parameters
        ----------
        other : Tensor, shape (m,)
            The other vector.
        """
        return ops.outer(self, other)

    addmm = ops.addmm
    baddbmm = ops.baddbmm

    det = linear_algebra.det
    logdet = linear_algebra.logdet
    slogdet = linear_algebra.slogdet
    inverse = linear_algebra.inv
    cholesky = explained(matrix_functions.top_cholesky)
    cholesky_inverse = explained(linear_algebra.cholesky_inverse)
    cholesky_solve = explained(linear_algebra.cholesky_solve)
    triangular_solve = explained(matrix_functions.triangular_solve)
    qr = explained(matrix_functions.top_qr)
    svd = explained(matrix_functions.thin_svd)
    pinverse = explained(matrix_functions.top_pinverse)
    matrix_exp = matrix_exponential.matrix_exp
    lu_solve = explained(matrix_functions.top_lu_solve)
    orgqr = explained(matrix_functions.householder_product)
