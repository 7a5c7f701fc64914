"""Products with quantized weights, and their elements as floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import INTEGER, DType, bfloat16, float16, float32, float64, uint8
from ...base.errors import DTypeError, ShapeError
from ...base.quantized_format import find_format
from ...base.shape import TensorSpec
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.gemm.decoding import decoding_gemm, takes_decoding_gemm
from ...kernels.gemm.skinny import MOST_ROWS, skinny_coopmat, takes_gate
from ...kernels.gemm.tiles import SIMT, TENSOR_CORES
from ...kernels.quantized import GATES, dequantize_dispatch, gemv_dispatch
from ...kernels.shader_types import check_same_dtype
from ...kernels.tensor_cores import offers, product_mode
from ..elementwise.binary import add
from ..elementwise.cast import cast
from ..indexing.gather import take_rows
from ..matmul.matmul import matmul
from ..reduce.sum import sum
from ..view import flatten, reshape, transpose, unsqueeze
from .decode import decode

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

WEIGHTS = (float32, float16, bfloat16)
"""Dtypes of activations, and of elements."""

MOST_GEMV_ROWS = 8
"""Rows up to which weights are decoded in registers; those of more on load for tensor
cores, or into a temporary copy."""


@primitive(dtypes=(uint8,))
def dequantize_blocks(
    blocks: Tensor, format: str, columns: int, dtype: DType
) -> Tensor:
    """Return quantized weights as floats.

    Parameters
    ----------
    blocks : Tensor, uint8, shape (..., row_size)
    format : str
        Name of a format; see `QuantizedTensor`.
    columns : int
    dtype : DType
        float32, float16 or bfloat16.

    Returns
    -------
    Tensor, shape (..., columns)
        In float32 the bits that the package gguf computes. No gradient.

    Raises
    ------
    ShapeError
        If rows of the format have other sizes.
    """


@dequantize_blocks.spec
def dequantize_blocks_spec(
    blocks: TensorSpec, format: str, columns: int, dtype: DType
) -> TensorSpec:
    check_blocks("dequantize_blocks", blocks, format, columns)
    return TensorSpec((*blocks.shape[:-1], columns), dtype)


@dequantize_blocks.kernel
def dequantize_blocks_kernel(
    gpu: DeviceInfo, blocks: StridedSpec, format: str, columns: int, dtype: DType
) -> Dispatch:
    kind = find_format(format)
    out = TensorSpec((*blocks.shape[:-1], columns), dtype)
    return dequantize_dispatch(gpu, blocks, kind, out)


@dequantize_blocks.reference
def dequantize_blocks_reference(
    blocks: np.ndarray, format: str, columns: int, dtype: DType
) -> np.ndarray:
    return decode(blocks, find_format(format), columns).astype(dtype.numpy)


def check_blocks(name: str, blocks: TensorSpec, format: str, columns: int) -> None:
    """Raise `ShapeError` if rows of the format have other sizes."""
    kind = find_format(format, name)
    kind.check(name, columns)
    wanted = kind.row_size(columns)
    if not blocks.shape or blocks.shape[-1] != wanted:
        raise ShapeError(
            f"{name}: blocks is {tuple(blocks.shape)}; rows of {columns} columns in"
            f" {format} take {wanted} bytes"
        )


@primitive(
    dtypes={"x": WEIGHTS, "blocks": (uint8,), "bias": WEIGHTS},
    typed="x",
    epilogue_dims=1,
)
def _quantized_gemv(
    x: Tensor, blocks: Tensor, bias: Tensor | None, format: str
) -> Tensor:
    """Return the product of few rows with the rows of quantized weights."""


@_quantized_gemv.spec
def quantized_gemv_spec(
    x: TensorSpec, blocks: TensorSpec, bias: TensorSpec | None, format: str
) -> TensorSpec:
    check_same_dtype("quantized_linear", x=x, bias=bias)
    return TensorSpec((x.shape[0], blocks.shape[0]), x.dtype)


@_quantized_gemv.kernel
def quantized_gemv_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    blocks: StridedSpec,
    bias: StridedSpec | None,
    format: str,
) -> Dispatch:
    kind = find_format(format)
    return gemv_dispatch(gpu, x, blocks, kind, bias is not None)


@_quantized_gemv.reference
def quantized_gemv_reference(
    x: np.ndarray, blocks: np.ndarray, bias: np.ndarray | None, format: str
) -> np.ndarray:
    weight = decode(blocks, find_format(format), x.shape[1])
    out = x.astype(np.float32) @ weight.T
    if bias is not None:
        out = out + bias.astype(np.float32)
    return out.astype(x.dtype)


@primitive(
    dtypes={"x": WEIGHTS, "gate": (uint8,), "blocks": (uint8,)},
    typed="x",
    epilogue_dims=1,
)
def _gated_quantized_gemv(
    x: Tensor, gate: Tensor, blocks: Tensor, format: str, activation: str
) -> Tensor:
    """Return the products of few rows with quantized weights, gated by others."""


@_gated_quantized_gemv.spec
def gated_quantized_gemv_spec(
    x: TensorSpec, gate: TensorSpec, blocks: TensorSpec, format: str, activation: str
) -> TensorSpec:
    return TensorSpec((x.shape[0], blocks.shape[0]), x.dtype)


@_gated_quantized_gemv.kernel
def gated_quantized_gemv_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    gate: StridedSpec,
    blocks: StridedSpec,
    format: str,
    activation: str,
) -> list[Dispatch]:
    kind, found = find_format(format), None
    if x.shape[0] > MOST_GEMV_ROWS and offers(gpu, x.dtype, TENSOR_CORES):
        columns, row_size = blocks.shape
        names = "x", "blocks"
        found = skinny_coopmat(gpu, x, columns, row_size, kind, names, gate=activation)
    return found or [gemv_dispatch(gpu, x, blocks, kind, False, activation)]


@_gated_quantized_gemv.reference
def gated_quantized_gemv_reference(
    x: np.ndarray, gate: np.ndarray, blocks: np.ndarray, format: str, activation: str
) -> np.ndarray:
    kind, wide = find_format(format), x.astype(np.float32)
    g, u = (wide @ decode(each, kind, x.shape[1]).T for each in (gate, blocks))
    return (gate_of(g, activation) * u).astype(x.dtype)


def gate_of(g: np.ndarray, activation: str) -> np.ndarray:
    """Return the activation of float32 numbers."""
    if activation == "silu":
        return g / (1 + np.exp(-g))
    inner = np.float32(0.7978845608) * (g + np.float32(0.044715) * g**3)
    return np.float32(0.5) * g * (1 + np.tanh(inner))


@primitive(
    dtypes={
        "x": (float16, bfloat16),
        "blocks": (uint8,),
        "bias": (float16, bfloat16),
    },
    typed="x",
    epilogue_dims=1,
)
def _quantized_gemm(
    x: Tensor, blocks: Tensor, bias: Tensor | None, format: str
) -> Tensor:
    """Return the product with quantized weights, decoded on load, on tensor cores.

    With a bias only of at most `MOST_ROWS` rows.
    """


@_quantized_gemm.spec
def quantized_gemm_spec(
    x: TensorSpec, blocks: TensorSpec, bias: TensorSpec | None, format: str
) -> TensorSpec:
    check_same_dtype("quantized_linear", x=x, bias=bias)
    return TensorSpec((x.shape[0], blocks.shape[0]), x.dtype)


@_quantized_gemm.kernel
def quantized_gemm_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    blocks: StridedSpec,
    bias: StridedSpec | None,
    format: str,
) -> list[Dispatch]:
    kind, has_bias = find_format(format), bias is not None
    found = None
    if offers(gpu, x.dtype, TENSOR_CORES):
        found = decoding_gemm(gpu, x, blocks, kind, has_bias)
    return found or [gemv_dispatch(gpu, x, blocks, kind, has_bias)]


@_quantized_gemm.reference
def quantized_gemm_reference(
    x: np.ndarray, blocks: np.ndarray, bias: np.ndarray | None, format: str
) -> np.ndarray:
    return quantized_gemv_reference(x, blocks, bias, format)


def decoding_device(x: Tensor) -> DeviceInfo | None:
    """Return the device of activations, if it has tensor cores for their dtype."""
    device, dtype = x.device, x.dtype
    if not isinstance(device, GpuDevice) or dtype not in (float16, bfloat16):
        return None
    return None if product_mode(device, dtype) == SIMT else device.gpu.info


def _decodes_on_load(x: Tensor, blocks: Tensor, format: str) -> bool:
    """Return whether `_quantized_gemm` takes a product."""
    gpu = decoding_device(x)
    if gpu is None:
        return False
    (rows, k), (columns, row_size) = x.layout.shape, blocks.layout.shape
    sizes, kind = (rows, k, columns), find_format(format)
    return takes_decoding_gemm(gpu, x.dtype, sizes, row_size, kind)


@composite(
    dtypes={
        "x": (*WEIGHTS, float64),
        "blocks": (uint8,),
        "bias": (*WEIGHTS, float64),
    }
)
def _quantized_product(
    x: Tensor, blocks: Tensor, bias: Tensor | None, format: str
) -> Tensor:
    """Return x W^T + b for a matrix x."""
    rows, k = x.layout.shape
    columns = blocks.layout.shape[0]
    if x.dtype is not float64 and 0 < rows <= MOST_GEMV_ROWS and columns:
        return _quantized_gemv(x, blocks, bias, format)
    if rows and columns and _decodes_on_load(x, blocks, format):
        if rows <= MOST_ROWS:
            return _quantized_gemm(x, blocks, bias, format)
        out = _quantized_gemm(x, blocks, None, format)
    else:
        out = matmul(x, transpose(elements(blocks, format, k, x.dtype), 0, 1))
    return out if bias is None else add(out, bias)


@_quantized_product.vjp
def _quantized_product_vjp(
    grad: Tensor,
    x_spec: TensorSpec,
    blocks: Tensor,
    format: str,
    bias_spec: TensorSpec | None,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, None, Tensor | None]:
    # Weights are decoded anew, for their elements would take memory until now.
    grad_x = None
    if needs[0]:
        k = x_spec.shape[1]
        grad_x = matmul(grad, elements(blocks, format, k, grad.dtype))
    return grad_x, None, sum(grad, 0) if needs[2] else None


def elements(blocks: Tensor, format: str, columns: int, dtype: DType) -> Tensor:
    if dtype in WEIGHTS:
        return dequantize_blocks(blocks, format, columns, dtype)
    return cast(dequantize_blocks(blocks, format, columns, float32), dtype)


def quantized_embedding(
    index: Tensor, blocks: Tensor, format: str, columns: int, dtype: DType
) -> Tensor:
    """Return rows of a quantized table by number; only these are decoded.

    Parameters
    ----------
    index : Tensor, any integer dtype
        Numbers of rows, from 0.
    blocks : Tensor, uint8, shape (rows, row_size)
    format : str
    columns : int
    dtype : DType
        Of the result, a float.

    Returns
    -------
    Tensor, shape (*index.shape, columns)
        Without a gradient.

    Raises
    ------
    DTypeError
        If `index` is not of an integer dtype.
    IndexRangeError
        If a number is no row: on the host at once, on a device by the next read.
    """
    if index.dtype not in INTEGER:
        raise DTypeError(
            f"quantized_embedding: index is {index.dtype.name}; it must be an integer"
            " dtype"
        )
    rows = take_rows(unsqueeze(blocks, 0), flatten(index), "embedding: weight")
    found = reshape(rows, (*index.layout.shape, blocks.layout.shape[1]))
    return elements(found, format, columns, dtype)


@autocast_low_precision
def quantized_linear(
    x: Tensor, blocks: Tensor, bias: Tensor | None, format: str
) -> Tensor:
    """Return x W^T + b for weights in blocks of few bits.

    Parameters
    ----------
    x : Tensor, shape (..., in_features), float
    blocks : Tensor, uint8, shape (out_features, row_size)
    bias : Tensor, shape (out_features,), or None
        Of the dtype of `x`.
    format : str
        Name of a format; see `QuantizedTensor`.

    Returns
    -------
    Tensor, shape (..., out_features)
        Sums are of float32. With few rows weights are decoded in registers; with more
        on their way to tensor cores, rounded to the dtype of `x`, where the device has
        them, and otherwise they are a temporary matrix of that dtype. The weights get
        no gradient.

    Raises
    ------
    ShapeError
        If sizes do not fit each other or the format.
    """
    shape = x.layout.shape
    if not shape or len(blocks.layout.shape) != 2:
        raise ShapeError(
            f"quantized_linear: x is {tuple(shape)}, blocks is"
            f" {tuple(blocks.layout.shape)}; x needs a dimension, blocks two"
        )
    check_blocks("quantized_linear", blocks.spec, format, shape[-1])
    columns = blocks.layout.shape[0]
    if bias is not None and bias.layout.shape != (columns,):
        raise ShapeError(
            f"quantized_linear: bias is {tuple(bias.layout.shape)}; it must be"
            f" ({columns},)"
        )
    rows = reshape(x, (-1 if x.numel() else 0, shape[-1]))
    out = _quantized_product(rows, blocks, bias, format)
    return reshape(out, (*shape[:-1], columns))


def fits_gate(
    x: Tensor, gate: Tensor, blocks: Tensor, format: str, activation: str
) -> bool:
    """Return whether `gated_quantized_linear` takes rows and blocks of one format."""
    if x.dtype not in WEIGHTS or activation not in GATES:
        return False
    if gate.layout.shape != blocks.layout.shape or not x.layout.shape[-1:]:
        return False
    columns, k = blocks.layout.shape[0], x.layout.shape[-1]
    rows = x.numel() // max(1, k)
    if rows <= MOST_GEMV_ROWS:
        return rows > 0 and 0 not in blocks.layout.shape
    gpu = decoding_device(x)
    return gpu is not None and takes_gate(gpu, rows, columns, k, find_format(format))


@autocast_low_precision
def gated_quantized_linear(
    x: Tensor, gate: Tensor, blocks: Tensor, format: str, activation: str
) -> Tensor:
    """Return activation(x G^T) * (x W^T) of few rows, in one kernel.

    Only if `fits_gate`.

    Parameters
    ----------
    x : Tensor, shape (..., in_features), float32, float16 or bfloat16
    gate, blocks : Tensor, uint8, shape (out_features, row_size)
        G and W.
    format : str
        Name of the format of both.
    activation : str
        "silu" or "gelu_tanh".

    Returns
    -------
    Tensor, shape (..., out_features)
        Without a gradient. The two products are not rounded.

    Raises
    ------
    ShapeError
        If sizes do not fit each other or the format.
    """
    shape = x.layout.shape
    check_blocks("gated_quantized_linear", blocks.spec, format, shape[-1])
    rows = reshape(x, (-1, shape[-1]))
    out = _gated_quantized_gemv(rows, gate, blocks, format, activation)
    return reshape(out, (*shape[:-1], blocks.layout.shape[0]))
