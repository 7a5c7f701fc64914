"""Results of factorizations and solutions, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


class QR(NamedTuple):
    """Factors of `qr`."""

    Q: Tensor
    R: Tensor


class SlogDet(NamedTuple):
    """Results of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class Eig(NamedTuple):
    """Results of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Eigh(NamedTuple):
    """Results of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """Factors of `linalg.svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class PLU(NamedTuple):
    """Factors of `linalg.lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """Results of `lu_factor`: both factors in one matrix, and pivots from 1 on."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """Results of `lu_factor_ex`: those of `lu_factor`, and where U is singular."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class CheckedSolution(NamedTuple):
    """Results of `solve_ex`: for each matrix 0, or the order of a zero pivot."""

    result: Tensor
    info: Tensor


class CheckedInverse(NamedTuple):
    """Results of `inv_ex`: for each matrix 0, or the order of a zero pivot."""

    inverse: Tensor
    info: Tensor


class CheckedCholesky(NamedTuple):
    """Results of `cholesky_ex`: for each matrix 0, or the order of a bad minor."""

    L: Tensor
    info: Tensor


class Lstsq(NamedTuple):
    """Results of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor
