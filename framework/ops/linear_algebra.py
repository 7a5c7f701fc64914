"""Linear algebra over batches of matrices: what `framework.linalg` offers.

Where nothing else is said a matrix is the last two dimensions of a tensor of float32,
float64 or complex numbers, and those in front are a batch. `factorization` says where
they are computed, and how gradients flow.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import int32
from ..base.errors import DTypeError, LinAlgError, ShapeError
from ..base.shape import broadcast_shapes
from ..dispatch.autocast_policy import (
    autocast_float32_on_host,
    autocast_passthrough,
)
from . import determinants
from . import factorization as factors
from .elementwise.cast import converted, need_one_dtype
from .elementwise.compare import ne, where
from .elementwise.complex_numbers import _complex_of, _real_part
from .elementwise.derived import angle, sgn
from .elementwise.exponential import exp
from .elementwise.unary import with_zero_gradient
from .factorization import WIDE, adjoint, back, identity, turned
from .factorization_results import (
    QR,
    SVD,
    CheckedCholesky,
    CheckedInverse,
    CheckedSolution,
    Eig,
    Eigh,
    SlogDet,
)
from .host_checks import is_any, read
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.slice import narrow, select
from .source import fill_like
from .triangular import cholesky_by_kernel
from .view import expand, squeeze, unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Tensor


def _matrix(name: str, x: Tensor, square: bool = True) -> Tensor:
    if x.dtype not in WIDE:
        raise DTypeError(
            f"{name}: the matrix is {x.dtype.name}; accepted:"
            f" {', '.join(each.name for each in WIDE)}"
        )
    if len(x.layout.shape) < 2 or (square and x.layout.shape[-1] != x.layout.shape[-2]):
        kind = "square matrices" if square else "at least 2-D"
        raise ShapeError(f"{name}: the shape is {tuple(x.shape)}; it must be {kind}")
    return x


def _together(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices whose batches are the same, and whose dtypes must be."""
    need_one_dtype(name, A=a, B=b)
    batches = tuple(a.layout.shape[:-2]), tuple(b.layout.shape[:-2])
    if batches[0] == batches[1]:
        return a, b
    batch = broadcast_shapes(name, *batches)
    first, second = (expand(x, (*batch, *x.layout.shape[-2:])) for x in (a, b))
    return first, second


def _real(x: Tensor) -> Tensor:
    """Return real numbers that are stored as complex ones, if they are."""
    return _real_part(x) if x.dtype.is_complex else x


@autocast_passthrough
def det(A: Tensor) -> Tensor:  # noqa: N803 - PyTorch's name
    """Return determinants of square matrices; differentiable where they are 0, too.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Of n = 0 the determinant is 1.
    """
    return determinants.det(_matrix("det", A))


@autocast_passthrough
def slogdet(A: Tensor) -> SlogDet:  # noqa: N803
    """Return signs of determinants, and the logarithms of their sizes.

    A complex sign is the determinant divided by its size.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Of a singular one the sign is 0 and the logarithm -inf.
    """
    size, sign = determinants.log_det(_matrix("slogdet", A))
    if A.dtype.is_complex and A.needs_grad and A.layout.shape[-1]:
        # Of a determinant of size 1, where it is not 0, which cannot overflow.
        scale = exp(size.detach() * (-1.0 / A.layout.shape[-1]))
        scale = where(scale.isfinite(), scale, 1.0)
        return SlogDet(sgn(det(A * unsqueeze(unsqueeze(scale, -1), -1))), size)
    return SlogDet(with_zero_gradient(sign.detach(), size), size)


def logdet(input: Tensor) -> Tensor:
    """Return logarithms of determinants; NaN for a negative one.

    Parameters
    ----------
    input : Tensor, shape (..., n, n), float32, float64 or complex
        Of a singular one the logarithm is -inf.
    """
    sign, size = slogdet(input)
    if input.dtype.is_complex:
        return _complex_of(size, angle(sign))
    return where(sign < 0, math.nan, size)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """Return X of A X = B, or of X A = B where `left` is False.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
    B : Tensor, shape (..., n, k), (n,) or (..., n) of A's batch
    left : bool, default True

    Raises
    ------
    LinAlgError
        If a matrix is singular; under `fw.jit` the result is not finite instead.
    ShapeError
        If shapes do not fit.
    """
    return _solved(A, B, left, True)[0]


