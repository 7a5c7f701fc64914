"""Sums of products of two tensors, which are never in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import NUMERIC, DType, as_dtype
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.reduce import kept_shape, reduce_dispatches, sum_like
from ..elementwise.binary import mul

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=NUMERIC, strided=True, typed="x")
def _product_sums(x: Tensor, y: Tensor, dims: tuple[int, ...], dtype: DType) -> Tensor:
    """Return sums over `dims`, which stay with size 1, of products.

    Both are of one shape, dtype and strides; `dtype` is theirs, or that in which a
    kernel accumulates it.
    """


@_product_sums.spec
def _product_sums_spec(
    x: TensorSpec, y: TensorSpec, dims: tuple[int, ...], dtype: DType
) -> TensorSpec:
    return TensorSpec(kept_shape(x.shape, dims), dtype)


@_product_sums.kernel
def _product_sums_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    y: StridedSpec,
    dims: tuple[int, ...],
    dtype: DType,
) -> list[Dispatch]:
    assert x.layout.strides == y.layout.strides
    products = sum_like("SUM", x.dtype, dtype, other="y")
    return reduce_dispatches(gpu, products, x, dims, other=y)


@_product_sums.vjp
def _product_sums_vjp(grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return mul(grad, y), mul(grad, x)


@_product_sums.reference
def _product_sums_reference(
    x: np.ndarray, y: np.ndarray, dims: tuple[int, ...], dtype: DType
) -> np.ndarray:
    kind = as_dtype(dtype).arithmetic
    products = x.astype(kind) * y.astype(kind)
    return products.sum(dims, keepdims=True, dtype=kind)
