"""Exponentials of matrices: small ones by a kernel, large ones by products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import COMPLEX, bfloat16, float16, float32, float64
from ..base.shape import TensorSpec
from ..dispatch.autocast_policy import autocast_passthrough
from ..dispatch.declare import composite, primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import MOST_IN_SHARED, TAYLOR, exponential_dispatch
from .elementwise.cast import cast
from .elementwise.unary import lazy_copy
from .factorization import adjoint, identity
from .linear_algebra import _matrix
from .matmul.matmul import matmul
from .movement.concat import cat
from .movement.slice import narrow
from .reduce.minmax import amax
from .reduce.variance import norm
from .source import fill_like
from .triangular import small_by_kernel
from .view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

_REAL = (float32, float64)


@primitive(dtypes=_REAL)
def _small_exponential(a: Tensor) -> Tensor:
    """Return e to the power of small matrices (matrices, n, n)."""


@_small_exponential.spec
def _small_exponential_spec(a: TensorSpec) -> TensorSpec:
    return a


@_small_exponential.kernel
def _small_exponential_kernel(gpu: DeviceInfo, a: StridedSpec) -> Dispatch:
    return exponential_dispatch(a, False)


@_small_exponential.reference
def _small_exponential_reference(a: np.ndarray) -> np.ndarray:
    largest = float(np.abs(a).sum(-1).max(initial=0))
    if not math.isfinite(largest):
        return np.full_like(a, math.nan)
    halvings = _halvings(largest, 1.0)
    one = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    found, scaled = one, a * 2.0**-halvings
    for divisor in range(20, 0, -1):
        found = one + scaled @ found / divisor
    for _ in range(halvings):
        found = found @ found
    return found.astype(a.dtype)


@primitive(dtypes=_REAL)
def _small_exponential_vjp(a: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient by small matrices (matrices, n, n) of their exponentials."""


@_small_exponential_vjp.spec
def _small_exponential_vjp_spec(a: TensorSpec, grad: TensorSpec) -> TensorSpec:
    return a


@_small_exponential_vjp.kernel
def _small_exponential_vjp_kernel(
    gpu: DeviceInfo, a: StridedSpec, grad: StridedSpec
) -> Dispatch:
    return exponential_dispatch(a, True)


@_small_exponential_vjp.reference
def _small_exponential_vjp_reference(a: np.ndarray, grad: np.ndarray) -> np.ndarray:
    size, turned = a.shape[-1], np.swapaxes(a, -1, -2)
    upper = np.concatenate([turned, grad], -1)
    lower = np.concatenate([np.zeros_like(a), turned], -1)
    whole = _small_exponential_reference(np.concatenate([upper, lower], -2))
    return whole[..., :size, size:]


def _is_small(x: Tensor, order: int) -> bool:
    """Return whether the kernel takes real matrices of so many rows."""
    return small_by_kernel(x) and order <= MOST_IN_SHARED[x.dtype]


def _halvings(largest: float, most: float) -> int:
    """Return how often matrices are halved so that a norm is at most another."""
    return max(0, math.ceil(math.log2(largest / most))) if largest > 0 else 0


@composite(dtypes=(*_REAL, *COMPLEX))
def matrix_exponential(x: Tensor) -> Tensor:
    """Return e to the power of matrices: a Taylor sum, squared again and again.

    Of large matrices the largest row sum of sizes is read, which waits for it.
    """
    size = x.layout.shape[-1]
    if not x.numel():
        return lazy_copy(x)
    if _is_small(x, size):
        found: Tensor = _small_exponential(reshape(x, (-1, size, size)))
        return reshape(found, x.layout.shape)
    largest = float(norm(x.detach(), 1, -1).max().item())
    if not math.isfinite(largest):
        return x * math.nan
    degree, most = TAYLOR[float64 if x.dtype.itemsize > 4 else float32]
    halvings = _halvings(largest, most)
    result = _taylor_sum(x * 2.0**-halvings, degree)
    for _ in range(halvings):
        result = matmul(result, result)
    return result


@matrix_exponential.spec
def matrix_exponential_spec(x: TensorSpec) -> TensorSpec:
    return x


@matrix_exponential.vjp
def matrix_exponential_vjp(grad: Tensor, x: Tensor) -> Tensor:
    """Return a block of the exponential of a matrix twice as large.

    Source: Mathias, "A chain rule for matrix functions and applications", SIAM Journal
    on Matrix Analysis and Applications 17, 1996.
    """
    size = x.layout.shape[-1]
    if _is_small(x, 2 * size) and not (x.needs_grad or grad.needs_grad):
        flat = (reshape(each, (-1, size, size)) for each in (x, grad))
        return reshape(_small_exponential_vjp(*flat), x.layout.shape)
    turned = adjoint(x)
    # It is linear in `grad`, whose size is not to add squarings.
    scale = amax(grad.detach().abs(), (-2, -1), True) * float(size)
    scale = scale + cast(scale == 0, scale.dtype)
    zeros: Tensor = fill_like(x, x.layout.shape, 0, x.dtype)
    upper = cat([turned, grad / scale], -1)
    whole = matrix_exponential(cat([upper, cat([zeros, turned], -1)], -2))
    return narrow(narrow(whole, -2, 0, size), -1, size, size) * scale


@autocast_passthrough
@shown_as("LinalgMatrixExpBackward0", "A")
def matrix_exp(A: Tensor) -> Tensor:  # noqa: N803
    """Return exponentials of square matrices: a Taylor sum, squared again and again.

    Parameters
    ----------
    A : Tensor, shape (..., n, n), float or complex
        Square matrices. On GPUs real ones of up to 48 rows (32 in float64) are computed
        by a kernel; of others the largest row sum of sizes is read, which waits for it.
    """
    if A.dtype in (float16, bfloat16):
        return cast(matrix_exp(cast(A, float32)), A.dtype)
    _matrix("matrix_exp", A)
    if A.is_meta:
        return lazy_copy(A)
    return matrix_exponential(A)


def _taylor_sum(x: Tensor, degree: int) -> Tensor:
    """Return the first terms of the exponential's series, by powers of a power.

    Parameters
    ----------
    x : Tensor, shape (..., n, n)
    degree : int
        Of the last term, a multiple of 4.

    Source: Paterson and Stockmeyer, "On the number of nonscalar multiplications
    necessary to evaluate polynomials", SIAM Journal on Computing 2, 1973.
    """
    one, square = identity(x, x.layout.shape[-1]), matmul(x, x)
    cube, fourth = matmul(square, x), matmul(square, square)
    result = one * (1.0 / math.factorial(degree))
    for start in range(degree - 4, -1, -4):
        share = [1.0 / math.factorial(start + k) for k in range(4)]
        part = one * share[0] + x * share[1] + square * share[2] + cube * share[3]
        result = part + matmul(result, fourth)
    return result