@autocast_float32_on_host
@shown_as("LinalgSolveExBackward0", "A", "B")
def _solved(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    left: bool,
    checked: bool,
) -> tuple[Tensor, Tensor]:
    """Return what `solve_ex` does; the host raises an error also if it is not checked.

    Unless it is checked, nothing waits for a device.
    """
    _matrix("solve", A)
    vector = len(B.layout.shape) == 1 or (
        len(B.layout.shape) + 1 == len(A.layout.shape)
        and B.layout.shape == A.layout.shape[:-1]
    )
    if not left:
        if vector:
            raise ShapeError("solve: B is a vector; left must be True then")
        out, info = _solved(turned(A), turned(B), True, checked)
        return turned(out), info
    b = unsqueeze(B, -1) if vector else B
    if b.ndim < 2 or b.shape[-2] != A.layout.shape[-1]:
        raise ShapeError(
            f"solve: A is {tuple(A.shape)}, B {tuple(B.shape)}; rows differ"
        )
    pair = _together("solve", A, b)
    out, pivots = factors.solution(*pair)
    if pivots is None:
        info = _zeros_info(A)
    else:
        out = _regular(out, pivots, A, checked)
        info = _of_batch(pivots, A.layout.shape[:-2])
    return squeeze(out, -1) if vector else out, info


def _regular(out: Tensor, info: Tensor, A: Tensor, checked: bool) -> Tensor:  # noqa: N803
    """Return what kernels made of matrices, NaN if singular, or raise an error."""
    if not checked:
        places = expand(unsqueeze(unsqueeze(info, -1), -1), out.layout.shape)
        return where(ne(places, 0), math.nan, out)
    if is_any(info, out):
        raise factors.singular(A)
    return out


def _of_batch(info: Tensor, batch: Sequence[int]) -> Tensor:
    """Return the places of matrices that were expanded from a batch."""
    while len(info.layout.shape) > len(batch):
        info = select(info, 0, 0)
    for dim, size in enumerate(batch):
        if size != info.layout.shape[dim]:
            info = narrow(info, dim, 0, size)
    return info


def _zeros_info(x: Tensor) -> Tensor:
    return fill_like(x, tuple(x.layout.shape[:-2]), 0, int32)


def solve_ex(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    check_errors: bool = False,
) -> CheckedSolution:
    """Return `solve`, and 0 for each matrix, or the order of its first zero pivot.

    The solution for a singular matrix is NaN, or `LinAlgError` if `check_errors`.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Square matrices.
    B : Tensor, shape (..., n, k) or (..., n)
        Right-hand sides, of the same dtype.
    left : bool, default True
        Whether A X = B is solved, or X A = B.
    check_errors : bool, default False
        Raise for a singular matrix.
    """
    try:
        return CheckedSolution(*_solved(A, B, left, check_errors))
    except LinAlgError:
        if check_errors:
            raise
    info, bad, regular = factors.without_singular(A)
    found = solve(regular, B, left=left)
    if len(found.layout.shape) < len(regular.layout.shape):
        bad = squeeze(bad, -1)
    return CheckedSolution(where(bad, math.nan, found), info)


def inv(A: Tensor) -> Tensor:  # noqa: N803
    """Return inverses of square matrices.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Square matrices.

    Raises
    ------
    LinAlgError
        If a matrix is singular; under `fw.jit` the result is not finite instead.
    """
    return _inverted(A, True)[0]


@autocast_float32_on_host
@shown_as("LinalgInvExBackward0", "A")
def _inverted(A: Tensor, checked: bool) -> tuple[Tensor, Tensor]:  # noqa: N803
    """Return what `inv_ex` does; the host raises an error also if it is not checked.

    Unless it is checked, nothing waits for a device.
    """
    out, pivots = factors.inverted(_matrix("inv", A))
    if pivots is None:
        return out, _zeros_info(A)
    return _regular(out, pivots, A, checked), pivots


@autocast_float32_on_host
def inv_ex(A: Tensor, *, check_errors: bool = False) -> CheckedInverse:  # noqa: N803
    """Return `inv`, and 0 for each matrix, or the order of its first zero pivot.

    The inverse of a singular matrix is NaN, or `LinAlgError` if `check_errors`.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Square matrices.
    check_errors : bool, default False
        Raise for a singular matrix.
    """
    try:
        return CheckedInverse(*_inverted(A, check_errors))
    except LinAlgError:
        if check_errors:
            raise
    info, bad, regular = factors.without_singular(A)
    return CheckedInverse(where(bad, math.nan, inv(regular)), info)


