"""Matrix multiplication: choice of the GEMM kernel, and gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import NUMERIC, DType, bfloat16, float16, float32
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, broadcast_shapes, ceil_div
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.declare import primitive
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
    least_chunks,
)
from ...kernels.gemm.gemv import skinny_gemm
from ...kernels.gemm.select import large_tile_gemm, likely_configs
from ...kernels.gemm.small import TiledGemm, small_tile_configs, tiled_gemm_dispatch
from ...kernels.reduce import sum_rows
from ...kernels.shader_types import acc_size, check_same_dtype
from ...kernels.tensor_cores import product_mode, register_test_op
from ..view import expand, reshape, transpose

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@autocast_low_precision
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of each pair in two batches.

    Parameters
    ----------
    a : Tensor, shape (batch, m, k)
    b : Tensor, shape (batch, k, n), same dtype
        Transposed and repeated operands are read in place.

    Returns
    -------
    Tensor, shape (batch, m, n)
        Accumulated in float32 or wider; integers wrap.

    Raises
    ------
    ShapeError
        If an operand has not three dimensions, or sizes do not fit.
    """
    return _bmm(a, b, product_mode(a.device, a.dtype))


@primitive(dtypes=NUMERIC, strided=True, typed="a", epilogue_dims=1)
def _bmm(a: Tensor, b: Tensor, mode: str) -> Tensor:
    """Return the batched GEMM, with a `mode` of `gemm.select`."""


@_bmm.spec
def bmm_spec(a: TensorSpec, b: TensorSpec, mode: str) -> TensorSpec:
    if a.ndim != 3 or b.ndim != 3:
        raise ShapeError(f"bmm: a is {a.shape}, b is {b.shape}; both must be 3-D")
    check_same_dtype("matmul", a=a, b=b)
    batch, m, k = a.shape
    batch_b, k_b, n = b.shape
    if k != k_b:
        raise ShapeError(
            f"matmul: inner sizes differ: a is {a.shape}, b is {b.shape};"
            f" a.shape[-1] = {k} must equal b.shape[-2] = {k_b}"
        )
    if batch != batch_b:
        raise ShapeError(f"bmm: batch sizes differ: a is {a.shape}, b is {b.shape}")
    return TensorSpec((batch, m, n), a.dtype)


@_bmm.kernel
def bmm_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> list[Dispatch]:
    found = skinny_gemm(gpu, a, b, a.dtype) or large_tile_gemm(gpu, a, b, mode)
    return found or fallback_gemm(gpu, a, b, a.dtype)


@_bmm.candidates
def bmm_candidates(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> dict[str, Callable[[], list[Dispatch] | None]]:
    candidates: dict[str, Callable[[], list[Dispatch] | None]] = {
        "GEMV": lambda: skinny_gemm(gpu, a, b, a.dtype),
    }
    for name, config in likely_configs(gpu, a, b, mode).items():
        candidates[name] = functools.partial(large_tile_gemm, gpu, a, b, mode, config)
    for small in small_tile_configs(gpu, a.dtype):
        name = f"fallback GEMM, tiles of {'x'.join(map(str, small))}"
        candidates[name] = functools.partial(fallback_gemm, gpu, a, b, a.dtype, small)
    return candidates


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
        _bmm_part(
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


def _bmm_part(
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


@_bmm.vjp
def bmm_vjp(
    grad: Tensor, a: Tensor, b: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return (
        bmm(grad, transpose(b, 1, 2)) if needs[0] else None,
        bmm(transpose(a, 1, 2), grad) if needs[1] else None,
    )


@_bmm.reference
def bmm_reference(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    return np.matmul(a, b)


register_test_op(_bmm, float32, float16, bfloat16)


@autocast_low_precision
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product over the last two dimensions.

    Parameters
    ----------
    a : Tensor, shape (..., m, k) or (k,)
    b : Tensor, shape (..., k, n) or (k,), same dtype
        Leading dimensions broadcast. A 1-D operand is a row on the left, a column on
        the right, and its dimension is dropped from the result, as in NumPy.

    Returns
    -------
    Tensor, shape (..., m, n)

    Raises
    ------
    ShapeError
        If an operand is a scalar, inner sizes differ, or batches do not broadcast.
    """
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(
            f"matmul: a is {a.shape}, b is {b.shape}; both need at least one dimension"
        )
    left = reshape(a, (1, *a.shape)) if a.ndim == 1 else a
    right = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(
            f"matmul: inner sizes differ: a is {a.shape}, b is {b.shape};"
            f" a.shape[-1] = {left.shape[-1]} must equal"
            f" b.shape[{'-2' if b.ndim > 1 else '0'}] = {right.shape[-2]}"
        )
    out = broadcast_product("matmul", left, right, bmm)
    keep = [0] * (a.ndim != 1) + [1] * (b.ndim != 1)
    rows_columns = tuple(out.shape[-2:][k] for k in keep)
    return reshape(out, (*out.shape[:-2], *rows_columns))


def broadcast_product(
    name: str, a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Multiply operands of two or more dimensions; `multiply` takes batches of them.

    `name` is what errors call the operation.
    """
    *batch_a, m, k = a.shape
    n = b.shape[-1]
    if b.ndim == 2:
        # One GEMM over all rows, instead of a batch that repeats b.
        rows = reshape(a, (1, math.prod(a.shape[:-1]), k))
        return reshape(multiply(rows, reshape(b, (1, k, n))), (*batch_a, m, n))
    batch = broadcast_shapes(name, tuple(batch_a), b.shape[:-2])
    count = math.prod(batch)
    left = reshape(expand(a, (*batch, m, k)), (count, m, k))
    right = reshape(expand(b, (*batch, k, n)), (count, k, n))
    return reshape(multiply(left, right), (*batch, m, n))
