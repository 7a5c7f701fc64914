"""Methods that change the tensor's own shape or storage; see `relayout`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import ops
from ...dispatch.diagnosis import explained
from ..relayout import relayout, resize, set_storage

if TYPE_CHECKING:
    from ..tensor import Tensor


class ShapeInPlaceMethods:
    """Methods that make of the tensor a view of it, and return it."""

    __slots__ = ()

    def squeeze_(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        """Drop dimensions of size 1; see `ops.squeeze`."""
        return relayout(self, ops.squeeze, dim)

    def unsqueeze_(self: Tensor, dim: int) -> Tensor:
        """Insert a dimension of size 1; see `ops.unsqueeze`."""
        return relayout(self, ops.unsqueeze, dim)

    def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """Exchange two dimensions; see `ops.transpose`."""
        return relayout(self, ops.transpose, dim0, dim1)

    swapdims_ = transpose_

    def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
        """Exchange two dimensions; see `ops.transpose`."""
        return relayout(self, ops.transpose, axis0, axis1)

    def t_(self: Tensor) -> Tensor:
        """Exchange the dimensions of a matrix; see `ops.t`."""
        return relayout(self, ops.t)

    def as_strided_(
        self: Tensor,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None = None,
    ) -> Tensor:
        """Give the tensor another layout of its storage; see `ops.as_strided`."""
        return relayout(self, ops.as_strided, size, stride, storage_offset)

    def resize_(self: Tensor, *size: Any, memory_format: object = None) -> Tensor:
        """Give the tensor another shape; see `relayout.resize`.

        `memory_format` has no effect.
        """
        return resize(self, *size)

    @explained
    def resize_as_(
        self: Tensor, tensor: Tensor, *, memory_format: object = None
    ) -> Tensor:
        """Give the tensor the shape of another one; see `resize_`."""
        return resize(self, tensor.shape)

    def set_(
        self: Tensor,
        source: Tensor | None = None,
        storage_offset: int = 0,
        size: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Tensor:
        """Give the tensor the storage of another one; see `relayout.set_storage`."""
        return set_storage(self, source, storage_offset, size, stride)
