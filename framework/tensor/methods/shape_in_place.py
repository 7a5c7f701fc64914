"""Methods that change the tensor's own shape or storage; see `relayout`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import ops
from ...base.validation import several
from ...dispatch.diagnosis import explained
from ..relayout import relayout, resize, set_storage

if TYPE_CHECKING:
    from ..tensor import Tensor


class ShapeInPlaceMethods:
    """Methods that make of the tensor a view of it, and return it."""

    __slots__ = ()

    def squeeze_(self: Tensor, *dim: Any, **named: Any) -> Tensor:
        """Drop dimensions of size 1; see `ops.squeeze`.

        Parameters
        ----------
        *dim, **named : int, or one sequence of int
            Those that are dropped if of size 1, as `dim`; none means all.
        """
        return relayout(self, ops.squeeze, *several(dim), **named)

    def unsqueeze_(self: Tensor, dim: int) -> Tensor:
        """Insert a dimension of size 1; see `ops.unsqueeze`.

        Parameters
        ----------
        dim : int
            Place of the new dimension; below 0 counted from the end of the result's.
        """
        return relayout(self, ops.unsqueeze, dim)

    def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """Exchange two dimensions; see `ops.transpose`.

        Parameters
        ----------
        dim0, dim1 : int
            The dimensions; below 0 counted from the end.
        """
        return relayout(self, ops.transpose, dim0, dim1)

    swapdims_ = transpose_

    def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
        """Exchange two dimensions; see `ops.transpose`.

        Parameters
        ----------
        axis0, axis1 : int
            The dimensions; below 0 counted from the end.
        """
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
        """Give the tensor another layout of its storage.

        Parameters
        ----------
        size, stride : sequence of int
            Of each dimension, in elements.
        storage_offset : int or None
            Where in the storage the first element is; None keeps it.

        Raises
        ------
        ShapeError
            If the layout leaves the storage.
        """
        return relayout(self, ops.as_strided, size, stride, storage_offset)

    def resize_(self: Tensor, *size: Any, memory_format: object = None) -> Tensor:
        """Give the tensor another shape, in row-major order.

        Parameters
        ----------
        *size : int, or one sequence of int
            Where the storage is too small it gets a larger one, whose further elements
            are 0.
        memory_format : memory format or None
            Without effect.

        Raises
        ------
        GradError
            If the tensor requires a gradient.
        ShapeError
            If a size is below 0.
        """
        return resize(self, *size)

    @explained
    def resize_as_(
        self: Tensor, tensor: Tensor, *, memory_format: object = None
    ) -> Tensor:
        """Give the tensor the shape of another one; see `resize_`.

        Parameters
        ----------
        tensor : Tensor
            The other one.
        memory_format : object
            Without effect.
        """
        return resize(self, tensor.shape)

    def set_(
        self: Tensor,
        source: Tensor | None = None,
        storage_offset: int = 0,
        size: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Tensor:
        """Give the tensor the storage of another one.

        Parameters
        ----------
        source : Tensor or None
            None makes the tensor empty.
        storage_offset : int, default 0
            With `size`: where in the storage the first element is.
        size, stride : sequence of int or None
            The layout; None takes that of `source`.

        Raises
        ------
        TypeError
            If `source` is not a tensor.
        GradError
            If the tensor requires a gradient.
        ShapeError
            If the layout leaves the storage.
        """
        return set_storage(self, source, storage_offset, size, stride)
