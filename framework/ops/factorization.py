"""Factorisations of matrices, and what they solve.

The matrices are the last two dimensions. On GPUs real ones are factorised and solved by
kernels: see `triangular` for triangular systems, Cholesky and LU factors, `lu_solution`
for solutions and inverses, `small_factors` for eigenvectors, singular vectors and QR of
small matrices, `panel_qr` for QR of large ones, `jacobi` for eigenvectors and singular
vectors of them, `full_rank` for pseudo-inverses by them, `real_form` for solutions and
inverses of complex ones. Others are computed by NumPy or `vkbackend.lapack` on the
host: the elements of a device's tensor are read, which waits for them and which a
function under `fw.jit` refuses, and the results go back. The gradients are products and
solutions.
Where there are several factors they are the rows of one result, one below the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vkbackend import lapack
from vkbackend.blas_threads import one_blas_thread

from ..base.device import GpuDevice
from ..base.dtype import COMPLEX, DType, bool_, float32, float64, int32
from ..base.errors import LinAlgError
from ..base.shape import TensorSpec
from ..dispatch.declare import composite
from ..kernels.linalg import qr_columns
from . import triangular
from .elementwise.binary import mul
from .elementwise.cast import cast
from .elementwise.compare import eq, ne, where
from .elementwise.complex_numbers import conj
from .elementwise.unary import copy
from .factorization_results import QR
from .host_checks import read
from .indexing.masked import tril, triu
from .indexing.scatter import take_along_dim
from .jacobi import jacobi_by_kernel, jacobi_eigh, jacobi_svd
from .lu_solution import is_small_system, lu_inverse, lu_solution, small_solution
from .matmul.diagonal import diag_embed, diagonal
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.slice import narrow
from .panel_qr import long_svd, panel_qr, qr_by_kernel, svd_by_kernel
from .real_form import (
    complex_columns,
    complex_pivots,
    has_real_form,
    real_columns,
    real_matrix,
)
from .reduce.minmax import any, argmax
from .selection.sort import argsort
from .small_factors import is_small, small_eigh, small_qr, small_svd
from .source import band_like, fill_like
from .view import expand, reshape, squeeze, transpose, unflatten, unsqueeze

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

REAL = (float32, float64)
WIDE = (*REAL, *COMPLEX)


def back(array: Any, like: Tensor, dtype: DType | None = None) -> Tensor:
    """Return an array as a tensor on the device of another, and of its dtype or one."""
    dtype = dtype or like.dtype
    whole = np.ascontiguousarray(array).reshape(np.shape(array))
    return type(like).from_host(whole.astype(dtype.numpy), like.device, dtype)


def turned(x: Tensor) -> Tensor:
    """Return the transposed matrices."""
    return transpose(x, -2, -1)


def adjoint(x: Tensor) -> Tensor:
    """Return the transposed matrices, of complex numbers their conjugates."""
    return conj(turned(x))


def identity(like: Tensor, size: int) -> Tensor:
    """Return identity matrices, as many as there are in a batch."""
    shape, sides = (*like.layout.shape[:-2], size, size), (max(size, 1),) * 2
    diagonals: Tensor = band_like(like, shape, *sides, 0, 0, bool_)
    return cast(diagonals, like.dtype)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """Return x / y, and 0 where y is."""
    zero = eq(y, 0.0)
    return where(zero, 0.0, x / where(zero, 1.0, y))


@composite(dtypes=WIDE, outputs=("out", "info"))
def cholesky_factor(x: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """Return the lower triangular L of L L^H, by one triangle of `x`.

    And the order of the first minor that is not positive, or 0.

    Raises
    ------
    LinAlgError
        If the host computes, and a matrix is not positive-definite.
    """
    if triangular.cholesky_by_kernel(x):
        return triangular.cholesky(turned(x) if upper else x)
    given, info = read(x), fill_like(x, x.layout.shape[:-2], 0, int32)
    try:
        lower = np.swapaxes(given, -1, -2).conj() if upper else given
        return back(np.linalg.cholesky(lower), x), info
    except np.linalg.LinAlgError:
        raise not_positive(x) from None


def not_positive(x: Tensor) -> LinAlgError:
    return LinAlgError(
        f"cholesky: a matrix of {tuple(x.shape)} is not positive-definite; each must be"
    )


@cholesky_factor.spec
def cholesky_factor_spec(x: TensorSpec, upper: bool) -> tuple[TensorSpec, TensorSpec]:
    return x, TensorSpec(x.shape[:-2], int32)


@cholesky_factor.vjp
def cholesky_factor_vjp(grad: Tensor, out: Tensor) -> Tensor:
    product = matmul(adjoint(out), grad)
    lower = tril(product, -1)
    lower = lower + adjoint(lower) + diag_embed(diagonal(product, 0, -2, -1))
    left = triangular_solution(adjoint(out), lower, True, False)
    return adjoint(triangular_solution(adjoint(out), adjoint(left), True, False)) * 0.5


@composite(dtypes=WIDE)
def triangular_solution(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return X of A X = B for a triangle of A, its diagonal taken as 1 if `unit`."""
    if triangular.by_kernel(b):
        return triangular.solve(a, b, upper, unit)
    return back(triangular.substituted(read(a), read(b).copy(), upper, unit), b)


