"""Decode attention: tokens that are added to a key-value cache, and attend to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import FLOAT, SINGLE, int64
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.attention.flash import AttentionCall
from ...kernels.attention.split import (
    MOST_CACHED_QUERIES,
    decode_dispatches,
    fits_cache,
)
from ...kernels.row_copy import first_copy
from .cached import (
    attended,
    check_cache,
    extended,
    in_order,
    side_by_side,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_VECTORS = ("q", "k", "v", "keys", "values", "cosine", "sine")


@primitive(
    dtypes={
        **dict.fromkeys(_VECTORS, FLOAT),
        **dict.fromkeys(("position", "padding", "tables"), (int64,)),
    },
    device_dtypes=dict.fromkeys(_VECTORS, SINGLE),
    outputs=("out", "new_keys", "new_values"),
    strided=True,
    typed="k",
)
def _decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cosine: Tensor | None,
    sine: Tensor | None,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    padding: Tensor | None,
    tables: Tensor | None,
    scale: float,
    window: int | None,
    cap: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what tokens attend to, themselves included, and the cache with them.

    Parameters
    ----------
    q, k, v, cosine, sine, keys, values, position, tables : Tensor or None
        As of `_extend_cache`.
    padding : Tensor, int64, shape (batch,), or None
        Number of first tokens that only see themselves.
    scale : float
        What q k^T is multiplied with.
    window : int or None
        Number of tokens that a query sees at most, the nearest ones.
    cap : float or None
        Scores are cap * tanh(score / cap).

    Returns
    -------
    tuple of Tensor
        Without gradients. The first is (batch, count, heads, head). The cache is
        changed in its memory where nothing else needs what it was before.
    """


@_decode_attention.spec
def _decode_attention_spec(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    cosine: TensorSpec | None,
    sine: TensorSpec | None,
    keys: TensorSpec,
    values: TensorSpec,
    position: TensorSpec,
    padding: TensorSpec | None,
    tables: TensorSpec | None,
    **_: object,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    check_cache("decode_attention", q, k, v, cosine, keys, values, position, tables)
    batch, heads, count, head = q.shape
    return TensorSpec((batch, count, heads, head), q.dtype), keys, values


@_decode_attention.kernel
def _decode_attention_kernel(
    gpu: DeviceInfo,
    q: StridedSpec,
    k: StridedSpec,
    v: StridedSpec,
    cosine: StridedSpec | None,
    sine: StridedSpec | None,
    keys: StridedSpec,
    values: StridedSpec,
    position: StridedSpec,
    padding: StridedSpec | None,
    tables: StridedSpec | None,
    scale: float,
    window: int | None,
    cap: float | None,
) -> list[Dispatch]:
    call = AttentionCall(gpu, q, keys, values, None, None, scale, False, 0.0, False)
    angles = None if cosine is None or sine is None else (cosine, sine)
    step = decode_dispatches(call, (k, v), angles, padding, tables, window, cap)
    begun = [
        first_copy(gpu, "decode_attention", x, name, f"new_{name}")
        for name, x in (("keys", keys), ("values", values))
    ]
    return [*begun, *step]


@_decode_attention.reference
def _decode_attention_reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    cosine: np.ndarray | None,
    sine: np.ndarray | None,
    keys: np.ndarray,
    values: np.ndarray,
    position: np.ndarray,
    padding: np.ndarray | None,
    tables: np.ndarray | None,
    scale: float,
    window: int | None,
    cap: float | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    given = (q, k, v, cosine, sine, keys, values)
    turned, new_keys, new_values = extended(*given, position, tables)
    cache = new_keys, new_values
    found = attended(turned, *cache, position, padding, tables, scale, window, cap)
    return found, new_keys, new_values


def decodes(query: Tensor, keys: Tensor) -> bool:
    """Return whether `decode_attention` takes queries (batch, heads, count, head)."""
    device = query.device
    if isinstance(device, GpuDevice):
        return fits_cache(device.gpu.info, query.spec, keys.spec)
    few = 0 < query.layout.shape[2] <= MOST_CACHED_QUERIES
    return few and 0 not in keys.layout.shape


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    angles: tuple[Tensor, Tensor] | None,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    padding: Tensor | None,
    scale: float,
    window: int | None = None,
    cap: float | None = None,
    tables: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what tokens attend to, and a longer cache, as `_decode_attention`.

    Of any layouts. Only if `decodes`. `angles` are cosines and sines, or None.
    """
    cosine, sine = (None, None) if angles is None else map(in_order, angles)
    if tables is not None:
        position, tables = in_order(position), in_order(tables)
    return _decode_attention(
        side_by_side(q),
        side_by_side(k),
        side_by_side(v),
        cosine,
        sine,
        in_order(keys),
        in_order(values),
        position,
        padding,
        tables,
        scale,
        window,
        cap,
    )
