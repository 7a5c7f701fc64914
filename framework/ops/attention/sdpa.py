"""Scaled dot-product attention: argument checks and choice of the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as
from ...base.device import GpuDevice
from ...base.dtype import bool_, float64, uint32
from ...base.errors import DTypeError, ShapeError
from ...base.shape import Shape, TensorSpec, broadcast_shapes
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.replayable import replayable
from ...ir.kernel_call import StridedSpec
from ...kernels.attention.coopmat import EDGE, is_16_byte_aligned, uses_tensor_cores
from ...kernels.attention.flash import MOST_HEAD, QUAD, is_vec4_aligned
from ...kernels.attention.split import fills_tensor_cores, splits_keys
from ..elementwise.compare import where
from ..elementwise.unary import copy
from ..movement.rearrange import pad
from ..movement.slice import narrow
from ..reduce.common import as_dtype_of, in_storage
from ..source import random_bits_like, stream_for
from ..view import expand, reshape, transpose
from .composed import attention_in_parts, composed_attention
from .flash import flash_attention

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

LEAST_MATRIX = 1 << 14
MOST_MATRIX = 1 << 23
"""Largest weight matrix that software devices compute in full, for GEMMs are several
times faster there than flash attention (lavapipe 22.3: 14 and 2 GFLOP/s). A larger one
that no gradient needs is computed for some queries after others."""

LEAST_QUERIES = 32
"""Queries of such a part, at least: a tile of the GEMM."""

NAME = "scaled_dot_product_attention"


@autocast_low_precision
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query key^T * scale + attn_mask) value for each head.

    Parameters
    ----------
    query : Tensor, shape (..., heads, queries, head), float
    key : Tensor, shape (..., heads, keys, head)
    value : Tensor, shape (..., heads, keys, value_head)
        Leading dimensions broadcast.
    attn_mask : Tensor or None
        Of a shape that broadcasts to (..., heads, queries, keys): bool, false where a
        query does not see a key, or float, added to the scores.
    dropout_p : float, default 0
        Probability of a weight to become 0, in [0, 1]; the others are scaled by
        1 / (1 - dropout_p). It applies whenever it is not 0.
    is_causal : bool, default False
        Query i sees the keys 0 to i only; not together with a mask.
    scale : float or None
        None is 1 / sqrt(head).
    enable_gqa : bool, default False
        Several heads of the query share one of key and value, in order.

    Returns
    -------
    Tensor, shape (..., heads, queries, value_head)
        Of the dtype of `query`; computed in float32 if that is smaller. 0 for a query
        that sees no key.

    Raises
    ------
    ShapeError
        If shapes or options do not fit together.
    DTypeError
        If the dtypes differ.

    Notes
    -----
    Memory grows with queries and keys, not with their product: weights are computed
    again for the gradient. The exceptions compute the matrix: a mask that requires a
    gradient, vectors longer than 256, gradients of gradients, and software devices up
    to 2^23 weights, where it is faster, or for parts of as many without a gradient.
    Source: Dao et al., arXiv:2205.14135; Dao, arXiv:2307.08691.
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise ShapeError(f"{NAME}: dropout_p is {dropout_p}; it must be from 0 to 1")
    if is_causal and attn_mask is not None:
        raise ShapeError(f"{NAME}: is_causal and attn_mask exclude each other")
    given = (query, key, value, attn_mask, is_causal, scale, enable_gqa)
    # Dropout draws anew in each call, which replays of functions do not.
    out = _attention(*given, dropout_p) if dropout_p else _replayed_attention(*given)
    if out.grad_node is not None and attn_mask is None and not dropout_p:
        place = "" if query.device.is_gpu else "ForCpu"
        name = f"ScaledDotProductFlashAttention{place}Backward0"
        show_as(out, name, query, key, value)
    return out


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    dropout_p: float = 0.0,
) -> Tensor:
    """Return attention as `scaled_dot_product_attention` does, of checked arguments."""
    q, k, v, lead = _heads(query, key, value, enable_gqa)
    mask = None
    if attn_mask is not None:
        scores = (*lead, *q.layout.shape[1:3], k.layout.shape[2])
        mask = _scores_mask(attn_mask, q, scores)
    scale = 1 / math.sqrt(max(1, q.layout.shape[3])) if scale is None else scale
    parts = _queries_at_once(q, k, v, mask, dropout_p)
    if _wants_matrix(q, k, v, mask, dropout_p):
        out = composed_attention(q, k, v, mask, scale, is_causal, dropout_p)
    elif parts:
        out = attention_in_parts(q, k, v, mask, scale, is_causal, parts)
    else:
        if in_storage(q) is not q:  # nor are the others stored, which are of its dtype
            q, k, v = in_storage(q), in_storage(k), in_storage(v)
        q, k, v = _side_by_side(q), _side_by_side(k), _side_by_side(v)
        mask = None if mask is None else in_storage(mask)
        seed = None
        if dropout_p:
            seed = random_bits_like(q, stream_for(q), (2,), uint32)
        width = v.layout.shape[3]
        split = _splits_keys(q, k, v, is_causal, dropout_p, scale)
        tensor_cores = not split and uses_tensor_cores(q, v, scale)
        if tensor_cores:
            most = max(q.layout.shape[3], width)
            q, k, v = (_padded_and_aligned(x, most) for x in (q, k, v))
        elif not split and (
            q.layout.offset % QUAD or k.layout.offset % QUAD or v.layout.offset % QUAD
        ):
            q, k, v = _vec4_aligned(q, k, v)
        rest = (scale, is_causal, dropout_p, tensor_cores)
        rows, _ = flash_attention(q, k, v, mask, seed, *rest)
        out = transpose(rows, 1, 2)
        if out.layout.shape[3] != width:
            out = narrow(out, 3, 0, width)
    single = (
        max(len(query.layout.shape), len(key.layout.shape), len(value.layout.shape))
        == 2
    )
    sizes = out.layout.shape
    out = reshape(out, sizes[2:] if single else (*lead, *sizes[1:]))
    return as_dtype_of(out, query.dtype)


_replayed_attention = replayable(_attention)


def _splits_keys(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout: float, scale: float
) -> bool:
    """Return whether to take the split-KV kernels, which read vectors as they are.

    Not where there will be a gradient, whose kernels share the layout of the forward
    pass.
    """
    recorded = q.needs_grad or k.needs_grad or v.needs_grad
    device = q.device
    if (recorded and is_grad_enabled()) or not isinstance(device, GpuDevice):
        return False
    own, keys, values = (TensorSpec(x.layout.shape, x.dtype) for x in (q, k, v))
    gpu = device.gpu.info
    if not splits_keys(gpu, own, keys, values, causal, dropout):
        return False
    return not (fills_tensor_cores(gpu, own) and uses_tensor_cores(q, v, scale))


def _wants_matrix(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
) -> bool:
    """Return whether to compute the full weight matrix."""
    if (
        0 in (*q.layout.shape, *k.layout.shape, *v.layout.shape)
        or max(q.layout.shape[3], v.layout.shape[3]) > MOST_HEAD
    ):
        return True
    if mask is not None and mask.needs_grad:
        return True
    device = q.device
    if not isinstance(device, GpuDevice):
        return False
    if q.dtype is float64:
        return True  # of which there is no kernel
    if not device.gpu.info.target.prefers_composition:
        return False
    # The NumPy reference draws dropout as the kernels do.
    weights = q.numel() // q.layout.shape[3] * k.layout.shape[2]
    return not dropout and LEAST_MATRIX <= weights <= MOST_MATRIX


def _queries_at_once(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
) -> int:
    """Return of how many queries to compute the weights at once; 0 is flash attention.

    That is where the matrix would be too large for `_wants_matrix`.
    """
    device = q.device
    if not isinstance(device, GpuDevice) or dropout:
        return 0
    if not device.gpu.info.target.prefers_composition:
        return 0
    inputs = (q, k, v) if mask is None else (q, k, v, mask)
    if is_grad_enabled() and any(x.needs_grad for x in inputs):
        return 0
    batch, heads, queries, _ = q.layout.shape
    weights = batch * heads * k.layout.shape[2]
    if weights * queries <= MOST_MATRIX:
        return 0
    return max(LEAST_QUERIES, MOST_MATRIX // weights)


def _heads(
    query: Tensor, key: Tensor, value: Tensor, shared: bool
) -> tuple[Tensor, Tensor, Tensor, Shape]:
    """Return the inputs as (batch, heads, rows, columns), and the batch's shape."""
    given = (query, key, value)
    sizes, of_keys = query.layout.shape, key.layout.shape
    of_values = value.layout.shape
    if (
        len(sizes) == len(of_keys) == len(of_values) == 4
        and sizes[:2] == of_keys[:2] == of_values[:2]
        and sizes[3] == of_keys[3]
        and of_keys[2] == of_values[2]
        and query.dtype is key.dtype is value.dtype
        and not (shared and 0 in sizes)
    ):
        return query, key, value, sizes[:1]
    shapes = (
        f"query is {tuple(query.shape)}, key {tuple(key.shape)},"
        f" value {tuple(value.shape)}"
    )
    fit = (
        min(x.ndim for x in given) >= 2
        and query.layout.shape[-1] == key.layout.shape[-1]
    )
    if not fit or key.layout.shape[-2] != value.layout.shape[-2]:
        raise ShapeError(
            f"{NAME}: {shapes}; they must be (..., queries, head), (..., keys, head)"
            " and (..., keys, value_head)"
        )
    if not query.dtype is key.dtype is value.dtype:
        names = ", ".join(x.dtype.name for x in given)
        raise DTypeError(
            f"{NAME}: query, key and value are {names}; they must be the same"
        )
    most = max(3, *(x.ndim for x in given))
    whole = [reshape(x, (*(1,) * (most - x.ndim), *x.shape)) for x in given]
    heads = [x.shape[-3] for x in whole]
    if shared:
        if heads[1] != heads[2] or heads[1] == 0 or heads[0] % heads[1]:
            raise ShapeError(
                f"{NAME}: {shapes}; key and value must have as many heads, and those of"
                " query must be a multiple"
            )
    else:
        heads = [broadcast_shapes(NAME, *((each,) for each in heads))[0]] * 3
    lead = broadcast_shapes(NAME, *(x.shape[:-3] for x in whole))
    q, k, v = (
        reshape(
            expand(x, (*lead, count, *x.shape[-2:])),
            (math.prod(lead), count, *x.shape[-2:]),
        )
        for x, count in zip(whole, heads)
    )
    return q, k, v, lead


