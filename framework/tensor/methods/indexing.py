"""Methods that sort, count and choose elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from ... import ops
from .operand import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...base.philox import Generator
    from ...ops.reduce.minmax import ValuesIndices
    from ..tensor import Tensor


class ChoiceMethods:
    """What `Tensor` has of `ops` that sort, count, index and draw; see there."""

    __slots__ = ()

    def sort(
        self: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
    ) -> ValuesIndices:
        """See `ops.sort`."""
        return ops.sort(self, dim, descending, stable=stable)

    def argsort(
        self: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
    ) -> Tensor:
        """See `ops.argsort`."""
        return ops.argsort(self, dim, descending, stable=stable)

    def topk(
        self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> ValuesIndices:
        """See `ops.topk`."""
        return ops.topk(self, k, dim, largest, sorted)

    def kthvalue(
        self: Tensor, k: int, dim: int = -1, keepdim: bool = False
    ) -> ValuesIndices:
        """See `ops.kthvalue`."""
        return ops.kthvalue(self, k, dim, keepdim)

    def unique(
        self: Tensor,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """See `ops.unique`."""
        return ops.unique(self, sorted, return_inverse, return_counts, dim)

    def bincount(
        self: Tensor, weights: Tensor | None = None, minlength: int = 0
    ) -> Tensor:
        """See `ops.bincount`."""
        return ops.bincount(self, weights, minlength)

    def histc(
        self: Tensor, bins: int = 100, min: Number = 0, max: Number = 0
    ) -> Tensor:
        """See `ops.histc`."""
        return ops.histc(self, bins, min, max)

    @overload
    def nonzero(self: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
    @overload
    def nonzero(self: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero(
        self: Tensor, *, as_tuple: Literal[True, False] = False
    ) -> Tensor | tuple[Tensor, ...]:
        """See `ops.nonzero`."""
        return ops.nonzero(self, as_tuple=as_tuple)

    def masked_fill(self: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
        """See `ops.masked_fill`."""
        return ops.masked_fill(self, mask, value)

    def masked_select(self: Tensor, mask: Tensor) -> Tensor:
        """See `ops.masked_select`."""
        return ops.masked_select(self, mask)

    def gather(self: Tensor, dim: int, index: Tensor) -> Tensor:
        """See `ops.gather`."""
        return ops.gather(self, dim, index)

    def take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
        """See `ops.take_along_dim`."""
        return ops.take_along_dim(self, indices, dim)

    def scatter(self: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
        """See `ops.scatter`."""
        return ops.scatter(self, dim, index, src)

    def scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """See `ops.scatter_add`."""
        return ops.scatter_add(self, dim, index, src)

    def scatter_reduce(
        self: Tensor,
        dim: int,
        index: Tensor,
        src: Tensor,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Tensor:
        """See `ops.scatter_reduce`."""
        return ops.scatter_reduce(
            self, dim, index, src, reduce, include_self=include_self
        )

    def take(self: Tensor, index: Tensor) -> Tensor:
        """See `ops.take`."""
        return ops.take(self, index)

    def put(
        self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False
    ) -> Tensor:
        """See `ops.put`."""
        return ops.put(self, index, source, accumulate)

    def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """See `ops.masked_scatter`."""
        return ops.masked_scatter(self, mask, source)

    def index_put(
        self: Tensor,
        indices: Sequence[Tensor | None],
        values: Tensor,
        accumulate: bool = False,
    ) -> Tensor:
        """See `ops.index_put`."""
        return ops.index_put(self, indices, values, accumulate)

    def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
        """See `ops.index_select`."""
        return ops.index_select(self, dim, index)

    def index_add(
        self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number = 1
    ) -> Tensor:
        """See `ops.index_add`."""
        return ops.index_add(self, dim, index, source, alpha)

    def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """See `ops.index_copy`."""
        return ops.index_copy(self, dim, index, source)

    def index_fill(self: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
        """See `ops.index_fill`."""
        return ops.index_fill(self, dim, index, value)

    def bernoulli(self: Tensor, generator: Generator | None = None) -> Tensor:
        """See `ops.bernoulli`."""
        return ops.bernoulli(self, generator)

    def multinomial(
        self: Tensor,
        num_samples: int,
        replacement: bool = False,
        generator: Generator | None = None,
    ) -> Tensor:
        """See `ops.multinomial`."""
        return ops.multinomial(self, num_samples, replacement, generator)
