"""Kernels of a GEMM: GEMV, large tiles, and the fallback, which takes any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

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
from ..shader_types import acc_size
from .gemv import skinny_gemm
from .register_gemv import register_gemv, takes_by_default
from .select import large_tile_gemm, likely_configs
from .skinny import skinny_product
from .slice_sum import sum_slices
from .small import (
    TiledGemm,
    slice_depth,
    small_tile_configs,
    tiled_gemm_dispatch,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

Candidates = dict[str, Callable[[], list[Dispatch] | None]]


class _Slices(NamedTuple):
    """Slices of K that one dispatch takes: place of the first, how many, start, K."""

    first: int
    number: int
    start: int
    depth: int


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
    if takes_by_default(a.shape[1]) and (few := register_gemv(gpu, a, b, dtype)):
        return few
    found = skinny_gemm(gpu, a, b, dtype) or skinny_product(gpu, a, b, mode, dtype)
    found = found or large_tile_gemm(gpu, a, b, mode)
    return found or fallback_gemm(gpu, a, b, dtype)


def gemm_candidates(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str, dtype: DType
) -> Candidates:
    """Return the candidates for `gemm_dispatches` by name, in its order."""
    found: Candidates = {"GEMV": partial(skinny_gemm, gpu, a, b, dtype)}
    found["GEMV in registers"] = partial(register_gemv, gpu, a, b, dtype)
    found["skinny GEMM"] = partial(skinny_product, gpu, a, b, mode, dtype)
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
    batch, m, _ = a.shape
    plane = m * b.shape[-1]
    slices = _slices(gpu, a, b, config)
    count = slices[-1].first + slices[-1].number
    size = dtype.itemsize if count == 1 else acc_size(a.dtype)
    partial = Scratch("partial", size * batch * plane * count)
    target: str | Scratch = "out" if count == 1 else partial
    parts = [
        _fallback_part(
            gpu,
            a,
            b,
            range(first, min(batch, first + MAX_GROUPS)),
            each,
            BufferOffset(target, size * plane * (each.first * batch + first)),
            config,
            sums=count > 1 or dtype is not a.dtype,
        )
        for each in slices
        for first in range(0, batch, MAX_GROUPS)
    ]
    if count == 1:
        return parts
    out = TensorSpec((batch, m, b.shape[-1]), dtype)
    return [*parts, sum_slices(gpu, partial, out, count)]


def _slices(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    config: tuple[int, ...] | None,
) -> list[_Slices]:
    """Return the slices of K: those that a device's loops need, or that fill it."""
    batch, m, k = a.shape
    chunks = least_chunks(gpu, k)
    product = TiledGemm(m, b.shape[2], k, a.dtype, batch=batch)
    depth = slice_depth(gpu, product, batch, config) if chunks == 1 else k
    if depth < k:
        whole = k // depth
        found = [_Slices(0, whole, 0, depth)]
        if k % depth:
            found.append(_Slices(whole, 1, whole * depth, k % depth))
        return found
    most = ceil_div(k, chunks)
    starts = range(0, chunks * most, most) if most else (0,)
    return [
        _Slices(number, 1, start, min(k, start + most) - start)
        for number, start in enumerate(starts)
    ]


def _fallback_part(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    batch: range,
    slices: _Slices,
    out: BufferOffset,
    config: tuple[int, ...] | None,
    *,
    sums: bool,
) -> Dispatch:
    """Return the dispatch of a part of the batch and of slices of K.

    Several slices follow one another, each with the whole batch. `sums` says that the
    result is not rounded to the dtype of the operands.
    """
    m, n = a.shape[1], b.shape[2]
    a_batch, a_row, a_column = a.layout.strides
    b_batch, b_row, b_column = b.layout.strides
    size, start, depth = a.dtype.itemsize, slices.start, slices.depth
    push: dict[str, Argument] = {
        "a": BufferOffset("a", size * (a_batch * batch.start + a_column * start)),
        "b": BufferOffset("b", size * (b_batch * batch.start + b_row * start)),
        "out_": out,
    }
    push |= {"m": m, "n": n, "k": depth, "a_row": a_row, "a_column": a_column}
    push |= {"b_row": b_row, "b_column": b_column}
    push |= {"a_batch": a_batch, "b_batch": b_batch, "batches": len(batch)}
    groups = slices.number * len(batch)
    product = TiledGemm(
        m,
        n,
        depth,
        a.dtype,
        a_along_k=a_column == 1 and a_row != 1,
        b_along_k=b_row == 1 and b_column != 1,
        batch=groups,
    )
    kernel = ("matmul/gemm_tiled", "matmul/gemm_subgroup")
    return tiled_gemm_dispatch(
        gpu, kernel, product, groups, push, {}, partial=sums, config=config
    )
