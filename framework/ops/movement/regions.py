"""Views by strides, and copies in which a region is replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd.tape import shown_as
from ...base.errors import ShapeError
from ...base.shape import Layout, Shape, normalize_dim
from ...base.validation import as_int, as_ints
from ...dispatch.view_cache import caches_views
from ..elementwise.cast import cast
from ..matmul.diagonal import diag_embed, diagonal
from ..view import flatten, reshape
from .slice import _slice, narrow, select, split, strided_scatter
from .slice import as_strided as strided_view
from .transpose import row_major

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def strided_layout(
    name: str, x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> Layout:
    """Return a layout over the storage of `x`.

    Raises
    ------
    ShapeError
        If it has not a stride for each size, one is below 0, or it leaves the storage.
    """
    sizes, strides = as_ints(f"{name}: size", size), as_ints(f"{name}: stride", stride)
    start = x.layout.offset if offset is None else as_int(f"{name}: offset", offset)
    if len(sizes) != len(strides) or min((*sizes, *strides, start), default=0) < 0:
        raise ShapeError(
            f"{name}: sizes are {sizes}, strides {strides}, the offset {start}; there"
            " must be a stride for each size, and none be below 0"
        )
    last = start + sum((n - 1) * step for n, step in zip(sizes, strides))
    if 0 not in sizes and last >= x.array.value.numel:
        raise ShapeError(
            f"{name}: sizes {sizes}, strides {strides} and offset {start} reach element"
            f" {last}; the storage has {x.array.value.numel}"
        )
    return Layout(sizes, strides, start)


@caches_views
def as_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """Return a view of the storage of a tensor by sizes and strides.

    Parameters
    ----------
    input : Tensor
    size, stride : sequence of int
    storage_offset : int or None
        None means that of `input`.

    Raises
    ------
    ShapeError
        If the view leaves the storage, or a gradient is needed that it has none.

    Notes
    -----
    Gradients need `input` in row-major order, and a view of its elements alone.
    """
    layout = strided_layout("as_strided", input, size, stride, storage_offset)
    shift = layout.offset - input.layout.offset
    last = shift + sum((n - 1) * step for n, step in zip(layout.shape, layout.strides))
    within = layout.numel == 0 or (shift >= 0 and last < input.numel())
    if input.layout.is_contiguous and within:
        view: Tensor = strided_view(input, layout._replace(offset=shift))
        return view
    if input.requires_grad:
        raise ShapeError(
            f"as_strided: x of shape {input.layout.shape} requires a gradient, and has"
            " other elements than the view, or not in row-major order; call"
            " x.contiguous() first"
        )
    return input.view_of(layout)


@shown_as("AsStridedScatterBackward0", "input", "src")
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """Return a copy of `input` in which the view `as_strided` would give is `src`.

    Parameters
    ----------
    input : Tensor
    src : Tensor, shape `size`
        Cast to the dtype of `input`.
    size, stride, storage_offset
        As in `as_strided`, of the elements of `input` in row-major order.

    Raises
    ------
    ShapeError
        If `src` has another shape, or the view leaves `input`.
    """
    name = "as_strided_scatter"
    start = 0 if storage_offset is None else storage_offset
    whole = flatten(input)
    layout = strided_layout(name, whole, size, stride, start + whole.layout.offset)
    layout = layout._replace(offset=layout.offset - whole.layout.offset)
    return strided_scatter(input, _fitting(name, src, layout.shape, input), layout)


def _fitting(name: str, src: Tensor, shape: Shape, x: Tensor) -> Tensor:
    if src.layout.shape != shape:
        raise ShapeError(
            f"{name}: src is {src.layout.shape}; it must be {tuple(shape)}"
        )
    return src if src.dtype is x.dtype else cast(src, x.dtype)


def _replaced(
    name: str, x: Tensor, src: Tensor, part: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return a copy of `x` with a view of it replaced."""
    blank = x.view_of(Layout.contiguous(x.layout.shape)) if x.numel() else x
    region: Layout = part(blank).layout
    source = _fitting(name, src, region.shape, x)
    return (
        strided_scatter(x, source, region)
        if region.numel
        else strided_scatter(x, source, region._replace(offset=0))
    )


