"""In-place forms of functions of each element alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops
from ..inplace import change
from .operand import Number

if TYPE_CHECKING:
    from ..tensor import Tensor


class InPlaceUnaryMethods:
    """Methods that replace the elements by a function of each; see `ops`."""

    __slots__ = ()

    def abs_(self: Tensor) -> Tensor:
        """Change in place by `abs`."""
        return change(self, ops.abs)

    def acos_(self: Tensor) -> Tensor:
        """Change in place by `acos`."""
        return change(self, ops.acos)

    def acosh_(self: Tensor) -> Tensor:
        """Change in place by `acosh`."""
        return change(self, ops.acosh)

    def asin_(self: Tensor) -> Tensor:
        """Change in place by `asin`."""
        return change(self, ops.asin)

    def asinh_(self: Tensor) -> Tensor:
        """Change in place by `asinh`."""
        return change(self, ops.asinh)

    def atan_(self: Tensor) -> Tensor:
        """Change in place by `atan`."""
        return change(self, ops.atan)

    def atanh_(self: Tensor) -> Tensor:
        """Change in place by `atanh`."""
        return change(self, ops.atanh)

    def bitwise_not_(self: Tensor) -> Tensor:
        """Change in place by `bitwise_not`."""
        return change(self, ops.bitwise_not)

    def ceil_(self: Tensor) -> Tensor:
        """Change in place by `ceil`."""
        return change(self, ops.ceil)

    def cos_(self: Tensor) -> Tensor:
        """Change in place by `cos`."""
        return change(self, ops.cos)

    def cosh_(self: Tensor) -> Tensor:
        """Change in place by `cosh`."""
        return change(self, ops.cosh)

    def erf_(self: Tensor) -> Tensor:
        """Change in place by `erf`."""
        return change(self, ops.erf)

    def erfc_(self: Tensor) -> Tensor:
        """Change in place by `erfc`."""
        return change(self, ops.erfc)

    def exp_(self: Tensor) -> Tensor:
        """Change in place by `exp`."""
        return change(self, ops.exp)

    def exp2_(self: Tensor) -> Tensor:
        """Change in place by `exp2`."""
        return change(self, ops.exp2)

    def expm1_(self: Tensor) -> Tensor:
        """Change in place by `expm1`."""
        return change(self, ops.expm1)

    def floor_(self: Tensor) -> Tensor:
        """Change in place by `floor`."""
        return change(self, ops.floor)

    def frac_(self: Tensor) -> Tensor:
        """Change in place by `frac`."""
        return change(self, ops.frac)

    def log_(self: Tensor) -> Tensor:
        """Change in place by `log`."""
        return change(self, ops.log)

    def log10_(self: Tensor) -> Tensor:
        """Change in place by `log10`."""
        return change(self, ops.log10)

    def log1p_(self: Tensor) -> Tensor:
        """Change in place by `log1p`."""
        return change(self, ops.log1p)

    def log2_(self: Tensor) -> Tensor:
        """Change in place by `log2`."""
        return change(self, ops.log2)

    def logical_not_(self: Tensor) -> Tensor:
        """Change in place by `logical_not`."""
        return change(self, ops.logical_not)

    def nan_to_num_(
        self: Tensor,
        nan: Number = 0.0,
        posinf: Number | None = None,
        neginf: Number | None = None,
    ) -> Tensor:
        """Change in place by `nan_to_num`."""
        return change(self, ops.nan_to_num, nan, posinf, neginf)

    def neg_(self: Tensor) -> Tensor:
        """Change in place by `neg`."""
        return change(self, ops.neg)

    def reciprocal_(self: Tensor) -> Tensor:
        """Change in place by `reciprocal`."""
        return change(self, ops.reciprocal)

    def relu_(self: Tensor) -> Tensor:
        """Change in place by `relu`."""
        return change(self, ops.relu)

    def round_(self: Tensor) -> Tensor:
        """Change in place by `round`."""
        return change(self, ops.round)

    def rsqrt_(self: Tensor) -> Tensor:
        """Change in place by `rsqrt`."""
        return change(self, ops.rsqrt)

    def sigmoid_(self: Tensor) -> Tensor:
        """Change in place by `sigmoid`."""
        return change(self, ops.sigmoid)

    def sign_(self: Tensor) -> Tensor:
        """Change in place by `sign`."""
        return change(self, ops.sign)

    def sin_(self: Tensor) -> Tensor:
        """Change in place by `sin`."""
        return change(self, ops.sin)

    def sinh_(self: Tensor) -> Tensor:
        """Change in place by `sinh`."""
        return change(self, ops.sinh)

    def sqrt_(self: Tensor) -> Tensor:
        """Change in place by `sqrt`."""
        return change(self, ops.sqrt)

    def square_(self: Tensor) -> Tensor:
        """Change in place by `square`."""
        return change(self, ops.square)

    def tan_(self: Tensor) -> Tensor:
        """Change in place by `tan`."""
        return change(self, ops.tan)

    def tanh_(self: Tensor) -> Tensor:
        """Change in place by `tanh`."""
        return change(self, ops.tanh)

    def trunc_(self: Tensor) -> Tensor:
        """Change in place by `trunc`."""
        return change(self, ops.trunc)
