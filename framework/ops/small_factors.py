"""Eigenvectors, singular vectors and QR factors of small matrices, by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import float32, float64
from ..base.shape import TensorSpec
from ..dispatch.declare import primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import (
    MOST_IN_SHARED,
    eigh_dispatch,
    qr_dispatch,
    svd_dispatch,
)
from .triangular import small_by_kernel
from .view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)


@primitive(dtypes=_REAL)
def _small_eigh(a: Tensor, upper: bool) -> Tensor:
    """Return eigenvectors of small matrices (matrices, n, n), and eigenvalues below."""


@_small_eigh.spec
def _small_eigh_spec(a: TensorSpec, upper: bool) -> TensorSpec:
    matrices, n, _ = a.shape
    return TensorSpec((matrices, n + 1, n), a.dtype)


@_small_eigh.kernel
def _small_eigh_kernel(gpu: DeviceInfo, a: StridedSpec, upper: bool) -> Dispatch:
    return eigh_dispatch(a, upper)


@_small_eigh.reference
def _small_eigh_reference(a: np.ndarray, upper: bool) -> np.ndarray:
    values, vectors = np.linalg.eigh(a, "U" if upper else "L")
    return np.concatenate([vectors, values[..., None, :]], -2)


@primitive(dtypes=_REAL)
def _small_qr(a: Tensor) -> Tensor:
    """Return Q of small matrices (matrices, m, n), m from n on, and below it R."""


@_small_qr.spec
def _small_qr_spec(a: TensorSpec) -> TensorSpec:
    matrices, m, n = a.shape
    return TensorSpec((matrices, m + n, n), a.dtype)


@_small_qr.kernel
def _small_qr_kernel(gpu: DeviceInfo, a: StridedSpec) -> Dispatch:
    return qr_dispatch(a)


@_small_qr.reference
def _small_qr_reference(a: np.ndarray) -> np.ndarray:
    return np.concatenate(np.linalg.qr(a), -2)


@primitive(dtypes=_REAL)
def _small_svd(a: Tensor) -> Tensor:
    """Return U of small matrices (matrices, m, n), below it singular values, and V."""


@_small_svd.spec
def _small_svd_spec(a: TensorSpec) -> TensorSpec:
    matrices, m, n = a.shape
    return TensorSpec((matrices, m + 1 + n, min(m, n)), a.dtype)


@_small_svd.kernel
def _small_svd_kernel(gpu: DeviceInfo, a: StridedSpec) -> Dispatch:
    return svd_dispatch(a)


@_small_svd.reference
def _small_svd_reference(a: np.ndarray) -> np.ndarray:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], -2)


def is_small(x: Tensor) -> bool:
    """Return whether kernels factorise matrices: real ones of a few dozen rows."""
    small = max(x.layout.shape[-2:]) <= MOST_IN_SHARED.get(x.dtype, 0)
    return small and small_by_kernel(x)


def small_eigh(x: Tensor, upper: bool) -> Tensor:
    """Return eigenvectors, as columns, and below them the eigenvalues, ascending."""
    *batch, size, _ = x.layout.shape
    found = _small_eigh(reshape(x, (-1, size, size)), upper)
    return reshape(found, (*batch, size + 1, size))


def small_qr(x: Tensor) -> Tensor:
    """Return Q of (..., m, n) and below it R, for m from n on."""
    *batch, rows, columns = x.layout.shape
    found = _small_qr(reshape(x, (-1, rows, columns)))
    return reshape(found, (*batch, rows + columns, columns))


def small_svd(x: Tensor) -> Tensor:
    """Return U of (..., m, n), below it the singular values, and below them V."""
    *batch, rows, columns = x.layout.shape
    found = _small_svd(reshape(x, (-1, rows, columns)))
    return reshape(found, (*batch, rows + 1 + columns, min(rows, columns)))
