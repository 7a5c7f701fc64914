"""Updates of the rows that a sparse gradient names, without reading how many there are.

Equal rows are summed as `coalesce` does, into as many places as there were stored rows:
those left over have no part in the update. So shapes do not depend on the indices, and
a step with sparse gradients is replayed as any other.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import ops
from ..base.dtype import int64
from ..tensor.tensor import Tensor
from .coo import SparseTensor
from .places import keys_of, summed


class GradientRows(NamedTuple):
    """Rows of a sparse gradient, each once.

    Attributes
    ----------
    rows : Tensor, shape (n,)
        Numbers of rows; 0 in the places that are left over.
    values : Tensor, shape (n, ...)
        Their gradients.
    kept : Tensor, shape (n, 1, ...), bool
        Whether a place is not left over.
    """

    rows: Tensor
    values: Tensor
    kept: Tensor


def rows_of(grad: SparseTensor) -> GradientRows:
    """Return the rows of a sparse gradient, each once, in order."""
    count = grad._nnz()
    keys = keys_of(grad.places, grad.sizes)
    order = ops.argsort(keys, stable=True)
    ordered = ops.index_select(keys, 0, order)
    changes = ops.ne(ordered[1:], ordered[:-1]).to(int64)
    first = ops.fill_like(keys, (1,), 0, int64)
    groups = ops.cumsum(ops.cat([first, changes]), 0)
    values = summed(groups, ops.index_select(grad.elements, 0, order), count)
    nothing = ops.fill_like(keys, (count,), 0, int64)
    rows = ops.index_copy(nothing, 0, groups, ordered)
    numbers = ops.arange_like(keys, (count,), 0, 1, int64)
    kept = ops.le(numbers, groups[-1:])
    wide = (count, *[1] * (values.ndim - 1))
    return GradientRows(rows, values, kept.reshape(wide))


def flat_rows(x: Tensor, grad: SparseTensor) -> Tensor:
    """Return a dense tensor with the sparse dimensions of a gradient as one."""
    shape = x.layout.shape[grad.sparse_dim() :]
    return x.reshape((-1, *shape))


def added_rows(x: Tensor, grad: SparseTensor, rows: Tensor, values: Tensor) -> Tensor:
    """Return a dense tensor with values added to rows of it."""
    flat = ops.index_add(flat_rows(x, grad), 0, rows, values)
    return flat.reshape(x.layout.shape)
