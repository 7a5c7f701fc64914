"""Methods for functions of the elements of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ... import ops
from ...eager.base_tensor import operand
from .operand import Number, Operand, scaled

if TYPE_CHECKING:
    from ..tensor import Tensor


class BinaryMethods:
    """What `Tensor` has of `ops` of two and three tensors; see there."""

    __slots__ = ()

    def add(self: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
        """Return the sum with `alpha` times `other`; see `ops.add`."""
        return ops.add(self, scaled(operand(self, other), alpha))

    def sub(self: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
        """Return the difference from `alpha` times `other`; see `ops.sub`."""
        return ops.sub(self, scaled(operand(self, other), alpha))

    def mul(self: Tensor, other: Operand) -> Tensor:
        """See `ops.mul`."""
        return ops.mul(self, operand(self, other))

    def div(
        self: Tensor,
        other: Operand,
        *,
        rounding_mode: Literal["floor", "trunc"] | None = None,
    ) -> Tensor:
        """See `ops.div`."""
        return ops.div(self, operand(self, other), rounding_mode=rounding_mode)

    def pow(self: Tensor, exponent: Operand) -> Tensor:
        """See `ops.pow`."""
        return ops.pow(self, operand(self, exponent))

    def atan2(self: Tensor, other: Operand) -> Tensor:
        """See `ops.atan2`."""
        return ops.atan2(self, operand(self, other))

    def copysign(self: Tensor, other: Operand) -> Tensor:
        """See `ops.copysign`."""
        return ops.copysign(self, operand(self, other))

    def floor_divide(self: Tensor, other: Operand) -> Tensor:
        """See `ops.floor_divide`."""
        return ops.floor_divide(self, operand(self, other))

    def fmod(self: Tensor, other: Operand) -> Tensor:
        """See `ops.fmod`."""
        return ops.fmod(self, operand(self, other))

    def hypot(self: Tensor, other: Operand) -> Tensor:
        """See `ops.hypot`."""
        return ops.hypot(self, operand(self, other))

    def maximum(self: Tensor, other: Operand) -> Tensor:
        """See `ops.maximum`."""
        return ops.maximum(self, operand(self, other))

    def minimum(self: Tensor, other: Operand) -> Tensor:
        """See `ops.minimum`."""
        return ops.minimum(self, operand(self, other))

    def remainder(self: Tensor, other: Operand) -> Tensor:
        """See `ops.remainder`."""
        return ops.remainder(self, operand(self, other))

    def eq(self: Tensor, other: Operand) -> Tensor:
        """See `ops.eq`."""
        return ops.eq(self, operand(self, other))

    def ne(self: Tensor, other: Operand) -> Tensor:
        """See `ops.ne`."""
        return ops.ne(self, operand(self, other))

    def lt(self: Tensor, other: Operand) -> Tensor:
        """See `ops.lt`."""
        return ops.lt(self, operand(self, other))

    def le(self: Tensor, other: Operand) -> Tensor:
        """See `ops.le`."""
        return ops.le(self, operand(self, other))

    def gt(self: Tensor, other: Operand) -> Tensor:
        """See `ops.gt`."""
        return ops.gt(self, operand(self, other))

    def ge(self: Tensor, other: Operand) -> Tensor:
        """See `ops.ge`."""
        return ops.ge(self, operand(self, other))

    def logical_and(self: Tensor, other: Operand) -> Tensor:
        """See `ops.logical_and`."""
        return ops.logical_and(self, operand(self, other))

    def logical_or(self: Tensor, other: Operand) -> Tensor:
        """See `ops.logical_or`."""
        return ops.logical_or(self, operand(self, other))

    def logical_xor(self: Tensor, other: Operand) -> Tensor:
        """See `ops.logical_xor`."""
        return ops.logical_xor(self, operand(self, other))

    def bitwise_and(self: Tensor, other: Operand) -> Tensor:
        """See `ops.bitwise_and`."""
        return ops.bitwise_and(self, operand(self, other))

    def bitwise_or(self: Tensor, other: Operand) -> Tensor:
        """See `ops.bitwise_or`."""
        return ops.bitwise_or(self, operand(self, other))

    def bitwise_xor(self: Tensor, other: Operand) -> Tensor:
        """See `ops.bitwise_xor`."""
        return ops.bitwise_xor(self, operand(self, other))

    def bitwise_left_shift(self: Tensor, other: Operand) -> Tensor:
        """See `ops.bitwise_left_shift`."""
        return ops.bitwise_left_shift(self, operand(self, other))

    def bitwise_right_shift(self: Tensor, other: Operand) -> Tensor:
        """See `ops.bitwise_right_shift`."""
        return ops.bitwise_right_shift(self, operand(self, other))

    def logaddexp(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.logaddexp`."""
        return ops.logaddexp(self, other)

    def isclose(
        self: Tensor,
        other: Tensor,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> Tensor:
        """See `ops.isclose`."""
        return ops.isclose(self, other, rtol, atol, equal_nan)

    def allclose(
        self: Tensor,
        other: Tensor,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> bool:
        """See `ops.allclose`."""
        return ops.allclose(self, other, rtol, atol, equal_nan)

    def equal(self: Tensor, other: Tensor) -> bool:
        """See `ops.equal`."""
        return ops.equal(self, other)

    def clamp(
        self: Tensor,
        min: Tensor | Number | None = None,
        max: Tensor | Number | None = None,
    ) -> Tensor:
        """See `ops.clamp`."""
        return ops.clamp(self, min, max)

    def clamp_min(self: Tensor, min: Tensor | Number) -> Tensor:
        """See `ops.clamp_min`."""
        return ops.clamp_min(self, min)

    def clamp_max(self: Tensor, max: Tensor | Number) -> Tensor:
        """See `ops.clamp_max`."""
        return ops.clamp_max(self, max)

    def lerp(self: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
        """See `ops.lerp`."""
        return ops.lerp(self, end, weight)

    def addcmul(
        self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1
    ) -> Tensor:
        """See `ops.addcmul`."""
        return ops.addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(
        self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1
    ) -> Tensor:
        """See `ops.addcdiv`."""
        return ops.addcdiv(self, tensor1, tensor2, value=value)

    def where(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
        """Return the elements where `condition` holds, otherwise those of `other`."""
        return ops.where(condition, self, other)