@triangular_solution.spec
def triangular_solution_spec(
    a: TensorSpec, b: TensorSpec, upper: bool, unit: bool
) -> TensorSpec:
    return b


@triangular_solution.vjp
def triangular_solution_vjp(
    grad: Tensor, a: Tensor, out: Tensor, upper: bool, unit: bool
) -> tuple[Tensor, Tensor]:
    by_b = triangular_solution(adjoint(a), grad, not upper, unit)
    product = matmul(by_b, adjoint(out)) * -1.0
    return (triu if upper else tril)(product, (1 if upper else -1) * unit), by_b


@composite(dtypes=WIDE, outputs=("out", "info"))
def linear_solution(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return X of A X = B, for batches of one shape.

    And the order of the first pivot that is 0 in each factorisation, or 0.

    Raises
    ------
    LinAlgError
        If the host computes, and a matrix is singular.
    """
    if is_small_system(a) and b.numel():
        return small_solution(a, b)
    if solves_large(a, b):
        factors = triangular.lu(a)
        out = lu_solution(factors.compact, factors.order, b)
        return out, reshape(factors.info, a.layout.shape[:-2])
    try:
        out = back(np.linalg.solve(read(a), read(b)), b)
    except np.linalg.LinAlgError:
        raise singular(a) from None
    return out, fill_like(a, a.layout.shape[:-2], 0, int32)


def solves_large(a: Tensor, b: Tensor) -> bool:
    """Return whether kernels solve by LU factors of a large matrix."""
    return triangular.lu_by_kernel(a) and triangular.by_kernel(b)


def solves(a: Tensor, b: Tensor) -> bool:
    """Return whether kernels solve, rather than NumPy on the host."""
    return (is_small_system(a) and b.numel() > 0) or solves_large(a, b)


def singular(a: Tensor) -> LinAlgError:
    return LinAlgError(
        f"solve: a matrix of {tuple(a.shape)} is singular; each must be invertible"
    )


@linear_solution.spec
def linear_solution_spec(a: TensorSpec, b: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return b, TensorSpec(a.shape[:-2], int32)


@linear_solution.vjp
def linear_solution_vjp(grad: Tensor, a: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    by_b, _ = linear_solution(adjoint(a), grad)
    return matmul(by_b, adjoint(out)) * -1.0, by_b


@composite(dtypes={"a": REAL, "compact": REAL, "order": (int32,), "b": REAL})
def factored_solution(
    a: Tensor, compact: Tensor, order: Tensor, b: Tensor, transposed: bool
) -> Tensor:
    """Return X of A X = B, or of A^T X = B, by LU factors of A and their order.

    The gradient by A is that of the solution; the factors have none.
    """
    return lu_solution(compact, order, b, transposed)


@factored_solution.spec
def factored_solution_spec(
    a: TensorSpec,
    compact: TensorSpec,
    order: TensorSpec,
    b: TensorSpec,
    transposed: bool,
) -> TensorSpec:
    return b


@factored_solution.vjp
def factored_solution_vjp(
    grad: Tensor,
    a: Tensor,
    compact: Tensor,
    order: Tensor,
    out: Tensor,
    transposed: bool,
) -> tuple[Tensor, None, None, Tensor]:
    by_b = factored_solution(a, compact, order, grad, not transposed)
    pair = (out, by_b) if transposed else (by_b, out)
    return matmul(pair[0], turned(pair[1])) * -1.0, None, None, by_b


def solution(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return `linear_solution`, which keeps large factors for its gradient.

    No pivots where the host computes, which has found none that are 0.
    """
    if has_real_form(a):
        matrix, side = real_matrix(a), real_columns(b)
        if solves(matrix, side):
            found, pivots = _solution_by_kernel(matrix, side)
            return complex_columns(found), complex_pivots(pivots)
    if solves(a, b):
        return _solution_by_kernel(a, b)
    return linear_solution(a, b)[0], None


def _solution_by_kernel(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if not (a.needs_grad or b.needs_grad) or is_small_system(a):
        return linear_solution(a, b)
    factors = triangular.lu(a.detach())
    out = factored_solution(a, factors.compact, factors.order, b, False)
    return out, reshape(factors.info, a.layout.shape[:-2])


def inverted(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return `inverse`; no pivots where the host computes, as `solution`."""
    if has_real_form(x):
        matrix = real_matrix(x)
        if _inverts(matrix):
            found, pivots = inverse(matrix)
            columns = narrow(unflatten(found, -1, (-1, 2)), -1, 0, 1)
            return complex_columns(squeeze(columns, -1)), complex_pivots(pivots)
    out, pivots = inverse(x)
    return out, pivots if _inverts(x) else None


def _inverts(x: Tensor) -> bool:
    """Return whether kernels invert, rather than NumPy on the host."""
    return is_small_system(x) or triangular.lu_by_kernel(x)


@composite(dtypes=WIDE, outputs=("out", "info"))
def inverse(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return inverses of matrices, and the orders of first pivots that are 0, or 0.

    Raises
    ------
    LinAlgError
        If the host computes, and a matrix is singular.
    """
    if is_small_system(x):
        return small_solution(x, None)
    if triangular.lu_by_kernel(x):
        factors = triangular.lu(x)
        out = reshape(lu_inverse(factors.compact, factors.order), x.layout.shape)
        return out, reshape(factors.info, x.layout.shape[:-2])
    try:
        out = back(np.linalg.inv(read(x)), x)
    except np.linalg.LinAlgError:
        raise singular(x) from None
    return out, fill_like(x, x.layout.shape[:-2], 0, int32)


@inverse.spec
def inverse_spec(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, TensorSpec(x.shape[:-2], int32)


@inverse.vjp
def inverse_vjp(grad: Tensor, out: Tensor) -> Tensor:
    across = adjoint(out)
    return matmul(matmul(across, grad), across) * -1.0


def first_zero(factors: Tensor) -> Tensor:
    """Return the place, from 1 on, of the first zero on each diagonal; 0 without."""
    zero = eq(diagonal(factors, 0, -2, -1), 0.0)
    places = cast(argmax(cast(zero, int32), -1), int32) + 1
    return where(any(zero, -1), places, 0)


def without_singular(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the orders of first zero pivots, where they are, and regular matrices.

    Where a matrix is singular it is the identity.
    """
    size = x.layout.shape[-1]
    if x.is_meta:
        found = fill_like(x, x.layout.shape[:-2], 0, int32)
        return found, unsqueeze(unsqueeze(ne(found, 0), -1), -1), x
    if triangular.lu_by_kernel(x):
        found = reshape(triangular.lu(x.detach()).info, x.layout.shape[:-2])
    else:
        found = first_zero(back(triangular.host_lu(read(x))[0], x))
    bad = unsqueeze(unsqueeze(ne(found, 0), -1), -1)
    return found, bad, where(bad, identity(x, size), x)


@composite(dtypes=WIDE)
def lu_factors(x: Tensor) -> Tensor:
    """Return L below the diagonal, where it is 1, and U, of square L U; no pivots."""
    return back(triangular.host_lu(read(x), pivot=False)[0], x)


@lu_factors.spec
def lu_factors_spec(x: TensorSpec) -> TensorSpec:
    return x


@composite(dtypes=WIDE, outputs=("out", "order", "pivots"))
def pivoted_lu_factors(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `lu_factors` of square matrices with their rows sorted by pivots.

    And the row that has become each row, and the one, from 1 on, that each is exchanged
    for, one after the other, int32.
    """
    shape = x.layout.shape
    if triangular.lu_by_kernel(x):
        found = triangular.lu(x)
        order, pivots = (reshape(each, shape[:-1]) for each in found[1:3])
        return reshape(found.compact, shape), order, pivots
    made, *places = triangular.host_lu(read(x))
    order, pivots = (type(x).from_host(each, x.device, int32) for each in places)
    return back(made, x), order, pivots + 1


@pivoted_lu_factors.spec
def pivoted_lu_factors_spec(
    x: TensorSpec,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    places = TensorSpec(x.shape[:-1], int32)
    return x, places, places


@pivoted_lu_factors.vjp
def pivoted_lu_factors_vjp(grad: Tensor, out: Tensor, order: Tensor) -> Tensor:
    places = expand(unsqueeze(argsort(order, -1), -1), out.layout.shape)
    return take_along_dim(lu_factors_vjp(grad, out), places, -2)


@lu_factors.vjp
def lu_factors_vjp(grad: Tensor, out: Tensor) -> Tensor:
    lower = tril(out, -1) + identity(out, out.layout.shape[-1])
    inner = tril(matmul(adjoint(lower), tril(grad, -1)), -1)
    inner = inner + triu(matmul(triu(grad), adjoint(triu(out))))
    left = triangular_solution(adjoint(lower), inner, True, True)
    # X U^-H is the transposed solution of U Y = X^H.
    return adjoint(triangular_solution(triu(out), adjoint(left), True, False))


@composite(dtypes=WIDE)
def qr_factors(x: Tensor) -> Tensor:
    """Return Q of (m, n) and below it R of (n, n), for m from n on."""
    if is_small(x):
        return small_qr(x)
    if qr_by_kernel(x):
        return cat(list(panel_qr(x)), -2)
    q, r = np.linalg.qr(read(x))
    return back(np.concatenate([q, r], -2), x)


@qr_factors.spec
def qr_factors_spec(x: TensorSpec) -> TensorSpec:
    *batch, rows, size = x.shape
    return TensorSpec((*batch, rows + size, size), x.dtype)


@qr_factors.vjp
def qr_factors_vjp(grad: Tensor, x_spec: TensorSpec, out: Tensor) -> Tensor:
    rows, size = x_spec.shape[-2:]
    q, r = narrow(out, -2, 0, rows), narrow(out, -2, rows, size)
    by_q, by_r = narrow(grad, -2, 0, rows), narrow(grad, -2, rows, size)
    inner = matmul(r, adjoint(by_r)) - matmul(adjoint(by_q), q)
    inner = tril(inner, -1) + diag_embed(diagonal(inner, 0, -2, -1) * 0.5)
    by_x = by_q + matmul(q, inner + adjoint(inner))
    return adjoint(triangular_solution(r, adjoint(by_x), True, False))


@composite(dtypes=WIDE)
def eigh_factors(x: Tensor, upper: bool) -> Tensor:
    """Return eigenvectors, as columns, and below them the eigenvalues, ascending."""
    if is_small(x):
        return small_eigh(x, upper)
    both = jacobi_eigh(x, upper, True) if jacobi_by_kernel(x) else None
    if both is not None:
        return both
    given = read(x)
    with one_blas_thread(given.shape[-1]):
        w, v = np.linalg.eigh(given, "U" if upper else "L")
    return back(np.concatenate([v, w[..., None, :]], -2), x)


@eigh_factors.spec
def eigh_factors_spec(x: TensorSpec, upper: bool) -> TensorSpec:
    *batch, size, _ = x.shape
    return TensorSpec((*batch, size + 1, size), x.dtype)


@eigh_factors.vjp
def eigh_factors_vjp(grad: Tensor, out: Tensor) -> Tensor:
    size = out.layout.shape[-1]
    v, w = narrow(out, -2, 0, size), narrow(out, -2, size, 1)
    by_v, by_w = narrow(grad, -2, 0, size), narrow(grad, -2, size, 1)
    turning = matmul(adjoint(v), by_v)
    # Symmetric, as PyTorch's, though one triangle alone is read.
    inner = _quotient((turning - adjoint(turning)) * 0.5, w - turned(w))
    inner = inner + diag_embed(squeeze(by_w, -2))
    return matmul(matmul(v, inner), adjoint(v))


@composite(dtypes=WIDE)
def eigenvalues(x: Tensor, upper: bool) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, ascending, without a gradient."""
    if is_small(x):
        size = x.layout.shape[-1]
        return squeeze(narrow(small_eigh(x, upper), -2, size, 1), -2)
    found = jacobi_eigh(x, upper, False) if jacobi_by_kernel(x) else None
    if found is not None:
        return found
    given = read(x)
    with one_blas_thread(given.shape[-1]):
        w = np.linalg.eigvalsh(given, "U" if upper else "L")
    return back(w, x, x.dtype.to_real())


@eigenvalues.spec
def eigenvalues_spec(x: TensorSpec, upper: bool) -> TensorSpec:
    return TensorSpec(x.shape[:-1], x.dtype.to_real())


@composite(dtypes=WIDE)
def eig_factors(x: Tensor) -> Tensor:
    """Return eigenvectors, as columns, and below them the eigenvalues, complex."""
    w, v = lapack.eigenvectors(read(x))
    return back(np.concatenate([v, w[..., None, :]], -2), x, x.dtype.to_complex())


@eig_factors.spec
def eig_factors_spec(x: TensorSpec) -> TensorSpec:
    *batch, size, _ = x.shape
    return TensorSpec((*batch, size + 1, size), x.dtype.to_complex())


@eig_factors.vjp
def eig_factors_vjp(grad: Tensor, out: Tensor) -> Tensor:
    size = out.layout.shape[-1]
    v, w = narrow(out, -2, 0, size), narrow(out, -2, size, 1)
    by_v, by_w = narrow(grad, -2, 0, size), narrow(grad, -2, size, 1)
    turning = matmul(adjoint(v), by_v)
    # Eigenvectors are of length 1, so a change along one changes nothing.
    along = diagonal(turning, 0, -2, -1)
    along = unsqueeze((along + conj(along)) * 0.5, -2)
    turning = turning - matmul(adjoint(v), v * along)
    inner = _quotient(turning, conj(w - turned(w)))
    inner = inner + diag_embed(squeeze(by_w, -2))
    return solution(adjoint(v), matmul(inner, adjoint(v)))[0]


@composite(dtypes=WIDE)
def general_eigenvalues(x: Tensor) -> Tensor:
    """Return the eigenvalues of matrices, complex, without a gradient."""
    return back(lapack.eigenvalues(read(x)), x, x.dtype.to_complex())


@general_eigenvalues.spec
def general_eigenvalues_spec(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape[:-1], x.dtype.to_complex())


@composite(dtypes=WIDE)
def svd_factors(x: Tensor) -> Tensor:
    """Return U of (m, k), below it the singular values, below them V of (n, k)."""
    if is_small(x):
        return small_svd(x)
    if svd_by_kernel(x):
        return long_svd(x)
    both = jacobi_svd(x, True) if jacobi_by_kernel(x) else None
    if both is not None:
        return both
    given = read(x)
    with one_blas_thread(min(given.shape[-2:])):
        u, s, vh = np.linalg.svd(given, full_matrices=False)
    v = np.swapaxes(vh, -1, -2).conj()
    return back(np.concatenate([u, s[..., None, :], v], -2), x)


@svd_factors.spec
def svd_factors_spec(x: TensorSpec) -> TensorSpec:
    *batch, rows, columns = x.shape
    return TensorSpec((*batch, rows + 1 + columns, min(rows, columns)), x.dtype)


@svd_factors.vjp
def svd_factors_vjp(grad: Tensor, x_spec: TensorSpec, out: Tensor) -> Tensor:
    rows, columns = x_spec.shape[-2:]
    least = min(rows, columns)
    parts = (0, rows), (rows, 1), (rows + 1, columns)
    u, s, v = (narrow(out, -2, *part) for part in parts)
    by_u, by_s, by_v = (narrow(grad, -2, *part) for part in parts)
    apart = mul(s, s) - turned(mul(s, s))
    left, right = matmul(adjoint(u), by_u), matmul(adjoint(v), by_v)
    inner = _quotient(left - adjoint(left), apart) * s
    inner = inner + turned(s) * _quotient(right - adjoint(right), apart)
    inner = inner + diag_embed(squeeze(by_s, -2))
    if x_spec.dtype.is_complex:
        turning = diagonal(left - adjoint(left), 0, -2, -1)
        inner = inner + diag_embed(_quotient(turning, squeeze(s, -2) * 2.0))
    result = matmul(matmul(u, inner), adjoint(v))
    if rows > least:
        rest = _quotient(by_u - matmul(u, left), expand(s, by_u.shape))
        result = result + matmul(rest, adjoint(v))
    if columns > least:
        rest = _quotient(by_v - matmul(v, right), expand(s, by_v.shape))
        result = result + matmul(u, adjoint(rest))
    return result


@composite(dtypes=WIDE)
def singular_values(x: Tensor) -> Tensor:
    """Return singular values, descending, without a gradient."""
    if is_small(x) or svd_by_kernel(x):
        both = small_svd(x) if is_small(x) else long_svd(x)
        return squeeze(narrow(both, -2, x.layout.shape[-2], 1), -2)
    found = jacobi_svd(x, False) if jacobi_by_kernel(x) else None
    if found is not None:
        return found
    given = read(x)
    with one_blas_thread(min(given.shape[-2:])):
        s = np.linalg.svd(given, full_matrices=False, compute_uv=False)
    return back(s, x, x.dtype.to_real())


@singular_values.spec
def singular_values_spec(x: TensorSpec) -> TensorSpec:
    *batch, rows, columns = x.shape
    return TensorSpec((*batch, min(rows, columns)), x.dtype.to_real())


def completes(x: Tensor) -> bool:
    """Return whether kernels factorise square matrices of as many rows."""
    device = x.device
    if not triangular.by_kernel(x) or not isinstance(device, GpuDevice):
        return False
    return qr_columns(device.gpu.info, x.dtype, x.layout.shape[-2]) > 0


def complete_qr(x: Tensor) -> QR:
    """Return a square Q and R of (m, n), m above n: columns of 0 turn nothing."""
    *batch, rows, columns = x.layout.shape
    zeros: Tensor = fill_like(x, (*batch, rows, rows - columns), 0, x.dtype)
    both = qr_factors(cat([x, zeros], -1))
    r = narrow(narrow(both, -2, rows, rows), -1, 0, columns)
    return QR(narrow(both, -2, 0, rows), r)


def remaining_vectors(x: Tensor, long: Tensor) -> Tensor:
    """Return the singular vectors of a matrix that is not square without a value.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    long : Tensor, shape (..., max(m, n), min(m, n))
        The vectors of its longer side that have one.
    """
    *batch, rows, columns = x.layout.shape
    most, least = max(rows, columns), min(rows, columns)
    if x.is_meta:
        made: Tensor = fill_like(x, (*batch, most, most - least), 0, x.dtype)
        return made
    if completes(long):
        return narrow(complete_qr(long).Q, -1, least, most - least)
    given = read(x)
    with one_blas_thread(min(given.shape[-2:])):
        u, _, vh = np.linalg.svd(given)
    vectors = u if rows > columns else np.swapaxes(vh, -1, -2).conj()
    return back(vectors[..., least:], x)


@composite(dtypes=WIDE)
def pseudo_inverse(x: Tensor, found: Tensor) -> Tensor:
    """Return the pseudo-inverse that was found, with its gradient at a constant rank.

    Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear
    least squares problems whose variables separate, 1973.
    """
    return copy(found)


@pseudo_inverse.vjp
def pseudo_inverse_vjp(grad: Tensor, x: Tensor, out: Tensor) -> tuple[Tensor, None]:
    other, across = adjoint(out), adjoint(grad)
    left = across - matmul(x, matmul(out, across))
    right = across - matmul(matmul(across, out), x)
    inner = matmul(matmul(left, out), other) + matmul(matmul(other, out), right)
    return inner - matmul(matmul(other, grad), other), None
