"""Attention whose scores a function changes, and whose mask a function describes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base.dtype import float32, float64, int32
from ...base.errors import ShapeError
from ...ops import amax, exp, isfinite, logsumexp, matmul, sub
from ...ops import where as chosen
from ...tensor.tensor import Tensor
from .block_mask import (
    BlockMask as BlockMask,
)
from .block_mask import (
    and_masks as and_masks,
)
from .block_mask import (
    create_block_mask as create_block_mask,
)
from .block_mask import (
    create_mask as create_mask,
)
from .block_mask import (
    noop_mask as noop_mask,
)
from .block_mask import (
    or_masks as or_masks,
)
from .block_mask import (
    positions,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What `flex_attention` is to return beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What `flex_attention` returned beside its result; None where not asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Return softmax(score_mod(scale * query @ key^T)) @ value, under a mask.

    Parameters
    ----------
    query : Tensor, shape (B, Hq, L, E)
    key : Tensor, shape (B, Hkv, S, E)
        A batch of 1 serves all batches of the queries.
    value : Tensor, shape (B, Hkv, S, Ev)
    score_mod : callable or None
        `score_mod(score, b, h, q_idx, kv_idx)`: the scores and their positions, int32
        tensors that broadcast against them, in one call; it returns other scores, and
        may use tensors from outside.
    block_mask : BlockMask or None
        Which keys a query sees; see `create_block_mask`.
    scale : float or None
        None is 1 / sqrt(E).
    enable_gqa : bool, default False
        Whether each head of keys serves Hq / Hkv heads of queries.
    return_lse : bool, default False
        Whether the logarithm of the sum of exponentials of the scores is returned, too.
    kernel_options : dict or None
        Has no effect.
    return_aux : AuxRequest or None
        What else to return, in an `AuxOutput`.

    Returns
    -------
    Tensor, shape (B, Hq, L, Ev), or a tuple of it and what was asked for
        0 for a query that sees no key, whose `lse` is -inf. `lse` and `max_scores` are
        float32, of shape (B, Hq, L).

    Raises
    ------
    ShapeError
        If shapes do not fit, or heads differ without `enable_gqa`.

    Notes
    -----
    Source: Dong et al., "Flex Attention: A Programming Model for Generating Optimized
    Attention Kernels", 2024. Scores are computed in float32, masked ones with the
    others: memory is B * Hq * L * S numbers.
    """
    _check(query, key, value, enable_gqa)
    wide = float64 if query.dtype is float64 else float32
    heads = query.shape[1] // key.shape[1]
    if heads > 1:
        key, value = (each.repeat_interleave(heads, 1) for each in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query.to(wide), key.to(wide).transpose(-2, -1)) * factor
    sizes = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
    where = positions(sizes, query.device, int32)
    if score_mod is not None:
        scores = score_mod(scores, *where).to(wide)
    if block_mask is not None:
        scores = chosen(block_mask.seen(where, sizes), scores, -math.inf)
    lse = logsumexp(scores, -1)
    seen = isfinite(lse)
    shift = chosen(seen, lse, 0.0).unsqueeze(-1)
    weights = exp(sub(scores, shift))
    result = matmul(weights, value.to(wide)).to(query.dtype)
    if return_aux is not None:
        largest = amax(scores, -1) if return_aux.max_scores else None
        return result, AuxOutput(lse if return_aux.lse else None, largest)
    return (result, lse) if return_lse else result


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    shapes = [tuple(each.shape) for each in (query, key, value)]
    said = f"flex_attention: query, key and value are {', '.join(map(str, shapes))}"
    if any(len(each) != 4 for each in shapes):
        raise ShapeError(f"{said}; each must have four dimensions")
    (b, hq, _, e), (bk, hk, s, ek), (bv, hv, sv, _) = shapes
    if e != ek or (bk, hk, s) != (bv, hv, sv) or bk not in (1, b):
        raise ShapeError(
            f"{said}; they must have one size of vectors, keys and values one batch,"
            " heads and length"
        )
    if hq != hk and not (enable_gqa and hq % hk == 0):
        raise ShapeError(
            f"{said}; heads must be equal, or with enable_gqa those of keys divide"
            " those of queries"
        )
