"""Methods that give elements another shape or order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...base.dtype import DType, as_dtype, bool_
from ...base.errors import DTypeError, ShapeError
from ...base.memory_format import (
    channels_last,
    channels_last_3d,
    check_memory_format,
    contiguous_format,
)
from ...base.shape import Layout, Shape
from ...base.validation import as_shape, several
from ...dispatch.diagnosis import explained
from ...dispatch.view_cache import caches_views
from ...ir.derived_storage import DerivedArray, layout_in_source
from ...ops.movement.transpose import row_major
from ...ops.reinterpret import bits_as
from ...ops.view import another
from ...ops.view import reshape as reshape_or_same

if TYPE_CHECKING:
    from ..tensor import Tensor


class MovementMethods:
    """What `Tensor` has of `ops` that move elements; see there."""

    __slots__ = ()

    @caches_views
    def reshape(self: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
        """Return the elements in row-major order in another shape.

        Parameters
        ----------
        *sizes : int, or one sequence of int
            One may be -1, which is what is left of the number of elements.
        shape : sequence of int or None
            The sizes by keyword instead.

        Raises
        ------
        ShapeError
            If the number of elements differs.
        """
        # As `ops.reshape`, without a call in between.
        out = reshape_or_same(self, as_shape(sizes) if shape is None else shape)
        return another(self, out, "ViewBackward0") if out is self else out

    @explained
    def reshape_as(self: Tensor, other: Tensor) -> Tensor:
        """Return the tensor in the shape of another; see `ops.reshape`.

        Parameters
        ----------
        other : Tensor
            Of as many elements.
        """
        return ops.reshape(self, other.layout.shape)

    @caches_views
    def view(self: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
        """Return the same storage in another shape, or as elements of another dtype.

        Parameters
        ----------
        *shape : int, or one sequence of int, or a dtype
            One size may be -1, which is what is left of the number of elements.
        size : sequence of int or None
            The sizes by keyword instead.
        dtype : DType or None
            What the bits are taken for; this is a copy.

        Raises
        ------
        ShapeError
            If the shape needs a copy; `reshape` makes one.
        DTypeError
            If one of the dtypes is bool.
        """
        if len(shape) == 1 and isinstance(shape[0], DType):
            dtype = shape[0]
        if dtype is not None:
            return reinterpreted(self, as_dtype(dtype))
        return viewed(self, as_shape(shape) if size is None else size)

    @explained
    def view_as(self: Tensor, other: Tensor) -> Tensor:
        """Return the same storage in the shape of another tensor; see `view`.

        Parameters
        ----------
        other : Tensor
            Of as many elements.
        """
        return self.view(other.layout.shape)

    flatten = ops.flatten

    @caches_views
    @explained
    def ravel(self: Tensor) -> Tensor:
        """Return the tensor with one dimension, in row-major order."""
        return another(self, ops.flatten(self.contiguous()), "ViewBackward0")

    unflatten = ops.unflatten

    @caches_views
    def permute(self: Tensor, *order: Any, dims: Any = None) -> Tensor:
        """Return a view with the dimensions in another order.

        Parameters
        ----------
        *order : int, or one sequence of int
            Dimension i of the result is order[i]; negative ones count from the end.
        dims : sequence of int or None
            The order by keyword instead.

        Raises
        ------
        ShapeError
            If it does not name every dimension once.
        """
        return ops.permute(self, as_shape(order) if dims is None else dims)

    transpose = ops.transpose
    movedim = ops.movedim

    @property
    def mT(self: Tensor) -> Tensor:
        """The last two dimensions exchanged; itself, if it has no dimensions."""
        return ops.transpose(self, -2, -1) if self.layout.shape else self

    @property
    def mH(self: Tensor) -> Tensor:
        """The conjugate of `mT`."""
        turned = ops.transpose(self, -2, -1) if self.layout.shape else self
        return ops.conj(turned) if self.array.value.dtype.is_complex else turned

    @property
    def T(self: Tensor) -> Tensor:
        """All dimensions in reverse order."""
        return _reversed(self)

    @property
    def H(self: Tensor) -> Tensor:
        """The conjugate transpose of a matrix; itself, if it has no dimensions.

        Raises
        ------
        ShapeError
            If it has another number of dimensions.
        """
        if self.ndim not in (0, 2):
            raise ShapeError(f"H: the tensor is {self.ndim}-D; it must be 2-D or 0-D")
        return ops.conj(self.transpose(0, 1) if self.ndim else self)

    t = ops.t

    @caches_views
    def expand(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
        """Return a view that repeats dimensions of size 1.

        Parameters
        ----------
        *sizes : int, or one sequence of int
            -1 keeps a size; more sizes than dimensions add dimensions in front.
        size : sequence of int or None
            The sizes by keyword instead.

        Raises
        ------
        ShapeError
            If the shapes do not broadcast.
        """
        return ops.expand(self, as_shape(sizes) if size is None else size)

    @explained
    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        """Return a view in the shape of another tensor; see `ops.expand`.

        Parameters
        ----------
        other : Tensor
            Of a shape that this one broadcasts to.
        """
        return ops.expand(self, other.layout.shape)

    @caches_views
    def broadcast_to(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
        """Return a view in a shape that the tensor broadcasts to.

        Parameters
        ----------
        *sizes : int, or one sequence of int
            The shape; -1 keeps a size.
        size : sequence of int or None
            The shape by keyword instead.

        Raises
        ------
        ShapeError
            If the shapes do not broadcast.
        """
        return ops.broadcast_to(self, as_shape(sizes) if size is None else size)

    @caches_views
    def squeeze(self: Tensor, *dim: Any, **named: Any) -> Tensor:
        """Return a view without dimensions of size 1; see `ops.squeeze`.

        Parameters
        ----------
        *dim, **named : int, or one sequence of int
            Which dimensions, as `dim`; none means all that have size 1.
        """
        return ops.squeeze(self, *several(dim), **named)

    unsqueeze = ops.unsqueeze

    def flip(self: Tensor, *along: Any, dims: Any = None) -> Tensor:
        """Return a copy with the order of elements reversed along dimensions.

        Parameters
        ----------
        *along : int, or one sequence of int
            Dimensions, each named once.
        dims : sequence of int or None
            The same by keyword.

        Raises
        ------
        ShapeError
            If a dimension is named twice.
        """
        return ops.flip(self, as_shape(along) if dims is None else dims)

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
    narrow_copy = ops.narrow_copy
    split_with_sizes = ops.split_with_sizes
    unsafe_chunk = ops.chunk
    unsafe_split = ops.split
    unsafe_split_with_sizes = ops.split_with_sizes
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

        Parameters
        ----------
        memory_format : MemoryFormat
            Without effect.
        """
        if memory_format is not contiguous_format:
            check_memory_format("contiguous", memory_format)
        array, layout = self.array, self.layout
        if type(array) is DerivedArray:
            layout = layout_in_source(array, layout)
        # Most are as they were made, which is quicker to see.
        if layout is Layout.contiguous(layout.shape) or layout.is_contiguous:
            return self
        return row_major(self)

    def is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
        """Return whether the elements lie one after the other in row-major order.

        With `channels_last` or `channels_last_3d`: with the channels innermost.

        Parameters
        ----------
        memory_format : MemoryFormat
            The order that is asked for.
        """
        check_memory_format("is_contiguous", memory_format)
        last = {channels_last: 4, channels_last_3d: 5}.get(memory_format)
        if last is None:
            return layout_in_source(self.array, self.layout).is_contiguous
        order = (0, *range(2, last), 1)
        return self.ndim == last and self.layout.permute(order).is_contiguous

    def clone(self: Tensor, *, memory_format: Any = None) -> Tensor:
        """Return a copy, on the tape.

        Parameters
        ----------
        memory_format : object
            Without effect.
        """
        if memory_format is not None:
            check_memory_format("clone", memory_format)
        return ops.copy(self)


