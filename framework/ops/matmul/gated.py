"""Gated products of few rows: two matrices of 16-bit floats in one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import bfloat16, float16
from ...base.errors import ShapeError
from ...base.shape import TensorSpec
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.gemm import register_gemv, skinny
from ...kernels.gemm.register_gemv import MOST_ROWS
from ...kernels.gemm.skinny import skinny_coopmat
from ...kernels.gemm.tiles import TENSOR_CORES
from ...kernels.quantized import FLOATS_PIECE, GATES, gemv_dispatch
from ...kernels.shader_types import check_same_dtype
from ...kernels.tensor_cores import offers
from ..quantized.product import decoding_device, gate_of
from ..view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=(float16, bfloat16), typed="x", epilogue_dims=1)
def _gated_gemv(x: Tensor, gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """Return the products of few rows with the rows of `up`, gated by others."""


@_gated_gemv.spec
def gated_gemv_spec(
    x: TensorSpec, gate: TensorSpec, up: TensorSpec, activation: str
) -> TensorSpec:
    check_same_dtype("gated_gemv", x=x, gate=gate, up=up)
    whole = x.ndim == up.ndim == 2 and x.shape[1] % FLOATS_PIECE == 0
    if not whole or gate.shape != up.shape or up.shape[1] != x.shape[1]:
        raise ShapeError(
            f"gated_gemv: x is {tuple(x.shape)}, gate {tuple(gate.shape)}, up"
            f" {tuple(up.shape)}; they must be (rows, k), and twice (columns, k), k a"
            f" multiple of {FLOATS_PIECE}"
        )
    return TensorSpec((x.shape[0], up.shape[0]), x.dtype)


@_gated_gemv.kernel
def gated_gemv_kernel(
    gpu: DeviceInfo, x: StridedSpec, gate: StridedSpec, up: StridedSpec, activation: str
) -> list[Dispatch]:
    names, found = ("x", "up"), None
    if x.shape[0] > MOST_ROWS and offers(gpu, x.dtype, TENSOR_CORES):
        columns, row_size = up.shape[0], up.shape[1] // FLOATS_PIECE
        found = skinny_coopmat(gpu, x, columns, row_size, None, names, gate=activation)
    return found or [gemv_dispatch(gpu, x, up, None, False, activation, names=names)]


@_gated_gemv.reference
def gated_gemv_reference(
    x: np.ndarray, gate: np.ndarray, up: np.ndarray, activation: str
) -> np.ndarray:
    wide = x.astype(np.float32)
    g, u = (wide @ each.astype(np.float32).T for each in (gate, up))
    return (gate_of(g, activation) * u).astype(x.dtype)


def takes_gated_linear(x: Tensor, gate: Tensor, up: Tensor, activation: str) -> bool:
    """Return whether `gated_linear` takes rows and weights."""
    device, shape = x.device, up.layout.shape
    if not isinstance(device, GpuDevice) or activation not in GATES:
        return False
    if gate.layout.shape != shape or not x.dtype is gate.dtype is up.dtype:
        return False
    if not (gate.layout.is_contiguous and up.layout.is_contiguous):
        return False
    columns, k = shape
    rows, info = x.numel() // max(1, k), device.gpu.info
    if rows <= MOST_ROWS:
        return register_gemv.takes_gate(info, x.dtype, rows, columns, k)
    on_tensor_cores = decoding_device(x) is not None
    return on_tensor_cores and skinny.takes_gate(info, rows, columns, k, None)


@autocast_low_precision
def gated_linear(x: Tensor, gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """Return activation(x G^T) * (x U^T) of few rows, in one kernel.

    Only if `takes_gated_linear`.

    Parameters
    ----------
    x : Tensor, shape (..., in_features), float16 or bfloat16
    gate, up : Tensor, shape (out_features, in_features), dtype of `x`
        G and U.
    activation : str
        "silu" or "gelu_tanh".

    Returns
    -------
    Tensor, shape (..., out_features)
        Without a gradient. The two products are not rounded.

    Raises
    ------
    ShapeError
        If sizes do not fit.
    """
    shape = x.layout.shape
    out = _gated_gemv(reshape(x, (-1, shape[-1])), gate, up, activation)
    return reshape(out, (*shape[:-1], up.layout.shape[0]))
