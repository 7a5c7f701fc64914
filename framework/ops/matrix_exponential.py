"""Exponentials of matrices: small ones by a kernel, large ones by products."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import COMPLEX, bfloat16, float16, float32, float64
from ..base.shape import TensorSpec
from ..dispatch.autocast_policy import autocast_passthrough
from ..dispatch.declare import composite, primitive
from ..dispatch.replayable import replayable
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.linalg import MOST_IN_SHARED, TAYLOR_BOUNDS, exponential_dispatch
from .elementwise.binary import add
from .elementwise.cast import cast
from .elementwise.compare import where
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

    Of large matrices the largest row sums of sizes are read, which waits for them.
    """
    size = x.layout.shape[-1]
    if not x.numel():
        return lazy_copy(x)
    if _is_small(x, size):
        found: Tensor = _small_exponential(reshape(x, (-1, size, size)))
        return reshape(found, x.layout.shape)
    norms = np.asarray(_largest_row_sums(x.detach()).numpy(), np.float64)
    finite = np.isfinite(norms)
    if not finite.any():
        return x * math.nan
    wide = x.dtype.itemsize > (8 if x.dtype in COMPLEX else 4)
    bounds = TAYLOR_BOUNDS[float64 if wide else float32]
    # Each matrix is halved as often as it needs: squaring doubles rounding errors.
    counts = np.zeros(norms.shape)
    counts[finite] = [_halvings(each, bounds[18]) for each in norms[finite]]
    scales = np.where(finite, 0.5**counts, math.nan)
    most = int(counts.max())
    degree = next(
        (each for each, bound in bounds.items() if np.nanmax(norms * scales) <= bound),
        18,
    )
    if finite.all() and counts.min() == most:
        return _squared_sum(x, degree, most)
    real = float64 if wide else float32
    factors, left = (
        type(x).from_host(each[..., None].astype(real.numpy), x.device, real)
        for each in (scales, counts)
    )
    result = _taylor_sum(x * factors, degree)
    for done in range(most):
        result = where(left > float(done), matmul(result, result), result)
    return result


@replayable
def _largest_row_sums(x: Tensor) -> Tensor:
    """Return the largest sum of sizes in a row of each matrix, (..., 1)."""
    return amax(norm(x, 1, -1), (-1,), True)


@replayable
def _squared_sum(x: Tensor, degree: int, halvings: int) -> Tensor:
    """Return e to the power of matrices that are halved equally often."""
    result = _taylor_sum(x * 0.5**halvings, degree)
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
        by a kernel; of others the largest row sums of sizes are read, which waits for
        them. float16 and bfloat16 are computed in float32.
    """
    if A.dtype in (float16, bfloat16):
        return cast(matrix_exp(cast(A, float32)), A.dtype)
    _matrix("matrix_exp", A)
    if A.is_meta:
        return lazy_copy(A)
    return matrix_exponential(A)


def _taylor_sum(x: Tensor, degree: int) -> Tensor:
    """Return the first terms of the exponential's series, of few products.

    Parameters
    ----------
    x : Tensor, shape (..., n, n)
    degree : int
        Of the last term: 1, 2, 4, 8, 12 or 18, which take 0 to 5 products.

    Source: Bader, Blanes and Casas, "Computing the matrix exponential with an optimized
    Taylor polynomial approximation", Mathematics 7, 2019.
    """
    one = identity(x, x.layout.shape[-1])
    if degree == 1:
        return one + x
    square = matmul(x, x)
    if degree == 2:
        return one + x + square * 0.5
    if degree == 4:
        inner = one * 0.5 + x * (1 / 6) + square * (1 / 24)
        return one + x + matmul(square, inner)
    if degree == 8:
        inner = matmul(square, _weighted(_DEGREE_8[0], (x, square)))
        left, right = (
            _weighted(row, (one, x, square, inner)) for row in _DEGREE_8[1:3]
        )
        return _weighted(_DEGREE_8[3], (one, x, square)) + matmul(left, right)
    powers = [one, x, square, matmul(square, x)]
    if degree == 12:
        last, left, sixth, root = (_weighted(row, powers) for row in _DEGREE_12)
        inner = sixth + matmul(root, root)
    else:
        powers.append(matmul(powers[3], powers[3]))
        first, last, left, ninth, other = (_weighted(row, powers) for row in _DEGREE_18)
        inner = ninth + matmul(first, other)
    return last + matmul(left + inner, inner)


def _weighted(weights: Sequence[float], terms: Sequence[Tensor]) -> Tensor:
    """Return a sum of matrices, each times its weight."""
    weighted = [term * weight for weight, term in zip(weights, terms) if weight]
    return functools.reduce(add, weighted)


_ROOT = math.sqrt(177)
_DEGREE_8 = (
    ((1 + _ROOT) / 132, (1 + _ROOT) / 528),
    (0.0, 0.0, 2 / 3, 1.0),
    (
        (_ROOT * 29 - 271) / 210,
        (_ROOT - 1) * 11 / 840,
        (_ROOT - 9) * 11 / 3360,
        (89 - _ROOT) / 2240,
    ),
    (1.0, 1.0, (857 - _ROOT * 58) / 630),
)
"""Weights of powers of a matrix in its Taylor polynomials; see `_taylor_sum`."""

_DEGREE_12 = (
    (9.0198e-16, 0.4693211759541824, -0.20099424927047285, -0.04623946134063072),
    (5.315978957598713, 1.1992679041713223, 0.01179296240992997, 0.01108844528519168),
    (
        0.18188869982170436,
        0.05502798439925399,
        0.09351590770535415,
        0.006107005288980582,
    ),
    (-2.086132e-13, -0.13181061013830184, -0.02027855540589259, -0.006759518468630863),
)
_DEGREE_18 = (
    (0.0, -0.10036558103014462, -0.00802924648241157, -0.00089213849804573, 0.0),
    (
        0.0,
        0.3978497494996451,
        1.3678377846041172,
        0.49828962252538267,
        -0.0006378981945947233,
    ),
    (
        -10.967639605296206,
        1.680158138789062,
        0.05717798464788655,
        -0.0069821012248805206,
        3.349750170860705e-05,
    ),
    (
        -0.09043168323908106,
        -0.06764045190713819,
        0.06759613017704597,
        0.029555257042931552,
        -1.391802575160607e-05,
    ),
    (0.0, 0.0, -0.09233646193671186, -0.016936493900208172, -1.400867981820361e-05),
)
