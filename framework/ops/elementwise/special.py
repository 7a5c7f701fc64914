"""The error function and its complement, element by element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE
from ...dispatch.declare import elementwise
from .exponential import exp
from .unary import square

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

SLOPE = 2 / math.sqrt(math.pi)
"""Derivative of erf at 0."""

_ERF = np.frompyfunc(math.erf, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def host_erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, which NumPy does not have."""
    return np.asarray(_ERF(x)).astype(x.dtype)


def host_erfc(x: np.ndarray) -> np.ndarray:
    """Return its complement."""
    return np.asarray(_ERFC(x)).astype(x.dtype)


@elementwise(
    glsl="precise_erf(x)", reference=host_erf, dtypes=FLOAT, device_dtypes=SINGLE
)
def erf(x: Tensor) -> Tensor:
    """Return the error function, 2 / sqrt(pi) times the integral of exp(-t * t)."""


@erf.vjp
def erf_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (exp(-square(x)) * SLOPE)


@elementwise(
    glsl="precise_erfc(x)", reference=host_erfc, dtypes=FLOAT, device_dtypes=SINGLE
)
def erfc(x: Tensor) -> Tensor:
    """Return 1 - erf(x), accurate for large elements too."""


@erfc.vjp
def erfc_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (exp(-square(x)) * -SLOPE)
