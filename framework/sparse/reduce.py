"""Sums, and softmax, over dimensions of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..base.dtype import DTypeLike
from ..base.errors import DomainError
from ..base.shape import normalize_dim
from ..tensor.tensor import Tensor
from .compressed import CompressedTensor
from .coo import ABOVE, SparseTensor
from .places import keys_of, summed


def sum(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """Return the sum of a sparse tensor over all dimensions, or some.

    Parameters
    ----------
    input : Tensor, sparse COO
    dim : int, sequence of int or None
        None means all.
    dtype : DType, str or None
        To add in.

    Returns
    -------
    Tensor
        Dense if no sparse dimension stays, otherwise sparse and coalesced.

    Raises
    ------
    DomainError
        If the tensor is not sparse COO.

    Examples
    --------
    >>> x = fw.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> fw.sparse.sum(x).item(), fw.sparse.sum(x, 0).to_dense().tolist()
    (7.0, [4.0, 0.0, 3.0])
    """
    x = need_coo("sparse.sum", input)
    values = x.elements if dtype is None else x.elements.to(dtype)
    if dim is None:
        return ops.sum(values)
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = {normalize_dim("sparse.sum", each, x.ndim) for each in given}
    cut = x.sparse_dim()
    dense = tuple(at - cut + 1 for at in sorted(dims) if at >= cut)
    if dense:
        values = ops.sum(values, dense)
    kept = [at for at in range(cut) if at not in dims]
    if not kept:
        return ops.sum(values, 0)
    shape = [size for at, size in enumerate(x.shape) if at not in dims]
    if len(kept) == cut:
        return SparseTensor.of(x.places, values, shape, x.coalesced).coalesce()
    places = ops.stack([x.places[at] for at in kept])
    return SparseTensor.of(places, values, shape, False).coalesce()


def need_coo(where: str, x: Tensor) -> SparseTensor:
    """Return a tensor, which must be sparse COO."""
    if not isinstance(x, SparseTensor):
        what = x.title if isinstance(x, CompressedTensor) else "strided"
        raise DomainError(
            f"{where}: the tensor is {what}; it must be sparse COO: call to_sparse()"
        )
    return x


def softmax(input: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> SparseTensor:
    """Return the softmax of the stored elements along one dimension.

    Elements that are not stored count as -inf, and stay so.

    Parameters
    ----------
    input : Tensor, sparse COO
    dim : int
    dtype : DType, str or None
        To compute in.

    Returns
    -------
    Tensor, sparse COO, coalesced

    Examples
    --------
    >>> x = fw.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 5.0], (2, 3))
    >>> fw.sparse.softmax(x, 1).values().tolist()
    [0.5, 0.5, 1.0]
    """
    return _softmax("sparse.softmax", input, dim, dtype, logarithm=False)


def log_softmax(
    input: Tensor, dim: int, *, dtype: DTypeLike | None = None
) -> SparseTensor:
    """Return the logarithm of `softmax`; see there."""
    return _softmax("sparse.log_softmax", input, dim, dtype, logarithm=True)


def _softmax(
    where: str, input: Tensor, dim: int, dtype: DTypeLike | None, logarithm: bool
) -> SparseTensor:
    if not isinstance(input, SparseTensor):
        raise NotImplementedError(
            f"{where}: the tensor is not sparse COO; call to_sparse(), or use"
            " nn.functional.softmax"
        )
    x = input.coalesce()
    at = normalize_dim(where, dim, x.ndim)
    values = x.elements if dtype is None else x.elements.to(dtype)
    cut = x.sparse_dim()
    if not values.numel():
        found = values
    elif at >= cut:
        function = ops.log_softmax if logarithm else ops.softmax
        found = function(values, at - cut + 1)
    else:
        others = [each for each in range(cut) if each != at]
        found = _grouped(x, values, others, logarithm)
    made: SparseTensor = x.with_elements(found)
    return made


def _grouped(
    x: SparseTensor, values: Tensor, others: list[int], logarithm: bool
) -> Tensor:
    """Return the softmax among stored elements that agree in other dimensions."""
    count, rest = values.shape[0], tuple(values.shape[1:])
    sizes = [x.shape[each] for each in others]
    groups = x.places[0] * 0
    if others:
        groups = keys_of(ops.stack([x.places[each] for each in others]), sizes)
    total = 1
    for size in sizes:
        total *= size
    flat = values.reshape((count, -1))
    index = groups.unsqueeze(1).expand(flat.shape)
    least = float("-inf")
    base = ops.fill_like(flat.detach(), (total, flat.shape[1]), least, flat.dtype)
    most = ops.scatter_reduce(base, 0, index, flat.detach(), "amax")
    shifted = flat - ops.index_select(most, 0, groups)
    powers = ops.exp(shifted)
    sums = ops.index_select(summed(groups, powers, total), 0, groups)
    found = shifted - ops.log(sums) if logarithm else powers / sums
    return found.reshape((count, *rest))


ABOVE["sum"] = sum
