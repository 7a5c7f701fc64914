"""Products of sparse matrices with dense ones, and with each other.

With a dense matrix: rows of it are gathered by the columns of the stored elements,
scaled by them, and summed by their rows. So gradients flow to both, and each stored
element's is one product of rows.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..base.dtype import int64
from ..base.errors import DTypeError, ShapeError
from ..dispatch.autocast_policy import autocast_low_precision
from ..tensor.tensor import Tensor
from .compressed import CompressedTensor, SparseCsrTensor
from .coo import ABOVE, SparseTensor
from .places import keys_of, summed


@autocast_low_precision
def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Any:
    """Return the product of two matrices, of which one is sparse, or both.

    Parameters
    ----------
    mat1 : Tensor, shape (m, k)
    mat2 : Tensor, shape (k, n), same dtype
    reduce : {"sum", "mean", "amax", "amin"}, default "sum"
        How the products of a row are combined; others than "sum" need `mat1` in
        compressed rows.

    Returns
    -------
    Tensor, shape (m, n)
        Sparse if both are, otherwise dense.

    Raises
    ------
    ShapeError
        If they are no matrices, or sizes do not fit.
    DTypeError
        If dtypes differ.

    Notes
    -----
    Gradients flow to the values and to the dense matrix. The gradient of a sparse leaf
    is sparse, in its own places. Products are summed in a fixed order.

    Examples
    --------
    >>> a = fw.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> fw.sparse.mm(a, fw.eye(2)).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise ShapeError(
            f"sparse.mm: the operands are {tuple(mat1.shape)} and {tuple(mat2.shape)};"
            " both must be 2-D"
        )
    if reduce is not None and reduce != "sum":
        return _reduced(mat1, mat2, reduce)
    return product(mat1, mat2)


def product(a: Tensor, b: Tensor) -> Any:
    """Return the product of two matrices, or of a matrix and a vector."""
    if not isinstance(b, Tensor):
        raise TypeError(f"matmul: b is a {type(b).__name__}; it must be a tensor")
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"matmul: a is {a.dtype.name}, b is {b.dtype.name}; they must be the same"
        )
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ShapeError(
            f"matmul: inner sizes differ: a is {tuple(a.shape)}, b is"
            f" {tuple(b.shape)}; a.shape[-1] = {a.shape[-1]} must equal {inner}"
        )
    left, right = isinstance(a, SPARSE), isinstance(b, SPARSE)
    if left and right:
        return _sparse_product(a, b)
    if left:
        if b.ndim == 1:
            return product(a, b.unsqueeze(1)).squeeze(1)
        return _times_dense(*_triplets(a), a.shape[0], b)
    if not right:
        return ops.matmul(a, b)
    if a.ndim == 1:
        return product(a.unsqueeze(0), b).squeeze(0)
    rows, columns, values = _triplets(b)
    turned = _times_dense(columns, rows, values, b.shape[1], a.transpose(0, 1))
    return turned.transpose(0, 1)


SPARSE = (SparseTensor, CompressedTensor)


