"""Singular values of matrices of low rank, found in a random subspace."""

from __future__ import annotations

from typing import Any

from ..base.dtype import default_dtype
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..ops.linear_algebra import qr, svd
from .factories import a_tensor, ones
from .random import randn
from .tensor import Tensor

Factors = tuple[Tensor, Tensor, Tensor]


def svd_lowrank(
    A: Tensor,  # noqa: N803 - PyTorch's name
    q: int | None = 6,
    niter: int | None = 2,
    M: Tensor | None = None,  # noqa: N803
) -> Factors:
    """Return U, S and V of matrices that are about U diag(S) V^H, of low rank.

    They are random: `manual_seed` makes them the same again.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float or complex
        Matrices; sparse ones are without batch.
    q : int or None
        How many singular values there are, somewhat more than the rank; None means 6.
    niter : int or None
        How many times the subspace is improved; None means 2.
    M : Tensor, shape that broadcasts to that of `A`, or None
        Taken from `A` before.

    Returns
    -------
    U : Tensor, shape (..., m, q)
    S : Tensor, shape (..., q)
    V : Tensor, shape (..., n, q)

    Raises
    ------
    ShapeError
        If `A` has fewer than two dimensions, or a number is below 0.

    Notes
    -----
    Source: Halko, Martinsson and Tropp, arXiv:0909.4061, algorithms 4.4 and 5.1.
    """
    x = a_tensor("svd_lowrank", A)
    rank = 6 if q is None else as_int("svd_lowrank: q", q)
    rounds = 2 if niter is None else as_int("svd_lowrank: niter", niter)
    return _factors("svd_lowrank", x, rank, rounds, M)


def pca_lowrank(
    A: Tensor,  # noqa: N803
    q: int | None = None,
    center: bool = True,
    niter: int = 2,
) -> Factors:
    """Return U, S and V of matrices whose columns have been given the mean 0.

    Columns of V are the principal directions, S ** 2 / (m - 1) the variances along
    them. They are random as those of `svd_lowrank`.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float
        Samples, one in each row; a sparse matrix is without batch.
    q : int or None
        How many directions; None means 6, or m or n if that is less.
    center : bool, default True
        Whether the mean of each column is taken from it.
    niter : int, default 2
        As in `svd_lowrank`.

    Returns
    -------
    U : Tensor, shape (..., m, q)
    S : Tensor, shape (..., q)
    V : Tensor, shape (..., n, q)

    Raises
    ------
    ShapeError
        If `A` has fewer than two dimensions, `q` is above m or n, or a number is
        below 0.
    """
    x = a_tensor("pca_lowrank", A)
    _need_matrices("pca_lowrank", x)
    least = min(x.shape[-2:])
    rank = min(6, least) if q is None else as_int("pca_lowrank: q", q)
    if not 0 <= rank <= least:
        raise ShapeError(
            f"pca_lowrank: q is {q}; of matrices {tuple(x.shape[-2:])} it must be from"
            f" 0 to {least}"
        )
    rounds = as_int("pca_lowrank: niter", niter)
    if not center:
        return _factors("pca_lowrank", x, rank, rounds, None)
    if x.is_wrapper:
        column = ones(x.shape[0], 1, dtype=x.dtype, device=x.device)
        mean = (x.mT @ column).mT / x.shape[0]
        return _factors("pca_lowrank", x, rank, rounds, mean)
    return _factors("pca_lowrank", x - x.mean(-2, True), rank, rounds, None)


def _need_matrices(name: str, x: Tensor) -> None:
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: A is {tuple(x.shape)}; it must have two dimensions or more"
        )


def _factors(
    name: str, x: Tensor, rank: int, rounds: int, taken: Tensor | None
) -> Factors:
    _need_matrices(name, x)
    if rank < 0 or rounds < 0:
        raise ShapeError(
            f"{name}: q is {rank}, niter {rounds}; they must be at least 0"
        )
    if taken is not None:
        taken = taken.broadcast_to(x.shape)
    wide = x.shape[-2] < x.shape[-1]
    if wide:
        x, taken = x.mH, None if taken is None else taken.mH

    def times(basis: Tensor) -> Tensor:
        product = x @ basis
        return product if taken is None else product - taken @ basis

    def turned_times(basis: Tensor) -> Tensor:
        product = x.mH @ basis
        return product if taken is None else product - taken.mH @ basis

    kind: Any = x.dtype if x.dtype.is_differentiable else default_dtype()
    basis = qr(times(randn(x.shape[-1], rank, dtype=kind, device=x.device))).Q
    for _ in range(rounds):
        basis = qr(turned_times(basis)).Q
        basis = qr(times(basis)).Q
    u, s, vh = svd(turned_times(basis).mH, False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)
