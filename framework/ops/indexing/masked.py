"""Masks: nonzero, masked fill and select, and triangles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from ...autograd.tape import show_as, shown_as
from ...base.dtype import STORED, bool_, int32
from ...base.errors import DTypeError, ShapeError
from ...base.shape import Shape, TensorSpec, broadcast_shapes, contiguous_strides
from ...base.validation import as_int
from ...dispatch.declare import composite
from ...dispatch.diagnosis import need_tensor
from ...dispatch.replayable import replayable
from ...dispatch.scalar import number
from ...eager.base_tensor import TensorCore
from ...kernels.counting import MOST_COORDINATES
from ..elementwise.binary import floor_divide, remainder
from ..elementwise.cast import cast
from ..elementwise.compare import ne, where
from ..movement.concat import stack
from ..movement.slice import select
from ..reduce.common import place_dtype
from ..source import band_like, fill_like
from ..view import expand, flatten, reshape
from .compaction import (
    moves_elements,
    true_coordinates,
    true_elements,
)
from .gather import store_rows, take_rows

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def flatnonzero(mask: Tensor) -> Tensor:
    """Return flat offsets of true elements, in order, as int32.

    Their number decides the shape, so it is read by the host, which waits for the mask.
    """
    if mask.dtype is not bool_:
        raise DTypeError(f"flatnonzero: `mask` is {mask.dtype.name}; accepted: bool")
    if mask.numel() == 0:
        return fill_like(mask, (0,), 0, int32)
    return flatten(true_coordinates(mask, (mask.numel(),), False, int32))


@overload
def nonzero(x: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(x: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def nonzero(x: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Return the coordinates of elements that are not zero, in row-major order.

    Their number is read by the host, which waits for it.

    Parameters
    ----------
    x : Tensor
    as_tuple : bool, default False
        Return a tensor for each dimension, which together index `x`, as NumPy does; a
        tensor without dimensions counts as one of one element.

    Returns
    -------
    Tensor, shape (count, x.ndim), or tuple of Tensor, shape (count,)
        int64, or int32 on a device without 64-bit integers.
    """
    mask, shape = x if x.dtype is bool_ else ne(x, 0), x.layout.shape
    kind, ndim = place_dtype(x), len(shape)
    if not ndim:
        if not as_tuple:
            return fill_like(x, (flatnonzero(mask).numel(), 0), 0, kind)
        mask, shape, ndim = reshape(mask, (1,)), (1,), 1
    if mask.numel() == 0:
        found = fill_like(x, (ndim, 0) if as_tuple else (0, ndim), 0, kind)
    elif ndim > MOST_COORDINATES:
        places = flatnonzero(mask)
        columns = [cast(each, kind) for each in unravelled(places, shape)]
        return tuple(columns) if as_tuple else stack(columns, 1)
    else:
        found = true_coordinates(mask, shape, not as_tuple, kind)
    return tuple([select(found, 0, dim) for dim in range(ndim)]) if as_tuple else found


def unravelled(places: Tensor, shape: Shape) -> list[Tensor]:
    """Return the coordinates of flat offsets, a tensor for each dimension."""
    columns, rest = [], places
    for step in contiguous_strides(shape):
        columns.append(floor_divide(rest, max(step, 1)))
        rest = remainder(rest, max(step, 1))
    return columns


@where.form
def _where_form(
    condition: Tensor,
    input: Tensor | float | None = None,
    other: Tensor | float | None = None,
) -> Tensor | tuple[Tensor, ...]:
    if input is None and other is None:
        need_tensor("where", "condition", condition)
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError(
            "where: one of `input` and `other` is missing; give both, or none"
        )
    return where(condition, input, other)


def _need_real(x: Tensor, value: object, is_complex: bool) -> None:
    if is_complex and not x.dtype.is_complex and x.dtype is not bool_:
        raise DTypeError(
            f"masked_fill: value is {value}; it must be real, as x is {x.dtype.name}"
        )


