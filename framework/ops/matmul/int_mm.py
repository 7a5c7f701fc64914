"""int8 GEMM with int32 accumulation, for quantized layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import int8, int32
from ...base.errors import ShapeError
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.gemm.candidates import Candidates, gemm_candidates, gemm_dispatches
from ...kernels.tensor_cores import integer_mode, register_test_op
from .matmul import broadcast_product

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def int_mm(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of int8 as int32; `matmul` of int8 is int8.

    Parameters
    ----------
    a : Tensor, shape (..., m, k), int8
    b : Tensor, shape (..., k, n), int8
        Leading dimensions broadcast. Large products read both along k: a `b` that is
        the transpose of a row-major matrix is not copied first.

    Returns
    -------
    Tensor, shape (..., m, n), int32
        Exact; sums beyond 32 bits wrap. There is no gradient.

    Raises
    ------
    ShapeError
        If an operand has less than two dimensions, or sizes do not fit.
    DTypeError
        If an operand is not int8.

    Notes
    -----
    `torch._int_mm`, for batches as well.
    """
    if len(a.layout.shape) < 2 or len(b.layout.shape) < 2:
        raise ShapeError(
            f"int_mm: a is {tuple(a.shape)}, b is {tuple(b.shape)}; both need two"
            " dimensions or more"
        )
    if a.layout.shape[-1] != b.layout.shape[-2]:
        raise ShapeError(
            f"int_mm: inner sizes differ: a is {tuple(a.shape)}, b is {tuple(b.shape)};"
            f" a.shape[-1] = {a.shape[-1]} must equal b.shape[-2] = {b.shape[-2]}"
        )
    mode = integer_mode(a.device)
    return broadcast_product(
        "int_mm", a, b, lambda left, right: _int_mm(left, right, mode)
    )


@primitive(dtypes=(int8,), strided=True, typed="a")
def _int_mm(a: Tensor, b: Tensor, mode: str) -> Tensor:
    """Return the batched int8 GEMM; `mode` as in `gemm.select`."""


@_int_mm.spec
def int_mm_spec(a: TensorSpec, b: TensorSpec, mode: str) -> TensorSpec:
    return TensorSpec((*a.shape[:2], b.shape[2]), int32)


@_int_mm.kernel
def int_mm_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> list[Dispatch]:
    return gemm_dispatches(gpu, a, b, mode, int32)


@_int_mm.candidates
def int_mm_candidates(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
) -> Candidates:
    return gemm_candidates(gpu, a, b, mode, int32)


@_int_mm.reference
def int_mm_reference(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    # Sums of 14-bit products are exact in float64, which is quick, and then wrap.
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return exact.astype(np.int64).astype(np.int32)


register_test_op(_int_mm, int8)
