"""Methods that give elements another shape or order."""

from __future__ import annotations

from collections.abc import Sequence
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

    def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """See `ops.flatten`."""
        return ops.flatten(self, start_dim, end_dim)

    def ravel(self: Tensor) -> Tensor:
        """Return the tensor with one dimension, in row-major order."""
        return ops.flatten(self.contiguous())

    def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """See `ops.unflatten`."""
        return ops.unflatten(self, dim, sizes)

    def permute(self: Tensor, *dims: Any) -> Tensor:
        """See `ops.permute`."""
        return ops.permute(self, as_shape(dims))

    def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """See `ops.transpose`."""
        return ops.transpose(self, dim0, dim1)

    def movedim(
        self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]
    ) -> Tensor:
        """See `ops.movedim`."""
        return ops.movedim(self, source, destination)

    @property
    def mT(self: Tensor) -> Tensor:
        """The last two dimensions exchanged."""
        return ops.transpose(self, -2, -1)

    @property
    def T(self: Tensor) -> Tensor:
        """All dimensions in reverse order."""
        return ops.permute(self, tuple(reversed(range(self.ndim))))

    def t(self: Tensor) -> Tensor:
        """See `ops.t`."""
        return ops.t(self)

    def expand(self: Tensor, *shape: Any) -> Tensor:
        """See `ops.expand`."""
        return ops.expand(self, as_shape(shape))

    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        """Return a view in the shape of another tensor; see `ops.expand`."""
        return ops.expand(self, other.shape)

    def broadcast_to(self: Tensor, shape: Sequence[int]) -> Tensor:
        """See `ops.broadcast_to`."""
        return ops.broadcast_to(self, shape)  # type: ignore[arg-type]  # checked there

    def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        """See `ops.squeeze`."""
        return ops.squeeze(self, dim)

    def unsqueeze(self: Tensor, dim: int) -> Tensor:
        """See `ops.unsqueeze`."""
        return ops.unsqueeze(self, dim)

    def flip(self: Tensor, *dims: Any) -> Tensor:
        """See `ops.flip`."""
        return ops.flip(self, as_shape(dims))

    def roll(
        self: Tensor,
        shifts: int | Sequence[int],
        dims: int | Sequence[int] | None = None,
    ) -> Tensor:
        """See `ops.roll`."""
        return ops.roll(self, shifts, dims)

    def rot90(self: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """See `ops.rot90`."""
        return ops.rot90(self, k, dims)

    def repeat(self: Tensor, *repeats: int | Sequence[int]) -> Tensor:
        """See `ops.repeat`."""
        return ops.repeat(self, *repeats)

    def tile(self: Tensor, *dims: int | Sequence[int]) -> Tensor:
        """See `ops.tile`."""
        return ops.tile(self, *dims)

    def repeat_interleave(
        self: Tensor, repeats: int | Tensor, dim: int | None = None
    ) -> Tensor:
        """See `ops.repeat_interleave`."""
        return ops.repeat_interleave(self, repeats, dim)

    def split(
        self: Tensor, split_size: int | Sequence[int], dim: int = 0
    ) -> tuple[Tensor, ...]:
        """See `ops.split`."""
        return ops.split(self, split_size, dim)

    def tensor_split(
        self: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0
    ) -> tuple[Tensor, ...]:
        """See `ops.tensor_split`."""
        return ops.tensor_split(self, indices_or_sections, dim)

    def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """See `ops.chunk`."""
        return ops.chunk(self, chunks, dim)

    def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
        """See `ops.unbind`."""
        return ops.unbind(self, dim)

    def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
        """See `ops.narrow`."""
        return ops.narrow(self, dim, start, length)

    def select(self: Tensor, dim: int, index: int) -> Tensor:
        """See `ops.select`."""
        return ops.select(self, dim, index)

    def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
        """See `ops.unfold`."""
        return ops.unfold(self, dimension, size, step)

    def tril(self: Tensor, diagonal: int = 0) -> Tensor:
        """See `ops.tril`."""
        return ops.tril(self, diagonal)

    def triu(self: Tensor, diagonal: int = 0) -> Tensor:
        """See `ops.triu`."""
        return ops.triu(self, diagonal)

    def diag(self: Tensor, diagonal: int = 0) -> Tensor:
        """See `ops.diag`."""
        return ops.diag(self, diagonal)

    def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """See `ops.diagonal`."""
        return ops.diagonal(self, offset, dim1, dim2)

    def diag_embed(self: Tensor, offset: int = 0) -> Tensor:
        """See `ops.diag_embed`."""
        return ops.diag_embed(self, offset)

    def contiguous(self: Tensor) -> Tensor:
        """Return the elements one after the other in row-major order; itself if so."""
        return self if self.layout.is_contiguous else row_major(self)

    def is_contiguous(self: Tensor) -> bool:
        """Return whether the elements lie one after the other in row-major order."""
        return self.layout.is_contiguous

    def clone(self: Tensor) -> Tensor:
        """Return a copy."""
        return ops.copy(self)


def viewed(x: Tensor, shape: Shape) -> Tensor:
    """Return the same storage in another shape; refuse where that needs a copy."""
    out = ops.reshape(x, shape)
    if out.array is not x.array:
        raise ShapeError(
            f"view: strides {x.layout.strides} of shape {x.shape} do not"
            f" allow a view as {out.shape}; use reshape"
        )
    return out