def masked_fill(x: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Return `x` with one value where the mask holds.

    Parameters
    ----------
    x : Tensor
    mask : Tensor, bool
        Of a shape that broadcasts with that of `x`.
    value : number or Tensor without dimensions
        Cut to an integer where `x` has integers.

    Returns
    -------
    Tensor, dtype of `x`

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or a value that is a tensor has dimensions.
    DTypeError
        If the mask is not bool, or only the value is complex.
    """
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_fill: `mask` is {mask.dtype.name}; accepted: bool")
    if isinstance(value, TensorCore):
        if value.ndim:
            raise ShapeError(
                f"masked_fill: value is {tuple(value.shape)}; it must have no dimension"
            )
        _need_real(x, value, value.dtype.is_complex)
        value = value if value.dtype is x.dtype else cast(value, x.dtype)
    else:
        _need_real(x, value, isinstance(value, complex))
        value = number("masked_fill", x.dtype, value)
        value = bool(value) if x.dtype is bool_ else value
    out = where(mask, value, x)
    if out.grad_node is not None:
        if isinstance(value, TensorCore):
            show_as(out, "MaskedFillBackward1", x, value)
        else:
            show_as(out, "MaskedFillBackward0", x)
    return out


@shown_as("MaskedSelectBackward0", "x")
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where the mask holds, in row-major order.

    The number of elements is read by the host, which waits for it.

    Parameters
    ----------
    x : Tensor
    mask : Tensor, bool
        Of a shape that broadcasts with that of `x`.

    Returns
    -------
    Tensor, shape (n,), dtype of `x`

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the mask is not bool.
    """
    shape = broadcast_shapes("masked_select", x.layout.shape, mask.layout.shape)
    return masked_elements(expand(x, shape), expand(mask, shape))


def masked_elements(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where a mask of the shape of `x` holds; see `masked_select`.

    Raises
    ------
    DTypeError
        If the mask is not bool.
    """
    if mask.dtype is bool_ and mask.numel() and moves_elements(x):
        return true_elements(x, mask)
    places = flatnonzero(mask)
    return flatten(_chosen(reshape(x, (1, -1, 1)), places))


@composite(dtypes={"x": STORED, "places": (int32,)})
def _chosen(x: Tensor, places: Tensor) -> Tensor:
    """Return elements by their places, of which none comes twice."""
    return take_rows(x, places)


@_chosen.vjp
def _chosen_vjp(
    grad: Tensor, places: Tensor, x_spec: TensorSpec
) -> tuple[Tensor, None]:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    return store_rows(zeros, places, grad), None


def _triangle(x: Tensor, low: int, high: int) -> Tensor:
    """Return `x` with zeros outside of a band of each matrix."""
    rows, columns = x.layout.shape[-2:]
    # Beyond a corner all bands are the same.
    low, high = (max(-rows - 1, min(each, columns + 1)) for each in (low, high))
    band = band_like(x, x.layout.shape, rows, columns, low, high, bool_)
    return where(band, x, False if x.dtype is bool_ else 0)


def _need_matrix(name: str, x: Tensor) -> None:
    if len(x.layout.shape) < 2:
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}; it must have at least 2 dimensions"
        )


@replayable
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Return the elements on and below a diagonal of each matrix, otherwise 0.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    diagonal : int, default 0
        Which: above the main one if positive, below it if negative.

    Raises
    ------
    ShapeError
        If `x` has fewer than two dimensions.
    """
    _need_matrix("tril", x)
    diagonal = as_int("tril: diagonal", diagonal)
    out = _triangle(x, -x.layout.shape[-2], diagonal)
    show_as(out, "TrilBackward0", x)
    return out


@replayable
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Return the elements on and above a diagonal of each matrix, otherwise 0.

    Parameters
    ----------
    x : Tensor, shape (..., m, n)
    diagonal : int, default 0
        Which: above the main one if positive, below it if negative.

    Raises
    ------
    ShapeError
        If `x` has fewer than two dimensions.
    """
    _need_matrix("triu", x)
    diagonal = as_int("triu: diagonal", diagonal)
    out = _triangle(x, diagonal, x.layout.shape[-1])
    show_as(out, "TriuBackward0", x)
    return out