@shown_as("SelectScatterBackward0", "input", "src")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of `input` in which `select(dim, index)` would give `src`.

    Parameters
    ----------
    input : Tensor
    src : Tensor, shape of `input` without `dim`
        Cast to the dtype of `input`.
    dim, index : int

    Raises
    ------
    ShapeError
        If `src` has another shape.
    """
    # A plain int, as the result is to be a view.
    place = as_int("select_scatter: index", index)
    return _replaced("select_scatter", input, src, lambda x: select(x, dim, place))


@shown_as("SliceScatterBackward0", "input", "src")
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Return a copy of `input` in which the slice of a dimension is `src`.

    Parameters
    ----------
    input : Tensor
    src : Tensor, shape of the slice
        Cast to the dtype of `input`.
    dim : int, default 0
    start, end : int or None
        None means the first place, and behind the last; they are cut to these.
    step : int, default 1

    Raises
    ------
    ShapeError
        If `src` has another shape, or `step` is below 1.
    """
    at = normalize_dim("slice_scatter", dim, len(input.layout.shape))
    step = as_int("slice_scatter: step", step)
    if step < 1:
        raise ShapeError(f"slice_scatter: step is {step}; it must be at least 1")
    first, last, _ = slice(start, end, step).indices(input.layout.shape[at])

    def part(x: Tensor) -> Tensor:
        starts, steps, sizes = (
            [0] * len(x.layout.shape),
            [1] * len(x.layout.shape),
            list(x.layout.shape),
        )
        starts[at], steps[at] = first, step
        sizes[at] = len(range(first, last, step))
        sliced: Tensor = _slice(x, tuple(starts), tuple(steps), tuple(sizes))
        return sliced

    return _replaced("slice_scatter", input, src, part)


@shown_as("DiagonalScatterBackward0", "input", "src")
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return a copy of `input` in which `diagonal` would give `src`.

    Parameters
    ----------
    input : Tensor, of at least two dimensions
    src : Tensor, shape of the diagonal
        Cast to the dtype of `input`.
    offset, dim1, dim2 : int, default 0, 0, 1
        As in `diagonal`.

    Raises
    ------
    ShapeError
        If `src` has another shape.
    """
    return _replaced(
        "diagonal_scatter", input, src, lambda x: diagonal(x, offset, dim1, dim2)
    )


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix of 0 whose diagonal `offset` has all elements of a tensor.

    Parameters
    ----------
    input : Tensor, any shape and dtype
        Read in row-major order.
    offset : int, default 0
        Above 0 a diagonal above the main one, below 0 one below it.
    """
    return diag_embed(flatten(input), offset)


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Return the sums that give a tensor a shape that broadcasts to its own.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    *size : int, or one sequence of int
        Shape of the result.

    Raises
    ------
    ShapeError
        If the shape does not broadcast to that of the tensor.
    """
    from ..reduce.sum import sum

    given = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    shape = as_ints("sum_to_size: size", given)
    added = len(input.layout.shape) - len(shape)
    fits = added >= 0 and all(
        n in (1, whole) for n, whole in zip(shape, input.layout.shape[max(added, 0) :])
    )
    if not fits:
        raise ShapeError(
            f"sum_to_size: {shape} does not broadcast to {input.layout.shape},"
            " the shape of x"
        )
    dims = tuple(range(added)) + tuple(
        at + added for at, n in enumerate(shape) if n != input.layout.shape[at + added]
    )
    if not dims:
        # PyTorch adds up what has no dimension, so that bools become integers.
        return input if shape else sum(input)
    return reshape(sum(input, dims, True), shape)


@shown_as("NarrowCopyBackward0", "input")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a copy of neighbours along one dimension; parameters as in `narrow`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension.
    start : int
        First place; below 0 counted from the end.
    length : int
        How many places.
    """
    return row_major(narrow(input, dim, start, length))


@caches_views
def split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Return views of parts along a dimension, whose sizes must add up to its own.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    split_sizes : sequence of int
        Sizes of the parts.
    dim : int, default 0
        The dimension.
    """
    return split(input, as_ints("split_with_sizes: split_sizes", split_sizes), dim)
