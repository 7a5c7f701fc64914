"""Split-KV attention: few queries, whose keys several workgroups share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...autograd.engine import is_grad_enabled
from ...base.device import GpuDevice
from ...base.shape import ceil_div
from ...kernels.gpu_model import model_of
from ..elementwise.compare import where
from ..elementwise.exponential import exp
from ..movement.concat import cat
from ..movement.slice import narrow
from ..reduce.common import as_dtype_of
from ..reduce.minmax import amax
from ..reduce.sum import sum
from ..view import expand, permute, reshape, unsqueeze
from .flash import flash_attention

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

MOST_QUERIES = 16
"""More queries than these fill their own workgroups."""

LEAST_KEYS = 256
"""Keys of a slice, so that combining the slices does not outweigh it."""

GROUPS = 2
"""Workgroups per multiprocessor that the slices are to make."""


def count_slices(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Return into how many slices to split the keys, 1 for none.

    Slices are views for a batch of one only; and the logsumexp, by which they are
    combined, has no gradient.
    """
    device = q.device
    if not isinstance(device, GpuDevice) or q.layout.shape[0] != 1:
        return 1
    if q.layout.shape[2] > MOST_QUERIES or device.gpu.info.target.prefers_composition:
        return 1
    if is_grad_enabled() and any(x.needs_grad for x in (q, k, v)):
        return 1
    wanted = GROUPS * model_of(device.gpu.info).multiprocessors
    heads, keys = k.layout.shape[1:3]
    return max(1, min(ceil_div(wanted, heads), keys // LEAST_KEYS))


def split_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    tensor_cores: bool,
    slices: int,
) -> Tensor:
    """Return what `flash_attention` does of a batch of one, heads before queries.

    The heads that share keys are rows of one workgroup, which reads the keys once. Keys
    that do not fill a slice are one more.
    """
    heads, queries, head = q.layout.shape[1:]
    key_heads, keys = k.layout.shape[1:3]
    rows, width = heads // key_heads * queries, v.layout.shape[3]
    own = reshape(q, (1, key_heads, rows, head))
    added = None if mask is None else reshape(mask, (key_heads, rows, keys))
    outs, logs = [], []
    length = keys // slices
    for first, count, each in (
        (0, slices, length),
        (slices * length, 1, keys % slices),
    ):
        if not each:
            continue
        part = None
        if added is not None:
            part = narrow(added, 2, first, count * each)
            part = permute(reshape(part, (key_heads, rows, count, each)), (2, 0, 1, 3))
        out, logsumexp = flash_attention(
            expand(own, (count, *own.layout.shape[1:])),
            _sliced(k, first, count, each),
            _sliced(v, first, count, each),
            part,
            None,
            scale,
            False,
            0.0,
            tensor_cores,
        )
        outs.append(permute(out, (0, 2, 1, 3)))
        logs.append(logsumexp)
    out, logsumexp = (x[0] if len(x) == 1 else cat(x) for x in (outs, logs))
    return reshape(_combined(out, logsumexp), (1, heads, queries, width))


def _sliced(x: Tensor, first: int, count: int, each: int) -> Tensor:
    """Return slices of keys or values as a batch: a view."""
    heads, _, columns = x.layout.shape[1:]
    part = reshape(narrow(x, 2, first, count * each), (heads, count, each, columns))
    return permute(part, (1, 0, 2, 3))


def _combined(out: Tensor, logsumexp: Tensor) -> Tensor:
    """Return the results of all keys from those of slices, the first dimension."""
    greatest = amax(logsumexp, 0, keepdim=True)
    factors = exp(logsumexp - where(greatest > -math.inf, greatest, 0.0))
    wide = as_dtype_of(out, logsumexp.dtype) * unsqueeze(factors, 3)
    total = unsqueeze(sum(factors, 0), 2)
    whole = sum(wide, 0) / where(total == 0.0, 1.0, total)
    return as_dtype_of(whole, out.dtype)
