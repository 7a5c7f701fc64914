"""Functions of matrices over their factorisations: powers, norms, products, inverses.

`TOP` is what `framework` and `Tensor` have of these and of `linear_algebra`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..autograd.tape import shown_as
from ..base.dtype import DTypeLike, as_dtype
from ..base.errors import DTypeError, ShapeError
from ..base.shape import normalize_dim
from ..base.validation import as_int
from ..dispatch.autocast_policy import (
    autocast_float32_on_host,
    autocast_low_precision,
)
from .elementwise.cast import cast, need_one_dtype
from .elementwise.compare import ne, where
from .elementwise.unary import lazy_copy, with_zero_gradient
from .factorization import adjoint, identity, turned
from .factorization_results import QR
from .full_rank import extreme_singular_values, largest_singular_values
from .indexing.masked import tril, triu
from .least_squares import pinv
from .linear_algebra import (
    _matrix,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    inv,
    inv_ex,
    logdet,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
)
from .lu import lu_solve, lu_unpack
from .matmul.combined import chain_matmul
from .matmul.combined import matrix_power as positive_power
from .matmul.diagonal import diagonal
from .matmul.matmul import matmul
from .matrix_exponential import matrix_exp
from .movement.slice import narrow
from .reduce.minmax import amax, amin
from .reduce.sum import sum
from .reduce.variance import norm as _norm
from .source import fill_like
from .view import another, flatten, movedim, reshape, squeeze, unsqueeze

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def matrix_power(A: Tensor, n: int) -> Tensor:  # noqa: N803
    """Return powers of square matrices; of their inverses where `n` is negative.

    Parameters
    ----------
    A : Tensor, shape (..., m, m)
    n : int
        0 gives identity matrices.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinAlgError
        If `n` is negative and a matrix is singular.
    """
    n = as_int("matrix_power: n", n)
    if not n:
        return with_zero_gradient(positive_power(A, 0), A)
    if n == 1:
        _matrix("matrix_power", A)
        return lazy_copy(A)
    return positive_power(A if n >= 0 else inv(A), abs(n))


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of matrices in the cheapest order; ends may be vectors.

    Parameters
    ----------
    tensors : sequence of Tensor
        At least two: matrices, but the first and the last may be vectors.
    """
    every = list(tensors)
    if len(every) < 2:
        raise ShapeError(
            f"multi_dot: there are {len(every)} tensors; it takes 2 or more"
        )
    first, last = every[0].ndim == 1, every[-1].ndim == 1
    if first:
        every[0] = unsqueeze(every[0], 0)
    if last:
        every[-1] = unsqueeze(every[-1], -1)
    out = chain_matmul(*every)
    if len(every) > 2:
        ends = ((first, out.shape[0]), (last, out.shape[1]))
        shape = tuple(size for dropped, size in ends if not dropped)
        return another(out, reshape(out, shape), "ViewBackward0")
    out = squeeze(out, -1) if last else out
    return squeeze(out, 0) if first else out


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return norms of vectors, over one dimension, several or all.

    Parameters
    ----------
    x : Tensor, float or complex
    ord : float, default 2
        The p of `ops.norm`.
    dim : int, sequence of int or None
        None means all.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To compute in; None means that of `x`.
    """
    return _norm(x, ord, dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Tensor,  # noqa: N803
    ord: float | str = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return norms of matrices.

    Parameters
    ----------
    A : Tensor
    ord : {"fro", "nuc", inf, -inf, 1, -1, 2, -2}
        Frobenius; sum of singular values; largest or smallest sum of a row (inf) or
        column (1) of sizes; largest or smallest singular value (2).
    dim : (int, int)
        Dimensions of rows and columns.
    keepdim : bool, default False
    dtype : DType, optional
        To compute in.

    Raises
    ------
    DTypeError
        If elements are neither floats nor complex.
    ShapeError
        If there is no such norm, or `A` has fewer than two dimensions.
    """
    x = A if dtype is None else cast(A, as_dtype(dtype))
    if not (x.dtype.is_float or x.dtype.is_complex):
        raise DTypeError(
            f"matrix_norm: the matrix is {x.dtype.name}; it must be of floats or"
            " complex numbers; give a dtype to compute in"
        )
    rows, columns = (normalize_dim("matrix_norm", each, x.ndim) for each in dim)
    if ord == "fro":
        return _norm(x, 2, (rows, columns), keepdim)
    moved = movedim(x, (rows, columns), (-2, -1))
    if ord == "nuc":
        out = sum(svdvals(moved), -1)
    elif ord == 2 and moved.numel() and not moved.needs_grad:
        out = largest_singular_values(_matrix("matrix_norm", moved, square=False))
    elif ord == -2 and moved.numel() and not moved.needs_grad:
        out = extreme_singular_values(_matrix("matrix_norm", moved, square=False))[1]
    elif isinstance(ord, str) or abs(ord) not in (1, 2, math.inf):
        raise ShapeError(
            f'matrix_norm: ord is {ord!r}; it must be "fro", "nuc", 1, 2, inf or minus'
            " one of these"
        )
    else:
        sizes = (
            svdvals(moved)
            if abs(ord) == 2
            else sum(moved.abs(), -2 if abs(ord) == 1 else -1)
        )
        if ord > 0 and not sizes.shape[-1]:
            out = sum(sizes, -1)  # 0, as in PyTorch
        else:
            out = (amax if ord > 0 else amin)(sizes, -1)
    if keepdim:
        for at in sorted((rows, columns)):
            out = unsqueeze(out, at)
    return out


