"""Methods that replace elements: by others, where an index says, by random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops
from ...eager.base_tensor import operand
from ..inplace import (
    assign,
    change,
    fill_bernoulli,
    fill_exponential,
    fill_integers,
    fill_normal,
    fill_uniform,
)
from .operand import Number, Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...base.philox import Generator
    from ..tensor import Tensor


class FillMethods:
    """Methods that replace elements in place and return the tensor."""

    __slots__ = ()

    def copy_(self: Tensor, source: Operand) -> Tensor:
        """Replace the elements by those of `source`, broadcast and cast; return self.

        Raises
        ------
        GradError
            If gradients are being recorded and this tensor requires one.
        ShapeError
            If `source` does not broadcast to this shape.
        """
        return assign(self, operand(self, source))

    def fill_(self: Tensor, value: Tensor | Number) -> Tensor:
        """Set every element to `value`."""
        return assign(self, value)

    def zero_(self: Tensor) -> Tensor:
        """Set every element to 0."""
        return assign(self, 0)

    def masked_fill_(self: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
        """Set elements where `mask` holds; see `ops.masked_fill`."""
        return change(self, ops.masked_fill, mask, value)

    def index_fill_(self: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
        """Set places in place; see `ops.index_fill`."""
        return change(self, ops.index_fill, dim, index, value)

    def index_add_(
        self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number = 1
    ) -> Tensor:
        """Add to places in place; see `ops.index_add`."""
        return change(self, ops.index_add, dim, index, source, alpha)

    def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """Replace places in place; see `ops.index_copy`."""
        return change(self, ops.index_copy, dim, index, source)

    def scatter_(self: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
        """Replace elements in place; see `ops.scatter`."""
        return change(self, ops.scatter, dim, index, src)

    def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """Add to elements in place; see `ops.scatter_add`."""
        return change(self, ops.scatter_add, dim, index, src)

    def scatter_reduce_(
        self: Tensor,
        dim: int,
        index: Tensor,
        src: Tensor,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Tensor:
        """Combine elements in place; see `ops.scatter_reduce`."""
        return change(
            self,
            ops.scatter_reduce,
            dim,
            index,
            src,
            reduce,
            include_self=include_self,
        )

    def index_put_(
        self: Tensor,
        indices: Sequence[Tensor | None],
        values: Tensor,
        accumulate: bool = False,
    ) -> Tensor:
        """Replace elements that arrays choose; see `ops.index_put`."""
        return change(self, ops.index_put, indices, values, accumulate)

    def put_(
        self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False
    ) -> Tensor:
        """Replace elements by flat place; see `ops.put`."""
        return change(self, ops.put, index, source, accumulate)

    def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """Replace elements where `mask` holds; see `ops.masked_scatter`."""
        return change(self, ops.masked_scatter, mask, source)

    def uniform_(
        self: Tensor,
        low: float = 0.0,
        high: float = 1.0,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements by draws from [low, high)."""
        return fill_uniform(self, low, high, generator)

    def normal_(
        self: Tensor,
        mean: float = 0.0,
        std: float = 1.0,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements by normal draws."""
        return fill_normal(self, mean, std, generator)

    def exponential_(
        self: Tensor, lambd: float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Replace the elements by exponential draws of mean 1 / `lambd`."""
        return fill_exponential(self, lambd, generator)

    def bernoulli_(
        self: Tensor, p: Tensor | float = 0.5, generator: Generator | None = None
    ) -> Tensor:
        """Replace the elements by 1 with probability `p`, otherwise 0."""
        return fill_bernoulli(self, p, generator)

    def random_(
        self: Tensor,
        low: int = 0,
        high: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements by integers; see `inplace.fill_integers`."""
        return fill_integers(self, low, high, generator)