@autocast_passthrough
@shown_as("LinalgSolveTriangularBackward0", "A", "B")
def solve_triangular(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """Return X of A X = B, or of X A = B, of a triangle of A; the rest is not read.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
    B : Tensor, shape (..., n, k), or (..., k, n) where `left` is False
    upper : bool
        Which triangle.
    left : bool, default True
    unitriangular : bool, default False
        Take the diagonal as 1.
    """
    _matrix("solve_triangular", A)
    if not left:
        return turned(
            solve_triangular(
                turned(A), turned(B), upper=not upper, unitriangular=unitriangular
            )
        )
    if len(B.layout.shape) < 2 or B.layout.shape[-2] != A.layout.shape[-1]:
        raise ShapeError(
            f"solve_triangular: A is {tuple(A.shape)}, B {tuple(B.shape)}; rows differ"
        )
    # PyTorch computes in the triangle's dtype.
    a, b = _together("solve_triangular", A, converted(B, A.dtype))
    return factors.triangular_solution(a, b, bool(upper), bool(unitriangular))


@autocast_float32_on_host
@shown_as("LinalgCholeskyExBackward0", "input")
def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """Return L of L L^H, of Hermitian positive-definite matrices; L^H if `upper`.

    Parameters
    ----------
    input : Tensor, shape (..., n, n), float32, float64 or complex
        The lower triangle is read, or the upper one if `upper`.
    upper : bool, default False
        Which factor is returned.

    Raises
    ------
    LinAlgError
        If a matrix is not positive-definite; under `fw.jit` the result has NaN instead.
    """
    _matrix("cholesky", input)
    lower, info = factors.cholesky_factor(input, bool(upper))
    if cholesky_by_kernel(input) and is_any(info):
        raise factors.not_positive(input)
    return adjoint(lower) if upper else lower


@autocast_float32_on_host
def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False
) -> CheckedCholesky:
    """Return `cholesky`, and for each matrix 0, or the order of its first bad minor.

    The factor of a matrix that is not positive-definite is NaN.

    Parameters
    ----------
    input : Tensor, shape (..., n, n), float32, float64 or complex
        The lower triangle is read, or the upper one if `upper`.
    upper : bool, default False
        Which factor is returned.
    check_errors : bool, default False
        Raise `LinAlgError` for a matrix that is not positive-definite.
    """
    _matrix("cholesky", input)
    if not check_errors and cholesky_by_kernel(input):
        made, places = factors.cholesky_factor(input, bool(upper))
        made = adjoint(made) if upper else made
        wrong = unsqueeze(unsqueeze(ne(places, 0), -1), -1)
        return CheckedCholesky(where(wrong, math.nan, made), places)
    try:
        return CheckedCholesky(cholesky(input, upper=upper), _zeros_info(input))
    except LinAlgError:
        if check_errors:
            raise
    size = input.layout.shape[-1]
    each = read(input).reshape(-1, size, size)
    info = np.array([_bad_minor(one) for one in each], np.int32)
    info = info.reshape(tuple(input.layout.shape[:-2]))
    found = type(input).from_host(info, input.device, int32)
    bad = unsqueeze(unsqueeze(found != 0, -1), -1)
    lower = cholesky(where(bad, identity(input, size), input), upper=upper)
    return CheckedCholesky(where(bad, math.nan, lower), found)


