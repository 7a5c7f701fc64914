"""Attention of several heads with its projections, under PyTorch's signature."""

from __future__ import annotations

import math
from typing import NamedTuple

from ... import ops
from ...base.dtype import bool_
from ...base.errors import DTypeError, ShapeError
from ...dispatch.replayable import replayable
from ...tensor.tensor import Tensor

NAME = "multi_head_attention_forward"


class _Projections(NamedTuple):
    """Weights and biases of the projections of query, key and value."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor | None, ...]


@replayable
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what queries find, projected, and the weights of the keys.

    Parameters
    ----------
    query : Tensor, shape (queries, batch, embed) or (queries, embed), float
    key : Tensor, shape (keys, batch, k_features) or without batch
    value : Tensor, shape (keys, batch, v_features) or without batch
    embed_dim_to_check : int
        The size of a query.
    num_heads : int
        Divides it.
    in_proj_weight : Tensor, shape (3 embed, embed), or None
        Of query, key and value, unless their weights are separate.
    in_proj_bias : Tensor, shape (3 embed,), or None
    bias_k, bias_v : Tensor, shape (1, 1, embed), or None
        A key and a value beside those projected.
    add_zero_attn : bool
        Whether there are a key and a value of zeros too.
    dropout_p : float
        Share of the weights that are dropped in training.
    out_proj_weight : Tensor, shape (embed, embed)
    out_proj_bias : Tensor, shape (embed,), or None
    training : bool, default True
    key_padding_mask : Tensor, shape (batch, keys) or (keys,), or None
        Bool, true for keys that nobody sees, or float, added to the scores.
    need_weights : bool, default True
        Whether the weights are returned; without them attention takes less memory.
    attn_mask : Tensor, shape (queries, keys) or (batch * heads, queries, keys), or None
        Bool, true where a query does not see a key, or float, added to the scores.
    use_separate_proj_weight : bool, default False
    q_proj_weight, k_proj_weight, v_proj_weight : Tensor or None
        Separate weights.
    static_k, static_v : Tensor, shape (batch * heads, keys, embed / heads), or None
        Taken instead of the projected ones.
    average_attn_weights : bool, default True
        Whether the weights returned are the mean over heads.
    is_causal : bool, default False
        Says that `attn_mask` is the causal one, which is needed nevertheless.

    Returns
    -------
    tuple of Tensor, and Tensor or None
        (queries, batch, embed), and (batch, queries, keys) or (batch, heads, queries,
        keys); both without batch if `query` is.

    Raises
    ------
    ShapeError
        If shapes do not fit, or the causal mask is missing.
    DTypeError
        If a mask is neither bool nor float.
    """
    if is_causal and attn_mask is None:
        raise ShapeError(f"{NAME}: is_causal needs attn_mask, the causal one")
    check_inputs(query, key, value, embed_dim_to_check, num_heads)
    alone, same = len(query.layout.shape) == 2, query is key is value
    if alone:
        query, key, value = (ops.unsqueeze(each, 1) for each in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = ops.unsqueeze(key_padding_mask, 0)
    if same and in_proj_weight is not None and not use_separate_proj_weight:
        # One product for all three.
        q, k, v = ops.chunk(ops.linear(query, in_proj_weight, in_proj_bias), 3, -1)
    else:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        projections = _projections(
            in_proj_weight, in_proj_bias, separate if use_separate_proj_weight else None
        )
        inputs = zip((query, key, value), *projections)
        q, k, v = (ops.linear(x, weight, bias) for x, weight, bias in inputs)
    queries, batch, embed = q.shape
    if bias_k is not None and bias_v is not None:
        k, v = (
            ops.cat([each, ops.expand(more, (1, batch, embed))], 0)
            for each, more in ((k, bias_k), (v, bias_v))
        )
    q, k, v = (_heads(each, num_heads) for each in (q, k, v))
    size = embed // num_heads
    if static_k is not None:
        k = ops.reshape(static_k, (batch, num_heads, -1, size))
    if static_v is not None:
        v = ops.reshape(static_v, (batch, num_heads, -1, size))
    if add_zero_attn:
        k, v = (ops.pad(each, (0, 0, 0, 1)) for each in (k, v))
    lead = (batch, num_heads, queries, k.shape[2])
    more = (bias_k is not None and bias_v is not None) + bool(add_zero_attn)
    mask = score_mask(attn_mask, key_padding_mask, lead, q, more)
    plain = is_causal and key_padding_mask is None and not need_weights
    plain = plain and k.shape[2] == queries
    dropped = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = ops.matmul(q * (1.0 / math.sqrt(size)), ops.transpose(k, 2, 3))
        weights = ops.softmax(scores if mask is None else scores + mask, -1)
        weights = ops.dropout(weights, dropped, True)
        out = ops.matmul(weights, v)
        if average_attn_weights:
            weights = ops.mean(weights, 1)
    else:
        seen = None if plain else mask
        out = ops.scaled_dot_product_attention(q, k, v, seen, dropped, plain)
    rows = ops.reshape(ops.permute(out, (2, 0, 1, 3)), (queries, batch, embed))
    result = ops.linear(rows, out_proj_weight, out_proj_bias)
    if alone:
        result = ops.squeeze(result, 1)
        weights = None if weights is None else ops.squeeze(weights, 0)
    return result, weights


def check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed: int,
    heads: int,
    batch: int = 1,
) -> None:
    """Refuse shapes that do not fit; dimension `batch` is that of batches, if any."""
    sizes = [tuple(each.shape) for each in (query, key, value)]
    shapes = f"query is {sizes[0]}, key {sizes[1]}, value {sizes[2]}"
    if len(query.layout.shape) not in (2, 3) or not len(query.layout.shape) == len(
        key.layout.shape
    ) == len(value.layout.shape):
        raise ShapeError(f"{NAME}: {shapes}; all must be 3-D, or 2-D without a batch")
    same_batch = (
        len(query.layout.shape) == 2
        or key.layout.shape[batch] == query.layout.shape[batch]
    )
    if key.layout.shape[:-1] != value.layout.shape[:-1] or not same_batch:
        raise ShapeError(
            f"{NAME}: {shapes}; keys and values must be as many, in the query's batch"
        )
    if query.layout.shape[-1] != embed or heads < 1 or embed % heads:
        raise ShapeError(
            f"{NAME}: query is {tuple(query.shape)}, embed_dim_to_check {embed},"
            f" num_heads {heads}; the first two must agree, and the heads divide them"
        )


