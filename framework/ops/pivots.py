"""Orders of rows that pivots make, and the three factors of LU, by kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..base.device import GpuDevice
from ..base.dtype import float32, float64, int32
from ..base.errors import DomainError
from ..base.shape import TensorSpec
from ..dispatch.declare import composite, primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import (
    MOST_ORDERED,
    has_kernels,
    order_dispatch,
    unpack_dispatch,
)
from .host_checks import read
from .indexing.masked import tril, triu
from .view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)

_FEW = 32
"""Matrices up to which rows are exchanged one by one: a step of NumPy takes as long."""


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
    return _exchanged(np.clip(pivots, 1, rows) - 1, rows)


def _exchanged(places: np.ndarray, rows: int) -> np.ndarray:
    """Return the orders that exchanges with rows at (matrices, count) places make."""
    if len(places) <= _FEW:
        orders = [[*range(rows)] for _ in places]
        for order, row in zip(orders, places.tolist()):
            for j, place in enumerate(row):
                order[j], order[place] = order[place], order[j]
        return np.array(orders, np.int32).reshape(len(places), rows)
    found = np.tile(np.arange(rows, dtype=np.int32), (len(places), 1))
    every = np.arange(len(places))
    for j, at in enumerate(places.T):
        found[every, j], found[every, at] = found[every, at], found[every, j].copy()
    return found


def host_order(name: str, pivots: Tensor, rows: int) -> np.ndarray:
    """Return the order of rows that pivots (..., count) make, on the host.

    Raises
    ------
    DomainError
        If a pivot is not from 1 to `rows`.
    """
    *batch, count = pivots.layout.shape
    places = read(pivots).reshape(math.prod(batch), count) - 1
    if (wrong := (places < 0) | (places >= rows)).any():
        raise DomainError(
            f"{name}: a pivot is {places[wrong][0] + 1}; they must be from 1 to {rows},"
            " as lu_factor returns them"
        )
    return _exchanged(places, rows).reshape(*batch, rows)


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
    on_device = isinstance(pivots.device, GpuDevice) and pivots.numel() > 0
    return on_device and rows <= MOST_ORDERED and pivots.dtype is int32


def row_order(name: str, pivots: Tensor, rows: int) -> Tensor:
    """Return the row that becomes each row by pivots (..., count), int32, from 1 on.

    Raises
    ------
    DomainError
        If the host orders the rows, and a pivot is not from 1 to `rows`.
    """
    # Under `vmap` nothing is read.
    is_batched = getattr(pivots, "whole", pivots) is not pivots
    if is_batched or pivots.is_meta or orders_by_kernel(pivots, rows):
        return pivot_order(pivots, rows)
    return type(pivots).from_host(host_order(name, pivots, rows), pivots.device, int32)


@composite(dtypes=_REAL)
def _lu_part(factors: Tensor, part: Tensor, upper: bool) -> Tensor:
    """Return `part`, which is L or U of factors: their gradient is a part of its."""
    return part.detach()


@_lu_part.vjp
def _lu_part_vjp(grad: Tensor, upper: bool) -> tuple[Tensor, None]:
    return (triu(grad) if upper else tril(grad, -1)), None


def unpacks_by_kernel(factors: Tensor) -> bool:
    """Return whether one kernel makes P, L and U of factors in one matrix."""
    *_, rows, columns = factors.layout.shape
    device = factors.device
    if not isinstance(device, GpuDevice) or rows != columns or not factors.numel():
        return False
    return factors.dtype in _REAL and has_kernels(device.gpu.info, factors.dtype)


def unpacked(factors: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U of factors (..., n, n) and the order of their rows, (..., n).

    Of factors that `unpacks_by_kernel` takes.
    """
    shape, size = factors.layout.shape, factors.layout.shape[-1]
    compact = reshape(factors.detach(), (-1, size, size))
    found = _lu_unpacked(compact, reshape(order, (-1, size)))
    p, lower, upper = (reshape(each, shape) for each in found)
    if factors.needs_grad:
        return p, _lu_part(factors, lower, False), _lu_part(factors, upper, True)
    return p, lower, upper
