"""Grouped products with stacks of quantized matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import bfloat16, float16, int32, uint8
from ...base.quantized_format import find_format
from ...base.shape import TensorSpec
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.gemm.decoding import (
    decoded_groups,
    decoding_grouped_gemm,
    takes_decoding_grouped_gemm,
)
from ...kernels.gemm.tiles import TENSOR_CORES
from ...kernels.quantized import gemv_dispatch
from ...kernels.tensor_cores import offers
from ..matmul.grouped import (
    FLOATS,
    check_gathered,
    check_numbers,
    grouped_mm,
    grouped_rows_reference,
)
from ..view import transpose
from .decode import decode
from .product import WEIGHTS, check_blocks, decoding_device, elements, gate_of

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(
    dtypes={"x": WEIGHTS, "blocks": (uint8,), "numbers": (int32,)},
    typed="x",
)
def _quantized_gather_mm(
    x: Tensor, blocks: Tensor, numbers: Tensor, format: str
) -> Tensor:
    """Return the products of rows with quantized matrices by their numbers."""


@_quantized_gather_mm.spec
def quantized_gather_mm_spec(
    x: TensorSpec, blocks: TensorSpec, numbers: TensorSpec, format: str
) -> TensorSpec:
    return TensorSpec((numbers.shape[0], blocks.shape[1]), x.dtype)


@_quantized_gather_mm.kernel
def quantized_gather_mm_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    blocks: StridedSpec,
    numbers: StridedSpec,
    format: str,
) -> Dispatch:
    kind = find_format(format)
    return gemv_dispatch(gpu, x, blocks, kind, False, numbers=numbers)


@_quantized_gather_mm.reference
def quantized_gather_mm_reference(
    x: np.ndarray, blocks: np.ndarray, numbers: np.ndarray, format: str
) -> np.ndarray:
    return _products(x, blocks, numbers, format).astype(x.dtype)


def _products(
    x: np.ndarray, blocks: np.ndarray, numbers: np.ndarray, format: str
) -> np.ndarray:
    """Return float32 products of rows with matrices by their numbers."""
    check_numbers(numbers, len(blocks))
    if not len(numbers):
        return np.zeros((0, blocks.shape[1]), np.float32)
    rows = np.repeat(x.astype(np.float32), len(numbers) // max(1, len(x)), 0)
    weight = decode(blocks[numbers], find_format(format), x.shape[1])
    out: np.ndarray = np.matmul(weight, rows[..., None])[..., 0]
    return out


@primitive(
    dtypes={"x": WEIGHTS, "gate": (uint8,), "blocks": (uint8,), "numbers": (int32,)},
    typed="x",
)
def _gated_quantized_gather_mm(
    x: Tensor,
    gate: Tensor,
    blocks: Tensor,
    numbers: Tensor,
    format: str,
    activation: str,
) -> Tensor:
    """Return products of rows with quantized matrices, gated by those with others."""


@_gated_quantized_gather_mm.spec
def gated_quantized_gather_mm_spec(
    x: TensorSpec, blocks: TensorSpec, numbers: TensorSpec, **_: object
) -> TensorSpec:
    return TensorSpec((numbers.shape[0], blocks.shape[1]), x.dtype)


@_gated_quantized_gather_mm.kernel
def gated_quantized_gather_mm_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    gate: StridedSpec,
    blocks: StridedSpec,
    numbers: StridedSpec,
    format: str,
    activation: str,
) -> Dispatch:
    kind = find_format(format)
    return gemv_dispatch(gpu, x, blocks, kind, False, activation, numbers)


@_gated_quantized_gather_mm.reference
def gated_quantized_gather_mm_reference(
    x: np.ndarray,
    gate: np.ndarray,
    blocks: np.ndarray,
    numbers: np.ndarray,
    format: str,
    activation: str,
) -> np.ndarray:
    g, u = (_products(x, each, numbers, format) for each in (gate, blocks))
    return (gate_of(g, activation) * u).astype(x.dtype)


@primitive(
    dtypes={"x": (float16, bfloat16), "blocks": (uint8,), "offs": (int32,)}, typed="x"
)
def _quantized_grouped_gemm(
    x: Tensor, blocks: Tensor, offs: Tensor, format: str
) -> Tensor:
    """Return products of groups of rows, with weights decoded on load."""


@_quantized_grouped_gemm.spec
def quantized_grouped_gemm_spec(
    x: TensorSpec, blocks: TensorSpec, **_: object
) -> TensorSpec:
    return TensorSpec((x.shape[0], blocks.shape[1]), x.dtype)


@_quantized_grouped_gemm.kernel
def quantized_grouped_gemm_kernel(
    gpu: DeviceInfo, x: StridedSpec, blocks: StridedSpec, offs: StridedSpec, format: str
) -> list[Dispatch]:
    kind = find_format(format)
    found = None
    if offers(gpu, x.dtype, TENSOR_CORES):
        found = decoding_grouped_gemm(gpu, x, blocks, kind)
    return found or decoded_groups(gpu, x, blocks, kind)


@_quantized_grouped_gemm.reference
def quantized_grouped_gemm_reference(
    x: np.ndarray, blocks: np.ndarray, offs: np.ndarray, format: str
) -> np.ndarray:
    weight = decode(blocks, find_format(format), x.shape[1]).swapaxes(1, 2)
    wide = x.astype(np.float32)
    return grouped_rows_reference(wide, weight, offs, "").astype(x.dtype)


def _decodes_on_load(x: Tensor, blocks: Tensor, format: str) -> bool:
    """Return whether `_quantized_grouped_gemm` takes a product."""
    gpu = decoding_device(x)
    if gpu is None or 0 in (*x.layout.shape, *blocks.layout.shape):
        return False
    return takes_decoding_grouped_gemm(
        gpu, x.dtype, x.layout.shape, blocks.layout.shape, find_format(format)
    )


@composite(dtypes={"x": FLOATS, "blocks": (uint8,), "offs": (int32,)})
def _quantized_grouped_mm(
    x: Tensor, blocks: Tensor, offs: Tensor, format: str
) -> Tensor:
    """Return the product of each group of rows with its quantized matrix."""
    if _decodes_on_load(x, blocks, format):
        return _quantized_grouped_gemm(x, blocks, offs, format)
    weight = elements(blocks, format, x.layout.shape[1], x.dtype)
    return grouped_mm(x, transpose(weight, 1, 2), offs)


@_quantized_grouped_mm.vjp
def _quantized_grouped_mm_vjp(
    grad: Tensor, x_spec: TensorSpec, blocks: Tensor, offs: Tensor, format: str
) -> tuple[Tensor, None, None]:
    # Weights are decoded anew, for their elements would take memory until now.
    weight = elements(blocks, format, x_spec.shape[1], grad.dtype)
    return grouped_mm(grad, weight, offs), None, None


def quantized_gather_mm(
    x: Tensor, blocks: Tensor, numbers: Tensor, format: str
) -> Tensor:
    """Return x W^T of each row, with a quantized matrix W of its own; of few rows.

    Parameters
    ----------
    x : Tensor, shape (rows, in_features), float32, float16 or bfloat16
    blocks : Tensor, uint8, shape (matrices, out_features, row_size)
    numbers : Tensor, int32, shape (count,)
        Which matrix, from 0; a multiple of the rows, as of `gather_mm`.
    format : str
        Name of a format; see `QuantizedTensor`.

    Returns
    -------
    Tensor, shape (count, out_features)
        Without a gradient.

    Raises
    ------
    ShapeError
        If sizes do not fit each other or the format.
    IndexRangeError
        If there is no matrix of a number: on the host at once, on a device by the next
        read.
    """
    _check("quantized_gather_mm", x, blocks, numbers, format)
    return _quantized_gather_mm(x, blocks, numbers, format)


def gated_quantized_gather_mm(
    x: Tensor,
    gate: Tensor,
    blocks: Tensor,
    numbers: Tensor,
    format: str,
    activation: str,
) -> Tensor:
    """Return activation(x G^T) * (x W^T) of each row, in one kernel; of few rows.

    Parameters
    ----------
    x, blocks, numbers, format
        As of `quantized_gather_mm`.
    gate : Tensor, uint8, shape of `blocks`
        G of each.
    activation : str
        "silu" or "gelu_tanh".

    Returns
    -------
    Tensor, shape (count, out_features)
        Without a gradient. The two products are not rounded.

    Raises
    ------
    ShapeError, IndexRangeError
        As of `quantized_gather_mm`.
    """
    _check("gated_quantized_gather_mm", x, blocks, numbers, format)
    return _gated_quantized_gather_mm(x, gate, blocks, numbers, format, activation)


def _check(name: str, x: Tensor, blocks: Tensor, numbers: Tensor, format: str) -> None:
    columns = x.layout.shape[-1]
    check_blocks(name, blocks.spec, format, columns)
    matrices = (*blocks.layout.shape[:1], columns, *blocks.layout.shape[1:2])
    check_gathered(name, x, matrices, numbers)


@autocast_low_precision
def quantized_grouped_mm(
    x: Tensor, blocks: Tensor, offs: Tensor, format: str
) -> Tensor:
    """Return x W^T for each group of rows, with a quantized matrix W of its own.

    Parameters
    ----------
    x : Tensor, shape (rows, in_features), float
    blocks : Tensor, uint8, shape (groups, out_features, row_size)
    offs : Tensor, int32, shape (groups,)
        Where groups end, as of `grouped_mm`.
    format : str
        Name of a format; see `QuantizedTensor`.

    Returns
    -------
    Tensor, shape (rows, out_features)
        Matrices are decoded on their way to tensor cores, where the device has them
        and groups have few rows, or else a temporary stack of the dtype of `x`; they
        get no gradient.

    Raises
    ------
    ShapeError
        If sizes do not fit each other or the format.
    IndexRangeError
        As of `grouped_mm`.
    """
    check_blocks("quantized_grouped_mm", blocks.spec, format, x.layout.shape[-1])
    return _quantized_grouped_mm(x, blocks, offs, format)
