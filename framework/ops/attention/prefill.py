"""Prefill attention: many tokens, as of a prompt, over a cache that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import FLOAT, SINGLE, int64
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.attention.coopmat import EDGE, uses_tensor_cores
from ...kernels.attention.flash import AttentionCall
from ...kernels.attention.prefill import fits_prefill, prefill_dispatch
from ...kernels.shader_types import check_same_dtype
from .cached import attended, check_tables, in_order, side_by_side

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(
    dtypes={
        **dict.fromkeys(("q", "k", "v"), FLOAT),
        **dict.fromkeys(("position", "tables"), (int64,)),
    },
    device_dtypes=dict.fromkeys(("q", "k", "v"), SINGLE),
    strided=True,
    typed="q",
)
def _prefill_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor,
    tables: Tensor | None,
    scale: float,
    window: int | None,
    cap: float | None,
    tensor_cores: bool = False,
) -> Tensor:
    """Return softmax(scores) v of many queries, over the tokens up to each of them.

    Parameters
    ----------
    q : Tensor, shape (batch, heads, count, head)
        Columns are contiguous.
    k, v : Tensor, shape (batch, key_heads, room, head)
        The cache, contiguous; `heads` is a multiple of `key_heads`. With `tables`
        (pages, key_heads, page, head).
    position : Tensor, int64, no dimensions, with `tables` (batch,)
        Token that the first query is. Nothing is read past the last one.
    tables : Tensor, int64, shape (batch, blocks), or None
        The pages of each sequence, as of `_extend_cache`.
    scale : float
        What q k^T is multiplied with.
    window : int or None
        Number of tokens that a query sees at most, the nearest ones.
    cap : float or None
        Scores are cap * tanh(score / cap).
    tensor_cores : bool
        Whether the device's may be used.

    Returns
    -------
    Tensor, shape (batch, count, heads, head)
        Without a gradient.
    """


@_prefill_attention.spec
def _prefill_attention_spec(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    position: TensorSpec,
    tables: TensorSpec | None,
    **_: object,
) -> TensorSpec:
    check_same_dtype("prefill_attention", q=q, k=k, v=v)
    batch, heads, count, head = q.shape
    check_tables("prefill_attention", batch, position, tables)
    return TensorSpec((batch, count, heads, head), q.dtype)


@_prefill_attention.kernel
def _prefill_attention_kernel(
    gpu: DeviceInfo,
    q: StridedSpec,
    k: StridedSpec,
    v: StridedSpec,
    position: StridedSpec,
    tables: StridedSpec | None,
    scale: float,
    window: int | None,
    cap: float | None,
    tensor_cores: bool,
) -> Dispatch:
    call = AttentionCall(gpu, q, k, v, None, None, scale, False, 0.0, tensor_cores)
    return prefill_dispatch(call, tables, window, cap)


@_prefill_attention.reference
def _prefill_attention_reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    position: np.ndarray,
    tables: np.ndarray | None,
    scale: float,
    window: int | None,
    cap: float | None,
    tensor_cores: bool,
) -> np.ndarray:
    return attended(q, k, v, position, None, tables, scale, window, cap)


def prefills(query: Tensor, keys: Tensor, scale: float) -> bool:
    """Return whether `prefill_attention` is the way to read a contiguous cache.

    That is on tensor cores: other kernels for as many queries are quicker with a mask.
    """
    if not query.is_gpu or query.layout.shape[-1] % EDGE:
        return False
    return fits_prefill(query.spec, keys.spec) and uses_tensor_cores(query, keys, scale)


def prefills_pages(query: Tensor, keys: Tensor) -> bool:
    """Return whether `prefill_attention` takes queries of a cache of pages."""
    if isinstance(query.device, GpuDevice):
        return fits_prefill(query.spec, keys.spec)
    return 0 not in (*query.layout.shape, *keys.layout.shape)


def prefill_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor,
    tables: Tensor | None,
    scale: float,
    window: int | None = None,
    cap: float | None = None,
) -> Tensor:
    """Return what queries attend to, as `_prefill_attention`, of any layouts.

    Only if `prefills`, or with tables `prefills_pages`.
    """
    if tables is not None:
        position, tables = in_order(position), in_order(tables)
    return _prefill_attention(
        side_by_side(q),
        in_order(k),
        in_order(v),
        position,
        tables,
        scale,
        window,
        cap,
        q.is_gpu and uses_tensor_cores(q, v, scale),
    )
