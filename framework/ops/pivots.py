"""Orders of rows that pivots make, and the three factors of LU, by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.device import GpuDevice
from ..base.dtype import float32, float64, int32
from ..base.shape import TensorSpec
from ..base.trace_hooks import reads_are_refused
from ..dispatch.declare import primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import MOST_ORDERED, order_dispatch, unpack_dispatch
from .triangular import Factors
from .view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)


@primitive(dtypes=(int32,))
def _pivot_order(pivots: Tensor, rows: int) -> Tensor:
    """Return the row that becomes each row by pivots (matrices, count), from 1 on."""


@_pivot_order.spec
def _pivot_order_spec(pivots: TensorSpec, rows: int) -> TensorSpec:
    return TensorSpec((pivots.shape[0], rows), int32)


@_pivot_order.kernel
def _pivot_order_kernel(gpu: DeviceInfo, pivots: StridedSpec, rows: int) -> Dispatch:
    return order_dispatch(pivots, rows)


@_pivot_order.reference
def _pivot_order_reference(pivots: np.ndarray, rows: int) -> np.ndarray:
    order = np.tile(np.arange(rows, dtype=np.int32), (len(pivots), 1))
    every = np.arange(len(pivots))
    for j in range(pivots.shape[1]):
        at = np.clip(pivots[:, j], 1, rows) - 1
        order[every, j], order[every, at] = order[every, at], order[every, j].copy()
    return order


@primitive(dtypes={"factors": _REAL, "order": (int32,)}, outputs=("p", "l", "u"))
def _lu_unpacked(factors: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U of LU factors (matrices, n, n) and the order of their rows."""


@_lu_unpacked.spec
def _lu_unpacked_spec(factors: TensorSpec, order: TensorSpec) -> tuple[TensorSpec, ...]:
    return factors, factors, factors


@_lu_unpacked.kernel
def _lu_unpacked_kernel(
    gpu: DeviceInfo, factors: StridedSpec, order: StridedSpec
) -> Dispatch:
    return unpack_dispatch(factors)


@_lu_unpacked.reference
def _lu_unpacked_reference(
    factors: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, ...]:
    one = np.eye(factors.shape[-1], dtype=factors.dtype)
    moved = np.swapaxes(one[order], -1, -2)
    return moved, np.tril(factors, -1) + one, np.triu(factors)


def pivot_order(pivots: Tensor, rows: int) -> Tensor:
    """Return the row that becomes each row by pivots (..., count), int32, from 1 on."""
    *batch, count = pivots.layout.shape
    found: Tensor = _pivot_order(reshape(pivots, (-1, count)), rows)
    return reshape(found, (*batch, rows))


def orders_by_kernel(pivots: Tensor, rows: int) -> bool:
    """Return whether a kernel finds the order of so many rows."""
    device = pivots.device
    if not isinstance(device, GpuDevice) or not pivots.numel():
        return False
    quick = device.gpu.info.target.cheap_barriers or reads_are_refused()
    return quick and rows <= MOST_ORDERED and pivots.dtype is int32


def unpacked(found: Factors, shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U of factors by kernels."""
    p, lower, upper = _lu_unpacked(found.compact, found.order)
    return reshape(p, shape), reshape(lower, shape), reshape(upper, shape)
