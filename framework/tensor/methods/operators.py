"""Python's operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...eager.base_tensor import TensorCore, operand
from ..inplace import change
from .operand import Operand

if TYPE_CHECKING:
    from ..tensor import Tensor


def _is_no_number(other: object) -> bool:
    """Whether comparing with an object answers for the tensor as a whole: unequal."""
    return other is None or isinstance(other, str | bytes)


class Operators:
    """What Python's operators mean for `Tensor`; numbers and arrays may be operands."""

    __slots__ = ()

    def __neg__(self: Tensor) -> Tensor:
        return ops.neg(self)

    def __pos__(self: Tensor) -> Tensor:
        return self

    def __abs__(self: Tensor) -> Tensor:
        return ops.abs(self)

    def __invert__(self: Tensor) -> Tensor:
        return ops.bitwise_not(self)

    def __add__(self: Tensor, other: Operand) -> Tensor:
        return ops.add(self, operand(self, other))

    def __radd__(self: Tensor, other: Operand) -> Tensor:
        return ops.add(operand(self, other), self)

    def __sub__(self: Tensor, other: Operand) -> Tensor:
        return ops.sub(self, operand(self, other))

    def __rsub__(self: Tensor, other: Operand) -> Tensor:
        return ops.sub(operand(self, other), self)

    def __mul__(self: Tensor, other: Operand) -> Tensor:
        return ops.mul(self, operand(self, other))

    def __rmul__(self: Tensor, other: Operand) -> Tensor:
        return ops.mul(operand(self, other), self)

    def __truediv__(self: Tensor, other: Operand) -> Tensor:
        return ops.div(self, operand(self, other))

    @autocast_float32_on_device
    def __rtruediv__(self: Tensor, other: Operand) -> Tensor:
        given = operand(self, other)
        if not isinstance(given, int | float | complex):
            return ops.div(given, self)
        # In two roundings, and two nodes of the tape, as PyTorch.
        return ops.mul(ops.reciprocal(self), given)

    def __floordiv__(self: Tensor, other: Operand) -> Tensor:
        return ops.floor_divide(self, operand(self, other))

    def __rfloordiv__(self: Tensor, other: Operand) -> Tensor:
        return ops.floor_divide(operand(self, other), self)

    def __mod__(self: Tensor, other: Operand) -> Tensor:
        return ops.remainder(self, operand(self, other))

    def __rmod__(self: Tensor, other: Operand) -> Tensor:
        return ops.remainder(operand(self, other), self)

    def __pow__(self: Tensor, other: Operand) -> Tensor:
        return ops.pow(self, operand(self, other))

    def __rpow__(self: Tensor, other: Operand) -> Tensor:
        return ops.pow(operand(self, other), self)

    def __and__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_and(self, operand(self, other))

    def __rand__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_and(operand(self, other), self)

    def __or__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_or(self, operand(self, other))

    def __ror__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_or(operand(self, other), self)

    def __xor__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_xor(self, operand(self, other))

    def __rxor__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_xor(operand(self, other), self)

    def __lshift__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_left_shift(self, operand(self, other))

    def __rlshift__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_left_shift(operand(self, other), self)

    def __rshift__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_right_shift(self, operand(self, other))

    def __rrshift__(self: Tensor, other: Operand) -> Tensor:
        return ops.bitwise_right_shift(operand(self, other), self)

    def __matmul__(self: Tensor, other: Operand) -> Tensor:
        return ops.matmul(self, matrix(self, other))

    def __rmatmul__(self: Tensor, other: Operand) -> Tensor:
        return ops.matmul(matrix(self, other), self)

    def __eq__(self: Tensor, other: object) -> Tensor:  # type: ignore[override]  # not bool
        if _is_no_number(other):
            return NotImplemented
        return ops.eq(self, operand(self, other))

    def __ne__(self: Tensor, other: object) -> Tensor:  # type: ignore[override]  # not bool
        if _is_no_number(other):
            return NotImplemented
        return ops.ne(self, operand(self, other))

    def __lt__(self: Tensor, other: Operand) -> Tensor:
        return ops.lt(self, operand(self, other))

    def __le__(self: Tensor, other: Operand) -> Tensor:
        return ops.le(self, operand(self, other))

    def __gt__(self: Tensor, other: Operand) -> Tensor:
        return ops.gt(self, operand(self, other))

    def __ge__(self: Tensor, other: Operand) -> Tensor:
        return ops.ge(self, operand(self, other))

    def __iadd__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.add, other)

    def __isub__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.sub, other)

    def __imul__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.mul, other)

    def __itruediv__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.div, other)

    def __ifloordiv__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.floor_divide, other)

    def __imod__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.remainder, other)

    def __ipow__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.pow, other)

    def __iand__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.bitwise_and, other)

    def __ior__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.bitwise_or, other)

    def __ixor__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.bitwise_xor, other)

    def __ilshift__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.bitwise_left_shift, other)

    def __irshift__(self: Tensor, other: Operand) -> Tensor:
        return change(self, ops.bitwise_right_shift, other)


def matrix(like: Tensor, other: Operand) -> Tensor:
    """Return an operand of `@`, which is no number."""
    found: Tensor = operand(like, other)
    if not isinstance(found, TensorCore):
        if isinstance(other, int | float | complex):
            raise TypeError(f"matmul: {other!r} is a number; use * for it")
        raise TypeError(f"matmul: b is a {type(other).__name__}; it must be a tensor")
    return found
