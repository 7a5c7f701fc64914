"""What ops make of sparse tensors, by the name of the op.

Functions that keep zeros work on the stored elements. What else there is refuses a
sparse tensor, as PyTorch does: the result would have all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..base.dtype import int64
from ..base.errors import DomainError, ShapeError
from ..base.shape import broadcast_shapes
from ..dispatch.op import REGISTRY
from ..tensor.tensor import Tensor
from . import products
from .compressed import CompressedTensor, SparseCscTensor, SparseCsrTensor
from .construct import taken
from .coo import ABOVE, SparseTensor
from .places import keys_of

LINEAR = "neg cast copy real imag conj"
"""Ops of elements that may be done before equal places are summed."""

KEEP_ZERO = """
    abs relu sqrt sin tan sinh tanh asin asinh atan atanh expm1 log1p floor ceil round
    trunc sign sgn square erf erfinv deg2rad rad2deg isnan isinf frac sqrt leaky_relu
    isposinf isneginf signbit positive
"""
"""Ops that give 0 for 0."""


def _of_elements(name: str, linear: bool) -> Callable[..., Any]:
    op = REGISTRY[name]

    def rule(x: Any, *rest: Any) -> Any:
        if not linear and isinstance(x, SparseTensor):
            x = x.coalesce()
        return x.with_elements(op(x.elements, *rest))

    return rule


def _present(names: str) -> list[str]:
    """Return those of the names that are an op's, and no function of others."""
    return [name for name in names.split() if name in REGISTRY]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor | CompressedTensor)


def _same_shape(name: str, x: Any, y: Any) -> None:
    if x.shape != y.shape:
        raise ShapeError(
            f"{name}: shapes are {tuple(x.shape)} and {tuple(y.shape)}; those of two"
            " sparse tensors must be the same"
        )


def _add(x: Any, y: Any) -> Any:
    if not _is_sparse(y):
        if isinstance(x, CompressedTensor) and isinstance(y, Tensor):
            return x.to_dense() + y
        raise DomainError(
            "add: a dense tensor or number is added to a sparse one; write it first:"
            " dense + sparse"
        )
    if not _is_sparse(x):
        if not isinstance(x, Tensor):
            return _add(y, x)
        if broadcast_shapes("add", x.shape, y.shape) != x.shape:
            raise ShapeError(
                f"add: the dense tensor is {tuple(x.shape)}, the sparse one"
                f" {tuple(y.shape)}; it must broadcast to the dense one"
            )
        return ops.add(x, y.to_dense())
    _same_shape("add", x, y)
    return _united(x, y)


def _united(x: Any, y: Any) -> Any:
    """Return the sum of two sparse tensors: the places of both."""
    kind = x.kind
    one, other = x.to_sparse(), y.to_sparse()
    if one.sparse_dim() != other.sparse_dim():
        raise DomainError(
            f"add: the tensors have {one.sparse_dim()} and {other.sparse_dim()} sparse"
            " dimensions; they must have as many"
        )
    dtype = ops.result_type(one.elements, other.elements)
    if one.places is other.places:
        return one.with_elements(one.elements + other.elements).to_sparse(layout=kind)
    values = ops.cat([one.elements.to(dtype), other.elements.to(dtype)])
    places = ops.cat([one.places, other.places], 1)
    found = SparseTensor.of(places, values, x.shape, False)
    if one.coalesced and other.coalesced:
        found = found.coalesce()
    return found.to_sparse(layout=kind)


def _sub(x: Any, y: Any) -> Any:
    return _add(x, -y)


def _mul(x: Any, y: Any) -> Any:
    if not _is_sparse(x):
        x, y = y, x
    if not isinstance(y, Tensor) or (not _is_sparse(y) and y.ndim == 0):
        return x.with_elements(ops.mul(x.elements, y))
    if not _is_sparse(y):
        found = x.to_sparse()
        wide = y.expand(tuple(x.shape)) if y.shape != x.shape else y
        values = ops.mul(found.elements, taken(wide, found))
        return found.with_elements(values).to_sparse(layout=x.kind)
    _same_shape("mul", x, y)
    return _intersection(x.to_sparse().coalesce(), y.to_sparse().coalesce(), x.kind)


