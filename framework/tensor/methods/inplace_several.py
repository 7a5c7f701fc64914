"""In-place forms of functions of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ... import ops
from ...eager.base_tensor import operand
from ..inplace import change
from .operand import Number, Operand, scaled

if TYPE_CHECKING:
    from ..tensor import Tensor


class InPlaceBinaryMethods:
    """Methods that replace the elements by a function of them and others; see `ops`."""

    __slots__ = ()

    def add_(self: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
        """Add `alpha` times `other` in place."""
        return change(self, ops.add, scaled(operand(self, other), alpha))

    def sub_(self: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
        """Subtract `alpha` times `other` in place."""
        return change(self, ops.sub, scaled(operand(self, other), alpha))

    def mul_(self: Tensor, other: Operand) -> Tensor:
        """Multiply in place."""
        return change(self, ops.mul, other)

    def div_(
        self: Tensor,
        other: Operand,
        *,
        rounding_mode: Literal["floor", "trunc"] | None = None,
    ) -> Tensor:
        """Divide in place."""
        return change(self, ops.div, other, rounding_mode=rounding_mode)

    def pow_(self: Tensor, exponent: Operand) -> Tensor:
        """Change in place by `pow`."""
        return change(self, ops.pow, exponent)

    def atan2_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `atan2`."""
        return change(self, ops.atan2, other)

    def bitwise_and_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `bitwise_and`."""
        return change(self, ops.bitwise_and, other)

    def bitwise_left_shift_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `bitwise_left_shift`."""
        return change(self, ops.bitwise_left_shift, other)

    def bitwise_or_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `bitwise_or`."""
        return change(self, ops.bitwise_or, other)

    def bitwise_right_shift_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `bitwise_right_shift`."""
        return change(self, ops.bitwise_right_shift, other)

    def bitwise_xor_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `bitwise_xor`."""
        return change(self, ops.bitwise_xor, other)

    def copysign_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `copysign`."""
        return change(self, ops.copysign, other)

    def eq_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `eq`."""
        return change(self, ops.eq, other)

    def floor_divide_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `floor_divide`."""
        return change(self, ops.floor_divide, other)

    def fmod_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `fmod`."""
        return change(self, ops.fmod, other)

    def ge_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `ge`."""
        return change(self, ops.ge, other)

    def gt_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `gt`."""
        return change(self, ops.gt, other)

    def hypot_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `hypot`."""
        return change(self, ops.hypot, other)

    def le_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `le`."""
        return change(self, ops.le, other)

    def logical_and_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `logical_and`."""
        return change(self, ops.logical_and, other)

    def logical_or_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `logical_or`."""
        return change(self, ops.logical_or, other)

    def logical_xor_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `logical_xor`."""
        return change(self, ops.logical_xor, other)

    def lt_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `lt`."""
        return change(self, ops.lt, other)

    def ne_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `ne`."""
        return change(self, ops.ne, other)

    def remainder_(self: Tensor, other: Operand) -> Tensor:
        """Change in place by `remainder`."""
        return change(self, ops.remainder, other)

    def clamp_(
        self: Tensor,
        min: Tensor | Number | None = None,
        max: Tensor | Number | None = None,
    ) -> Tensor:
        """Change in place by `clamp`."""
        return change(self, ops.clamp, min, max)

    def clamp_min_(self: Tensor, min: Tensor | Number) -> Tensor:
        """Change in place by `clamp_min`."""
        return change(self, ops.clamp_min, min)

    def clamp_max_(self: Tensor, max: Tensor | Number) -> Tensor:
        """Change in place by `clamp_max`."""
        return change(self, ops.clamp_max, max)

    def lerp_(self: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
        """Change in place by `lerp`."""
        return change(self, ops.lerp, end, weight)

    def tril_(self: Tensor, diagonal: int = 0) -> Tensor:
        """Change in place by `tril`."""
        return change(self, ops.tril, diagonal)

    def triu_(self: Tensor, diagonal: int = 0) -> Tensor:
        """Change in place by `triu`."""
        return change(self, ops.triu, diagonal)

    def addcmul_(
        self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1
    ) -> Tensor:
        """Change in place by `addcmul`."""
        return change(self, ops.addcmul, tensor1, tensor2, value=value)

    def addcdiv_(
        self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1
    ) -> Tensor:
        """Change in place by `addcdiv`."""
        return change(self, ops.addcdiv, tensor1, tensor2, value=value)

    def addmm_(
        self: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1
    ) -> Tensor:
        """Change in place by `addmm`."""
        return change(self, ops.addmm, a, b, beta=beta, alpha=alpha)

    def baddbmm_(
        self: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1
    ) -> Tensor:
        """Change in place by `baddbmm`."""
        return change(self, ops.baddbmm, a, b, beta=beta, alpha=alpha)

    def cumsum_(self: Tensor, dim: int) -> Tensor:
        """Change in place by `cumsum`."""
        return change(self, ops.cumsum, dim)

    def cumprod_(self: Tensor, dim: int) -> Tensor:
        """Change in place by `cumprod`."""
        return change(self, ops.cumprod, dim)
