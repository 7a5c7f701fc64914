"""Triangular systems and Cholesky factors by kernels: batches, and large matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..base.device import GpuDevice
from ..base.dtype import float32
from ..base.shape import TensorSpec
from ..base.trace_hooks import reads_are_refused
from ..dispatch.declare import primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import (
    SMALL,
    cholesky_dispatch,
    solves_triangles,
    triangular_dispatch,
)
from .elementwise.binary import sub
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.rearrange import pad
from .movement.slice import narrow
from .view import reshape, transpose

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor


@primitive(dtypes=(float32,))
def _triangular_solve(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return X of A X = B, of (matrices, n, n) and (matrices, n, columns)."""


@_triangular_solve.spec
def _triangular_solve_spec(
    a: TensorSpec, b: TensorSpec, upper: bool, unit: bool
) -> TensorSpec:
    return b


@_triangular_solve.kernel
def _triangular_solve_kernel(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, upper: bool, unit: bool
) -> Dispatch:
    return triangular_dispatch(a, b, upper, unit)


@_triangular_solve.reference
def _triangular_solve_reference(
    a: np.ndarray, b: np.ndarray, upper: bool, unit: bool
) -> np.ndarray:
    return substituted(a, b.copy(), upper, unit)


@primitive(dtypes=(float32,))
def _small_cholesky(a: Tensor) -> Tensor:
    """Return L of A = L L^T, of (matrices, n, n) with at most `SMALL` rows.

    It is NaN, from some column on, where A is not positive-definite.
    """


@_small_cholesky.spec
def _small_cholesky_spec(a: TensorSpec) -> TensorSpec:
    return a


@_small_cholesky.kernel
def _small_cholesky_kernel(gpu: DeviceInfo, a: StridedSpec) -> Dispatch:
    return cholesky_dispatch(a)


@_small_cholesky.reference
def _small_cholesky_reference(a: np.ndarray) -> np.ndarray:
    return np.linalg.cholesky(a)


def substituted(
    matrix: np.ndarray, found: np.ndarray, upper: bool, unit: bool
) -> np.ndarray:
    """Solve a triangular system in place, on the host."""
    size = matrix.shape[-1]
    with np.errstate(all="ignore"):
        for i in reversed(range(size)) if upper else range(size):
            known = slice(i + 1, size) if upper else slice(0, i)
            row = matrix[..., i : i + 1, known] @ found[..., known, :]
            found[..., i, :] -= row[..., 0, :]
            if not unit:
                found[..., i, :] /= matrix[..., i, i, None]
    return found


def by_kernel(x: Tensor) -> bool:
    """Return whether kernels solve, rather than NumPy on the host.

    They do on GPUs, in float32, and while a function is traced, which cannot read.
    """
    device = x.device
    if not isinstance(device, GpuDevice) or x.dtype is not float32 or not x.numel():
        return False
    info, matrices = device.gpu.info, math.prod(x.layout.shape[:-2])
    quick = info.target.cheap_barriers or reads_are_refused()
    return quick and solves_triangles(info, matrices)


def solve(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return X of A X = B by the kernel, of batches of one shape."""
    size, columns = b.layout.shape[-2:]
    made = _triangular_solve(
        reshape(a, (-1, size, size)), reshape(b, (-1, size, columns)), upper, unit
    )
    return reshape(made, b.layout.shape)


def cholesky(x: Tensor) -> Tensor:
    """Return L of A = L L^T by kernels, NaN where A is not positive-definite.

    The lower triangle is read. A large matrix is factorised by blocks of columns: that
    of the diagonal by the kernel, those below by a triangular system, and their product
    is taken from the rest.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 4.2.6.
    """
    size = x.layout.shape[-1]
    rest, parts = reshape(x, (-1, size, size)), []
    for start in range(0, size, SMALL):
        count, left = min(SMALL, size - start), size - start
        top = _small_cholesky(narrow(narrow(rest, 1, 0, count), 2, 0, count))
        column = top
        if left > count:
            below = narrow(narrow(rest, 1, count, left - count), 2, 0, count)
            turned = solve(top, transpose(below, 1, 2), False, False)
            column = cat([top, transpose(turned, 1, 2)], 1)
            inner = narrow(narrow(rest, 1, count, left - count), 2, count, left - count)
            rest = sub(inner, matmul(transpose(turned, 1, 2), turned))
        parts.append(pad(column, (0, 0, start, 0)) if start else column)
    return reshape(cat(parts, 2) if len(parts) > 1 else parts[0], x.layout.shape)
