"""Rows of the op table for factorisations of matrices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.case import Case, Draw, Sample, sample
from vkbackend.framework import linalg
from vkbackend.framework.base.dtype import int32
from vkbackend.framework.dispatch.op import REGISTRY

MATRICES = (sample((3, 3)), sample((2, 5, 5)), sample((1, 1)), sample((0, 3, 3)))
FEWER = (MATRICES[0], *MATRICES[2:])
TALL = (sample((5, 3)), sample((2, 3, 3)), sample((1, 1)), sample((0, 5, 3)))
WITH_SIDE = tuple(
    Sample((Draw(shape, -1, 1), Draw((*shape[:-1], 2))))
    for shape in ((3, 3), (2, 5, 5), (1, 1), (0, 3, 3))
)


# Vectors may be turned in the complex plane: the squares of their sizes are compared.
SIGNED = ("qr_factors", "eigh_factors", "svd_factors")


def eye(x: Any, size: float) -> Any:
    """Return a diagonal from `size` up in steps of 1, of the argument's own kind."""
    rows, columns = x.shape[-2:]
    diagonal = np.eye(rows, columns) * (size + np.arange(columns))
    if isinstance(x, np.ndarray):
        return diagonal.astype(x.dtype)
    if isinstance(x, torch.Tensor):
        return torch.from_numpy(diagonal).to(x.dtype)
    return type(x).from_host(diagonal.astype(x.dtype.numpy), x.device, x.dtype)


def last_pivots(x: Any) -> Any:
    """Return pivots that exchange each row for the last, of the argument's own kind."""
    pivots = np.full(tuple(x.shape[:-1]), x.shape[-1], np.int32)
    if isinstance(x, torch.Tensor):
        return torch.from_numpy(pivots)
    return type(x).from_host(pivots, x.device, int32)


def symmetric(x: Any) -> Any:
    """Return a positive-definite matrix made of another, of whatever kind."""
    return x @ x.conj().swapaxes(-1, -2) + eye(x, 2.0)


def regular(x: Any) -> Any:
    """Return a matrix whose diagonal dominates."""
    return x + eye(x, 6.0)


def row(
    name: str,
    torch_call: Callable[..., Any],
    samples: Any,
    prepare: Callable[[Any], Any],
    *rest: Any,
) -> Case:
    """Return the row of an op over prepared matrices."""

    def ours(x: Any, *more: Any) -> Any:
        out = REGISTRY[name](prepare(x), *more, *rest)
        out = out[0] if isinstance(out, tuple) else out
        return out * out.conj() if name in SIGNED else out

    def theirs(x: Any, *more: Any) -> Any:
        out = torch_call(prepare(x), *more)
        return out * out.conj() if name in SIGNED else out

    # Their errors are those of a few dozen operations.
    return Case(ours, samples, None, theirs, scale=50)


def plain(x: Any) -> Any:
    """Return a matrix of full rank, whatever `x` is."""
    return x + eye(x, 3.0)


def eigh(x: torch.Tensor) -> torch.Tensor:
    """Return eigenvalues below eigenvectors."""
    values, vectors = torch.linalg.eigh(x)
    return torch.cat([vectors, values[..., None, :]], -2)


def eig(x: torch.Tensor) -> torch.Tensor:
    """Return eigenvalues below eigenvectors, complex."""
    values, vectors = torch.linalg.eig(x)
    return torch.cat([vectors, values[..., None, :]], -2)


def svd(x: torch.Tensor) -> torch.Tensor:
    """Return the three factors as rows of one matrix."""
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return torch.cat([u, s[..., None, :], vh.mH], -2)


def swept_lengths(x: Any) -> Any:
    """Return lengths of rows, descending, after sweeps of Jacobi's rotations."""
    ones = np.ones((7, x.shape[0]), np.int32)
    state = type(x).from_host(ones, x.device, int32)
    sweeps = REGISTRY["jacobi_sweeps"]
    rows, _ = sweeps(x, state, x.shape[-1], 4.0, 16)
    return (rows * rows).sum(-1).sqrt().sort(-1, True)[0]


