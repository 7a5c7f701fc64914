"""Methods for products of matrices and vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ops

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

    mv = ops.mv

    def dot(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.dot`."""
        return ops.dot(self, other)

    def vdot(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.vdot`."""
        return ops.vdot(self, other)

    def outer(self: Tensor, other: Tensor) -> Tensor:
        """See `ops.outer`."""
        return ops.outer(self, other)

    addmm = ops.addmm
    baddbmm = ops.baddbmm
