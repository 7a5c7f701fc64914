"""Complex numbers: their parts, conjugates, signs and angles, and numbers of parts.

Gradients are PyTorch's: of a real loss with respect to z, dL/d(real) + i dL/d(imag).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import NUMERIC, DType, float32, float64
from ...base.errors import DTypeError
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.declare import elementwise

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(glsl="x", reference=np.conjugate, dtypes=NUMERIC)
def conj_physical(x: Tensor) -> Tensor:
    """Return the complex conjugate of each element; real ones as they are."""


conj_physical.complexes(glsl="vec2(x.x, -x.y)", linear=True)


@conj_physical.bools
def conj_physical_bools(x: Tensor) -> Tensor:
    return x.clone()


@conj_physical.vjp
def conj_physical_vjp(grad: Tensor) -> Tensor:
    return conj_physical(grad)


@elementwise(glsl="x", reference=np.real, dtypes=())
def _real_part(x: Tensor) -> Tensor:
    """Return the real part of each element, in storage of its own."""


_real_part.complexes(glsl="x.x", result=DType.to_real, linear=True)


# The tape gives the gradient the dtype of the input.
@_real_part.vjp
def _real_part_vjp(grad: Tensor) -> Tensor:
    return grad


@elementwise(glsl="0", reference=np.imag, dtypes=())
def _imaginary_part(x: Tensor) -> Tensor:
    """Return the imaginary part of each element, in storage of its own."""


_imaginary_part.complexes(glsl="x.y", result=DType.to_real, linear=True)


@_imaginary_part.vjp
def _imaginary_part_vjp(grad: Tensor) -> Tensor:
    return _complex_of(grad * 0.0, grad)


def _joined(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x, y, 1j))
    out.real, out.imag = x, y
    return out


@elementwise(
    glsl="vec2(x, y)",
    reference=_joined,
    dtypes=(float32, float64),
    result=DType.to_complex,
)
def _complex_of(x: Tensor, y: Tensor) -> Tensor:
    """Return numbers of real parts and imaginary parts."""


@_complex_of.vjp
def _complex_of_vjp(
    grad: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    if not grad.dtype.is_complex:
        return grad, grad * 0.0
    if all(needs):
        # Kernels join what they read of each other: both parts are read by one.
        mirrored = conj_physical(grad)
        return _real_part(mirrored), -_imaginary_part(mirrored)
    return (
        _real_part(grad) if needs[0] else None,
        _imaginary_part(grad) if needs[1] else None,
    )


def _sign(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype)


@elementwise(glsl="complex_sign(x)", reference=_sign, dtypes=())
def _complex_sign(x: Tensor) -> Tensor:
    """Return each number divided by its magnitude; 0 of 0."""


@_complex_sign.complexes(glsl="complex_sign(x)")
def _complex_sign_complex_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    size = x.abs()
    # Along the number itself the sign does not change.
    along = _real_part(grad * conj_physical(out)) * out
    return (grad - along) * (size != 0) / (size + (size == 0))


@elementwise(glsl="precise_atan2(x.y, x.x)", reference=np.angle, dtypes=())
def _angle(x: Tensor) -> Tensor:
    """Return the angle of each number in the complex plane, from -pi to pi."""


@_angle.complexes(glsl="precise_atan2(x.y, x.x)", result=DType.to_real)
def _angle_complex_vjp(grad: Tensor, x: Tensor) -> Tensor:
    size = x.abs()
    square = size * size + (size == 0)
    return _complex_of(
        -grad * _imaginary_part(x) / square, grad * _real_part(x) / square
    )


def _chosen_part(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, x.real, x.imag)


@elementwise(glsl="y.x == 0 ? x.x : x.y", reference=_chosen_part, dtypes=())
def _component(x: Tensor, y: Tensor) -> Tensor:
    """Return the real part of `x` where `y` is 0, otherwise the imaginary part."""


@_component.complexes(glsl="y.x == 0 ? x.x : x.y", result=DType.to_real)
def _component_complex_vjp(grad: Tensor, y: Tensor) -> tuple[Tensor, None]:
    return _complex_of(grad * (y == 0), grad * (y != 0)), None


def real_of(input: Tensor) -> Tensor:
    """Return the real part of each element, as a copy; of a real tensor itself."""
    return _real_part(input) if input.dtype.is_complex else input


def pairs_of(input: Tensor) -> Tensor:
    """Return real and imaginary parts along a new last dimension, as a copy."""
    from ..source import arange_like

    parts = arange_like(input, (2,), 0, 1, input.dtype.to_real())
    return _component(input.unsqueeze(-1), parts)


def numbers_of(input: Tensor) -> Tensor:
    """Return the numbers of the pairs along the last dimension, as a copy."""
    return _complex_of(input.select(-1, 0), input.select(-1, 1))


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Return complex numbers of real and imaginary parts.

    Parameters
    ----------
    real, imag : Tensor, both float32 or both float64
        Of shapes that broadcast.

    Returns
    -------
    Tensor, complex64 or complex128

    Raises
    ------
    DTypeError
        If they are of another dtype.
    """
    _need_pair("complex", real, imag)
    return _complex_of(real, imag)


@autocast_float32_on_host
@shown_as("PolarBackward0", "abs", "angle")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Return complex numbers of magnitudes and angles.

    Parameters
    ----------
    abs, angle : Tensor, both float32 or both float64
        Of shapes that broadcast.

    Returns
    -------
    Tensor, complex64 or complex128

    Raises
    ------
    DTypeError
        If they are of another dtype.
    """
    _need_pair("polar", abs, angle)
    return _complex_of(abs * angle.cos(), abs * angle.sin())


def conj(input: Tensor) -> Tensor:
    """Return the complex conjugate of each element; a real tensor itself.

    Computed at once, so `is_conj` is never true.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype.
    """
    return conj_physical(input) if input.array.value.dtype.is_complex else input


def by_parts(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return what a function that is linear over the reals makes of complex numbers."""
    return _complex_of(function(_real_part(x)), function(_imaginary_part(x)))


def need_complex(name: str, x: Tensor) -> None:
    """Raise `DTypeError` if a tensor is not complex."""
    if not x.array.value.dtype.is_complex:
        raise DTypeError(
            f"{name}: the tensor is {x.dtype.name}; it must be complex64 or complex128"
        )


def need_parts(name: str, x: Tensor) -> None:
    """Raise `DTypeError` if a tensor's elements are no parts of complex numbers."""
    dtype = x.array.value.dtype
    if dtype is not float32 and dtype is not float64:
        raise DTypeError(
            f"{name}: the tensor is {x.dtype.name}; it must be float32 or float64,"
            " whose complex dtypes there are"
        )


def _need_pair(name: str, x: Tensor, y: Tensor) -> None:
    need_parts(name, x)
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"{name}: the tensors are {x.dtype.name} and {y.dtype.name}; they must be"
            " of one dtype"
        )