def _bad_minor(x: np.ndarray) -> int:
    for order in range(1, len(x) + 1):
        try:
            np.linalg.cholesky(x[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return 0


@autocast_float32_on_host
@shown_as("CholeskySolveBackward0", "B", "L")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """Return X of A X = B, given the Cholesky factor of A.

    Parameters
    ----------
    B : Tensor, shape (..., n, k)
    L : Tensor, shape (..., n, n), dtype of `B`
        Triangle of A = L L^H.
    upper : bool, default False
        Whether `L` is the upper triangle, of A = L^H L.

    Returns
    -------
    Tensor, shape (..., n, k)

    Raises
    ------
    DTypeError
        If the dtypes differ.
    """
    need_one_dtype("cholesky_solve", B=B, L=L)
    half = solve_triangular(adjoint(L) if upper else L, B, upper=False)
    return solve_triangular(L if upper else adjoint(L), half, upper=True)


@autocast_float32_on_host
@shown_as("CholeskyInverseBackward0", "L")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """Return the inverse of A, given its Cholesky factor; see `cholesky_solve`.

    Parameters
    ----------
    L : Tensor, shape (..., n, n), float32, float64 or complex
        The factor; its other triangle is not read.
    upper : bool, default False
        Whether it is the upper triangular one.
    """
    _matrix("cholesky_inverse", L)
    return cholesky_solve(identity(L, L.layout.shape[-1]), L, upper)


@autocast_float32_on_host
@shown_as("LinalgQrBackward0", "A")
def qr(A: Tensor, mode: str = "reduced") -> QR:  # noqa: N803
    """Return orthogonal Q and upper triangular R of A = Q R.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    mode : {"reduced", "complete", "r"}
        Q with min(m, n) columns or m; without Q, which is then empty.

    Notes
    -----
    "complete" has no gradient where m > n, and "r" none, as in PyTorch.
    """
    _matrix("qr", A, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode is {mode!r}; it must be reduced, complete or r")
    rows, columns = A.layout.shape[-2:]
    if mode == "r":
        empty: Tensor = fill_like(A, (0,), 0, A.dtype)
        return QR(empty, qr(A.detach()).R)
    if mode == "complete" and rows > columns:
        if A.is_meta:
            batch = A.layout.shape[:-2]
            square: Tensor = fill_like(A, (*batch, rows, rows), 0, A.dtype)
            return QR(square, fill_like(A, A.layout.shape, 0, A.dtype))
        if factors.completes(A):
            return factors.complete_qr(A.detach())
        q, r = np.linalg.qr(read(A), "complete")
        return QR(back(q, A), back(r, A))
    if rows < columns:
        q1, r1 = qr(narrow(A, -1, 0, rows))
        rest = narrow(A, -1, rows, columns - rows)
        return QR(q1, cat([r1, matmul(adjoint(q1), rest)], -1))
    both = factors.qr_factors(A)
    return QR(narrow(both, -2, 0, rows), narrow(both, -2, rows, columns))


def _hermitian(x: Tensor, triangle: str) -> tuple[Tensor, bool]:
    """Return matrices, and whether their upper triangle is read."""
    _matrix("eigh", x)
    if str(triangle).upper() not in ("L", "U"):
        raise ValueError(f"eigh: UPLO is {triangle!r}; it must be L or U")
    return x, str(triangle).upper() == "U"


@autocast_float32_on_host
@shown_as("LinalgEighBackward0", "A")
def eigh(A: Tensor, UPLO: str = "L") -> Eigh:  # noqa: N803
    """Return eigenvalues, ascending, and eigenvectors of Hermitian matrices.

    Only the triangle `UPLO` is read. The gradient by eigenvectors of equal eigenvalues
    counts as 0.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Hermitian matrices.
    UPLO : {"L", "U"}
        The lower or the upper triangle.
    """
    both, size = factors.eigh_factors(*_hermitian(A, UPLO)), A.layout.shape[-1]
    values = _real(squeeze(narrow(both, -2, size, 1), -2))
    return Eigh(values, narrow(both, -2, 0, size))


@autocast_float32_on_host
@shown_as("LinalgEigBackward0", "A")
def eig(A: Tensor) -> Eig:  # noqa: N803
    """Return eigenvalues, in no order, and eigenvectors of square matrices; complex.

    The gradient by eigenvectors of equal eigenvalues counts as 0.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Square matrices.
    """
    both, size = factors.eig_factors(_matrix("eig", A)), A.layout.shape[-1]
    values = squeeze(narrow(both, -2, size, 1), -2)
    return Eig(values, narrow(both, -2, 0, size))


@autocast_float32_on_host
@shown_as("LinalgEigBackward0", "A")
def eigvals(A: Tensor) -> Tensor:  # noqa: N803
    """Return the eigenvalues of square matrices, complex, in no order.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Square matrices.
    """
    if A.needs_grad:
        return eig(A).eigenvalues
    return factors.general_eigenvalues(_matrix("eig", A))


@autocast_float32_on_host
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """Return the eigenvalues of Hermitian matrices, ascending; `UPLO` as in `eigh`.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float32, float64 or complex
        Hermitian matrices.
    UPLO : {"L", "U"}
        The triangle that is read.
    """
    if A.needs_grad:
        return eigh(A, UPLO).eigenvalues
    return factors.eigenvalues(*_hermitian(A, UPLO))


@autocast_float32_on_host
@shown_as("LinalgSvdBackward0", "A")
def svd(
    A: Tensor,  # noqa: N803
    full_matrices: bool = True,
    *,
    driver: str | None = None,
) -> SVD:
    """Return U, the singular values and V^H of A = U diag(S) V^H.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    full_matrices : bool, default True
        Whether U and V are square. Gradients flow through their first min(m, n)
        columns only, as in PyTorch.
    driver : str or None
        Has no effect.
    """
    _matrix("svd", A, square=False)
    rows, columns = A.layout.shape[-2:]
    both = factors.svd_factors(A)
    u, v = narrow(both, -2, 0, rows), narrow(both, -2, rows + 1, columns)
    s = _real(squeeze(narrow(both, -2, rows, 1), -2))
    if full_matrices and rows != columns:
        long = (u if rows > columns else v).detach()
        rest = factors.remaining_vectors(A, long)
        if rows > columns:
            u = cat([u, rest], -1)
        else:
            v = cat([v, rest], -1)
    return SVD(u, s, adjoint(v))


@autocast_float32_on_host
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:  # noqa: N803
    """Return singular values, descending; `driver` has no effect.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float32, float64 or complex
        Matrices.
    driver : str or None
        Without effect.
    """
    if A.needs_grad:
        return svd(A, False).S
    return factors.singular_values(_matrix("svd", A, square=False))
