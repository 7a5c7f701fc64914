"""Diagonals of matrices, as views and in matrices of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd.tape import show_as, shown_as
from ...base.dtype import STORED
from ...base.errors import ShapeError
from ...base.shape import Layout, TensorSpec, contiguous_strides, normalize_dim
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.declare import movement
from ...dispatch.view_cache import caches_views
from ..elementwise.unary import copy
from ..movement.slice import strided_scatter
from ..reduce.sum import sum
from ..source import fill_like
from ..view import movedim, permute

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@movement(dtypes=STORED)
def _diagonal(x: Tensor, start: int, count: int) -> Tensor:
    """Return a view of a diagonal of the first two dimensions, as the last one."""


@_diagonal.layout
def _diagonal_layout(layout: Layout, start: int, count: int) -> Layout:
    (down, right, *rest), (_, _, *sizes) = layout.strides, layout.shape
    offset = layout.offset + (start * right if start >= 0 else -start * down)
    return Layout((*sizes, count), (*rest, down + right), offset)


@_diagonal.vjp
def _diagonal_vjp(grad: Tensor, x_spec: TensorSpec, start: int, count: int) -> Tensor:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    chosen = _diagonal_layout(Layout.contiguous(x_spec.shape), start, count)
    return strided_scatter(zeros, grad, chosen)


@caches_views
@shown_as("DiagonalBackward0", "x")
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a view of a diagonal of two dimensions, as a last dimension.

    Parameters
    ----------
    x : Tensor
        At least 2-D.
    offset : int, default 0
        Which diagonal: above the main one if positive, below it if negative.
    dim1, dim2 : int
        Dimensions of the rows and of the columns.

    Raises
    ------
    ShapeError
        If the two dimensions are one.
    """
    first = normalize_dim("diagonal", dim1, len(x.layout.shape))
    second = normalize_dim("diagonal", dim2, len(x.layout.shape))
    offset = as_int("diagonal: offset", offset)
    if first == second:
        raise ShapeError(f"diagonal: dim1 and dim2 are both {first}; they must differ")
    rest = [dim for dim in range(len(x.layout.shape)) if dim not in (first, second)]
    rows, columns = x.layout.shape[first], x.layout.shape[second]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    return _diagonal(permute(x, (first, second, *rest)), offset if count else 0, count)


@shown_as("DiagEmbedBackward0", "x")
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices of zeros whose diagonals are the rows of `x`.

    Parameters
    ----------
    x : Tensor, shape (..., n)
    offset : int, default 0
        Which diagonal; see `diagonal`.
    dim1, dim2 : int
        Dimensions of the matrices in the result.

    Returns
    -------
    Tensor, shape (..., m, m) by default
        With m = n + the absolute offset.

    Raises
    ------
    ShapeError
        If `x` has no dimension, or the two dimensions are one.
    """
    if len(x.layout.shape) == 0:
        raise ShapeError("diag_embed: x is (); it must have at least 1 dimension")
    offset = as_int("diag_embed: offset", offset)
    first = normalize_dim("diag_embed", dim1, len(x.layout.shape) + 1)
    second = normalize_dim("diag_embed", dim2, len(x.layout.shape) + 1)
    if first == second:
        raise ShapeError(
            f"diag_embed: dim1 and dim2 are both {first}; they must differ"
        )
    if (first, second) != (len(x.layout.shape) - 1, len(x.layout.shape)):
        return movedim(diag_embed(x, offset), (-2, -1), (first, second))
    size = x.layout.shape[-1] + abs(offset)
    shape = (*x.layout.shape[:-1], size, size)
    if x.numel() == 0:
        return fill_like(x, shape, 0, x.dtype)
    *outer, down, right = contiguous_strides(shape)
    start = offset * right if offset >= 0 else -offset * down
    return strided_scatter(
        fill_like(x, shape, 0, x.dtype),
        x,
        Layout(x.layout.shape, (*outer, down + right), start),
    )


def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """Return a matrix with the diagonal `x`, or a copy of the diagonal of a matrix.

    Parameters
    ----------
    x : Tensor, shape (n,) or (m, n)
    diagonal : int, default 0
        Which: above the main one if positive, below it if negative. A matrix without it
        gives no elements.

    Raises
    ------
    ShapeError
        If `x` is neither a vector nor a matrix.
    """
    if len(x.layout.shape) == 1:
        return diag_embed(x, diagonal)
    if len(x.layout.shape) == 2:
        found = copy(_diagonal_of(x, diagonal))
        show_as(found, "DiagonalBackward0_copy", x)
        return found
    raise ShapeError(f"diag: x is {tuple(x.shape)}; it must have 1 or 2 dimensions")


_diagonal_of = diagonal  # the parameter of `diag` hides the name


@autocast_float32_on_host
@shown_as("TraceBackward0", "x")
def trace(x: Tensor) -> Tensor:
    """Return the sum of the main diagonal of a matrix.

    Parameters
    ----------
    x : Tensor, shape (rows, columns)
        Any dtype; bools and integers are summed as int64.

    Raises
    ------
    ShapeError
        If `x` is no matrix.
    """
    if len(x.layout.shape) != 2:
        raise ShapeError(f"trace: x is {tuple(x.shape)}; it must be 2-D")
    return sum(diagonal(x))
