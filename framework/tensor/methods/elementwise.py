"""Methods for functions of each element alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops
from .operand import Number

if TYPE_CHECKING:
    from ..tensor import Tensor


class UnaryMethods:
    """What `Tensor` has of `ops` of one tensor; see there."""

    __slots__ = ()

    def abs(self: Tensor) -> Tensor:
        """See `ops.abs`."""
        return ops.abs(self)

    def acos(self: Tensor) -> Tensor:
        """See `ops.acos`."""
        return ops.acos(self)

    def acosh(self: Tensor) -> Tensor:
        """See `ops.acosh`."""
        return ops.acosh(self)

    def asin(self: Tensor) -> Tensor:
        """See `ops.asin`."""
        return ops.asin(self)

    def asinh(self: Tensor) -> Tensor:
        """See `ops.asinh`."""
        return ops.asinh(self)

    def atan(self: Tensor) -> Tensor:
        """See `ops.atan`."""
        return ops.atan(self)

    def atanh(self: Tensor) -> Tensor:
        """See `ops.atanh`."""
        return ops.atanh(self)

    def ceil(self: Tensor) -> Tensor:
        """See `ops.ceil`."""
        return ops.ceil(self)

    def cos(self: Tensor) -> Tensor:
        """See `ops.cos`."""
        return ops.cos(self)

    def cosh(self: Tensor) -> Tensor:
        """See `ops.cosh`."""
        return ops.cosh(self)

    def erf(self: Tensor) -> Tensor:
        """See `ops.erf`."""
        return ops.erf(self)

    def erfc(self: Tensor) -> Tensor:
        """See `ops.erfc`."""
        return ops.erfc(self)

    def exp(self: Tensor) -> Tensor:
        """See `ops.exp`."""
        return ops.exp(self)

    def exp2(self: Tensor) -> Tensor:
        """See `ops.exp2`."""
        return ops.exp2(self)

    def expm1(self: Tensor) -> Tensor:
        """See `ops.expm1`."""
        return ops.expm1(self)

    def floor(self: Tensor) -> Tensor:
        """See `ops.floor`."""
        return ops.floor(self)

    def frac(self: Tensor) -> Tensor:
        """See `ops.frac`."""
        return ops.frac(self)

    def isfinite(self: Tensor) -> Tensor:
        """See `ops.isfinite`."""
        return ops.isfinite(self)

    def isinf(self: Tensor) -> Tensor:
        """See `ops.isinf`."""
        return ops.isinf(self)

    def isnan(self: Tensor) -> Tensor:
        """See `ops.isnan`."""
        return ops.isnan(self)

    def log(self: Tensor) -> Tensor:
        """See `ops.log`."""
        return ops.log(self)

    def log10(self: Tensor) -> Tensor:
        """See `ops.log10`."""
        return ops.log10(self)

    def log1p(self: Tensor) -> Tensor:
        """See `ops.log1p`."""
        return ops.log1p(self)

    def log2(self: Tensor) -> Tensor:
        """See `ops.log2`."""
        return ops.log2(self)

    def logical_not(self: Tensor) -> Tensor:
        """See `ops.logical_not`."""
        return ops.logical_not(self)

    def bitwise_not(self: Tensor) -> Tensor:
        """See `ops.bitwise_not`."""
        return ops.bitwise_not(self)

    def nan_to_num(
        self: Tensor,
        nan: Number = 0.0,
        posinf: Number | None = None,
        neginf: Number | None = None,
    ) -> Tensor:
        """See `ops.nan_to_num`."""
        return ops.nan_to_num(self, nan, posinf, neginf)

    def neg(self: Tensor) -> Tensor:
        """See `ops.neg`."""
        return ops.neg(self)

    def prelu(self: Tensor, weight: Tensor) -> Tensor:
        """See `ops.prelu`."""
        return ops.prelu(self, weight)

    def reciprocal(self: Tensor) -> Tensor:
        """See `ops.reciprocal`."""
        return ops.reciprocal(self)

    def relu(self: Tensor) -> Tensor:
        """See `ops.relu`."""
        return ops.relu(self)

    def round(self: Tensor) -> Tensor:
        """See `ops.round`."""
        return ops.round(self)

    def rsqrt(self: Tensor) -> Tensor:
        """See `ops.rsqrt`."""
        return ops.rsqrt(self)

    def sigmoid(self: Tensor) -> Tensor:
        """See `ops.sigmoid`."""
        return ops.sigmoid(self)

    def sign(self: Tensor) -> Tensor:
        """See `ops.sign`."""
        return ops.sign(self)

    def sin(self: Tensor) -> Tensor:
        """See `ops.sin`."""
        return ops.sin(self)

    def sinh(self: Tensor) -> Tensor:
        """See `ops.sinh`."""
        return ops.sinh(self)

    def sqrt(self: Tensor) -> Tensor:
        """See `ops.sqrt`."""
        return ops.sqrt(self)

    def square(self: Tensor) -> Tensor:
        """See `ops.square`."""
        return ops.square(self)

    def tan(self: Tensor) -> Tensor:
        """See `ops.tan`."""
        return ops.tan(self)

    def tanh(self: Tensor) -> Tensor:
        """See `ops.tanh`."""
        return ops.tanh(self)

    def trunc(self: Tensor) -> Tensor:
        """See `ops.trunc`."""
        return ops.trunc(self)
