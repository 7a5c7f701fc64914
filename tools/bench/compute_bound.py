"""Compute-bound workloads: GEMM, convolution, attention."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import Tensor, ops

from .workload import Bench, Case, workload

_SIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
# Rounding of a GEMM's inputs and of its result, each relative to the largest.
_TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}
_CACHE = 64 << 20


def _chain(x: Any, factors: Sequence[Any]) -> list[Any]:
    """Return each GEMM of a dependent chain, which cannot overlap."""
    return list(itertools.accumulate(factors, operator.matmul, initial=x))[1:]


def _product(bench: Bench, m: int, k: int, n: int, dtype: str) -> Case:
    """Multiply matrices; square ones by as many in turn as do not fit in the cache."""
    size = _SIZE[dtype] * (m * k + k * n + m * n)
    small = bench.device.gpu.info.kind == "software"
    runs = max(1, math.ceil(_CACHE / size)) if m == k == n and not small else 1
    x, px = bench.uniform(m, k, dtype=dtype)
    # Products of such numbers vary as much as `x` does.
    bound = math.sqrt(3 / k)
    factors = [
        bench.uniform(k, n, low=-bound, high=bound, dtype=dtype) for _ in range(runs)
    ]
    return Case(
        lambda: _chain(x, [w for w, _ in factors]),
        bench.choose(
            lambda torch: _chain(px, [w for _, w in factors]),
            (lambda: _chain(px, [w for _, w in factors]))
            if dtype == "float32"
            else None,
        ),
        moved=size,
        # Only float32 is limited by the multiply-adds that are measured.
        operations=2 * m * k * n,
        tolerance=_TOLERANCE[dtype] * math.sqrt(runs),
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


@workload("matmul_{}x{}x{}_f16", full=(4000, 4095, 4001), dtype="float16")
def ragged_product(bench: Bench, m: int, k: int, n: int) -> Case:
    """Multiply matrices of odd sizes."""
    return _product(bench, m, k, n, "float16")


@workload("matmul_{}x{}x{}_f32", full=(2048, 10000, 128), small=(64, 2000, 32))
def deep_product(bench: Bench, m: int, k: int, n: int) -> Case:
    """Multiply matrices with few results and a large K (split-K)."""
    return _product(bench, m, k, n, "float32")


@workload("matmul_{}_f16_turned", full=(4096,), dtype="float16")
def turned_product(bench: Bench, size: int) -> Case:
    """Multiply matrices that are both stored by columns."""
    (a, pa), (b, pb) = (bench.uniform(size, size, dtype="float16") for _ in range(2))
    return Case(
        lambda: [a.mT @ b.mT],
        bench.choose(lambda torch: [pa.mT @ pb.mT]),
        operations=2 * size**3,
        tolerance=_TOLERANCE["float16"],
    )


@contextmanager
def _flag(owner: Any, name: str) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, True)
    try:
        yield
    finally:
        setattr(owner, name, before)


@workload("matmul_{}_tf32", full=(4096,))
def high_product(bench: Bench, size: int) -> Case:
    """Multiply float32 with precision "high", beside TF32, which has as many bits."""
    (a, pa), (b, pb) = (bench.uniform(size, size) for _ in range(2))

    def ours() -> list[Tensor]:
        before = fw.get_float32_matmul_precision()
        fw.set_float32_matmul_precision("high")
        try:
            result = a @ b
            fw.eval(result)
        finally:
            fw.set_float32_matmul_precision(before)
        return [result]

    def theirs(torch: Any) -> list[Any]:
        with _flag(torch.backends.cuda.matmul, "allow_tf32"):
            return [pa @ pb]

    return Case(ours, bench.choose(theirs), operations=2 * size**3, tolerance=1e-3)


@workload("matmul_{}_f16_half_sums", full=(4096,), dtype="float16")
def half_sums_product(bench: Bench, size: int) -> Case:
    """Multiply float16 with float16 accumulation."""
    (a, pa), (b, pb) = (bench.uniform(size, size, dtype="float16") for _ in range(2))

    def ours() -> list[Tensor]:
        fw.allow_float16_accumulation(True)
        try:
            result = a @ b
            fw.eval(result)
        finally:
            fw.allow_float16_accumulation(False)
        return [result]

    def theirs(torch: Any) -> list[Any]:
        with _flag(torch.backends.cuda.matmul, "allow_fp16_accumulation"):
            return [pa @ pb]

    return Case(ours, bench.choose(theirs), operations=2 * size**3, tolerance=4e-2)


@workload("bmm_{}x{}_f16", full=(16, 1024), dtype="float16")
def batched_product(bench: Bench, batch: int, size: int) -> Case:
    """Multiply pairs of matrices."""
    (a, pa), (b, pb) = (
        bench.uniform(batch, size, size, dtype="float16") for _ in range(2)
    )
    return Case(
        lambda: [a @ b],
        bench.choose(lambda torch: [pa @ pb]),
        operations=2 * batch * size**3,
        tolerance=_TOLERANCE["float16"],
    )


@workload("linear_gelu_{}_f16", full=(4096,), dtype="float16")
def linear(bench: Bench, size: int) -> Case:
    """Multiply with stored rows, add a bias and apply gelu."""
    (x, px), (w, pw) = (bench.uniform(size, size, dtype="float16") for _ in range(2))
    b, pb = bench.uniform(size, dtype="float16")
    return Case(
        lambda: [ops.gelu(ops.linear(x, w, b))],
        bench.choose(
            lambda torch: [
                torch.nn.functional.gelu(torch.nn.functional.linear(px, pw, pb))
            ]
        ),
        operations=2 * size**3,
        tolerance=_TOLERANCE["float16"],
    )


@workload("int_mm_{}_int8", full=(4096,), small=(256,), dtype="int8")
def integer_product(bench: Bench, size: int) -> Case:
    """Multiply int8, the right operand stored by columns, accumulating in int32."""
    (a, pa), (b, pb) = (
        bench.uniform(size, size, low=-127, high=127, dtype="int8") for _ in range(2)
    )
    return Case(
        lambda: [ops.int_mm(a, b.mT)],
        bench.choose(
            lambda torch: [torch._int_mm(pa, pb.t())],
            lambda: [np.matmul(pa.astype(np.int32), pb.T.astype(np.int32))],
        ),
        operations=2 * size**3,
        tolerance=0,
    )


@workload("gemv_1x{}x{}_f16", full=(4096, 16384), dtype="float16")
def vector_product(bench: Bench, k: int, n: int) -> Case:
    """Multiply a row vector by a matrix (GEMV)."""
    return _product(bench, 1, k, n, "float16")


def _im2col(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    batch, channels, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, channels * 9)
    out = columns @ w.reshape(len(w), -1).T
    return np.asarray(out.reshape(batch, height, width, -1).transpose(0, 3, 1, 2))


class _Convolution(NamedTuple):
    """Convolution size: square images and square filters."""

    batch: int
    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1

    @property
    def operations(self) -> int:
        out = (self.size - 1) // self.stride + 1
        return 2 * self.batch * self.filters * self.channels * (out * self.kernel) ** 2


def _convolution(bench: Bench, sizes: _Convolution, dtype: str, backward: bool) -> Case:
    stride, padding = sizes.stride, sizes.kernel // 2
    images = sizes.batch, sizes.channels, sizes.size, sizes.size
    filters = sizes.filters, sizes.channels, sizes.kernel, sizes.kernel
    x, px = bench.uniform(*images, dtype=dtype)
    # Sums stay near 1, far from the end of float16.
    bound = math.prod(filters[1:]) ** -0.5
    w, pw = bench.uniform(*filters, low=-bound, high=bound, dtype=dtype)

    def run(convolve: Callable[..., Any], x: Any, w: Any) -> list[Any]:
        if not backward:
            return [convolve(x, w, None, stride, padding)]
        x.grad, w.grad = None, None
        convolve(x, w, None, stride, padding).sum().backward()
        return [x.grad, w.grad]

    if backward:
        for operand in (x, w, px, pw) if bench.peer.torch is not None else (x, w):
            operand.requires_grad_()
    host = dtype == "float32" and sizes.kernel == 3 and not backward
    return Case(
        lambda: run(ops.conv2d, x, w),
        bench.choose(
            lambda torch: run(torch.nn.functional.conv2d, px, pw),
            (lambda: [_im2col(px, pw)]) if host else None,
        ),
        operations=sizes.operations * (3 if backward else 1),
        tolerance=10 * _TOLERANCE[dtype],
    )


_CONVOLUTIONS = {
    _Convolution(64, 64, 56, 64, 3): _Convolution(8, 16, 32, 32, 3),
    _Convolution(64, 256, 14, 256, 3): None,
    _Convolution(64, 3, 224, 64, 7, 2): None,
}
"""Sizes on hardware, and on a software device."""


def _add_convolutions() -> None:
    for full, small in _CONVOLUTIONS.items():
        for dtype in ("float32", "float16"):
            for part in ("fwd", "fwdbwd"):

                def make(
                    bench: Bench, *sizes: int, dtype: str = dtype, part: str = part
                ) -> Case:
                    chosen = _Convolution(*sizes)
                    return _convolution(bench, chosen, dtype, part == "fwdbwd")

                title = f"conv_{part}_{{}}x{{}}x{{}}_{{}}k{{}}_{dtype}"
                there = small if dtype == "float32" else None
                workload(title, full=full, small=there, dtype=dtype)(make)


_add_convolutions()


def _attention(
    bench: Bench,
    shape: tuple[int, ...],
    dtype: str,
    causal: bool = False,
    backward: bool = False,
) -> Case:
    batch, heads, length, width = shape
    pairs = [bench.uniform(*shape, dtype=dtype) for _ in range(3)]
    mine, theirs = [x for x, _ in pairs], [x for _, x in pairs]

    def run(attend: Callable[..., Any], operands: Sequence[Any]) -> list[Any]:
        if not backward:
            return [attend(*operands, is_causal=causal)]
        for operand in operands:
            operand.requires_grad_().grad = None
        attend(*operands, is_causal=causal).sum().backward()
        return [operand.grad for operand in operands]

    operations = 4 * batch * heads * length * length * width
    if backward:
        # Of five GEMMs, the first is the forward one recomputed.
        operations = operations * 7 // 2
    return Case(
        lambda: run(ops.scaled_dot_product_attention, mine),
        bench.choose(
            lambda torch: run(torch.nn.functional.scaled_dot_product_attention, theirs)
        ),
        operations=operations // 2 if causal else operations,
        tolerance=_TOLERANCE[dtype],
    )


@workload("sdpa_fwd_f16", full=(4, 16, 4096, 128), dtype="float16")
def attention(bench: Bench, *shape: int) -> Case:
    """Attend to everything."""
    return _attention(bench, shape, "float16")


@workload("sdpa_fwd_causal_f16", full=(4, 16, 4096, 128), dtype="float16")
def causal_attention(bench: Bench, *shape: int) -> Case:
    """Attend causally."""
    return _attention(bench, shape, "float16", causal=True)


@workload("sdpa_fwdbwd_f16", full=(4, 16, 4096, 128), dtype="float16")
def attention_gradients(bench: Bench, *shape: int) -> Case:
    """Attend to everything, and differentiate."""
    return _attention(bench, shape, "float16", backward=True)


@workload("sdpa_fwd_f32_{}x{}x{}x{}", full=(4, 16, 2048, 64), small=(1, 4, 256, 32))
def wide_attention(bench: Bench, *shape: int) -> Case:
    """Attend in float32."""
    return _attention(bench, shape, "float32")
