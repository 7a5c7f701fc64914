"""Maps onto matrices: Cholesky factors, of correlations too, and positive definite."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import ops
from ...base.docstring import shares_parameters
from ...base.dtype import int32
from ...ops import linear_algebra as linalg
from ...tensor.from_data import tensor
from ...tensor.sequences import eye
from ...tensor.tensor import Tensor
from .. import constraints
from ..distribution import EPS, filled, softplus
from .maps import Plain
from .transform import Transform


@shares_parameters(Transform)
class LowerCholeskyTransform(Plain):
    """Map onto lower triangular matrices with a positive diagonal."""

    bijective = True
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + ops.diag_embed(x.diagonal(0, -2, -1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + ops.diag_embed(y.diagonal(0, -2, -1).log())


@shares_parameters(Transform)
class PositiveDefiniteTransform(Plain):
    """Map onto positive definite matrices, but not one to one.

    The lower triangle becomes a Cholesky factor, as by `LowerCholeskyTransform`.
    """

    bijective = False
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


@shares_parameters(Transform)
class CorrCholeskyTransform(Plain):
    """Map of n (n - 1) / 2 numbers onto the Cholesky factor of a correlation matrix.

    The numbers are those below the diagonal, row by row. Each, in (-1, 1) by `tanh`, is
    the share of what the ones before it left of its row's length, which is 1.

    Notes
    -----
    Source: the Stan reference manual, Cholesky factors of correlation matrices.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        size = self.forward_shape(x.shape)[-1]
        eps = EPS[x.dtype.name]
        share = _matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), size)
        left = _shifted(ops.cumprod((1 - share.square()).sqrt(), -1))
        return (share + eye(size, dtype=x.dtype, device=x.device)) * left

    def _inverse(self, y: Tensor) -> Tensor:
        left = _shifted(1 - ops.cumsum(y.square(), -1))
        return ops.atanh(_vector(y) / _vector(left).sqrt())

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return that from the numbers to the elements below the diagonal."""
        left = _shifted(1 - ops.cumsum(y.square(), -1))
        # Of each row, what precedes the first element is whole.
        lengths = 0.5 * _vector(left).log().sum(-1)
        slopes = (x + softplus(-2.0 * x) - math.log(2.0)).sum(-1)
        return lengths - 2.0 * slopes

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the matrix for a shape of numbers.

        Raises
        ------
        ValueError
            If there is no dimension, or their number is not n (n - 1) / 2.
        """
        if len(shape) < 1:
            raise ValueError(
                "CorrCholeskyTransform: the shape is (); it must have at least 1"
                " dimension"
            )
        count = shape[-1]
        size = (1 + math.isqrt(1 + 8 * count)) // 2
        if size * (size - 1) // 2 != count:
            raise ValueError(
                f"CorrCholeskyTransform: the shape is {tuple(shape)}; its last size"
                " must be n (n - 1) / 2 for a matrix of n rows"
            )
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the numbers for a shape of matrices.

        Raises
        ------
        ValueError
            If there are fewer than 2 dimensions, or the last two differ.
        """
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError(
                f"CorrCholeskyTransform: the shape is {tuple(shape)}; its last two"
                " sizes must be there and equal"
            )
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _shifted(rows: Tensor) -> Tensor:
    """Return rows moved by one place, with 1 before the first."""
    return ops.cat([filled(1, rows[..., :1]), rows[..., :-1]], -1)


def _matrix(numbers: Tensor, size: int) -> Tensor:
    """Return a strictly lower triangular matrix of numbers, row by row."""
    places = [max(i * (i - 1) // 2 + j, 0) for i in range(size) for j in range(size)]
    last = max(numbers.shape[-1] - 1, 0)
    index = tensor(
        [min(each, last) for each in places], dtype=int32, device=numbers.device
    )
    if numbers.shape[-1] == 0:
        return numbers.new_zeros((*numbers.shape[:-1], size, size))
    spread = ops.index_select(numbers, -1, index)
    return spread.reshape((*numbers.shape[:-1], size, size)).tril(-1)


def _vector(matrix: Tensor) -> Tensor:
    """Return what is below the diagonal of a matrix, row by row."""
    size = matrix.shape[-1]
    places = [i * size + j for i in range(size) for j in range(i)]
    index = tensor(places, dtype=int32, device=matrix.device)
    return ops.index_select(matrix.flatten(-2), -1, index)
