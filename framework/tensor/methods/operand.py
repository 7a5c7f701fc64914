"""What methods take beside the tensor itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops

if TYPE_CHECKING:
    from ..tensor import Tensor

Number = int | float

Operand = Any
"""A tensor, a number or a NumPy array; see `base_tensor.operand`."""


def scaled(other: Tensor | Number, alpha: Number) -> Tensor | Number:
    """Return an operand times a number."""
    if alpha == 1:
        return other
    return other * alpha if isinstance(other, Number) else ops.mul(other, alpha)
