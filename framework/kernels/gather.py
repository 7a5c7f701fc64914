"""Launch parameters of gathers of rows, or of elements, by index."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import encode
from ..base.errors import ShapeError
from ..base.shape import TensorSpec, contiguous_strides
from ..ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec, entry_divisors
from .linear import MOST_WORDS, copy_dispatch, words_of
from .row_copy import (
    VECTOR,
    WORD,
    Rows,
    copies_rows,
    gathered_row_dispatch,
    gathered_vector_dispatch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vkbackend import DeviceInfo

    from ..base.shape import Layout


def gather_dispatch(
    gpu: DeviceInfo,
    x: TensorSpec,
    index: TensorSpec,
    out: TensorSpec,
    push: dict[str, Argument],
    site: str,
    reading: Mapping[str, int],
) -> Dispatch:
    """Return the dispatch that takes rows, or `base` if `push` names one.

    `reading` are the constants by which indices are read.
    """
    missing = np.asarray(math.nan if x.dtype.is_differentiable else 0, x.dtype.numpy)
    bits = int.from_bytes(encode(missing, x.dtype).tobytes(), "little")
    has_base = "base" in push
    sizes = {"count": out.numel, "rows": x.shape[1]}
    sizes |= {"entries": out.shape[1], "inner": out.shape[2]}
    sizes |= entry_divisors(*out.shape[1:])
    strides = contiguous_strides(x.shape)
    if isinstance(x, StridedSpec):
        strides = x.layout.strides
    sizes |= {f"stride[{k}]": stride for k, stride in enumerate(strides)}
    fill = {"fill[0]": bits & 0xFFFFFFFF, "fill[1]": bits >> 32}
    push = {"x": "x", "indices": "index", "base": "x", "out_": "out", **push}
    push["error"] = IndexSlot(site, x.shape[1])
    words_of("take", x)
    if x.shape[1] >= 1 << 31:
        raise ShapeError(f"take: {x.shape[1]} rows are more than an int32 counts")
    constants = {"EACH": int(index.ndim == 3), "HAS_BASE": int(has_base)}
    constants |= reading
    push, items = push | sizes | fill, words_of("take", out)
    constants["SIZE"] = out.dtype.itemsize
    return copy_dispatch(gpu, "index/gather", items, push, constants)


def row_gather_dispatch(
    gpu: DeviceInfo,
    x: StridedSpec,
    index: TensorSpec,
    out: TensorSpec,
    site: str,
    reading: Mapping[str, int],
) -> Dispatch | None:
    """Return the dispatch that takes rows by vectors, where that is quickest.

    `reading` are the constants by which indices are read. Vectors are uniform loads on
    software devices, and loads of 16 bytes on others.
    """
    outer, count, inner = x.shape
    size, start = inner * x.dtype.itemsize, x.layout.offset * x.dtype.itemsize
    if index.ndim != 1 or size % WORD or not x.numel or not index.numel:
        return None
    width = size // WORD
    rows = Rows(width, outer, count, (count * width, width), (width, width))
    missing = np.asarray(math.nan if x.dtype.is_differentiable else 0, x.dtype.numpy)
    fill = encode(missing, x.dtype).tobytes() * (2 * WORD // x.dtype.itemsize)
    push: dict[str, Argument] = {"x": "x", "indices": "index", "out_": "out"}
    push |= {"error": IndexSlot(site, count), "rows": count, "entries": index.numel}
    push |= {
        f"fill[{k}]": int(word) for k, word in enumerate(np.frombuffer(fill, "<u4"))
    }
    constants = dict(reading)
    if gpu.target.vec4_loads and not size % VECTOR and not start % VECTOR:
        words_of("take", x)
        words_of("take", out)
        return gathered_vector_dispatch(rows, index.numel, push, constants)
    if not copies_rows(gpu, rows):
        return None
    taken = rows._replace(inner=index.numel)
    return gathered_row_dispatch(gpu, taken, push, constants)


FEW = 4
"""Fraction of a tensor, as its inverse, up to which it costs less to take elements in
place than to copy it: each may be a memory transaction of its own."""


def gathers_in_place(x: TensorSpec, layout: Layout, index: TensorSpec) -> bool:
    """Return whether rows of a strided tensor are taken without copying it first.

    So they are where elements repeat, as those of a broadcast tensor, and where few are
    taken. With an index for each element they are as far apart as in a copy if those
    beside each other, or in one column, are neighbours in memory.
    """
    outer, _, inner = x.shape
    reach = sum((size - 1) * step for size, step in zip(layout.shape, layout.strides))
    if (reach + 1) * max(4, x.dtype.itemsize) >= 4 * MOST_WORDS:
        return False
    repeats = any(n > 1 and not s for n, s in zip(layout.shape, layout.strides))
    each = index.ndim == 3
    taken = index.numel if each else outer * inner * index.numel
    beside = layout.strides[2] == 1 if inner > 1 else layout.strides[1] == 1
    near = each and (beside or layout.strides[1] == 1)
    return repeats or near or FEW * taken <= x.numel
