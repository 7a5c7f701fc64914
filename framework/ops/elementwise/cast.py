"""Casts between dtypes, and type promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import STORED, DType, bool_, combined, promote
from ...base.errors import DomainError, DTypeError
from ...base.shape import TensorSpec
from ...dispatch.declare import elementwise
from ...eager.base_tensor import TensorCore

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(glsl="x", reference=lambda x: x, dtypes=STORED, result="dtype")
def cast(x: Tensor, dtype: DType) -> Tensor:
    """Return the elements converted to `dtype`.

    A float becomes an integer by cutting it towards zero; beyond the integer's range
    it gives the nearest end, and NaN gives 0, on every device. Integers wrap. Rounding
    to a narrower float is to nearest, ties to even. As bool, all but 0 is true. A
    complex number becomes real by its real part.
    """


cast.complex_glsl = cast.glsl
cast.complex_linear = True


@cast.vjp
def cast_vjp(grad: Tensor, x_spec: TensorSpec) -> Tensor:
    return cast(grad, x_spec.dtype)


def result_type(*operands: Tensor | complex) -> DType:
    """Return the dtype that an operation on tensors and Python numbers computes in.

    Tensors without dimensions count only where their kind (bool, integer, float) is
    higher than that of those with dimensions, and numbers where theirs is higher still:
    `half_vector * float32_scalar_tensor` is float16, `int_vector * 0.5` float32.

    Parameters
    ----------
    *operands : Tensor or number
        Tensors of any shapes.

    Raises
    ------
    DTypeError
        For uint64 with a signed integer, which no integer type can hold.
    TypeError
        If there are no operands.
    """
    if not operands:
        raise TypeError("result_type: there is no operand; give tensors or numbers")
    tensors = [each for each in operands if isinstance(each, TensorCore)]
    return combined(
        [each.dtype for each in tensors if each.ndim],
        [each.dtype for each in tensors if not each.ndim],
        [each for each in operands if not isinstance(each, TensorCore)],
    )


def converted(x: Tensor, dtype: DType) -> Tensor:
    """Return a tensor in a dtype, itself if that is its own."""
    return x if x.dtype is dtype else cast(x, dtype)


def need_one_dtype(name: str, **tensors: Tensor) -> None:
    """Raise DTypeError unless all tensors have the same dtype.

    Parameters
    ----------
    name : str
        The function.
    **tensors : Tensor
        By the parameters' names.
    """
    if len({each.dtype for each in tensors.values()}) > 1:
        found = ", ".join(f"{key} is {x.dtype.name}" for key, x in tensors.items())
        raise DTypeError(f"{name}: {found}; they must be the same; cast one")


def need_numbers(name: str, x: Tensor, good: np.ndarray, wanted: str) -> None:
    """Raise `DomainError` with the first number of a host tensor that is not good."""
    if not good.all():
        wrong = x.host_view()[~good].flat[0]
        raise DomainError(f"{name}: a number is {wrong}; {wanted}")


def need_float(name: str, **tensors: Tensor) -> None:
    """Raise DTypeError unless all tensors are of floats or complex numbers."""
    for key, x in tensors.items():
        if not x.dtype.is_differentiable:
            raise DTypeError(
                f"{name}: {key} is {x.dtype.name}; it must be of floats; call"
                f" {key}.float() first"
            )


def need_real_float(name: str, **tensors: Tensor) -> None:
    """Raise DTypeError unless all tensors are of floats, and not complex."""
    need_float(name, **tensors)
    refuse_complex(name, **tensors)


def refuse_bool(name: str, **tensors: Tensor) -> None:
    """Raise DTypeError if one of the tensors is of bools."""
    for key, x in tensors.items():
        if x.dtype is bool_:
            raise DTypeError(f"{name}: {key} is bool; it must be of numbers, cast it")


def refuse_complex(name: str, **tensors: Tensor) -> None:
    """Raise DTypeError if one of the tensors is of complex numbers."""
    for key, x in tensors.items():
        if x.dtype.is_complex:
            raise DTypeError(
                f"{name}: {key} is {x.dtype.name}; it must be of real numbers"
            )


def need_real_numbers(name: str, **tensors: Tensor) -> None:
    """Raise DTypeError if one of the tensors is of bools or complex numbers."""
    refuse_bool(name, **tensors)
    refuse_complex(name, **tensors)


def at_least(x: Tensor, dtype: DType) -> Tensor:
    """Return an operand as a float dtype that a rule computes in, or as it is if wider.

    Numbers, which rules take for tensors, stay as they are.
    """
    if not isinstance(x, TensorCore):
        return x
    return x if promote(x.dtype, dtype) is x.dtype else cast(x, dtype)
