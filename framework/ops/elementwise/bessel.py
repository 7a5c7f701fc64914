"""Modified Bessel functions of the first kind, element by element.

On a device they are computed in float32 by `glsl/lib/math/bessel.glsl`, and in float64
by `glsl/lib/double/bessel.glsl`; the references compute in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise
from .compare import where
from .unary import sign

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def _host_scaled(x: np.ndarray, order: int) -> np.ndarray:
    """Return exp(-|x|) times the function of an order, 0 or 1, in float64."""
    with np.errstate(all="ignore"):
        size = np.abs(np.asarray(x, np.float64))
        small = size <= 25
        quarter = np.where(small, size, 0.0) ** 2 / 4
        term, series = np.ones(size.shape), np.ones(size.shape)
        for k in range(1, 90):
            term = term * quarter / (k * (k + order))
            series = series + term
        series = series * np.exp(-np.where(small, size, 0.0))
        if order == 1:
            series = series * size / 2
        term, tail = np.ones(size.shape), np.ones(size.shape)
        for k in range(1, 24):
            term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * size)
            tail = tail + term
        result = np.where(small, series, tail / np.sqrt(2 * np.pi * size))
        result = np.where(np.isnan(size), np.nan, result)
        return np.copysign(result, x) if order == 1 else result


def _host(x: np.ndarray, order: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        half = np.exp(np.abs(np.asarray(x, np.float64)) / 2)
        result = _host_scaled(x, order) * half * half
        result = np.where(np.isinf(x), np.abs(x) if order == 0 else x, result)
    return result.astype(x.dtype)


@elementwise(
    glsl="precise_i0(x)",
    reference=lambda x: _host(x, 0),
    dtypes=FLOAT,
    fractional=True,
)
def i0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""


@i0.vjp
def i0_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * i1(x)


@elementwise(
    glsl="precise_i0e(x)",
    reference=lambda x: _host_scaled(x, 0).astype(x.dtype),
    dtypes=FLOAT,
    fractional=True,
)
def i0e(x: Tensor) -> Tensor:
    """Return exp(-|x|) times `i0`."""


@i0e.vjp
def i0e_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (i1e(x) - sign(x) * out)


@elementwise(
    glsl="precise_i1(x)",
    reference=lambda x: _host(x, 1),
    dtypes=FLOAT,
    fractional=True,
)
def i1(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1."""


@i1.vjp
def i1_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (i0(x) - over(out, x))


@elementwise(
    glsl="precise_i1e(x)",
    reference=lambda x: _host_scaled(x, 1).astype(x.dtype),
    dtypes=FLOAT,
    fractional=True,
)
def i1e(x: Tensor) -> Tensor:
    """Return exp(-|x|) times `i1`."""


@i1e.vjp
def i1e_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad * (i0e(x) - sign(x) * out - over(out, x))


def over(value: Tensor, x: Tensor) -> Tensor:
    """Return the quotient of a function that is x / 2 near 0."""
    is_zero = x == 0
    return where(is_zero, 0.5, value / where(is_zero, 1.0, x))
