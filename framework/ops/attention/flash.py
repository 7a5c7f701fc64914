"""Flash attention kernels, forward and backward: no weight matrix in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.dtype import FLOAT, SINGLE, float32, float64, uint32
from ...base.errors import GradError
from ...base.philox import philox
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch
from ...kernels.attention.coopmat import apart, register_test_ops
from ...kernels.attention.flash import AttentionCall, flash_dispatch
from ...kernels.attention.split import split_dispatches, splits_keys
from ...kernels.shader_types import statistic_dtype
from ..elementwise.unary import copy
from ..reduce.common import as_dtype_of
from ..reduce.sum import sum
from ..view import transpose
from .composed import composed_attention_vjp

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_INPUTS = {"q": FLOAT, "k": FLOAT, "v": FLOAT, "mask": FLOAT, "seed": (uint32,)}
_DEVICE_INPUTS = {name: SINGLE for name in ("q", "k", "v", "mask")}
_SAVED = {
    "incoming": FLOAT,
    "logsumexp": (float32, float64),
    "delta": (float32, float64),
}


# Inputs of these ops are (batch, heads, rows, columns), with contiguous columns except
# in the mask. `k` and `v` may have one head for several of `q`; the mask is
# added to the scores; `seed` is two words that decide what `dropout` drops;
# `tensor_cores` says whether the device's may be used.
@primitive(
    dtypes=_INPUTS,
    device_dtypes=_DEVICE_INPUTS,
    outputs=("out", "logsumexp"),
    strided=True,
    typed="q",
)
def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return softmax(q k^T * scale + mask) v, and logarithms of the sums within.

    The first is (batch, rows, heads, columns), so that the next layer takes the heads
    of a row without a copy.
    """


@flash_attention.spec
def flash_attention_spec(
    q: TensorSpec, v: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec]:
    rows = TensorSpec(q.shape[:3], statistic_dtype(q.dtype))
    batch, heads, queries = q.shape[:3]
    return TensorSpec((batch, queries, heads, v.shape[3]), q.dtype), rows


