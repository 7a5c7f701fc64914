"""Embedding lookup whose gradient is sparse: the rows that were looked up."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd.function import Function
from ..base.dtype import int64
from ..tensor.tensor import Tensor
from .coo import SparseTensor


class _Embedding(Function):
    """Lookup of rows; its backward pass gives a row for each index."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, input: Tensor, padding: int | None) -> Tensor:
        ctx.save_for_backward(input)
        ctx.sizes, ctx.padding = tuple(weight.shape), padding
        return ops.embedding(input, weight, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, None, None]:
        (input,) = ctx.saved_tensors
        rows, width = ctx.sizes
        index = input.reshape((input.numel(),)).to(int64)
        values = grad.reshape((input.numel(), width))
        if ctx.padding is not None:
            kept = ops.ne(index, ctx.padding % max(1, rows))
            values = ops.where(ops.unsqueeze(kept, 1), values, 0.0)
        # Of its own: a replay computes the gradient, and leaves its input as it is.
        places = ops.copy(ops.unsqueeze(index, 0))
        return SparseTensor.of(places, values, ctx.sizes, False), None, None


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return rows of a table by number; the table's gradient is sparse.

    The gradient has a row for each index, in order, those of `padding_idx` being 0: so
    its shape does not depend on the indices, and nothing is read by the host.

    Parameters
    ----------
    input : Tensor, any integer dtype
    weight : Tensor, shape (rows, size), float
    padding_idx : int or None
        A row that gets no gradient.

    See Also
    --------
    ops.embedding
    """
    found: Tensor = _Embedding.apply(weight, input, padding_idx)
    return found
