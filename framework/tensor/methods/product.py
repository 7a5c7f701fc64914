"""Methods for products of matrices and vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops
from .operand import Number

if TYPE_CHECKING:
    from ..tensor import Tensor


class ProductMethods:
    """What `Tensor` has of `ops` for linear algebra; see there."""

    __slots__ = ()

    def matmul(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.matmul`."""
        return ops.matmul(self, other)

    def bmm(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.bmm`."""
        return ops.bmm(self, other)

    def mm(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.mm`."""
        return ops.mm(self, other)

    def mv(self: Tensor, vector: Tensor) -> Tensor:
        """See `ops.mv`."""
        return ops.mv(self, vector)

    def dot(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.dot`."""
        return ops.dot(self, other)

    def vdot(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.vdot`."""
        return ops.vdot(self, other)

    def outer(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.outer`."""
        return ops.outer(self, other)

    def addmm(
        self: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1
    ) -> Tensor:
        """See `ops.addmm`."""
        return ops.addmm(self, a, b, beta=beta, alpha=alpha)

    def baddbmm(
        self: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1
    ) -> Tensor:
        """See `ops.baddbmm`."""
        return ops.baddbmm(self, a, b, beta=beta, alpha=alpha)
