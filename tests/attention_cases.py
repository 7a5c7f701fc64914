"""Rows of the op table for attention."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.case import Bad, Case, Sample, sample
from tests.norm_cases import statistic
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.attention import cached, decode, prefill

NAME = "scaled_dot_product_attention"
SCALE = 0.25
# Of the kernels: no mask, no seed; scale, not causal, no dropout.
PLAIN = (None, None)
OPTIONS = (SCALE, False, 0.0)


def score_gradients(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad: np.ndarray,
    logsumexp: np.ndarray,
    delta: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients by the products of q and k, and the weights, in float64."""
    q, k, v, grad = (each.astype(np.float64) for each in (q, k, v, grad))
    scores = np.einsum("bhqe,bhke->bhqk", q, k) * SCALE
    weights = np.exp(scores - logsumexp[..., None])
    products = np.einsum("bhqe,bhke->bhqk", grad, v)
    return weights * (products - delta[..., None]) * SCALE, weights


def query_gradient(q: np.ndarray, k: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    """Return the gradient by queries."""
    scores, _ = score_gradients(q, k, *rest)
    return np.einsum("bhqk,bhke->bhqe", scores, k).astype(q.dtype)


def key_gradients(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, grad: np.ndarray, *rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients by keys and values."""
    scores, weights = score_gradients(q, k, v, grad, *rest)
    grad_k = np.einsum("bhqk,bhqe->bhke", scores, q)
    grad_v = np.einsum("bhqk,bhqe->bhke", weights, grad)
    return grad_k.astype(q.dtype), grad_v.astype(q.dtype)


def saved(name: str, q: Any, k: Any, v: Any, *rest: fw.Tensor) -> Any:
    """Call a kernel's op with what the forward pass would save, in row-major order."""
    q, k, v, grad, *numbers = (each.contiguous() for each in (q, k, v, *rest))
    return REGISTRY[name](q, k, v, *PLAIN, grad, *map(statistic, numbers), *OPTIONS)


SAVED = (
    sample((2, 3, 7, 5), (2, 3, 11, 5), (2, 3, 11, 4), (2, 3, 7, 4), *[(2, 3, 7)] * 2),
    sample(*[(1, 1, 1, 1)] * 4, *[(1, 1, 1)] * 2),
)


def turned(x: np.ndarray, interleaved: bool, positions: int) -> np.ndarray:
    """Return vectors turned as complex numbers."""
    size = x.shape[-1]
    frequencies = 100.0 ** (-2 * np.arange(size // 2) / size)
    places = positions + np.arange(x.shape[-2])[:, None]
    wide = x.astype(np.float64)
    pairs = (size // 2, 2) if interleaved else (2, size // 2)
    split = wide.reshape(*x.shape[:-1], *pairs)
    a, b = np.moveaxis(split, -1 if interleaved else -2, 0)
    spun = (a + 1j * b) * np.exp(1j * places * frequencies)
    out = np.stack([spun.real, spun.imag], -1 if interleaved else -2)
    return out.reshape(x.shape).astype(x.dtype)


def mask(shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Return a mask: bool, where the third query sees nothing, or float."""
    rng = np.random.default_rng(5)
    if kind is float:
        return rng.uniform(-2, 2, shape)
    seen = rng.uniform(size=shape) < 0.6
    seen[..., 2, :] = False
    return seen


def attended(q: Any, k: Any, v: Any, attn_mask: Any = None, **options: Any) -> Any:
    """Call the function with a mask of the tensors' kind."""
    if attn_mask is not None and isinstance(q, torch.Tensor):
        attn_mask = torch.from_numpy(attn_mask)
        attn_mask = (
            attn_mask if attn_mask.dtype == torch.bool else attn_mask.to(q.dtype)
        )
        return F.scaled_dot_product_attention(q, k, v, attn_mask, **options)
    if attn_mask is not None:
        dtype = q.dtype if attn_mask.dtype.kind == "f" else "bool"
        attn_mask = fw.tensor(attn_mask, dtype, q.device)
    if isinstance(q, torch.Tensor):
        return F.scaled_dot_product_attention(q, k, v, **options)
    return ops.scaled_dot_product_attention(q, k, v, attn_mask, **options)


def heads(
    query: tuple[int, ...], key: tuple[int, ...], size: int, **options: Any
) -> Sample:
    """Return queries and keys of shapes without the vectors' `size`."""
    return sample((*query, size), (*key, size), (*key, size), **options)


def held(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return queries, and a cache with keys and values from token 2 on."""
    keys, values = keys.copy(), values.copy()
    count = k.shape[2]
    keys[:, :, 2 : 2 + count], values[:, :, 2 : 2 + count] = k, v
    return q, keys, values


def seen_in_cache(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return what queries from token 2 on see, in float64."""
    group, count = q.shape[1] // k.shape[1], q.shape[2]
    wide = q.astype(np.float64)
    keys, values = (np.repeat(x, group, 1).astype(np.float64) for x in (k, v))
    scores = wide @ keys.swapaxes(2, 3) * SCALE
    future = np.arange(k.shape[2]) > np.arange(2, 2 + count)[:, None]
    weights = np.exp(np.where(future, -np.inf, scores))
    found = weights / weights.sum(-1, keepdims=True) @ values
    return found.swapaxes(1, 2).astype(q.dtype)


def from_token_2(name: str, *given: fw.Tensor) -> Any:
    """Call an op of a cache that holds two tokens."""
    inputs = [each.contiguous() for each in given]
    position = fw.tensor(2, dtype="int64", device=given[0].device)
    if name == "extend_cache":
        q, k, v, keys, values = inputs
        return cached._extend_cache(q, k, v, None, None, keys, values, position, None)
    q, keys, values = inputs
    if name == "prefill_attention":
        given = position, None, SCALE, None, None
        return prefill._prefill_attention(*inputs, *given)
    new = (x[:, :, 2 : 2 + q.shape[2]].contiguous() for x in (keys, values))
    given = None, None, keys, values, position, None, None
    found, *_ = decode._decode_attention(q, *new, *given, SCALE, None, None)
    return found


ATTENTION = {
    "flash_attention": Case(
        attended,
        (
            heads((2, 3, 7), (2, 3, 11), 5),
            heads((1, 2, 37), (1, 2, 41), 16, is_causal=True),
            heads((2, 13), (2, 7), 8, is_causal=True, scale=0.3),
            heads((2, 4, 7), (2, 2, 5), 4, enable_gqa=True),
            heads((2, 3, 7), (2, 1, 5), 4),
            heads((7,), (5,), 3),
            heads((2, 3, 7), (2, 3, 5), 4, attn_mask=mask((7, 5), float)),
            heads((2, 3, 7), (2, 3, 5), 4, attn_mask=mask((2, 1, 7, 5), bool)),
            heads((0, 3, 7), (0, 3, 5), 4),
            heads((1,), (1,), 1),
        ),
        torch=attended,
        scale=4,  # exponentials, and sums of dozens of terms
        bad=(
            Bad(
                lambda ones: attended(ones(3, 4), ones(3, 5), ones(3, 5)),
                ShapeError,
                f"{NAME}: query is (3, 4), key (3, 5), value (3, 5); they must be"
                " (..., queries, head), (..., keys, head) and (..., keys, value_head)",
            ),
            Bad(
                lambda ones: attended(
                    *[ones(3, 2, 4)] * 2, ones(2, 2, 4), enable_gqa=True
                ),
                ShapeError,
                f"{NAME}: query is (3, 2, 4), key (3, 2, 4), value (2, 2, 4); key and"
                " value must have as many heads, and those of query must be a multiple",
            ),
            Bad(
                lambda ones: attended(
                    ones(3, 4), ones(3, 4), ones(3, 4, dtype="float64")
                ),
                DTypeError,
                f"{NAME}: query, key and value are float32, float32, float64; they must"
                " be the same",
            ),
            Bad(
                lambda ones: attended(*[ones(3, 4)] * 3, np.ones((2, 3)) > 0),
                ShapeError,
                f"{NAME}: shapes do not broadcast: (2, 3), (1, 3, 3); dimension -2 has"
                " sizes [2, 3], which must be equal or 1",
            ),
            Bad(
                lambda ones: attended(*[ones(3, 4)] * 3, np.ones((2, 1, 3, 3)) > 0),
                ShapeError,
                f"{NAME}: attn_mask is (2, 1, 3, 3); it must broadcast to (1, 3, 3)",
            ),
            Bad(
                lambda ones: attended(
                    *[ones(3, 4)] * 3, np.ones((3, 3)) > 0, is_causal=True
                ),
                ShapeError,
                f"{NAME}: is_causal and attn_mask exclude each other",
            ),
            Bad(
                lambda ones: attended(*[ones(3, 4)] * 3, dropout_p=1.5),
                ShapeError,
                f"{NAME}: dropout_p is 1.5; it must be from 0 to 1",
            ),
        ),
    ),
    "flash_query_grad": Case(
        lambda *given: saved("flash_query_grad", *given),
        SAVED,
        query_gradient,
        gradient=False,
        scale=100,  # exponentials of numbers up to 7, and sums of terms that large
    ),
    "flash_key_grad": Case(
        lambda *given: saved("flash_key_grad", *given),
        SAVED,
        key_gradients,
        gradient=False,
        scale=100,  # as above
    ),
    "rotate": Case(
        lambda x, interleaved=False, positions=0: ops.rope(
            x, positions, theta=100.0, interleaved=interleaved
        ),
        (
            sample((3, 7, 6)),
            sample((2, 3, 5, 8), interleaved=True, positions=3),
            sample((7, 2)),
            sample((0, 3, 4)),
            sample((1, 2)),
        ),
        lambda x, interleaved=False, positions=0: turned(x, interleaved, positions),
        scale=4,  # angles up to 8 in float32
        bad=(
            Bad(
                lambda ones: ops.rope(ones(3, 5)),
                ShapeError,
                "rope: x is (3, 5); it must be (..., length, size) with an even size",
            ),
            Bad(
                lambda ones: ops.rope(ones(2, 3, 4), ones(2)),
                ShapeError,
                "rope: positions are (1, 2), x is (2, 3, 4); positions must be (3,) or"
                " (2, 3)",
            ),
        ),
    ),
    "extend_cache": Case(
        lambda *given: from_token_2("extend_cache", *given),
        (
            sample(*[(2, 4, 3, 5)], *[(2, 2, 3, 5)] * 2, *[(2, 2, 7, 5)] * 2),
            sample(*[(1, 1, 1, 1)] * 3, *[(1, 1, 3, 1)] * 2),
        ),
        held,
        exact=True,
        gradient=False,
        bad=(
            Bad(
                lambda ones: from_token_2(
                    "extend_cache",
                    *[ones(1, 2, 1, 4)] * 2,
                    ones(1, 2, 1, 3),
                    *[ones(1, 2, 5, 4)] * 2,
                ),
                ShapeError,
                "extend_cache: q is (1, 2, 1, 4), k (1, 2, 1, 4), v (1, 2, 1, 3), keys"
                " (1, 2, 5, 4), values (1, 2, 5, 4); they must be (batch, heads, count,"
                " head), twice (batch, key_heads, count, head), and twice (batch,"
                " key_heads, room, head)",
            ),
            Bad(
                lambda ones: from_token_2(
                    "extend_cache",
                    *[ones(1, 2, 1, 4)] * 3,
                    *[ones(1, 2, 5, 4, dtype="float64")] * 2,
                ),
                DTypeError,
                "extend_cache: q is float32, k is float32, v is float32, keys is"
                " float64, values is float64; they must be the same",
            ),
        ),
    ),
    "decode_attention": Case(
        lambda *given: from_token_2("decode_attention", *given),
        (
            sample((2, 4, 3, 5), *[(2, 2, 7, 5)] * 2),
            sample((1, 1, 1, 1), *[(1, 1, 3, 1)] * 2),
        ),
        seen_in_cache,
        gradient=False,
        scale=4,  # exponentials, and sums of them
        bad=(
            Bad(
                lambda ones: from_token_2(
                    "decode_attention",
                    ones(1, 2, 1, 4),
                    *[ones(1, 2, 5, 4, dtype="float64")] * 2,
                ),
                DTypeError,
                "decode_attention: q is float32, k is float64, v is float64, keys is"
                " float64, values is float64; they must be the same",
            ),
        ),
    ),
    "prefill_attention": Case(
        lambda *given: from_token_2("prefill_attention", *given),
        (
            sample((2, 4, 3, 5), *[(2, 2, 7, 5)] * 2),
            sample((1, 1, 1, 1), *[(1, 1, 3, 1)] * 2),
        ),
        seen_in_cache,
        gradient=False,
        scale=4,  # exponentials, and sums of them
        bad=(
            Bad(
                lambda ones: from_token_2(
                    "prefill_attention",
                    ones(1, 2, 1, 4),
                    *[ones(1, 2, 5, 4, dtype="float64")] * 2,
                ),
                DTypeError,
                "prefill_attention: q is float32, k is float64, v is float64; they must"
                " be the same",
            ),
        ),
    ),
}
