"""Flash attention kernels, forward and backward: no weight matrix in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.dtype import FLOAT, SINGLE, float32, float64, uint32
from ...base.errors import GradError
from ...base.philox import philox
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, StridedSpec, check_rounds, fold_grid
from ...kernels.attention.coopmat import fits, register_test_ops, tensor_core_dispatch
from ...kernels.reduce import need_countable
from ...kernels.shader_types import statistic_dtype, storage_defines
from ..elementwise.unary import copy
from ..reduce.common import as_dtype_of
from ..reduce.sum import sum
from ..view import transpose
from .composed import composed_attention_vjp

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_HEAD = 256
"""Largest head size that the kernels have registers for."""

GPU_TILE = {"LOCAL_X": 128, "LANES": 32, "ROWS": 8, "TILE": 2, "STAGED": 1}
"""Four teams of eight rows, and 64 vectors of the other side."""


class QuadTile(NamedTuple):
    """Tile of a workgroup where head sizes are whole vec4.

    Attributes
    ----------
    invocations, lanes : int
        Of a workgroup, and of a team.
    rows, tile : int
        Own vectors of a team, and those of the other side of an invocation.
    """

    invocations: int
    lanes: int
    rows: int
    tile: int

    @property
    def shared_memory(self) -> int:
        """Upper bound of its shared memory in bytes."""
        block, pitch = (
            self.invocations // self.lanes * self.rows,
            self.tile * self.lanes + 4,
        )
        return 4 * ((block + SLAB) * pitch + self.invocations + block)

    def constants(self) -> dict[str, int]:
        """Return the specialization constants of the tile."""
        names = ("LOCAL_X", "LANES", "ROWS", "TILE")
        return {**dict(zip(names, self)), "STAGED": 1}


QUAD = 4
"""Elements of a vec4 load."""

SLAB = 16
"""Elements of each vector staged in shared memory at a time."""

QUAD_TILES = {
    "attention/flash": {128: QuadTile(64, 8, 8, 8)},
    "attention/flash_dq": {
        64: QuadTile(64, 8, 8, 8),
        128: QuadTile(128, 16, 8, 8),
    },
    "attention/flash_dkv": {64: QuadTile(128, 16, 8, 8)},
}
"""By the largest head size, the quickest of several on an NVIDIA H200 (driver
580.159.04, 2026-11-21)."""

SMALL_QUAD_TILE = QuadTile(128, 16, 4, 4)
"""Tile of larger head sizes, which need registers, and of little shared memory."""

SOFTWARE_ROWS = 8
SOFTWARE_TILE = 4
"""One subgroup is one team: barriers between subgroups are dear there. Of long vectors
it takes half the rows, for the driver compiles a line for each sum."""

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
def flash_attention_kernel(
    gpu: DeviceInfo,
    q: StridedSpec,
    k: StridedSpec,
    v: StridedSpec,
    mask: StridedSpec | None,
    seed: StridedSpec | None,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool,
) -> Dispatch:
    own: dict[str, Argument] = {"out_": "out", "logsumexp": "logsumexp"}
    rest = (mask, seed, scale, causal, dropout, tensor_cores)
    return _dispatch(gpu, "attention/flash", own, None, q, k, v, *rest)


def _dispatch(
    gpu: DeviceInfo,
    kernel: str,
    push: dict[str, Argument],
    incoming: StridedSpec | None,
    q: StridedSpec,
    k: StridedSpec,
    v: StridedSpec,
    mask: StridedSpec | None,
    seed: StridedSpec | None,
    scale: float,
    causal: bool,
    dropout: float,
    tensor_cores: bool,
) -> Dispatch:
    """Return the dispatch of a kernel built on `attention/flash_body.glsl`.

    With `tensor_cores` it is the tensor-core kernel, if that supports the call.
    """
    batch, heads, queries, head = q.shape
    key_heads, keys = k.shape[1:3]
    push |= {"q": "q", "k": "k", "v": "v", "mask": "mask" if mask else "q"}
    push |= {"seed": "seed" if seed else "q", "batch": batch, "heads": heads}
    push |= {"group": heads // key_heads, "queries": queries, "keys": keys}
    push |= {"scale": scale, "dropout": dropout}
    for name, x in (("q", q), ("k", k), ("v", v), ("mask", mask)):
        push |= _strides(kernel, name, x)
    options = {"CAUSAL": int(causal), "HAS_MASK": int(mask is not None)}
    options["DROPOUT"] = int(seed is not None)
    vectors = [q, k, v] if incoming is None else [q, k, v, incoming]
    if tensor_cores and fits(vectors, scale):
        return tensor_core_dispatch(kernel, push, q, k, v, options)
    constants, defines = _tile(gpu, kernel, vectors)
    block = constants["ROWS"] * constants["LOCAL_X"] // constants["LANES"]
    span = constants["TILE"] * constants["LANES"]
    by_keys = "grad_k" in push
    own, other = (keys, queries * heads // key_heads) if by_keys else (queries, keys)
    # The loops of the kernels are unrolled by two or four elements.
    rounds = head + v.shape[3] + span if "grad" in push else (head + span) // 2 + span
    check_rounds(gpu, kernel, ceil_div(other, span) * rounds)
    constants |= {"HEAD": head, "VALUE_HEAD": v.shape[3]} | options
    groups = ceil_div(own, block) * batch * (key_heads if by_keys else heads)
    return Dispatch(kernel, fold_grid(groups), push, constants, defines)


def _strides(kernel: str, name: str, x: StridedSpec | None) -> dict[str, int]:
    """Return the strides of a tensor as arguments; vectors are contiguous."""
    if x is not None:
        need_countable(kernel, x)
    strides = (0,) * 4 if x is None else x.layout.strides
    labels = ("batch", "head", "row", "column")[: 4 if name == "mask" else 3]
    return {f"{name}_{label}": stride for label, stride in zip(labels, strides)}


def _tile(
    gpu: DeviceInfo, kernel: str, vectors: Sequence[StridedSpec]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the tile's constants and macros."""
    defines = dict(storage_defines(vectors[0].dtype))
    longest = max(x.shape[3] for x in vectors)
    if not gpu.target.fast_shared_memory:
        size = gpu.subgroup_size
        rows = SOFTWARE_ROWS if vectors[0].shape[3] <= 64 else SOFTWARE_ROWS // 2
        found = {"LOCAL_X": size, "LANES": size, "TILE": SOFTWARE_TILE, "STAGED": 0}
        return found | {"ROWS": min(size, rows)}, defines
    if all(map(is_vec4_aligned, vectors)):
        tile = _quad_tile(gpu, kernel, longest)
        return tile.constants(), defines | {"QUADS": "1"}
    return dict(GPU_TILE), defines


