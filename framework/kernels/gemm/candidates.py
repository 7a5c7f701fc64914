"""Kernels of a GEMM: GEMV, large tiles, and the fallback, which takes any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...base.dtype import DType
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
    least_chunks,
)
from ..reduce import sum_rows
from ..shader_types import acc_size
from .gemv import skinny_gemm
from .select import large_tile_gemm, likely_configs
from .small import TiledGemm, small_tile_configs, tiled_gemm_dispatch

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

Candidates = dict[str, Callable[[], list[Dispatch] | None]]


def gemm_dispatches(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str, dtype: DType
) -> list[Dispatch]:
    """Return the dispatches of a GEMM on the first kernel that takes it.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k)
    b : StridedSpec, shape (batch, k, n)
    mode : str
        A GEMM mode of `tiles`.
    dtype : DType
        Of the result: that of the operands, or of their sums.
    """
    found = skinny_gemm(gpu, a, b, dtype) or large_tile_gemm(gpu, a, b, mode)
    return found or fallback_gemm(gpu, a, b, dtype)


def gemm_candidates(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str, dtype: DType
) -> Candidates:
    """Return the candidates for `gemm_dispatches` by name, in its order."""
    found: Candidates = {"GEMV": partial(skinny_gemm, gpu, a, b, dtype)}
    for name, config in likely_configs(gpu, a, b, mode).items():
        found[name] = partial(large_tile_gemm, gpu, a, b, mode, config)
    if dtype is not a.dtype:
        return found | {"fallback GEMM": partial(fallback_gemm, gpu, a, b, dtype)}
    for small in small_tile_configs(gpu, dtype):
        name = f"fallback GEMM, tiles of {'x'.join(map(str, small))}"
        found[name] = partial(fallback_gemm, gpu, a, b, dtype, small)
    return found


def fallback_gemm(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    dtype: DType,
    config: tuple[int, ...] | None = None,
) -> list[Dispatch]:
    """Return the dispatches of a GEMM of any sizes and strides.

    `dtype` is that of the result: that of the operands, or of their sums.
    """
    batch, m, k = a.shape
    plane = m * b.shape[-1]
    chunks = least_chunks(gpu, k)
    most = ceil_div(k, chunks)
    size = dtype.itemsize if chunks == 1 else acc_size(a.dtype)
    partial = Scratch("partial", size * batch * plane * chunks)
    target: str | Scratch = "out" if chunks == 1 else partial
    parts = [
        _fallback_part(
            gpu,
            a,
            b,
            range(first, min(batch, first + MAX_GROUPS)),
            range(chunk * most, min(k, (chunk + 1) * most)),
            BufferOffset(target, size * plane * (chunk * batch + first)),
            config,
            sums=chunks > 1 or dtype is not a.dtype,
        )
        for chunk in range(chunks)
        for first in range(0, batch, MAX_GROUPS)
    ]
    if chunks == 1:
        return parts
    out = TensorSpec((batch, m, b.shape[-1]), dtype)
    return [*parts, sum_rows(gpu, partial, out, chunks, batch * plane)]


def _fallback_part(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    batch: range,
    depth: range,
    out: BufferOffset,
    config: tuple[int, ...] | None,
    *,
    sums: bool,
) -> Dispatch:
    """Return the dispatch of a slice of the batch and of K.

    `sums` says that the result is not rounded to the dtype of the operands.
    """
    m, n = a.shape[1], b.shape[2]
    a_batch, a_row, a_column = a.layout.strides
    b_batch, b_row, b_column = b.layout.strides
    size = a.dtype.itemsize
    push: dict[str, Argument] = {
        "a": BufferOffset("a", size * (a_batch * batch.start + a_column * depth.start)),
        "b": BufferOffset("b", size * (b_batch * batch.start + b_row * depth.start)),
        "out_": out,
    }
    push |= {"m": m, "n": n, "k": len(depth), "a_row": a_row, "a_column": a_column}
    push |= {"b_row": b_row, "b_column": b_column}
    push |= {"a_batch": a_batch, "b_batch": b_batch}
    product = TiledGemm(
        m,
        n,
        len(depth),
        a.dtype,
        a_along_k=a_column == 1 and a_row != 1,
        b_along_k=b_row == 1 and b_column != 1,
        batch=len(batch),
    )
    kernel = ("matmul/gemm_tiled", "matmul/gemm_subgroup")
    return tiled_gemm_dispatch(
        gpu, kernel, product, len(batch), push, {}, partial=sums, config=config
    )
