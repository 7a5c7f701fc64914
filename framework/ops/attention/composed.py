"""Attention by ops on the whole matrix of weights, and its gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...base.dtype import bool_
from ..elementwise.compare import where
from ..indexing.scatter import repeat_interleave
from ..matmul.matmul import matmul
from ..norm.softmax import softmax
from ..random.dropout import dropout as drop
from ..reduce.minmax import amax
from ..reduce.sum import sum
from ..source import band_like
from ..view import reshape, transpose

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def composed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Return softmax(q k^T * scale + mask) v for each head."""
    group = q.layout.shape[1] // max(1, k.layout.shape[1])
    weights = _weights(q, _repeated(k, group), mask, scale, causal)
    weights = drop(weights, dropout) if dropout else weights
    return matmul(weights, _repeated(v, group))


def composed_attention_vjp(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by ops that have gradients themselves."""
    group = q.layout.shape[1] // k.layout.shape[1]
    all_k, all_v = _repeated(k, group), _repeated(v, group)
    weights = _weights(q, all_k, mask, scale, causal)
    products = matmul(grad, transpose(all_v, 2, 3))
    scores = weights * (products - sum(products * weights, 3, keepdim=True)) * scale
    grad_k = matmul(transpose(scores, 2, 3), q)
    grad_v = matmul(transpose(weights, 2, 3), grad)
    shared = (*k.layout.shape[:2], group)
    return (
        matmul(scores, all_k),
        sum(reshape(grad_k, (*shared, *k.layout.shape[2:])), 2),
        sum(reshape(grad_v, (*shared, *v.layout.shape[2:])), 2),
    )


def _weights(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    """Return the weights, the whole matrix; 0 for a query that sees no key."""
    scores = matmul(q, transpose(k, -2, -1)) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        queries, keys = scores.shape[-2:]
        size = (queries, keys)
        past = band_like(q, size, queries, keys, -queries, 0, bool_)
        scores = where(past, scores, -math.inf)
    if mask is None or 0 in scores.shape:
        return softmax(scores, -1)
    seen = amax(scores, -1, keepdim=True).detach() > -math.inf
    return where(seen, softmax(where(seen, scores, 0.0), -1), 0.0)


def _repeated(x: Tensor, group: int) -> Tensor:
    """Return keys or values with each head as often as queries share it."""
    return x if group == 1 else repeat_interleave(x, group, 1)