def _intersection(x: SparseTensor, y: SparseTensor, kind: Any) -> Any:
    """Return the product of two sparse tensors: the places that both have.

    How many there are is read by the host, which waits for it.
    """
    if not x._nnz() or not y._nnz():
        none = x.places[:, :0], x.elements[:0] * y.elements[:0]
        return SparseTensor.of(*none, x.shape, True).to_sparse(layout=kind)
    keys, others = keys_of(x.places, x.sizes), keys_of(y.places, y.sizes)
    at = ops.clamp(ops.searchsorted(others, keys), max=y._nnz() - 1)
    both = ops.nonzero(ops.eq(ops.index_select(others, 0, at), keys)).reshape((-1,))
    second = ops.index_select(at, 0, both)
    values = ops.index_select(x.elements, 0, both) * ops.index_select(
        y.elements, 0, second
    )
    places = ops.index_select(x.places, 1, both)
    return SparseTensor.of(places, values, x.shape, True).to_sparse(layout=kind)


def _div(x: Any, y: Any, *rest: Any) -> Any:
    if not _is_sparse(x) or (isinstance(y, Tensor) and (_is_sparse(y) or y.ndim)):
        shape = tuple(y.shape) if isinstance(y, Tensor) else ()
        raise DomainError(
            f"div: the divisor has shape {shape}; a sparse tensor is divided by a"
            " number, or a tensor without dimensions"
        )
    return x.with_elements(ops.div(x.elements, y, *rest))


def _pow(x: Any, y: Any) -> Any:
    if not _is_sparse(x) or isinstance(y, Tensor):
        return NotImplemented
    if y == 0:
        raise DomainError("pow: the exponent is 0, which makes no zeros of zeros")
    found = x.coalesce() if isinstance(x, SparseTensor) else x
    return found.with_elements(ops.pow(found.elements, y))


def _bmm(a: Any, b: Any, *_: Any) -> Any:
    return products.bmm(a, b)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    if x.ndim != 2:
        return NotImplemented
    found = products.product(x, weight.transpose(0, 1))
    return found if bias is None else found + bias


def _view(x: Any, shape: Sequence[int]) -> Any:
    """Return a sparse tensor with other sparse sizes, for the same elements."""
    coo = x.to_sparse()
    cut = coo.dense_dim()
    rest = tuple(coo.shape[coo.ndim - cut :])
    sizes = tuple(shape)[: len(shape) - cut]
    if tuple(shape)[len(sizes) :] != rest:
        return NotImplemented
    old = tuple(coo.sizes)
    if [each for each in sizes if each != 1] != [each for each in old if each != 1]:
        return NotImplemented
    kept = iter([row for row, size in enumerate(old) if size != 1])
    nothing = ops.fill_like(coo.places, (coo._nnz(),), 0, int64)
    rows = [nothing if size == 1 else coo.places[next(kept)] for size in sizes]
    return SparseTensor.of(ops.stack(rows), coo.elements, shape, coo.coalesced)


def _permute(x: Any, dims: Sequence[int]) -> Any:
    if isinstance(x, CompressedTensor):
        return x.transpose(*dims)
    return x.permute(dims)


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return sparse tensors, one behind the other along a dimension."""
    if not all(isinstance(each, SparseTensor) for each in tensors):
        raise DomainError("cat: some of the tensors are sparse; all must be")
    first = tensors[0]
    at = dim % max(1, first.ndim)
    shape = list(first.shape)
    cut = first.sparse_dim()
    for each in tensors:
        shapes = [[*x.shape[:at], *x.shape[at + 1 :]] for x in (each, first)]
        if shapes[0] != shapes[1] or each.sparse_dim() != cut or at >= cut:
            raise ShapeError(
                f"cat: shapes are {tuple(each.shape)} and {tuple(first.shape)}; they"
                f" must agree but for dimension {at}, which must be sparse"
            )
    parts, start = [], 0
    for each in tensors:
        rows = [each.places[row] for row in range(cut)]
        rows[at] = rows[at] + start
        parts.append(ops.stack(rows))
        start += each.shape[at]
    shape[at] = start
    values = ops.cat([each.elements for each in tensors])
    return SparseTensor.of(ops.cat(parts, 1), values, shape, False)


def _concat(*parts: Any) -> Any:
    *tensors, dim = parts
    return cat([each for each in tensors if each is not None], dim)


def unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    """Return a sparse tensor with a sparse dimension of size 1 more."""
    at = dim % (x.ndim + 1)
    if at > x.sparse_dim():
        x._refuse("unsqueeze: a dense dimension")
    zeros = ops.fill_like(x.places, (1, x._nnz()), 0, int64)
    places = ops.cat([x.places[:at], zeros, x.places[at:]])
    shape = [*x.shape[:at], 1, *x.shape[at:]]
    return SparseTensor.of(places, x.elements, shape, x.coalesced)


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return sparse tensors along a new sparse dimension."""
    return cat([unsqueeze(each, dim) for each in tensors], dim)


