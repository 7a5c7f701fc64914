"""GEMV with activations in registers: few rows times a matrix of 16-bit floats.

The kernel of quantized weights, `quantized/gemv.comp`, with floats in their place. A
workgroup has more columns than in `gemv`, so that it takes over a norm of the rows, and
a gate, at little cost; see `codegen.norm_prologue`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...base.dtype import DType, bfloat16, float16
from ...base.shape import Layout
from ...ir.kernel_call import Dispatch, StridedSpec
from ..gpu_model import model_of
from ..quantized import FLOATS_PIECE, gemv_dispatch
from .pack import GemmOperand, fits

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_ROWS = 8
"""Rows of the kernel."""

MOST_DEFAULT_ROWS = 1
"""Rows up to which it is taken without a search; more were not measured."""


def register_gemv(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, dtype: DType
) -> list[Dispatch] | None:
    """Return the dispatches of a GEMM of few rows, or None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (1, m, k)
    b : StridedSpec, shape (1, k, n)
        Read in place, along K.
    dtype : DType
        Of the result.
    """
    batch, m, k = a.shape
    n = b.shape[2]
    right = GemmOperand("b", b, 2, 1)
    if dtype is not a.dtype or batch != 1 or not _fits(gpu, dtype, m, k, n):
        return None
    in_place = right.along_k and fits(right, FLOATS_PIECE, 1, k)
    if not in_place or not a.layout.is_contiguous or a.layout.offset % FLOATS_PIECE:
        return None
    x = StridedSpec((m, k), dtype, Layout.contiguous((m, k)))
    line = b.layout.strides[2]
    weight = b.layout._replace(shape=(n, k), strides=(line, 1))
    blocks = StridedSpec((n, k), dtype, weight)
    return [gemv_dispatch(gpu, x, blocks, None, False, names=("a", "b"))]


def takes_by_default(rows: int) -> bool:
    """Return whether products of as many rows take the kernel without a search."""
    return rows <= MOST_DEFAULT_ROWS


@functools.lru_cache(maxsize=1024)
def takes_gate(gpu: DeviceInfo, dtype: DType, rows: int, columns: int, k: int) -> bool:
    """Return whether the kernel takes a gate beside (columns, k), without a search."""
    return takes_by_default(rows) and _fits(gpu, dtype, rows, k, columns)


def _fits(gpu: DeviceInfo, dtype: DType, rows: int, k: int, n: int) -> bool:
    vectors = gpu.target.vec4_loads and k and k % FLOATS_PIECE == 0
    large = n * k >= model_of(gpu).gemv_smallest
    known = dtype in (float16, bfloat16)
    return bool(vectors) and large and known and 0 < rows <= MOST_ROWS