def _scores_mask(mask: Tensor, q: Tensor, scores: Shape) -> Tensor:
    """Return the additive mask as (batch, heads, queries, keys)."""
    if broadcast_shapes(NAME, mask.layout.shape, scores) != scores:
        raise ShapeError(
            f"{NAME}: attn_mask is {tuple(mask.shape)}; it must broadcast to {scores}"
        )
    if mask.dtype is bool_:
        mask = where(mask, 0.0, -math.inf)
    if not mask.dtype.is_float:
        raise DTypeError(
            f"{NAME}: attn_mask is {mask.dtype.name}; it must be bool or a float dtype"
        )
    whole = expand(as_dtype_of(mask, q.dtype), scores)
    return reshape(whole, (q.layout.shape[0], *scores[-3:]))


def _side_by_side(x: Tensor) -> Tensor:
    """Return the tensor with contiguous columns."""
    return x if x.layout.strides[-1] == 1 or x.layout.shape[-1] == 1 else copy(x)


def _padded_and_aligned(x: Tensor, width: int) -> Tensor:
    """Return vectors zero-padded to a multiple of 16, for tensor cores."""
    missing = -(-width // EDGE) * EDGE - x.layout.shape[3]
    if missing:
        return pad(x, (0, missing))
    return (
        x
        if is_16_byte_aligned(StridedSpec(x.layout.shape, x.dtype, x.layout))
        else copy(x)
    )


def _vec4_aligned(*vectors: Tensor) -> Sequence[Tensor]:
    """Return vectors, copied where only their offset prevents vec4 loads.

    Where a tensor lies must not decide which kernel sums, and so in which order.
    """
    device = vectors[0].device
    starts = [
        StridedSpec(x.shape, x.dtype, x.layout._replace(offset=0)) for x in vectors
    ]
    if not isinstance(device, GpuDevice) or not device.gpu.info.target.vec4_loads:
        return vectors
    if not all(map(is_vec4_aligned, starts)):
        return vectors
    return [copy(x) if x.layout.offset % QUAD else x for x in vectors]