@flash_attention.vjp
def flash_attention_vjp(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    grad, out = transpose(grad, 1, 2), transpose(out, 1, 2)
    if is_grad_enabled():
        if seed is not None:
            raise GradError(
                "scaled_dot_product_attention: with dropout the gradient has no"
                " gradient"
            )
        return (*composed_attention_vjp(grad, q, k, v, mask, scale, causal), None, None)
    wide = statistic_dtype(q.dtype)
    delta = sum(as_dtype_of(grad, wide) * as_dtype_of(out, wide), 3)
    given = (q, k, v, mask, seed, _in_order(grad), logsumexp, delta)
    options = (scale, causal, dropout, tensor_cores)
    grad_q, grad_k, grad_v = None, None, None
    if needs[0]:
        grad_q = flash_query_grad(*given, *options)
    if needs[1] or needs[2]:
        grad_k, grad_v = flash_key_grad(*given, *options)
    return grad_q, grad_k, grad_v, None, None


def _in_order(x: Tensor) -> Tensor:
    """Return the tensor in row-major order."""
    return x if x.layout.is_contiguous else copy(x)


@flash_attention.kernel
def flash_attention_kernel(gpu: DeviceInfo, **params: Any) -> list[Dispatch]:
    call = AttentionCall(gpu, **params)
    vectors = call.q, call.k, call.v
    if not call.tensor_cores and splits_keys(gpu, *vectors, call.causal, call.dropout):
        return split_dispatches(call)
    own: dict[str, Argument] = {"out_": "out", "logsumexp": "logsumexp"}
    return [flash_dispatch("attention/flash", own, call)]


def _heads_of(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return keys or values with heads repeated to the number of query heads."""
    return np.repeat(x, q.shape[1] // x.shape[1], axis=1)


def _scores(
    q: np.ndarray, k: np.ndarray, mask: np.ndarray | None, scale: float, causal: bool
) -> np.ndarray:
    """Return scores (batch, heads, queries, keys)."""
    scores = q @ _heads_of(k, q).swapaxes(2, 3) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        queries, keys = scores.shape[2:]
        future = np.arange(keys) > np.arange(queries)[:, None]
        scores = np.where(future, -np.inf, scores)
    return scores


def _kept(scores: np.ndarray, seed: np.ndarray | None, dropout: float) -> np.ndarray:
    """Return the dropout factors of the weights."""
    if seed is None:
        return np.ones_like(scores)
    keys = scores.shape[3]
    counters = np.zeros((scores.size, 4), np.uint32)
    counters[:, 1], counters[:, 0] = np.divmod(np.arange(scores.size), keys)
    bits = philox(counters, (int(seed[0]), int(seed[1])))[:, 0]
    draws = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    scaled = np.where(draws >= dropout, 1 / max(1 - dropout, 2.0**-24), 0)
    return scaled.reshape(scores.shape).astype(scores.dtype)


def _weights(scores: np.ndarray, logsumexp: np.ndarray) -> np.ndarray:
    """Return the weights, 0 for a query that sees no key."""
    finite = np.where(np.isinf(logsumexp), 0, logsumexp)
    return np.exp(scores - finite[..., None])


@flash_attention.reference
def flash_attention_reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    seed: np.ndarray | None,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool,
) -> tuple[np.ndarray, np.ndarray]:
    scores = _scores(q, k, mask, scale, causal)
    greatest = scores.max(axis=3)
    finite = np.where(np.isneginf(greatest), 0, greatest)
    total = np.exp(scores - finite[..., None]).sum(axis=3)
    logsumexp = finite + np.log(total)
    weights = _weights(scores, logsumexp) * _kept(scores, seed, dropout)
    return (weights @ _heads_of(v, q)).swapaxes(1, 2), logsumexp


@primitive(
    dtypes=_INPUTS | _SAVED, device_dtypes=_DEVICE_INPUTS, strided=True, typed="q"
)
def flash_query_grad(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    incoming: Tensor,
    logsumexp: Tensor,
    delta: Tensor,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool = False,
) -> Tensor:
    """Return the gradient by `q`; `incoming` and the rest are in row-major order.

    `delta` has the sums of the gradient times the result.
    """


@flash_query_grad.spec
def flash_query_grad_spec(q: TensorSpec, **_: object) -> TensorSpec:
    return q


@flash_query_grad.kernel
def flash_query_grad_kernel(gpu: DeviceInfo, **call: Any) -> Dispatch:
    own: dict[str, Argument] = {"grad": "incoming", "out_": "out"}
    own |= {"logsumexp": "logsumexp", "delta": "delta"}
    return flash_dispatch("attention/flash_dq", own, AttentionCall(gpu, **call))


def _score_grads(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    seed: np.ndarray | None,
    incoming: np.ndarray,
    logsumexp: np.ndarray,
    delta: np.ndarray,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients by the products of q and k, and the weights with dropout."""
    scores = _scores(q, k, mask, scale, causal)
    weights, kept = _weights(scores, logsumexp), _kept(scores, seed, dropout)
    products = incoming @ _heads_of(v, q).swapaxes(2, 3) * kept
    return weights * (products - delta[..., None]) * scale, weights * kept


@flash_query_grad.reference
def flash_query_grad_reference(q: np.ndarray, k: np.ndarray, **rest: Any) -> np.ndarray:
    return _score_grads(q, k, **rest)[0] @ _heads_of(k, q)


@primitive(
    dtypes=_INPUTS | _SAVED,
    device_dtypes=_DEVICE_INPUTS,
    outputs=("grad_k", "grad_v"),
    strided=True,
    typed="q",
)
def flash_key_grad(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    incoming: Tensor,
    logsumexp: Tensor,
    delta: Tensor,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the gradients by `k` and `v`; arguments as in `flash_query_grad`."""


@flash_key_grad.spec
def flash_key_grad_spec(
    k: TensorSpec, v: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec]:
    return k, v


@flash_key_grad.kernel
def flash_key_grad_kernel(gpu: DeviceInfo, **params: Any) -> list[Dispatch]:
    own: dict[str, Argument] = {"grad": "incoming", "grad_k": "grad_k"}
    own |= {"grad_v": "grad_v", "logsumexp": "logsumexp", "delta": "delta"}
    call = AttentionCall(gpu, **params)
    return apart(flash_dispatch("attention/flash_dkv", own, call), call.q)


@flash_key_grad.reference
def flash_key_grad_reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, incoming: np.ndarray, **rest: Any
) -> tuple[np.ndarray, np.ndarray]:
    score_grads, weights = _score_grads(q, k, v, incoming=incoming, **rest)
    return (
        _sum_heads(score_grads.swapaxes(2, 3) @ q, k),
        _sum_heads(weights.swapaxes(2, 3) @ incoming, v),
    )


def _sum_heads(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the sums over the heads that share one of `x`."""
    batch, heads = x.shape[:2]
    return grad.reshape(batch, heads, -1, *x.shape[2:]).sum(axis=2)


register_test_ops(flash_attention, flash_query_grad, flash_key_grad)
