"""Methods that give elements another shape or order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...base.errors import ShapeError
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
    def T(self: Tensor) -> Tensor:
        """All dimensions in reverse order."""
        return ops.permute(self, tuple(reversed(range(self.ndim))))

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

    def contiguous(self: Tensor) -> Tensor:
        """Return the elements one after the other in row-major order; itself if so."""
        return self if self.layout.is_contiguous else row_major(self)

    def is_contiguous(self: Tensor) -> bool:
        """Return whether the elements lie one after the other in row-major order."""
        return self.layout.is_contiguous

    clone = ops.copy


def viewed(x: Tensor, shape: Shape) -> Tensor:
    """Return the same storage in another shape; refuse where that needs a copy."""
    out = ops.reshape(x, shape)
    if out.array is not x.array:
        raise ShapeError(
            f"view: strides {x.layout.strides} of shape {x.shape} do not"
            f" allow a view as {out.shape}; use reshape"
        )
    return out