def norm(
    A: Tensor,  # noqa: N803
    ord: float | str | None = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return norms of vectors or of matrices.

    Parameters
    ----------
    A : Tensor
    ord : number, str or None
        As in `matrix_norm` for two dimensions, and in `vector_norm` for one. None is
        the root of the sum of squares, over any dimensions.
    dim : int, (int,), (int, int) or None
        None with `ord` means all, of a vector or a matrix.
    keepdim : bool, default False
        Keep the dimensions with size 1.
    dtype : DType, str or None
        To compute in; None means that of `A`.

    Raises
    ------
    ShapeError
        If `ord` is given without `dim` and `A` is neither a vector nor a matrix, or
        `dim` names neither one dimension nor two.
    """
    if not isinstance(dim, int | None) and len(dim) not in (1, 2):
        raise ShapeError(f"norm: dim is {dim}; it must be one dimension or two")
    order: Any = ord
    if order is None or isinstance(dim, int):
        return vector_norm(A, 2 if order is None else order, dim, keepdim, dtype=dtype)
    if dim is None:
        if len(A.layout.shape) not in (1, 2):
            raise ShapeError(
                f"norm: the shape is {tuple(A.shape)}; with ord it must be 1-D or 2-D"
            )
        dim = tuple(range(len(A.layout.shape)))
    if len(dim) == 1:
        return vector_norm(A, order, dim, keepdim, dtype=dtype)
    return matrix_norm(A, order, tuple(dim), keepdim, dtype=dtype)


@autocast_float32_on_host
def cond(A: Tensor, p: Any = None) -> Tensor:  # noqa: N803
    """Return condition numbers: the norm times that of the inverse.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
        Square, unless `p` is None, 2 or -2.
    p : number, "fro", "nuc" or None
        The norm; see `matrix_norm`. None and 2 are the largest singular value by the
        smallest, -2 the opposite.

    Raises
    ------
    ShapeError
        If a matrix has to be square.

    Notes
    -----
    Singular matrices have infinity.
    """
    if p in (None, 2, -2):
        if A.numel() and not A.needs_grad:
            extremes = extreme_singular_values(_matrix("cond", A, square=False))
            largest, least = extremes
            return least / largest if p == -2 else largest / least
        s = svdvals(A)
        if not s.numel():
            empty: Tensor = fill_like(s, tuple(s.layout.shape[:-1]), 0, s.dtype)
            return empty
        ends = narrow(s, -1, 0, 1), narrow(s, -1, s.shape[-1] - 1, 1)
        return squeeze(ends[1] / ends[0] if p == -2 else ends[0] / ends[1], -1)
    inverse, info = inv_ex(A)
    singular = ne(info, 0)
    inverse = where(unsqueeze(unsqueeze(singular, -1), -1), 0.0, inverse)
    found = matrix_norm(A, p) * matrix_norm(inverse, p)
    return where(singular, math.inf, found)


@autocast_low_precision
def linalg_diagonal(
    A: Tensor,  # noqa: N803
    *,
    offset: int = 0,
    dim1: int = -2,
    dim2: int = -1,
) -> Tensor:
    """Return a view of a diagonal of matrices.

    Parameters
    ----------
    A : Tensor, of at least two dimensions
    offset : int, default 0
        Above the main diagonal if positive, below it if negative.
    dim1, dim2 : int, default -2, -1
        Dimensions of the rows and of the columns.
    """
    return diagonal(A, offset, dim1, dim2)


@autocast_float32_on_host
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:  # noqa: N803
    """Return the inverse of a tensor taken for a square matrix.

    Parameters
    ----------
    A : Tensor
        As many elements in the first `ind` dimensions, the rows, as in the others.
    ind : int, default 2

    Returns
    -------
    Tensor
        The other dimensions of `A`, then the first ones.

    Raises
    ------
    ShapeError
        If the matrix is not square.
    LinAlgError
        If it is singular.
    """
    if not 0 < as_int("tensorinv: ind", ind) <= A.ndim:
        raise ShapeError(
            f"tensorinv: ind is {ind}, A {tuple(A.shape)}; it must be from 1 to the"
            " number of dimensions"
        )
    rows, columns = A.layout.shape[:ind], A.layout.shape[ind:]
    flat = reshape(A, (math.prod(rows), math.prod(columns)))
    return reshape(inv(flat), (*columns, *rows))


@autocast_float32_on_host
def tensorsolve(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    dims: Sequence[int] | None = None,
) -> Tensor:
    """Return X of tensordot(A, X) = B.

    Parameters
    ----------
    A : Tensor, shape (*B.shape, *X.shape)
        With as many elements in X as in B.
    B : Tensor
    dims : sequence of int or None
        Dimensions of A that go to its end first.

    Returns
    -------
    Tensor, shape of the last dimensions of A

    Raises
    ------
    ShapeError
        If sizes do not fit.
    LinAlgError
        If A, as a matrix, is singular.
    """
    if dims is not None:
        ndim = len(A.layout.shape)
        A = movedim(A, tuple(dims), tuple(range(ndim - len(dims), ndim)))  # noqa: N806
    shape = tuple(A.layout.shape[len(B.layout.shape) :])
    square = reshape(A, (B.numel(), math.prod(shape)))
    return reshape(solve(square, flatten(B)), shape)


@autocast_float32_on_host
@shown_as("LinalgHouseholderProductBackward0", "A", "tau")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:  # noqa: N803
    """Return the first columns of a product of reflections.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float or complex
        Column i below the diagonal is vector i, whose element on the diagonal is 1.
    tau : Tensor, shape (..., k)
        Reflection i is I - tau[i] v v^H; k at most n.

    Returns
    -------
    Tensor, shape (..., m, n)

    Notes
    -----
    Source: Joffrain, Low, Quintana-Orti, van de Geijn and Van Zee, "Accumulating
    Householder transformations, revisited", ACM Transactions on Mathematical Software
    32, 2006.
    """
    _matrix("householder_product", A, square=False)
    if tau.ndim != A.ndim - 1:
        raise ShapeError(
            f"householder_product: A is {tuple(A.shape)}, tau {tuple(tau.shape)}; tau"
            " must have one dimension less"
        )
    rows, columns = A.layout.shape[-2:]
    count = tau.layout.shape[-1]
    ones = narrow(identity(A, rows), -1, 0, columns)
    if not count:
        return with_zero_gradient(ones, A)
    # I - V T V^H, whose T is the inverse of diag(1 / tau) and what V^H V has above its
    # diagonal: no division by a tau that may be 0.
    vectors = narrow(tril(A, -1), -1, 0, count) + narrow(ones, -1, 0, count)
    turned_back, sizes = adjoint(vectors), unsqueeze(tau, -1)
    above = triu(matmul(turned_back, vectors), 1) * sizes
    first = narrow(turned_back, -1, 0, columns) * sizes
    solved = solve_triangular(above, first, upper=True, unitriangular=True)
    return ones - matmul(vectors, solved)


@autocast_float32_on_host
def thin_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Return U, S and V of matrices U diag(S) V^H, as `torch.svd` does.

    Parameters
    ----------
    input : Tensor, shape (..., m, n), float or complex
    some : bool, default True
        Return min(m, n) columns of U and V; otherwise all.
    compute_uv : bool, default True
        Otherwise U and V are zeros of all columns.

    Returns
    -------
    SVDParts
        U (..., m, k), S (..., min(m, n)), the largest first, and V (..., n, k) itself.
    """
    if not compute_uv:
        u, v = (
            fill_like(input, (*input.layout.shape[:-2], size, size), 0, input.dtype)
            for size in input.layout.shape[-2:]
        )
        return SVDParts(u, svdvals(input), v)
    u, s, vh = svd(input, not some)
    return SVDParts(u, s, adjoint(vh))


class SVDParts(NamedTuple):
    """Factors of `svd` at top level."""

    U: Tensor
    S: Tensor
    V: Tensor


@autocast_float32_on_host
@shown_as("CholeskyBackward0", "input")
def top_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Return the Cholesky factors of positive-definite matrices.

    Parameters
    ----------
    input : Tensor, shape (..., n, n)
    upper : bool, default False
        Return the upper triangle of A = U^H U, not the lower of A = L L^H.

    Raises
    ------
    LinAlgError
        If a matrix is not positive-definite.
    """
    return cholesky(input, upper=upper)


@autocast_float32_on_host
def top_qr(input: Tensor, some: bool = True) -> QR:
    """Return orthogonal Q and upper triangular R of matrices Q R.

    Parameters
    ----------
    input : Tensor, shape (..., m, n)
    some : bool, default True
        Return min(m, n) columns of Q and rows of R; otherwise m.
    """
    return qr(input, "reduced" if some else "complete")


@autocast_float32_on_host
def top_pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudoinverses of matrices.

    Parameters
    ----------
    input : Tensor, shape (..., m, n)
    rcond : float, default 1e-15
        Singular values of at most this share of the largest count as 0.

    Returns
    -------
    Tensor, shape (..., n, m)
    """
    return pinv(input, rtol=rcond)


@autocast_float32_on_host
def top_lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """Return X of A X = b, given `lu_factor` of A.

    Parameters
    ----------
    b : Tensor, shape (..., n, k)
    LU_data : Tensor, shape (..., n, n)
    LU_pivots : Tensor, shape (..., n), int32

    Returns
    -------
    Tensor, shape (..., n, k)
    """
    return lu_solve(LU_data, LU_pivots, b)


class TriangularSolve(NamedTuple):
    """Results of `triangular_solve`."""

    solution: Tensor
    cloned_coefficient: Tensor


@autocast_float32_on_host
@shown_as("TriangularSolveBackward0", "b", "A")
def triangular_solve(
    b: Tensor,
    A: Tensor,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> TriangularSolve:
    """Return X of A X = b of a triangle of A, or of its transpose, and A.

    Parameters
    ----------
    b : Tensor, shape (..., n, k)
    A : Tensor, shape (..., n, n), dtype of `b`
        Of which one triangle is read.
    upper : bool, default True
        Whether that is the upper one.
    transpose : bool, default False
        Take the transpose of the triangle.
    unitriangular : bool, default False
        Take the diagonal for ones.

    Returns
    -------
    TriangularSolve
        (solution, cloned_coefficient), the latter `A`.

    Raises
    ------
    ShapeError
        If sizes differ.
    DTypeError
        If the dtypes differ.
    """
    need_one_dtype("triangular_solve", b=b, A=A)
    a = turned(A) if transpose else A
    which = upper != transpose
    found = solve_triangular(a, b, upper=which, unitriangular=unitriangular)
    return TriangularSolve(found, lazy_copy(A))


TOP: dict[str, Any] = {
    "det": det, "logdet": logdet, "slogdet": slogdet, "inverse": inv,
    "cholesky": top_cholesky, "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve, "triangular_solve": triangular_solve,
    "qr": top_qr, "svd": thin_svd, "pinverse": top_pinverse, "matrix_exp": matrix_exp,
    "lu_solve": top_lu_solve, "lu_unpack": lu_unpack,
    "orgqr": householder_product,
}  # fmt: skip
"""What `framework` and `Tensor` have of it, by name."""
for _name, _function in TOP.items():
    _function.__name__ = _name  # which errors say