def _projections(
    whole: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, ...] | None,
) -> _Projections:
    given = (whole,) if separate is None else separate
    weights = tuple([each for each in given if each is not None])
    if len(weights) != len(given):
        wanted = "in_proj_weight" if separate is None else "q_, k_ and v_proj_weight"
        raise ShapeError(f"{NAME}: weights are missing; give {wanted}")
    if separate is None:
        weights = tuple(ops.chunk(weights[0], 3))
    biases: tuple[Tensor | None, ...] = (None,) * 3
    if bias is not None:
        biases = tuple(ops.chunk(bias, 3))
    return _Projections(weights, biases)


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return (rows, batch, embed) as (batch, heads, rows, embed / heads)."""
    rows, batch, embed = x.layout.shape
    parts = ops.reshape(x, (rows, batch, heads, embed // heads))
    return ops.permute(parts, (1, 2, 0, 3))


def score_mask(
    attn_mask: Tensor | None,
    padding: Tensor | None,
    scores: tuple[int, int, int, int],
    like: Tensor,
    more: int = 0,
) -> Tensor | None:
    """Return what is added to the scores; the last `more` keys are seen by all."""
    batch, heads, queries, keys = scores
    total: Tensor | None = None
    for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", padding)):
        if mask is None:
            continue
        added = _additive(name, mask, like)
        if more:
            added = ops.pad(added, (0, more))
        wanted = (
            ((batch, keys),)
            if name == "key_padding_mask"
            else ((queries, keys), (batch * heads, queries, keys))
        )
        if added.shape not in wanted:
            raise ShapeError(
                f"{NAME}: {name} is {tuple(mask.shape)}; with the keys beside those"
                f" given it must be {' or '.join(map(str, wanted))}"
            )
        if name == "key_padding_mask":
            added = ops.reshape(added, (batch, 1, 1, keys))
        elif added.ndim == 3:
            added = ops.reshape(added, scores)
        total = added if total is None else total + added
    return total


def _additive(name: str, mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype is bool_:
        nothing = ops.fill_like(like.detach(), (), 0, like.dtype)
        return ops.where(mask, -math.inf, nothing)
    if not mask.dtype.is_float:
        raise DTypeError(
            f"{NAME}: {name} is {mask.dtype.name}; it must be bool or a float dtype"
        )
    return mask.to(like.dtype)
