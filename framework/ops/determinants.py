"""Determinants of matrices, and their logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import int32
from ..base.shape import TensorSpec
from ..dispatch.declare import composite
from . import triangular
from .elementwise.compare import eq, where
from .elementwise.complex_numbers import conj
from .factorization import (
    REAL,
    WIDE,
    adjoint,
    back,
    factored_solution,
    identity,
    linear_solution,
    turned,
)
from .host_checks import read
from .lu_solution import lu_inverse
from .matmul.diagonal import diag_embed, diagonal
from .matmul.matmul import matmul
from .reduce.minmax import amax
from .view import reshape, squeeze, unsqueeze

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

_FACTORED = {"x": REAL, "compact": REAL, "order": (int32,), "sign": REAL}


def _each(numbers: Tensor) -> Tensor:
    """Return numbers of a batch, each for all elements of a matrix."""
    return unsqueeze(unsqueeze(numbers, -1), -1)


def _pivots(compact: Tensor) -> Tensor:
    return diagonal(compact, 0, -2, -1)


def _product(compact: Tensor, sign: Tensor, x: Tensor) -> Tensor:
    """Return determinants by the factors of `x`."""
    made = _pivots(compact).prod(-1) * squeeze(sign, 1)
    return reshape(made, x.layout.shape[:-2])


def _logarithm(compact: Tensor, x: Tensor) -> Tensor:
    """Return the logarithms of the sizes of determinants by the factors of `x`."""
    return reshape(_pivots(compact).abs().log().sum(-1), x.layout.shape[:-2])


def _sign(found: triangular.Factors, x: Tensor) -> Tensor:
    """Return the signs of determinants by the factors of `x`."""
    signs = _pivots(found.compact).sign().prod(-1) * squeeze(found.sign, 1)
    return reshape(signs + 0.0, x.layout.shape[:-2])  # no -0.0


def _turned_inverse(
    x: Tensor, compact: Tensor, order: Tensor, *others: Tensor
) -> Tensor:
    """Return the transposed inverse of `x` by factors, differentiable if need be."""
    if any(each.needs_grad for each in (x, *others)):
        one = identity(x, x.layout.shape[-1])
        found: Tensor = factored_solution(x, compact, order, one, True)
        return found
    return turned(reshape(lu_inverse(compact, order), x.layout.shape))


@composite(dtypes=_FACTORED)
def factored_determinant(
    x: Tensor, compact: Tensor, order: Tensor, sign: Tensor
) -> Tensor:
    """Return determinants of `x`, whose LU factors and their order are known."""
    return _product(compact, sign, x)


@factored_determinant.spec
def factored_determinant_spec(
    x: TensorSpec, compact: TensorSpec, order: TensorSpec, sign: TensorSpec
) -> TensorSpec:
    return TensorSpec(x.shape[:-2], x.dtype)


@factored_determinant.vjp
def factored_determinant_vjp(
    grad: Tensor, x: Tensor, compact: Tensor, order: Tensor, sign: Tensor, out: Tensor
) -> tuple[Tensor, None, None, None]:
    """Differentiate det(x) x^-T; pivots of 0 are replaced by the least that count.

    Derivatives are continuous, so that those of a singular matrix are near.
    """
    pivots = _pivots(compact)
    largest = amax(pivots.abs(), -1, True)
    least = largest * float(np.finfo(x.dtype.numpy).eps)
    least = where(eq(largest, 0.0), 1e-18, least)
    replaced = where(eq(pivots, 0.0), least, pivots)
    filled = compact + diag_embed(replaced - pivots)
    near = _product(filled, sign, x)
    size = where(eq(out, 0.0), near, out)
    inverse = _turned_inverse(x, filled, order, grad)
    return _each(grad * size) * inverse, None, None, None


@composite(dtypes=_FACTORED)
def factored_logarithm(
    x: Tensor, compact: Tensor, order: Tensor, sign: Tensor
) -> Tensor:
    """Return logarithms of determinants' sizes of `x`, whose LU factors are known."""
    return _logarithm(compact, x)


