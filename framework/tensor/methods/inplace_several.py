"""In-place forms of functions of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ... import ops
from ...eager.base_tensor import operand
from ...ops.elementwise.binary import times_alpha
from ..inplace import change
from .operand import (
    Number,
    Operand,
    in_place,
    in_place_with_operand,
)

if TYPE_CHECKING:
    from ...base.dtype import DTypeLike
    from ..tensor import Tensor


class InPlaceBinaryMethods:
    """Methods that replace the elements by a function of them and others; see `ops`."""

    __slots__ = ()

    def add_(self: Tensor, other: Operand, *old: Any, alpha: Number = 1) -> Tensor:
        """Add `alpha` times another in place.

        Parameters
        ----------
        other : Tensor, NumPy array or number
            Of a shape that broadcasts to this one.
        *old : Tensor
            The other one, where `other` is `alpha`: an older form, with a warning.
        alpha : number, default 1
            A whole one if the result has integers.

        Raises
        ------
        ShapeError
            If the result has another shape.
        DTypeError
            If this dtype does not hold that of the result.
        """
        if old:
            return change(self, ops.add, other, *old)
        other = times_alpha("add", self, operand(self, other), alpha)
        return change(self, ops.add, other)

    def sub_(self: Tensor, other: Operand, *old: Any, alpha: Number = 1) -> Tensor:
        """Subtract `alpha` times another in place.

        Parameters
        ----------
        other : Tensor, NumPy array or number
            Of a shape that broadcasts to this one.
        *old : Tensor
            The other one, where `other` is `alpha`: an older form, with a warning.
        alpha : number, default 1
            A whole one if the result has integers.

        Raises
        ------
        ShapeError
            If the result has another shape.
        DTypeError
            If this dtype does not hold that of the result.
        """
        if old:
            return change(self, ops.sub, other, *old)
        other = times_alpha("sub", self, operand(self, other), alpha)
        return change(self, ops.sub, other)

    mul_ = in_place_with_operand(ops.mul)

    def div_(
        self: Tensor,
        other: Operand,
        *,
        rounding_mode: Literal["floor", "trunc"] | None = None,
    ) -> Tensor:
        """Divide in place.

        Parameters
        ----------
        other : Tensor, NumPy array or number
            Of a shape that broadcasts to this one.
        rounding_mode : "floor", "trunc" or None
            Rounded down, or towards zero; None is for floats only.

        Raises
        ------
        ShapeError
            If the result has another shape.
        DTypeError
            If this dtype does not hold that of the result.
        """
        return change(self, ops.div, other, rounding_mode=rounding_mode)

    def pow_(self: Tensor, exponent: Operand) -> Tensor:
        """Raise the elements to a power in place.

        Parameters
        ----------
        exponent : Tensor, NumPy array or number
            As in `ops.pow`, and its errors; of a shape that broadcasts to this one.

        Raises
        ------
        DTypeError
            If this dtype does not hold that of the result.
        """
        return change(self, ops.pow, exponent)

    atan2_ = in_place_with_operand(ops.atan2)
    bitwise_and_ = in_place_with_operand(ops.bitwise_and)
    bitwise_left_shift_ = in_place_with_operand(ops.bitwise_left_shift)
    bitwise_or_ = in_place_with_operand(ops.bitwise_or)
    bitwise_right_shift_ = in_place_with_operand(ops.bitwise_right_shift)
    bitwise_xor_ = in_place_with_operand(ops.bitwise_xor)
    copysign_ = in_place_with_operand(ops.copysign)
    eq_ = in_place_with_operand(ops.eq)
    floor_divide_ = in_place_with_operand(ops.floor_divide)
    fmod_ = in_place_with_operand(ops.fmod)
    ge_ = in_place_with_operand(ops.ge)
    gt_ = in_place_with_operand(ops.gt)
    hypot_ = in_place_with_operand(ops.hypot)
    le_ = in_place_with_operand(ops.le)
    logical_and_ = in_place_with_operand(ops.logical_and)
    logical_or_ = in_place_with_operand(ops.logical_or)
    logical_xor_ = in_place_with_operand(ops.logical_xor)
    lt_ = in_place_with_operand(ops.lt)
    ne_ = in_place_with_operand(ops.ne)
    remainder_ = in_place_with_operand(ops.remainder)
    clamp_ = in_place(ops.clamp)
    clamp_min_ = in_place(ops.clamp_min)
    clamp_max_ = in_place(ops.clamp_max)
    lerp_ = in_place(ops.lerp)
    tril_ = in_place(ops.tril)
    triu_ = in_place(ops.triu)
    addcmul_ = in_place(ops.addcmul)
    addcdiv_ = in_place(ops.addcdiv)

    addmm_ = in_place(ops.addmm)
    baddbmm_ = in_place(ops.baddbmm)

    def cumsum_(self: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> Tensor:
        """Change in place by `cumsum` in `dtype`, which this dtype has to hold.

        Parameters
        ----------
        dim : int
            The dimension.
        dtype : DType, str or None
            To sum in; None means the tensor's.
        """
        return change(self, ops.cumsum, dim, dtype=dtype)

    def cumprod_(self: Tensor, dim: int, *, dtype: DTypeLike | None = None) -> Tensor:
        """Change in place by `cumprod` in `dtype`, which this dtype has to hold.

        Parameters
        ----------
        dim : int
            The dimension.
        dtype : DType, str or None
            To multiply in; None means the tensor's.
        """
        return change(self, ops.cumprod, dim, dtype=dtype)
