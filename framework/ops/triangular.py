"""Triangular systems, Cholesky and LU factors, by kernels: small and large ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vkbackend.triangles import solve_in_place

from ..base.device import GpuDevice
from ..base.dtype import float32, float64, int32
from ..base.shape import TensorSpec, ceil_div
from ..base.trace_hooks import reads_are_refused
from ..dispatch.declare import primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import (
    EDGE,
    SMALL,
    STEPPED,
    cholesky_dispatches,
    factorises,
    has_kernels,
    lu_dispatches,
    panel_columns,
    solves_triangles,
    triangular_dispatches,
)
from .elementwise.binary import sub
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.slice import narrow
from .view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor


_REAL = (float32, float64)

BLOCK = 512
"""Rows of the blocks of a large triangular system, each of which is one node.

Products of matrices take over what lies beside the blocks: they are quicker.
"""


@primitive(dtypes=_REAL)
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
) -> list[Dispatch]:
    return triangular_dispatches(a, b, upper, unit)


@_triangular_solve.reference
def _triangular_solve_reference(
    a: np.ndarray, b: np.ndarray, upper: bool, unit: bool
) -> np.ndarray:
    return substituted(a, b.copy(), upper, unit)


@primitive(dtypes=_REAL, outputs=("out", "info"))
def _cholesky(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `cholesky` does, of (matrices, n, n)."""