@factored_logarithm.spec
def factored_logarithm_spec(
    x: TensorSpec, compact: TensorSpec, order: TensorSpec, sign: TensorSpec
) -> TensorSpec:
    return TensorSpec(x.shape[:-2], x.dtype)


@factored_logarithm.vjp
def factored_logarithm_vjp(
    grad: Tensor, x: Tensor, compact: Tensor, order: Tensor
) -> tuple[Tensor, None, None, None]:
    return _each(grad) * _turned_inverse(x, compact, order, grad), None, None, None


def det(x: Tensor) -> Tensor:
    """Return `determinant`, which keeps factors by kernels for its gradient."""
    if not (x.needs_grad and triangular.lu_by_kernel(x) and triangular.by_kernel(x)):
        return determinant(x)
    found = triangular.lu(x.detach())
    made: Tensor = factored_determinant(x, found.compact, found.order, found.sign)
    return made


def log_det(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return `log_determinant`, which keeps factors by kernels for its gradient."""
    if not (x.needs_grad and triangular.lu_by_kernel(x) and triangular.by_kernel(x)):
        return log_determinant(x)
    found = triangular.lu(x.detach())
    size: Tensor = factored_logarithm(x, found.compact, found.order, found.sign)
    return size, _sign(found, x)


@composite(dtypes=WIDE)
def determinant(x: Tensor) -> Tensor:
    """Return determinants."""
    if triangular.lu_by_kernel(x):
        found = triangular.lu(x)
        return _product(found.compact, found.sign, x)
    return back(np.linalg.det(read(x)), x)


@determinant.spec
def determinant_spec(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape[:-2], x.dtype)


@determinant.vjp
def determinant_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return _each(grad) * conj(cofactors(x))


@composite(dtypes=WIDE)
def cofactors(x: Tensor) -> Tensor:
    """Return the determinant's derivatives, of singular matrices too."""
    if not x.numel():
        return x.detach()
    u, s, vh = np.linalg.svd(read(x))
    sign = np.linalg.det(u) * np.linalg.det(vh)
    others = np.stack([np.delete(s, i, -1).prod(-1) for i in range(s.shape[-1])], -1)
    made = ((u * others[..., None, :]) @ vh).conj()
    return back(made * sign[..., None, None], x)


@cofactors.spec
def cofactors_spec(x: TensorSpec) -> TensorSpec:
    return x


@cofactors.vjp
def cofactors_vjp(grad: Tensor, x: Tensor) -> Tensor:
    """Differentiate det(x) x^-T, for matrices that are invertible."""
    inverse = turned(linear_solution(x, identity(x, x.layout.shape[-1]))[0])
    size = _each(determinant(x))
    product = matmul(adjoint(grad), inverse)
    traces = unsqueeze(diagonal(product, 0, -2, -1).sum(-1, keepdim=True), -1)
    return conj(size * (inverse * traces - matmul(inverse, product)))


@composite(dtypes=WIDE, outputs=("out", "sign"))
def log_determinant(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logarithm of the size of determinants, and their signs."""
    if triangular.lu_by_kernel(x):
        found = triangular.lu(x)
        return _logarithm(found.compact, x), _sign(found, x)
    sign, size = np.linalg.slogdet(read(x))
    return back(size, x, x.dtype.to_real()), back(sign, x)


@log_determinant.spec
def log_determinant_spec(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    batch = x.shape[:-2]
    return TensorSpec(batch, x.dtype.to_real()), TensorSpec(batch, x.dtype)


@log_determinant.vjp
def log_determinant_vjp(grad: Tensor, x: Tensor) -> Tensor:
    inverse, _ = linear_solution(adjoint(x), identity(x, x.layout.shape[-1]))
    return _each(grad) * inverse
