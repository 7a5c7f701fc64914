"""Workloads with many operations for each byte: products, convolution, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkbackend.framework import ops

from .workload import Bench, Case, workload

_SIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
# Rounding of one product's inputs and of its result, each relative to the largest.
_TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}
_CACHE = 64 << 20


def _product(bench: Bench, m: int, k: int, n: int, dtype: str) -> Case:
    """Multiply matrices, as many pairs as do not fit in the cache in turn."""
    size = _SIZE[dtype] * (m * k + k * n + m * n)
    small = bench.device.gpu.info.kind == "software"
    runs = 1 if small else max(1, math.ceil(_CACHE / size))
    pairs = [
        (bench.uniform(m, k, dtype=dtype), bench.uniform(k, n, dtype=dtype))
        for _ in range(runs)
    ]
    return Case(
        lambda: [a @ b for (a, _), (b, _) in pairs],
        bench.choose(
            lambda torch: [a @ b for (_, a), (_, b) in pairs],
            (lambda: [a @ b for (_, a), (_, b) in pairs])
            if dtype == "float32"
            else None,
        ),
        moved=size,
        # Only float32 is limited by the multiply-adds that are measured.
        operations=2 * m * k * n,
        tolerance=_TOLERANCE[dtype],
        runs=runs,
    )


def _add_products() -> None:
    for dtype in _SIZE:
        for size in (1024, 2048, 4096, 8192):

            def make(bench: Bench, n: int, dtype: str = dtype) -> Case:
                return _product(bench, n, n, n, dtype)

            small = (size,) if size == 1024 and dtype == "float32" else None
            workload(f"matmul_{{}}_{dtype}", full=(size,), small=small, dtype=dtype)(
                make
            )


_add_products()


@workload("gemv_1x{}x{}_f16", full=(4096, 16384), dtype="float16")
def vector_product(bench: Bench, k: int, n: int) -> Case:
    """Multiply a row vector by a matrix."""
    return _product(bench, 1, k, n, "float16")


def _im2col(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    batch, channels, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, channels * 9)
    out = columns @ w.reshape(len(w), -1).T
    return np.asarray(out.reshape(batch, height, width, -1).transpose(0, 3, 1, 2))


def _convolution(
    bench: Bench, shape: tuple[int, ...], filters: int, stride: int
) -> Case:
    batch, channels, size, kernel = shape
    x, px = bench.uniform(batch, channels, size, size)
    w, pw = bench.uniform(filters, channels, kernel, kernel)
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    return Case(
        lambda: [ops.conv2d(x, w, None, stride, padding)],
        bench.choose(
            lambda torch: [torch.nn.functional.conv2d(px, pw, None, stride, padding)],
            (lambda: [_im2col(px, pw)]) if kernel == 3 else None,
        ),
        operations=2 * batch * filters * out * out * channels * kernel * kernel,
        tolerance=1e-4,
    )


@workload(
    "conv_fwd_{}x{}x{}_{}k3_float32", full=(64, 64, 56, 64), small=(8, 16, 32, 32)
)
def convolution(
    bench: Bench, batch: int, channels: int, size: int, filters: int
) -> Case:
    """Convolve with 3x3 filters."""
    return _convolution(bench, (batch, channels, size, 3), filters, 1)


@workload("conv_fwd_{}x{}x{}_{}k3_float32", full=(64, 256, 14, 256))
def deep_convolution(
    bench: Bench, batch: int, channels: int, size: int, filters: int
) -> Case:
    """Convolve small images of many channels."""
    return _convolution(bench, (batch, channels, size, 3), filters, 1)


@workload("conv_fwd_{}x{}x{}_{}k7_float32", full=(64, 3, 224, 64))
def first_convolution(
    bench: Bench, batch: int, channels: int, size: int, filters: int
) -> Case:
    """Convolve large images of few channels."""
    return _convolution(bench, (batch, channels, size, 7), filters, 2)


def _attention(bench: Bench, shape: tuple[int, ...], dtype: str, causal: bool) -> Case:
    batch, heads, length, width = shape
    (q, pq), (k, pk), (v, pv) = (bench.uniform(*shape, dtype=dtype) for _ in range(3))
    operations = 4 * batch * heads * length * length * width
    return Case(
        lambda: [ops.scaled_dot_product_attention(q, k, v, is_causal=causal)],
        bench.choose(
            lambda torch: [
                torch.nn.functional.scaled_dot_product_attention(
                    pq, pk, pv, is_causal=causal
                )
            ]
        ),
        operations=operations // 2 if causal else operations,
        tolerance=_TOLERANCE[dtype],
    )


@workload("sdpa_fwd_f16", full=(4, 16, 4096, 128), dtype="float16")
def attention(bench: Bench, *shape: int) -> Case:
    """Attend to everything."""
    return _attention(bench, shape, "float16", False)


@workload("sdpa_fwd_causal_f16", full=(4, 16, 4096, 128), dtype="float16")
def causal_attention(bench: Bench, *shape: int) -> Case:
    """Attend to what came before."""
    return _attention(bench, shape, "float16", True)


@workload("sdpa_fwd_f32_{}x{}x{}x{}", full=(4, 16, 2048, 64), small=(1, 4, 256, 32))
def wide_attention(bench: Bench, *shape: int) -> Case:
    """Attend in float32."""
    return _attention(bench, shape, "float32", False)