def compact(x: torch.Tensor) -> torch.Tensor:
    """Return both factors without pivots; of a dominant diagonal there are none."""
    return torch.linalg.lu_factor(x)[0]


def cofactors(x: torch.Tensor) -> torch.Tensor:
    """Return the determinant times the transposed inverse."""
    return torch.linalg.det(x)[..., None, None] * torch.linalg.inv(x).mT


def _lu(x: Any) -> tuple[Any, Any]:
    """Return LU factors and the order of their rows."""
    found: tuple[Any, ...] = REGISTRY["lu"](x.detach())
    return found[0], found[1]


def _by_factors(name: str, x: Any) -> Any:
    factors, order, _, sign, _ = REGISTRY["lu"](x.detach())
    return REGISTRY[name](x, factors, order, sign)


def _transposed_solution(a: Any, b: Any) -> Any:
    return REGISTRY["factored_solution"](a, *_lu(a), b, True)


def exponential_vjp(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of exponentials of matrices."""
    size = x.shape[-1]
    upper, lower = torch.cat([x.mT, grad], -1), torch.cat([0 * x, x.mT], -1)
    return torch.linalg.matrix_exp(torch.cat([upper, lower], -2))[..., :size, size:]


def order_of(pivots: torch.Tensor) -> torch.Tensor:
    """Return the rows of 7 that exchanges make, one after the other."""
    order = torch.arange(7, dtype=torch.int32).repeat(len(pivots), 1)
    for row, line in zip(order, pivots.tolist()):
        for place, other in enumerate(line):
            at = min(max(other, 1), 7) - 1  # the nearest row
            row[[place, at]] = row[[at, place]]
    return order


PAIRS = tuple(
    Sample((Draw(shape), Draw(shape))) for shape in ((2, 5, 5), (1, 1, 1), (0, 3, 3))
)
SMALL = (sample((2, 5, 5)), sample((1, 1, 1)), sample((0, 3, 3)))
SMALL_WITH_SIDE = tuple(
    Sample((Draw(shape, -1, 1), Draw((*shape[:-1], 2))))
    for shape in ((2, 5, 5), (1, 1, 1), (0, 3, 3))
)


FACTORIZATIONS = {
    "cholesky": Case(
        lambda x: REGISTRY["cholesky"](symmetric(x))[0],
        SMALL,
        None,
        lambda x: torch.linalg.cholesky(symmetric(x)),
        scale=50,
        gradient=False,
    ),
    "small_eigh": Case(
        lambda x: abs(REGISTRY["small_eigh"](symmetric(x), False)),
        SMALL,
        None,
        lambda x: abs(eigh(symmetric(x))),
        scale=50,
        gradient=False,
    ),
    "small_qr": Case(
        lambda x: REGISTRY["small_qr"](plain(x)),
        SMALL,
        None,
        lambda x: torch.cat(tuple(torch.linalg.qr(plain(x))), -2),
        scale=50,
        gradient=False,
    ),
    "small_svd": Case(
        lambda x: abs(REGISTRY["small_svd"](plain(x))),
        SMALL,
        None,
        lambda x: abs(svd(plain(x))),
        scale=50,
        gradient=False,
    ),
    "jacobi_sweeps": Case(
        lambda x: swept_lengths(plain(x)),
        SMALL,
        None,
        lambda x: torch.linalg.svdvals(plain(x)),
        scale=50,
        gradient=False,
    ),
    "panel_qr": Case(
        lambda x: REGISTRY["panel_qr"](plain(x))[0],
        SMALL,
        None,
        lambda x: torch.linalg.qr(plain(x))[0],
        scale=50,
        gradient=False,
    ),
    "lu": Case(
        lambda x: REGISTRY["lu"](x + eye(x, 9.0))[0],
        SMALL,
        None,
        lambda x: torch.linalg.lu_factor(x + eye(x, 9.0))[0],
        scale=50,
        gradient=False,
    ),
    "lu_unpacked": Case(
        lambda x: REGISTRY["lu_unpacked"](*_lu(plain(x)))[2],
        SMALL,
        None,
        lambda x: torch.linalg.lu(plain(x)).U,
        scale=50,
        gradient=False,
    ),
    "lu_part": Case(
        lambda x: REGISTRY["lu_part"](x, x.detach().triu(), True),
        SMALL,
        None,
        torch.triu,
        exact=True,
    ),
    "pivoted_solution": Case(
        lambda a, b: linalg.lu_solve(regular(a), last_pivots(a), b),
        WITH_SIDE,
        None,
        lambda a, b: torch.linalg.lu_solve(regular(a), last_pivots(a), b),
        scale=50,
    ),
    "pivot_order": Case(
        lambda pivots: REGISTRY["pivot_order"](pivots, 7),
        tuple(Sample((Draw(shape, 1, 8),)) for shape in ((5, 3), (1, 1), (0, 7))),
        None,
        order_of,
        gradient=False,
    ),
    "small_solve": Case(
        lambda a, b: REGISTRY["small_solve"](regular(a), b)[0],
        SMALL_WITH_SIDE,
        None,
        lambda a, b: torch.linalg.solve(regular(a), b),
        scale=50,
        gradient=False,
    ),
    "small_inverse": Case(
        lambda x: REGISTRY["small_inverse"](regular(x))[0],
        SMALL,
        None,
        lambda x: torch.linalg.inv(regular(x)),
        scale=50,
        gradient=False,
    ),
    "lu_solve": Case(
        lambda a, b: REGISTRY["lu_solve"](*_lu(plain(a)), b, False),
        SMALL_WITH_SIDE,
        None,
        lambda a, b: torch.linalg.solve(plain(a), b),
        scale=50,
        gradient=False,
    ),
    "lu_inverse": Case(
        lambda x: REGISTRY["lu_inverse"](*_lu(plain(x))),
        SMALL,
        None,
        lambda x: torch.linalg.inv(plain(x)),
        scale=50,
        gradient=False,
    ),
    "small_exponential": Case(
        lambda x: REGISTRY["small_exponential"](x),
        SMALL,
        None,
        torch.linalg.matrix_exp,
        scale=50,
        gradient=False,
    ),
    "small_exponential_vjp": Case(
        lambda x, grad: REGISTRY["small_exponential_vjp"](x, grad),
        PAIRS,
        None,
        exponential_vjp,
        scale=50,
        gradient=False,
    ),
    "triangular_solve": Case(
        lambda a, b: REGISTRY["triangular_solve"](regular(a), b, True, False),
        SMALL_WITH_SIDE,
        None,
        lambda a, b: torch.linalg.solve_triangular(regular(a), b, upper=True),
        scale=50,
        gradient=False,
    ),
    "cholesky_factor": row(
        "cholesky_factor", torch.linalg.cholesky, MATRICES, symmetric, False
    ),
    "triangular_solution": row(
        "triangular_solution",
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
        WITH_SIDE,
        regular,
        True,
        False,
    ),
    "linear_solution": row("linear_solution", torch.linalg.solve, WITH_SIDE, regular),
    "factored_solution": Case(
        lambda a, b: _transposed_solution(regular(a), b),
        SMALL_WITH_SIDE,
        None,
        lambda a, b: torch.linalg.solve(regular(a).mT, b),
        scale=50,
    ),
    "matrix_exponential": row(
        "matrix_exponential", torch.linalg.matrix_exp, MATRICES, lambda x: x
    ),
    "factored_determinant": Case(
        lambda x: _by_factors("factored_determinant", regular(x)),
        SMALL,
        None,
        lambda x: torch.linalg.det(regular(x)),
        scale=50,
    ),
    "factored_logarithm": Case(
        lambda x: _by_factors("factored_logarithm", regular(x)),
        SMALL,
        None,
        lambda x: torch.linalg.slogdet(regular(x))[1],
        scale=50,
    ),
    "inverse": row("inverse", torch.linalg.inv, MATRICES, regular),
    "lu_factors": row("lu_factors", compact, FEWER, lambda x: x + eye(x, 9.0)),
    "pivoted_lu_factors": row(
        "pivoted_lu_factors", lambda x: torch.linalg.lu_factor(x)[0], FEWER, plain
    ),
    "qr_factors": row(
        "qr_factors", lambda x: torch.cat(tuple(torch.linalg.qr(x)), -2), TALL, plain
    ),
    "eigh_factors": row("eigh_factors", eigh, MATRICES, symmetric, False),
    "eigenvalues": Case(
        lambda x: REGISTRY["eigenvalues"](symmetric(x), False),
        MATRICES,
        None,
        lambda x: torch.linalg.eigvalsh(symmetric(x)),
        scale=50,
        gradient=False,
    ),
    "singular_values": Case(
        lambda x: REGISTRY["singular_values"](plain(x)),
        TALL,
        None,
        lambda x: torch.linalg.svdvals(plain(x)),
        scale=50,
        gradient=False,
    ),
    "eig_factors": Case(
        lambda x: abs(REGISTRY["eig_factors"](regular(x))),
        MATRICES,
        None,
        lambda x: abs(eig(regular(x))),
        scale=50,
        gradient=False,
    ),
    "general_eigenvalues": Case(
        lambda x: abs(REGISTRY["general_eigenvalues"](regular(x))).sort(-1)[0],
        MATRICES,
        None,
        lambda x: abs(torch.linalg.eigvals(regular(x))).sort(-1)[0],
        scale=50,
        gradient=False,
    ),
    "svd_factors": row("svd_factors", svd, TALL, plain),
    "pseudo_inverse": Case(
        lambda x: linalg.pinv(plain(x)),
        TALL,
        None,
        lambda x: torch.linalg.pinv(plain(x)),
        scale=50,
    ),
    "ranked_pseudo_inverse": Case(
        lambda x: REGISTRY["ranked_pseudo_inverse"](plain(x), 0.0, 1e-6)[0],
        TALL,
        None,
        lambda x: torch.linalg.pinv(plain(x), rtol=1e-6),
        scale=50,
        gradient=False,
    ),
    "least_squares_solution": Case(
        lambda a, b: REGISTRY["least_squares_solution"](regular(a), b, 1e-6)[0],
        WITH_SIDE,
        None,
        lambda a, b: torch.linalg.lstsq(regular(a), b).solution,
        scale=50,
        gradient=False,
    ),
    "largest_singular_values": Case(
        lambda x: REGISTRY["largest_singular_values"](plain(x)),
        TALL,
        None,
        lambda x: torch.linalg.matrix_norm(plain(x), 2),
        scale=50,
        gradient=False,
    ),
    "extreme_singular_values": Case(
        lambda x: REGISTRY["extreme_singular_values"](plain(x))[1],
        TALL,
        None,
        lambda x: torch.linalg.matrix_norm(plain(x), -2),
        scale=50,
        gradient=False,
    ),
    "ranks": Case(
        lambda x: REGISTRY["ranks"](plain(x), 0.0, 1e-6),
        TALL,
        None,
        lambda x: torch.linalg.matrix_rank(plain(x), rtol=1e-6),
        gradient=False,
    ),
    "determinant": row("determinant", torch.linalg.det, MATRICES, regular),
    "cofactors": row("cofactors", cofactors, FEWER, regular),
    "log_determinant": row(
        "log_determinant", lambda x: torch.linalg.slogdet(x)[1], MATRICES, regular
    ),
}
