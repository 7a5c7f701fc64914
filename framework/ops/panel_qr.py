"""QR factors and singular values of large and of tall matrices, by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.device import GpuDevice
from ..base.dtype import float32, float64
from ..base.shape import TensorSpec
from ..dispatch.declare import primitive
from ..ir.kernel_call import MAX_GROUPS, Dispatch, StridedSpec
from ..kernels.linalg import MOST_IN_SHARED, qr_columns, qr_dispatches
from .elementwise.compare import where
from .indexing.masked import triu
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.slice import narrow
from .reduce.minmax import amax
from .small_factors import small_svd
from .triangular import by_kernel
from .view import reshape, transpose

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)

CHUNK = 1024
"""Rows of the parts that are factorised by themselves where a matrix has too many."""


@primitive(dtypes=_REAL, outputs=("q", "factors"))
def _panel_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q of (matrices, m, n), m from n on, and R above its reflections."""


@_panel_qr.spec
def _panel_qr_spec(a: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return a, a


@_panel_qr.kernel
def _panel_qr_kernel(gpu: DeviceInfo, a: StridedSpec) -> list[Dispatch]:
    return qr_dispatches(gpu, a)


@_panel_qr.reference
def _panel_qr_reference(a: np.ndarray) -> tuple[np.ndarray, ...]:
    q, factors = np.linalg.qr(a)[0], np.zeros_like(a)
    factors[:, : a.shape[2]] = np.linalg.qr(a, "r")
    return q, factors


def qr_by_kernel(x: Tensor) -> bool:
    """Return whether kernels factorise matrices (..., m, n), m from n on.

    Either as they are, or their parts of `CHUNK` rows.
    """
    device, (*_, rows, columns) = x.device, x.layout.shape
    if not by_kernel(x) or not isinstance(device, GpuDevice):
        return False
    info, parts = device.gpu.info, x.numel() // (columns * CHUNK)
    if qr_columns(info, x.dtype, rows):
        return True
    fits = parts <= MAX_GROUPS and 2 * columns <= CHUNK
    return fits and qr_columns(info, x.dtype, CHUNK) > 0


def panel_qr(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R of (..., m, n), m from n on, of which `qr_by_kernel` is true."""
    *batch, rows, columns = x.layout.shape
    flat = reshape(x, (-1, rows, columns))
    # Squares of what is divided by the largest do not overflow.
    largest = amax(flat.abs(), (1, 2), True)
    largest = where(largest == 0.0, 1.0, largest)
    q, r = _qr(flat / largest)
    return reshape(q, x.layout.shape), reshape(r * largest, (*batch, columns, columns))


def _factored(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R of (matrices, m, n) by one launch for each panel."""
    q, factors = _panel_qr(x)
    return q, triu(narrow(factors, 1, 0, x.layout.shape[2]))


def _qr(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R of (matrices, m, n), with those of parts first where m is large.

    Source: Demmel, Grigori, Hoemmen and Langou, "Communication-optimal parallel and
    sequential QR and LU factorizations", SIAM Journal on Scientific Computing 34, 2012.
    """
    device, (matrices, rows, columns) = x.device, x.layout.shape
    assert isinstance(device, GpuDevice)
    if qr_columns(device.gpu.info, x.dtype, rows):
        return _factored(x)
    count = rows // CHUNK
    whole = count * CHUNK
    first = reshape(narrow(x, 1, 0, whole), (matrices * count, CHUNK, columns))
    part_q, part_r = _factored(first)
    stacked = reshape(part_r, (matrices, count * columns, columns))
    if rows > whole:
        stacked = cat([stacked, narrow(x, 1, whole, rows - whole)], 1)
    inner, r = _qr(stacked)
    beside = narrow(inner, 1, 0, count * columns)
    beside = reshape(beside, (matrices * count, columns, columns))
    q = reshape(matmul(part_q, beside), (matrices, whole, columns))
    if rows > whole:
        q = cat([q, narrow(inner, 1, count * columns, rows - whole)], 1)
    return q, r


def svd_by_kernel(x: Tensor) -> bool:
    """Return whether kernels find singular values of matrices with a short side."""
    if not by_kernel(x) or min(x.layout.shape[-2:]) > MOST_IN_SHARED[x.dtype]:
        return False
    rows, columns = x.layout.shape[-2:]
    return qr_by_kernel(x if rows >= columns else transpose(x, -2, -1))


def long_svd(x: Tensor) -> Tensor:
    """Return U of (..., m, n), below it the singular values, and below them V."""
    rows, columns = x.layout.shape[-2:]
    q, r = panel_qr(x if rows >= columns else transpose(x, -2, -1))
    found, least = small_svd(r), min(rows, columns)
    long = matmul(q, narrow(found, -2, 0, least))
    values = narrow(found, -2, least, 1)
    short = narrow(found, -2, least + 1, least)
    parts = [long, values, short] if rows >= columns else [short, values, long]
    return cat(parts, -2)