def index_select(x: Any, dim: int, index: Tensor) -> Any:
    """Return the slices of a sparse tensor that an index names, one after another.

    Which elements they have is read by the host, which waits for it.
    """
    if not isinstance(x, SparseTensor):
        return NotImplemented
    at = dim % x.ndim
    if at >= x.sparse_dim():
        values = ops.index_select(x.elements, at - x.sparse_dim() + 1, index)
        shape = [*x.shape]
        shape[at] = index.numel()
        return SparseTensor.of(x.places, values, shape, x.coalesced)
    same = ops.eq(x.places[at].unsqueeze(1), index.unsqueeze(0))
    pairs = ops.nonzero(same)
    taken_rows = pairs[:, 0].contiguous()
    rows = [
        ops.index_select(x.places[row], 0, taken_rows) for row in range(x.sparse_dim())
    ]
    rows[at] = pairs[:, 1].to(int64)
    shape = [*x.shape]
    shape[at] = index.numel()
    values = ops.index_select(x.elements, 0, taken_rows)
    return SparseTensor.of(ops.stack(rows), values, shape, False)


def _select(x: SparseTensor, dim: int, index: int) -> Any:
    if dim >= x.sparse_dim():
        values = x.elements.select(dim - x.sparse_dim() + 1, index)
        shape = [size for at, size in enumerate(x.shape) if at != dim]
        return SparseTensor.of(x.places, values, shape, x.coalesced)
    kept = ops.nonzero(ops.eq(x.places[dim], index)).reshape((-1,))
    values = ops.index_select(x.elements, 0, kept)
    shape = [size for at, size in enumerate(x.shape) if at != dim]
    if x.sparse_dim() == 1:
        return ops.sum(values, 0)
    rows = [x.places[at] for at in range(x.sparse_dim()) if at != dim]
    places = ops.index_select(ops.stack(rows), 1, kept)
    known = x.coalesced or kept.numel() < 2
    return SparseTensor.of(places, values, shape, known)


ABOVE.update(select=_select, index_select=index_select)


def _sum(x: Any, dims: Sequence[int], *_: Any) -> Any:
    return x.sum(None if len(dims) == x.ndim else tuple(dims))


def _take(x: Any, index: Tensor, *_: Any) -> Any:
    return index_select(x, 1, index) if index.ndim == 1 else NotImplemented


def _fill_like(x: Any, shape: Sequence[int], value: float, dtype: Any) -> Any:
    if value != 0 or isinstance(x, CompressedTensor):
        return NotImplemented
    places = ops.fill_like(x.places, (len(shape), 0), 0, int64)
    values = ops.fill_like(x.elements.detach(), (0,), 0, dtype)
    return SparseTensor.of(places, values, tuple(shape), True)


RULES: dict[str, Callable[..., Any]] = {
    **{each: _of_elements(each, True) for each in LINEAR.split() if each in REGISTRY},
    **{
        each: _of_elements(each, False)
        for each in KEEP_ZERO.split()
        if each in REGISTRY
    },
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "bmm": _bmm,
    "linear": _linear,
    "view": _view,
    "permute": _permute,
    "sum": _sum,
    "take": _take,
    "fill_like": _fill_like,
    "concat": _concat,
    "concat_strided": _concat,
}

for _kind in (SparseTensor, SparseCsrTensor, SparseCscTensor):
    _kind.rules = RULES