@_cholesky.spec
def _cholesky_spec(a: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return a, TensorSpec(a.shape[:1], int32)


@_cholesky.kernel
def _cholesky_kernel(gpu: DeviceInfo, a: StridedSpec) -> list[Dispatch]:
    return cholesky_dispatches(a)


@_cholesky.reference
def _cholesky_reference(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.linalg.cholesky(a), np.zeros(len(a), np.int32)


@primitive(dtypes=_REAL, outputs=("factors", "order", "pivots", "sign", "info"))
def _lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return what `Factors` has, of (matrices, n, n)."""


@_lu.spec
def _lu_spec(a: TensorSpec) -> tuple[TensorSpec, ...]:
    places, info = (TensorSpec(a.shape[:count], int32) for count in (2, 1))
    return a, places, places, TensorSpec((a.shape[0], 1), a.dtype), info


@_lu.kernel
def _lu_kernel(gpu: DeviceInfo, a: StridedSpec) -> list[Dispatch]:
    return lu_dispatches(gpu, a)


@_lu.reference
def _lu_reference(a: np.ndarray) -> tuple[np.ndarray, ...]:
    factors, order, pivots = host_lu(a)
    swaps = (pivots != np.arange(pivots.shape[-1])).sum(-1, keepdims=True)
    sign = (1 - 2 * (swaps % 2)).astype(a.dtype)
    return factors, order, pivots + 1, sign, first_zero(factors)


def substituted(
    matrix: np.ndarray, found: np.ndarray, upper: bool, unit: bool
) -> np.ndarray:
    """Solve a triangular system in place, on the host."""
    if solve_in_place(matrix, found, upper, unit):
        return found
    size = matrix.shape[-1]
    with np.errstate(all="ignore"):
        for i in reversed(range(size)) if upper else range(size):
            known = slice(i + 1, size) if upper else slice(0, i)
            row = matrix[..., i : i + 1, known] @ found[..., known, :]
            found[..., i, :] -= row[..., 0, :]
            if not unit:
                found[..., i, :] /= matrix[..., i, i, None]
    return found


def host_lu(
    x: np.ndarray, pivot: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both factors in one matrix, the order of the rows, and the pivots."""
    rows, columns = x.shape[-2:]
    least = min(rows, columns)
    a = x.reshape(math.prod(x.shape[:-2]), rows, columns).copy()
    every = np.arange(len(a))
    order = np.tile(np.arange(rows, dtype=np.int32), (len(a), 1))
    pivots = np.zeros((len(a), least), np.int32)
    with np.errstate(all="ignore"):
        for j in range(least):
            # LAPACK's choice, which is not by the size of a complex number.
            size = np.abs(a[:, j:, j].real) + np.abs(a[:, j:, j].imag)
            at = size.argmax(1) + j if pivot else np.full(len(a), j)
            pivots[:, j] = at
            for each in (a, order):
                each[every, j], each[every, at] = (
                    each[every, at],
                    each[every, j].copy(),
                )
            top = a[:, j, j][:, None]
            # Without pivots the first of a column may be its only zero.
            nothing = (top == 0) & (pivot | (a[:, j + 1 :, j] == 0))
            a[:, j + 1 :, j] /= np.where(nothing, 1, top)
            a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
    batch = x.shape[:-2]
    return (
        a.reshape(x.shape),
        order.reshape(*batch, rows),
        pivots.reshape(*batch, least),
    )


def first_zero(factors: np.ndarray) -> np.ndarray:
    """Return the place, from 1 on, of the first zero on each diagonal; 0 without."""
    zero = np.diagonal(factors, 0, -2, -1) == 0
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)


def small_by_kernel(x: Tensor) -> bool:
    """Return whether kernels take matrices of which each is one workgroup's.

    They do on GPUs, and while a function is traced, which cannot read.
    """
    device = x.device
    if not isinstance(device, GpuDevice) or not x.numel():
        return False
    info = device.gpu.info
    quick = info.target.cheap_barriers or reads_are_refused()
    return quick and has_kernels(info, x.dtype)


def by_kernel(x: Tensor) -> bool:
    """Return whether kernels solve, rather than NumPy on the host."""
    device, (*batch, _, columns) = x.device, x.layout.shape
    if not small_by_kernel(x) or not isinstance(device, GpuDevice):
        return False
    return solves_triangles(device.gpu.info, x.dtype, math.prod(batch), columns)


def cholesky_by_kernel(x: Tensor) -> bool:
    """Return whether kernels factorise, rather than NumPy on the host."""
    small = small_by_kernel(x) and x.layout.shape[-1] <= SMALL[x.dtype]
    return small or by_kernel(x)


def lu_by_kernel(x: Tensor) -> bool:
    """Return whether kernels factorise with pivots, rather than NumPy on the host."""
    device, rows = x.device, x.layout.shape[-1]
    if not small_by_kernel(x) or not isinstance(device, GpuDevice):
        return False
    # Of one panel there is nothing to be solved.
    if rows <= panel_columns(x.dtype, rows):
        return True
    takes = factorises(device.gpu.info, rows) or reads_are_refused()
    return takes and by_kernel(x)


def is_one_node(matrices: int, size: int, columns: int) -> bool:
    """Return whether kernels solve such systems without products beside blocks.

    A product with few columns reads the matrix, as the steps do, and is a launch more.
    """
    groups = matrices * ceil_div(columns, EDGE)
    return size <= BLOCK or (columns <= EDGE and groups < STEPPED)


def solve(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return X of A X = B by the kernel, of batches of one shape."""
    size, columns = b.layout.shape[-2:]
    matrix, side = reshape(a, (-1, size, size)), reshape(b, (-1, size, columns))
    if is_one_node(matrix.layout.shape[0], size, columns):
        return reshape(_triangular_solve(matrix, side, upper, unit), b.layout.shape)
    found: list[Tensor] = []
    starts = range(0, size, BLOCK)
    for start in reversed(starts) if upper else starts:
        count = min(BLOCK, size - start)
        first = start + count if upper else 0
        rows, rest = narrow(matrix, 1, start, count), narrow(side, 1, start, count)
        if found:
            known = cat(found, 1)
            beside = narrow(rows, 2, first, known.layout.shape[1])
            rest = sub(rest, matmul(beside, known))
        made = _triangular_solve(narrow(rows, 2, start, count), rest, upper, unit)
        found.insert(0 if upper else len(found), made)
    return reshape(cat(found, 1), b.layout.shape)


def cholesky(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return L of A = L L^T by kernels, and the order of the first bad minor, or 0.

    The lower triangle is read. L is NaN, from some column on, where A is not
    positive-definite.
    """
    size = x.layout.shape[-1]
    found, info = _cholesky(reshape(x, (-1, size, size)))
    return reshape(found, x.layout.shape), reshape(info, x.layout.shape[:-2])


class Factors(NamedTuple):
    """LU factors of square matrices with their rows in another order.

    Attributes
    ----------
    compact : Tensor, shape (matrices, n, n)
        L below the diagonal, where it is 1, and U.
    order : Tensor, int32, shape (matrices, n)
        The row of the matrix that has become each row.
    pivots : Tensor, int32, shape (matrices, n)
        The row, from 1 on, that each is exchanged for, one after the other.
    sign : Tensor, shape (matrices, 1)
        That of the permutation.
    info : Tensor, int32, shape (matrices,)
        The place, from 1 on, of the first pivot that is 0, or 0.
    """

    compact: Tensor
    order: Tensor
    pivots: Tensor
    sign: Tensor
    info: Tensor


def lu(x: Tensor) -> Factors:
    """Return the LU factors of square matrices by kernels, with partial pivoting."""
    size = x.layout.shape[-1]
    return Factors(*_lu(reshape(x, (-1, size, size))))
