"""Attention under PyTorch's signature."""

from __future__ import annotations

from ... import ops
from ...tensor.tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query key^T * scale + attn_mask) value for each head.

    Parameters
    ----------
    query : Tensor, shape (..., heads, queries, head), float
    key : Tensor, shape (..., heads, keys, head)
    value : Tensor, shape (..., heads, keys, value_head)
        Of the same dtype; leading dimensions broadcast.
    attn_mask : Tensor or None
        Of a shape that broadcasts to (..., heads, queries, keys): bool, false where a
        query does not see a key, or float, added to the scores.
    dropout_p : float, default 0
        Probability of a weight to become 0, in [0, 1]; the others are scaled by
        1 / (1 - dropout_p). It applies whenever it is not 0, also in evaluation.
    is_causal : bool, default False
        Query i sees the keys 0 to i only; not together with a mask.
    scale : float or None
        None is 1 / sqrt(head).
    enable_gqa : bool, default False
        Several heads of the query share one of key and value, in order.

    Returns
    -------
    Tensor, shape (..., heads, queries, value_head), dtype of `query`
        Computed in float32 if that is smaller. 0 for a query that sees no key.

    Raises
    ------
    ShapeError
        If shapes or options do not fit together.
    DTypeError
        If the dtypes differ.

    Notes
    -----
    Memory grows with queries and keys, not with their product, but for the exceptions
    that `ops.scaled_dot_product_attention` lists. Source: Vaswani et al.,
    arXiv:1706.03762; Dao, arXiv:2307.08691.
    """
    return ops.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
