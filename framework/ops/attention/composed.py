"""Attention by ops on the whole matrix of weights, and its gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...base import trace_hooks
from ...base.device import GpuDevice
from ...base.dtype import bool_
from ...scheduler.scheduler import flush
from ..elementwise.compare import where
from ..indexing.scatter import repeat_interleave
from ..matmul.matmul import matmul
from ..movement.concat import cat
from ..movement.slice import narrow
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
    first: int = 0,
) -> Tensor:
    """Return softmax(q k^T * scale + mask) v for each head.

    `first` is the position of the first query, which `causal` counts from.
    """
    group = q.layout.shape[1] // max(1, k.layout.shape[1])
    weights = _weights(q, _repeated(k, group), mask, scale, causal, first)
    weights = drop(weights, dropout) if dropout else weights
    return matmul(weights, _repeated(v, group))


def attention_in_parts(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    rows: int,
) -> Tensor:
    """Return `composed_attention` of so many queries at a time, without dropout.

    Each part is submitted before the next is recorded, which would need its weights'
    memory at the same time.
    """
    queries, parts = q.layout.shape[2], []
    for start in range(0, queries, rows):
        count = min(rows, queries - start)
        own = mask
        if mask is not None and mask.layout.shape[2] > 1:
            own = narrow(mask, 2, start, count)
        part = narrow(q, 2, start, count)
        parts.append(composed_attention(part, k, v, own, scale, causal, 0.0, start))
        if isinstance(q.device, GpuDevice) and not trace_hooks.running:
            flush(q.device)
    return cat(parts, 2)


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
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    first: int = 0,
) -> Tensor:
    """Return the weights, the whole matrix; 0 for a query that sees no key."""
    scores = matmul(q, transpose(k, -2, -1)) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        queries, keys = scores.shape[-2:]
        size = (queries, keys)
        past = band_like(q, size, queries, keys, -queries, first, bool_)
        scores = where(past, scores, -math.inf)
    if mask is None or 0 in scores.shape:
        return softmax(scores, -1)
    seen = amax(scores, -1, keepdim=True).detach() > -math.inf
    return where(seen, softmax(where(seen, scores, 0.0), -1), 0.0)


def _repeated(x: Tensor, group: int) -> Tensor:
    """Return keys or values with each head as often as queries share it."""
    return x if group == 1 else repeat_interleave(x, group, 1)