@caches_views
def _reversed(x: Tensor) -> Tensor:
    """Return a view with the dimensions in reverse order."""
    return ops.permute(x, tuple(reversed(range(x.ndim))))


def viewed(x: Tensor, shape: Shape) -> Tensor:
    """Return the same storage in another shape; refuse where that needs a copy."""
    out = reshape_or_same(x, shape)
    if out is x:
        return another(x, out, "ViewBackward0")
    if out.array is not x.array:
        raise ShapeError(
            f"view: strides {x.layout.strides} of shape {tuple(x.shape)} do not"
            f" allow a view as {tuple(out.shape)}; use reshape"
        )
    return out


def reinterpreted(x: Tensor, dtype: DType) -> Tensor:
    """Return a copy of the elements' bits as another dtype.

    Of a dtype of another size the last dimension has as many more or fewer elements.
    Unlike PyTorch's it is no view: later changes in place are not shared. It has no
    gradient.

    Raises
    ------
    DTypeError
        If one of them is bool.
    ShapeError
        If the bytes of the last dimension are no whole number of elements.
    """
    if dtype is x.dtype:
        return another(x, x, "ViewBackward0")
    if bool_ in (dtype, x.dtype):
        raise DTypeError(
            f"view: {x.dtype.name} elements as {dtype.name}: neither dtype may be bool"
        )
    shape, size = x.layout.shape, x.dtype.itemsize
    if size != dtype.itemsize:
        if not shape or shape[-1] * size % dtype.itemsize:
            raise ShapeError(
                f"view: {tuple(shape)} of {x.dtype.name} as {dtype.name}: the last"
                f" dimension must be a multiple of {dtype.itemsize} bytes"
            )
        shape = (*shape[:-1], shape[-1] * size // dtype.itemsize)
    if x.is_meta:
        empty: Tensor = type(x).results.without_data(shape, dtype)
        return empty
    if x.is_gpu and x.numel():
        copied: Tensor = bits_as(x.detach(), x.dtype, dtype, shape)
        return copied
    flat = x.detach().stored().reshape(-1).view(dtype.storage)
    layout = Layout.contiguous(shape)
    made: Tensor = type(x).results.from_stored(flat, layout, x.device, dtype)
    return made