def _triplets(x: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of a sparse matrix."""
    if x.ndim != 2 or x.elements.ndim != 1:
        raise ShapeError(
            f"matmul: a sparse operand is {tuple(x.shape)} with"
            f" {x.elements.ndim - 1} dense dimensions; it must be a matrix of numbers"
        )
    if isinstance(x, SparseTensor):
        return x.places[0], x.places[1], x.elements
    rows, columns = x.row_numbers(), x.column_numbers()
    return rows, columns, x.elements


def _times_dense(
    rows: Tensor, columns: Tensor, values: Tensor, count: int, dense: Tensor
) -> Tensor:
    """Return the product of a sparse matrix of `count` rows with a dense one."""
    taken = ops.index_select(dense, 0, columns)
    return summed(rows, taken * values.unsqueeze(1), count)


def _sparse_product(a: Any, b: Any) -> Any:
    """Return the product of two sparse matrices, coalesced.

    How many products there are is read by the host, which waits for it.
    """
    kind = type(a)
    left, right = a.to_sparse().coalesce(), b.to_sparse().coalesce()
    lengths = ops.bincount(right.places[0], minlength=right.shape[0])
    starts = ops.cumsum(lengths, 0) - lengths
    repeats = ops.index_select(lengths, 0, left.places[1])
    numbers = ops.arange_like(repeats, (left._nnz(),), 0, 1, int64)
    first: Any = ops.repeat_interleave(numbers, repeats)
    before = ops.cumsum(repeats, 0) - repeats
    within = ops.arange_like(repeats, (first.numel(),), 0, 1, int64)
    within = within - ops.index_select(before, 0, first)
    begin = ops.index_select(starts, 0, ops.index_select(left.places[1], 0, first))
    second = begin + within
    values = ops.index_select(left.elements, 0, first) * ops.index_select(
        right.elements, 0, second
    )
    places = ops.stack(
        [
            ops.index_select(left.places[0], 0, first),
            ops.index_select(right.places[1], 0, second),
        ]
    )
    shape = left.shape[0], right.shape[1]
    found = SparseTensor.of(places, values, shape, False).coalesce()
    return found if kind is SparseTensor else found.to_sparse(layout=kind.kind)


def _reduced(a: Tensor, b: Tensor, reduce: str) -> Tensor:
    if reduce not in ("mean", "amax", "amin"):
        raise ShapeError(
            f"sparse.mm: reduce is {reduce!r}; it must be sum, mean, amax or amin"
        )
    if not isinstance(a, SparseCsrTensor):
        raise NotImplementedError(
            f"sparse.mm: reduce is {reduce!r} and mat1 not in compressed rows; call"
            " mat1.to_sparse_csr() first"
        )
    rows, columns, values = _triplets(a)
    taken = ops.index_select(b, 0, columns) * values.unsqueeze(1)
    base = taken.detach().new_zeros((a.shape[0], b.shape[1]))
    index = rows.unsqueeze(1).expand(taken.shape)
    return ops.scatter_reduce(base, 0, index, taken, reduce, include_self=False)


def addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1.0, alpha: float = 1.0
) -> Any:
    """Return beta * mat + alpha * (mat1 @ mat2), where `mat1` is sparse.

    Parameters
    ----------
    mat : Tensor, broadcasts to (m, n)
    mat1 : Tensor, shape (m, k), sparse
    mat2 : Tensor, shape (k, n)
    beta, alpha : float, default 1
    """
    found = mm(mat1, mat2)
    found = found if alpha == 1 else found * alpha
    if beta == 0:
        return found
    return (mat if beta == 1 else mat * beta) + found


def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
    out: Tensor | None = None,
) -> Any:
    """Return beta * input + alpha * (mat1 @ mat2) in the places of `input` alone.

    Parameters
    ----------
    input : Tensor, shape (m, n), in compressed rows
    mat1 : Tensor, shape (m, k)
    mat2 : Tensor, shape (k, n)
    beta, alpha : float, default 1
    out : None
        Not taken.

    Raises
    ------
    TypeError
        If `input` is not in compressed rows.
    """
    if not isinstance(input, SparseCsrTensor) or out is not None:
        raise TypeError(
            "sparse.sampled_addmm: input must be a sparse CSR tensor, and out None"
        )
    rows, columns, values = _triplets(input)
    left = ops.index_select(mat1, 0, rows)
    right = ops.index_select(mat2.transpose(0, 1), 0, columns)
    return input.with_elements(values * beta + ops.sum(left * right, 1) * alpha)


def bmm(a: Tensor, b: Tensor) -> Any:
    """Return the product of each pair in two batches, of which one is sparse."""
    if a.shape[0] == b.shape[0] == 1:
        found = product(_only(a), _only(b))
        return found.unsqueeze(0)
    if not isinstance(a, SparseTensor) or isinstance(b, SPARSE):
        return NotImplemented
    batch, m, k = a.shape
    flat = b.reshape((batch * k, b.shape[2]))
    rows = keys_of(a.places[:2], (batch, m))
    columns = a.places[0] * k + a.places[2]
    found = _times_dense(rows, columns, a.elements, batch * m, flat)
    return found.reshape((batch, m, b.shape[2]))


def _only(x: Tensor) -> Any:
    """Return the only matrix of a batch."""
    if isinstance(x, SparseTensor):
        return SparseTensor.of(x.places[1:], x.elements, x.shape[1:], x.coalesced)
    return x.reshape(tuple(x.shape[1:]))


ABOVE["product"] = product