def is_vec4_aligned(x: StridedSpec) -> bool:
    """Return whether the vectors of a tensor are whole, aligned vec4."""
    steps = (x.shape[3], x.layout.offset, *x.layout.strides[:3])
    return not any(step % QUAD for step in steps)


def _quad_tile(gpu: DeviceInfo, kernel: str, head: int) -> QuadTile:
    """Return the workgroup tile, within the limits of registers and shared memory."""
    for most, tile in QUAD_TILES[kernel].items():
        if head <= most and tile.shared_memory <= gpu.max_shared_memory:
            return tile
    return SMALL_QUAD_TILE


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
def flash_query_grad_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    logsumexp: StridedSpec,
    delta: StridedSpec,
    **rest: Any,
) -> Dispatch:
    own: dict[str, Argument] = {"grad": "incoming", "out_": "out"}
    own |= {"logsumexp": "logsumexp", "delta": "delta"}
    return _dispatch(gpu, "attention/flash_dq", own, incoming, **rest)


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
def flash_key_grad_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    logsumexp: StridedSpec,
    delta: StridedSpec,
    **rest: Any,
) -> Dispatch:
    own: dict[str, Argument] = {"grad": "incoming", "grad_k": "grad_k"}
    own |= {"grad_v": "grad_v", "logsumexp": "logsumexp", "delta": "delta"}
    return _dispatch(gpu, "attention/flash_dkv", own, incoming, **rest)


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
