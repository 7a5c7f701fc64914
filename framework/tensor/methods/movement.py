"""Methods that give elements another shape or order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...base.errors import ShapeError
from ...base.memory_format import (
    channels_last,
    channels_last_3d,
    check_memory_format,
    contiguous_format,
)
from ...base.shape import Shape
from ...base.validation import as_shape
from ...ops.movement.transpose import row_major

if TYPE_CHECKING:
    from ..tensor import Tensor


class MovementMethods:
    """What `Tensor` has of `ops` that move elements; see there."""

    __slots__ = ()

    def reshape(self: Tensor, *shape: Any) -> Tensor:
        """See `ops.reshape`."""
        return ops.reshape(self, as_shape(shape))

    def reshape_as(self: Tensor, other: Tensor) -> Tensor:
        """Return the tensor in the shape of another; see `ops.reshape`."""
        return ops.reshape(self, other.shape)

    def view(self: Tensor, *shape: Any) -> Tensor:
        """Return the same storage in another shape.

        Raises
        ------
        ShapeError
            If that needs a copy; `reshape` makes one.
        """
        return viewed(self, as_shape(shape))

    def view_as(self: Tensor, other: Tensor) -> Tensor:
        """Return the same storage in the shape of another tensor; see `view`."""
        return viewed(self, other.shape)

    flatten = ops.flatten

    def ravel(self: Tensor) -> Tensor:
        """Return the tensor with one dimension, in row-major order."""
        return ops.flatten(self.contiguous())

    unflatten = ops.unflatten

    def permute(self: Tensor, *dims: Any) -> Tensor:
        """See `ops.permute`."""
        return ops.permute(self, as_shape(dims))

    transpose = ops.transpose
    movedim = ops.movedim

    @property
    def mT(self: Tensor) -> Tensor:
        """The last two dimensions exchanged."""
        return ops.transpose(self, -2, -1)

    @property
    def mH(self: Tensor) -> Tensor:
        """The last two dimensions exchanged, as the numbers are real."""
        return ops.transpose(self, -2, -1)

    @property
    def T(self: Tensor) -> Tensor:
        """All dimensions in reverse order."""
        return ops.permute(self, tuple(reversed(range(self.ndim))))

    @property
    def H(self: Tensor) -> Tensor:
        """The transpose of a matrix; itself, if it has no dimensions.

        Raises
        ------
        ShapeError
            If it has another number of dimensions.
        """
        if self.ndim not in (0, 2):
            raise ShapeError(f"H: the tensor is {self.ndim}-D; it must be 2-D or 0-D")
        return self.T

    t = ops.t

    def expand(self: Tensor, *shape: Any) -> Tensor:
        """See `ops.expand`."""
        return ops.expand(self, as_shape(shape))

    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        """Return a view in the shape of another tensor; see `ops.expand`."""
        return ops.expand(self, other.shape)

    broadcast_to = ops.broadcast_to
    squeeze = ops.squeeze
    unsqueeze = ops.unsqueeze

    def flip(self: Tensor, *dims: Any) -> Tensor:
        """See `ops.flip`."""
        return ops.flip(self, as_shape(dims))

    roll = ops.roll
    rot90 = ops.rot90
    repeat = ops.repeat
    tile = ops.tile
    repeat_interleave = ops.repeat_interleave
    split = ops.split
    tensor_split = ops.tensor_split
    chunk = ops.chunk
    unbind = ops.unbind
    narrow = ops.narrow
    select = ops.select
    unfold = ops.unfold
    tril = ops.tril
    triu = ops.triu
    diag = ops.diag
    diagonal = ops.diagonal
    diag_embed = ops.diag_embed

    def contiguous(self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
        """Return the elements one after the other in row-major order; itself if so.

        That is the order for every `memory_format`.
        """
        check_memory_format("contiguous", memory_format)
        return self if self.layout.is_contiguous else row_major(self)

    def is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
        """Return whether the elements lie one after the other in row-major order.

        With `channels_last` or `channels_last_3d`: with the channels innermost.
        """
        check_memory_format("is_contiguous", memory_format)
        last = {channels_last: 4, channels_last_3d: 5}.get(memory_format)
        if last is None:
            return self.layout.is_contiguous
        order = (0, *range(2, last), 1)
        return self.ndim == last and self.layout.permute(order).is_contiguous

    def clone(self: Tensor, *, memory_format: Any = None) -> Tensor:
        """Return a copy, on the tape; `memory_format` has no effect."""
        if memory_format is not None:
            check_memory_format("clone", memory_format)
        return ops.copy(self)


def viewed(x: Tensor, shape: Shape) -> Tensor:
    """Return the same storage in another shape; refuse where that needs a copy."""
    out = ops.reshape(x, shape)
    if out.array is not x.array:
        raise ShapeError(
            f"view: strides {x.layout.strides} of shape {tuple(x.shape)} do not"
            f" allow a view as {tuple(out.shape)}; use reshape"
        )
    return out
