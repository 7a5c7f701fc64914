"""Methods for functions of the elements of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ... import ops
from ...eager.base_tensor import operand
from ...ops.elementwise.binary import times_alpha
from .operand import Number, Operand, with_operand

if TYPE_CHECKING:
    from ..tensor import Tensor


class BinaryMethods:
    """What `Tensor` has of `ops` of two and three tensors; see there."""

    __slots__ = ()

    def add(self: Tensor, other: Operand, *old: Any, alpha: Number = 1) -> Tensor:
        """Return the sum with `alpha` times another.

        Parameters
        ----------
        other : Tensor, NumPy array or number
            Of a shape that broadcasts; dtypes promote.
        *old : Tensor
            The other one, where `other` is `alpha`: an older form, with a warning.
        alpha : number, default 1
            A whole one if the result has integers.

        Raises
        ------
        ShapeError
            If the shapes do not broadcast.
        DTypeError
            If `alpha` is not whole where it has to be.
        """
        if old:
            return ops.add(self, other, *old)
        return ops.add(self, times_alpha("add", self, operand(self, other), alpha))

    def sub(self: Tensor, other: Operand, *old: Any, alpha: Number = 1) -> Tensor:
        """Return the difference from `alpha` times another.

        Parameters
        ----------
        other : Tensor, NumPy array or number
            Of a shape that broadcasts; dtypes promote.
        *old : Tensor
            The other one, where `other` is `alpha`: an older form, with a warning.
        alpha : number, default 1
            A whole one if the result has integers.

        Raises
        ------
        ShapeError
            If the shapes do not broadcast.
        DTypeError
            If `alpha` is not whole where it has to be, or an operand is bool.
        """
        if old:
            return ops.sub(self, other, *old)
        return ops.sub(self, times_alpha("sub", self, operand(self, other), alpha))

    mul = with_operand(ops.mul)

    def div(
        self: Tensor,
        other: Operand,
        *,
        rounding_mode: Literal["floor", "trunc"] | None = None,
    ) -> Tensor:
        """Return the quotient.

        Parameters
        ----------
        other : Tensor, NumPy array or number
            Of a shape that broadcasts; dtypes promote.
        rounding_mode : "floor", "trunc" or None
            Rounded down, or towards zero; with None integers give floats.

        Raises
        ------
        ShapeError
            If the shapes do not broadcast.
        DomainError
            If integers are divided by the number 0, rounded.
        ValueError
            If `rounding_mode` is another.
        """
        return ops.div(self, operand(self, other), rounding_mode=rounding_mode)

    def pow(self: Tensor, exponent: Operand) -> Tensor:
        """Return the elements raised to a power.

        Parameters
        ----------
        exponent : Tensor, NumPy array or number
            As in `ops.pow`, and its errors.
        """
        return ops.pow(self, operand(self, exponent))

    atan2 = with_operand(ops.atan2)
    copysign = with_operand(ops.copysign)
    floor_divide = with_operand(ops.floor_divide)
    fmod = with_operand(ops.fmod)
    hypot = with_operand(ops.hypot)
    maximum = with_operand(ops.maximum)
    minimum = with_operand(ops.minimum)
    remainder = with_operand(ops.remainder)
    eq = with_operand(ops.eq)
    ne = with_operand(ops.ne)
    lt = with_operand(ops.lt)
    le = with_operand(ops.le)
    gt = with_operand(ops.gt)
    ge = with_operand(ops.ge)
    logical_and = with_operand(ops.logical_and)
    logical_or = with_operand(ops.logical_or)
    logical_xor = with_operand(ops.logical_xor)
    bitwise_and = with_operand(ops.bitwise_and)
    bitwise_or = with_operand(ops.bitwise_or)
    bitwise_xor = with_operand(ops.bitwise_xor)
    bitwise_left_shift = with_operand(ops.bitwise_left_shift)
    bitwise_right_shift = with_operand(ops.bitwise_right_shift)

    def logaddexp(self: Tensor, other: Tensor) -> Tensor:
        """Return the logarithm of the sum of both exponentials; see `ops.logaddexp`.

        Parameters
        ----------
        other : Tensor
            Shapes broadcast, dtypes promote.
        """
        return ops.logaddexp(self, other)

    isclose = ops.isclose
    allclose = ops.allclose
    equal = ops.equal
    clamp = ops.clamp
    clamp_min = ops.clamp_min
    clamp_max = ops.clamp_max
    lerp = ops.lerp
    addcmul = ops.addcmul
    addcdiv = ops.addcdiv

    def where(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
        """Return the elements where a condition holds, otherwise those of `other`.

        Parameters
        ----------
        condition : Tensor, bool
        other : Tensor or number
            The shapes broadcast; dtypes of this tensor and `other` promote.
        """
        return ops.where(condition, self, other)
