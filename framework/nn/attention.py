"""Attention layers."""

from __future__ import annotations

import math

from .. import ops
from ..base.dtype import bool_
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from . import functional, init
from .linear import Linear
from .module import Module
from .parameter import Parameter


class MultiheadAttention(Module):
    """Attention in several subspaces at once, with learned maps into and out of them.

    Parameters
    ----------
    embed_dim : int
        Size of the vectors, a multiple of `num_heads`.
    num_heads : int
    dropout : float, default 0
        Probability of a weight to be dropped in training.
    bias : bool, default True
        Whether the maps have biases.
    batch_first : bool, default False
        Whether tensors are (batch, length, embed_dim), not (length, batch, embed_dim).

    Attributes
    ----------
    in_proj_weight : Parameter, shape (3 * embed_dim, embed_dim)
        Maps to queries, keys and values, drawn as `init.xavier_uniform_` does.
    in_proj_bias : Parameter, shape (3 * embed_dim,), or None
        0 at first.
    out_proj : Linear
        The map out of the subspaces; its bias is 0 at first.

    Raises
    ------
    ShapeError
        If the heads do not divide the vectors.

    Notes
    -----
    Keys and values have the size of queries. Source: Vaswani et al., arXiv:1706.03762.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        embed_dim = as_int("MultiheadAttention: embed_dim", embed_dim)
        num_heads = as_int("MultiheadAttention: num_heads", num_heads)
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(
                f"MultiheadAttention: embed_dim is {embed_dim}, num_heads {num_heads};"
                " the heads must divide embed_dim"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.in_proj_weight = Parameter(zeros((3 * embed_dim, embed_dim)))
        self.in_proj_bias = Parameter(zeros(3 * embed_dim)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the maps anew."""
        init.xavier_uniform_(self.in_proj_weight)
        self.out_proj.reset_parameters()
        for vector in (self.in_proj_bias, self.out_proj.bias):
            if vector is not None:
                init.zeros_(vector)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output, and the weights.

        Parameters
        ----------
        query, key, value : Tensor, shape (length, batch, embed_dim)
            Or as `batch_first` says, or without a batch.
        key_padding_mask : Tensor, shape (batch, keys), or None
            True, or minus infinity, where a key is not seen; bool or float.
        need_weights : bool, default True
            Whether the weights are wanted; False takes less memory and time.
        attn_mask : Tensor, shape (queries, keys) or (batch * heads, queries, keys)
            The same for each query. Note that true here hides a key, unlike in
            `ops.scaled_dot_product_attention`.
        average_attn_weights : bool, default True
            Whether the weights are averaged over heads.
        is_causal : bool, default False
            Queries see keys up to their own place only, beside the masks.

        Returns
        -------
        tuple of Tensor
            The result in the shape of `query`, and weights (batch, queries, keys),
            with heads before the queries if not averaged, or None.
        """
        batched = query.ndim == 3
        if batched and not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        q, k, v = self._heads(query, key, value)
        mask = self._mask(q, k, key_padding_mask, attn_mask)
        rate = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = _weights(q, k, mask, is_causal)
            dropped = ops.dropout(weights, rate)
            out = dropped @ v
            weights = dropped.mean(1) if average_attn_weights else dropped
        elif mask is None or not is_causal:
            out = ops.scaled_dot_product_attention(q, k, v, mask, rate, is_causal)
        else:
            out = ops.scaled_dot_product_attention(q, k, v, mask + _future(q, k), rate)
        out = out.transpose(1, 2).reshape(*query.shape[:2], self.embed_dim)
        out = self.out_proj(out)
        if not batched:
            return out[0], None if weights is None else weights[0]
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _heads(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the projections as (batch, heads, length, size of a head)."""
        size = self.embed_dim
        mapped = []
        if query is key is value:
            whole = functional.linear(query, self.in_proj_weight, self.in_proj_bias)
            mapped = [whole[..., at * size : (at + 1) * size] for at in range(3)]
        else:
            for at, x in enumerate((query, key, value)):
                rows = slice(at * size, (at + 1) * size)
                whole_bias = self.in_proj_bias
                bias = None if whole_bias is None else whole_bias[rows]
                mapped.append(functional.linear(x, self.in_proj_weight[rows], bias))
        heads = size // self.num_heads
        q, k, v = (
            x.reshape(*x.shape[:2], self.num_heads, heads).transpose(1, 2)
            for x in mapped
        )
        return q, k, v

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
    ) -> Tensor | None:
        """Return the sum of both masks, as added to the scores."""
        total = None
        if attn_mask is not None:
            total = _additive(attn_mask)
            if total.ndim == 3:
                total = total.reshape(*q.shape[:2], *total.shape[1:])
        if key_padding_mask is not None:
            keys = _additive(key_padding_mask)
            keys = keys.reshape(keys.shape[0], 1, 1, k.shape[2])
            total = keys if total is None else total + keys
        return total

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout},"
            f" batch_first={self.batch_first}"
        )


def _additive(mask: Tensor) -> Tensor:
    """Return a mask as numbers to add: minus infinity where it is true."""
    return ops.where(mask, -math.inf, 0.0) if mask.dtype is bool_ else mask


def _future(q: Tensor, k: Tensor) -> Tensor:
    """Return minus infinity for keys that come after a query, otherwise 0."""
    queries, keys = q.shape[2], k.shape[2]
    shape = (queries, keys)
    past = ops.band_like(q, shape, queries, keys, -queries, 0, bool_)
    return ops.where(past, 0.0, -math.inf)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Return the weights (batch, heads, queries, keys)."""
    scores = (q @ k.mT) * (1.0 / math.sqrt(q.shape[3]))
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores + _future(q, k)
    return ops.softmax(scores, -1)
