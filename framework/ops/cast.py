"""Conversion between dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtype import ANY, DType, float32
from ..primitive import elementwise
from ..shape import TensorSpec

if TYPE_CHECKING:
    from ..tensor import Tensor


@elementwise(glsl="x", reference=lambda x: x, dtypes=ANY, result="dtype")
def cast(x: Tensor, dtype: DType) -> Tensor:
    """Return the elements converted to `dtype`.

    A float becomes an integer by cutting it towards zero; beyond the integer's range
    it gives the nearest end, and NaN gives 0, on every device. Integers wrap. Rounding
    to a narrower float is to nearest, ties to even. As bool, all but 0 is true.
    """


@cast.vjp
def cast_vjp(grad: Tensor, x_spec: TensorSpec) -> Tensor:
    return cast(grad, x_spec.dtype)


def as_float(x: Tensor | float) -> Tensor | float:
    """Return integer and bool tensors as float32, and everything else as it is."""
    if isinstance(x, (int, float)) or x.dtype.is_float:
        return x
    return cast(x, float32)
