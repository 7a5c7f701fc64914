"""Methods that sort, count and choose elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from ... import ops

if TYPE_CHECKING:
    from ..tensor import Tensor


class ChoiceMethods:
    """What `Tensor` has of `ops` that sort, count, index and draw; see there."""

    __slots__ = ()

    sort = ops.sort
    argsort = ops.argsort
    topk = ops.topk
    kthvalue = ops.kthvalue
    unique = ops.unique
    bincount = ops.bincount
    histc = ops.histc

    @overload
    def nonzero(self: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
    @overload
    def nonzero(self: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero(
        self: Tensor, *, as_tuple: Literal[True, False] = False
    ) -> Tensor | tuple[Tensor, ...]:
        """Return where elements are not 0, in row-major order; waits for them.

        Parameters
        ----------
        as_tuple : bool, default False
            Return a tensor for each dimension instead.

        Returns
        -------
        Tensor, int64, shape (count, ndim), or tuple of Tensor, shape (count,)
        """
        return ops.nonzero(self, as_tuple=as_tuple)

    masked_fill = ops.masked_fill
    masked_select = ops.masked_select
    gather = ops.gather
    take_along_dim = ops.take_along_dim
    scatter = ops.scatter
    scatter_add = ops.scatter_add
    scatter_reduce = ops.scatter_reduce
    take = ops.take
    put = ops.put
    masked_scatter = ops.masked_scatter
    index_put = ops.index_put
    index_select = ops.index_select
    index_add = ops.index_add
    index_copy = ops.index_copy
    index_fill = ops.index_fill
    bernoulli = ops.bernoulli
    multinomial = ops.multinomial
