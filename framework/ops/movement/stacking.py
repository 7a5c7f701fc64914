"""Joining, splitting and mirroring along dimensions by position, as NumPy has it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd.tape import distinct, show_as
from ...base.errors import ShapeError
from ...base.shape import Shape, Size
from ...base.shape import broadcast_shapes as common_shape
from ...base.validation import as_ints
from ...dispatch.replayable import replayable
from ...dispatch.view_cache import caches_views
from ...eager.base_tensor import TensorCore
from ..elementwise.cast import converted, need_one_dtype, result_type
from ..elementwise.complex_numbers import conj
from ..source import fill_like
from ..view import expand, reshape, transpose, unsqueeze
from .concat import cat, stack
from .rearrange import flip, pad
from .slice import tensor_split

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

Sections = int | Sequence[int]


def _each(function: Callable[[Any], Tensor], tensors: tuple[Any, ...]) -> Any:
    """Apply a function to one tensor, or to several or a sequence of them."""
    if len(tensors) == 1 and isinstance(tensors[0], TensorCore):
        return function(tensors[0])
    given = tensors[0] if len(tensors) == 1 else tensors
    if not isinstance(given, tuple | list):
        raise TypeError(
            f"atleast: a {type(given).__name__} was given; it must be a tensor or a"
            " sequence of tensors"
        )
    return tuple(function(each) for each in given)


@caches_views
def _rows(x: Tensor) -> Tensor:
    if len(x.layout.shape) == 1:
        return unsqueeze(x, 0)
    return x if x.layout.shape else reshape(x, (1, 1))


@caches_views
def _planes(x: Tensor) -> Tensor:
    return x if len(x.layout.shape) > 2 else unsqueeze(_rows(x), 2)


@caches_views
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Return views of tensors with at least one dimension.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensor
        Any shapes and dtypes; one alone is returned without a tuple.
    """
    return _each(lambda x: x if x.ndim else reshape(x, (1,)), tensors)


@caches_views
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Return views of tensors with at least two dimensions, added in front.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensor
        Any shapes and dtypes; one alone is returned without a tuple.
    """
    return _each(_rows, tensors)


@caches_views
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Return views of tensors with at least three dimensions; see `atleast_2d`.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensor
        Any shapes and dtypes; one alone is returned without a tuple.
    """
    return _each(_planes, tensors)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along the third dimension, which they get if need be.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of one shape but for the dimension they are joined along; dtypes promote.
    """
    return cat([_planes(each) for each in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along the second dimension; vectors are columns.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of as many rows each; dtypes promote.
    """
    return cat(
        [each if each.ndim > 1 else reshape(each, (-1, 1)) for each in tensors], 1
    )


def _split(name: str, x: Tensor, parts: Sections, dim: int) -> tuple[Tensor, ...]:
    if len(x.layout.shape) <= dim:
        raise ShapeError(
            f"{name}: x is {x.layout.shape}; it must have at least {dim + 1} dimensions"
        )
    if isinstance(parts, int) and (parts < 1 or x.layout.shape[dim] % parts):
        raise ShapeError(
            f"{name}: dimension {dim} of size {x.shape[dim]} does not split into"
            f" {parts} equal parts; see tensor_split"
        )
    return tensor_split(x, parts, dim)


@caches_views
def hsplit(input: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return views of parts along the second dimension, of a vector the first.

    Parameters
    ----------
    input : Tensor, of at least one dimension
    indices_or_sections : int or sequence of int
        How many equal parts, or where all parts but the first begin.

    Raises
    ------
    ShapeError
        If there is no such dimension, or the parts would not be equal.
    """
    if len(input.layout.shape) == 0:
        raise ShapeError("hsplit: x is (); it must have at least 1 dimensions")
    return _split(
        "hsplit", input, indices_or_sections, min(1, len(input.layout.shape) - 1)
    )


@caches_views
def vsplit(input: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return views of parts along the first of at least two dimensions; as `hsplit`.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    indices_or_sections : int or sequence of int
        How many equal parts, or where parts begin.
    """
    if len(input.layout.shape) < 2:
        raise ShapeError(
            f"vsplit: x is {input.layout.shape}; it must have at least 2 dimensions"
        )
    return _split("vsplit", input, indices_or_sections, 0)


@caches_views
def dsplit(input: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return views of parts along the third dimension; as `hsplit`.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    indices_or_sections : int or sequence of int
        How many equal parts, or where parts begin.
    """
    return _split("dsplit", input, indices_or_sections, 2)


def fliplr(input: Tensor) -> Tensor:
    """Return a copy with the order of columns reversed.

    Parameters
    ----------
    input : Tensor, shape (rows, columns, ...)
        Any dtype.

    Raises
    ------
    ShapeError
        If there are fewer than two dimensions.
    """
    if len(input.layout.shape) < 2:
        raise ShapeError(
            f"fliplr: x is {input.layout.shape}; it must have at least 2 dimensions"
        )
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Return a copy with the order of rows reversed.

    Parameters
    ----------
    input : Tensor, shape (rows, ...)
        Any dtype.

    Raises
    ------
    ShapeError
        If there is no dimension.
    """
    if len(input.layout.shape) < 1:
        raise ShapeError("flipud: x is (); it must have at least 1 dimension")
    return flip(input, 0)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return views of tensors in the shape that they all broadcast to.

    Parameters
    ----------
    *tensors : Tensor
        Any dtypes.

    Raises
    ------
    ShapeError
        If they do not broadcast.
    """
    if not tensors:
        return ()
    shape = _common(tuple([each.layout.shape for each in tensors]))
    return tuple(
        [
            each if each.layout.shape == shape else expand(each, shape)
            for each in tensors
        ]
    )


@functools.lru_cache(maxsize=1024)
def _common(shapes: tuple[Shape, ...]) -> Shape:
    return common_shape("broadcast_tensors", *shapes)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape that shapes broadcast to; an int is a shape of one size.

    Parameters
    ----------
    *shapes : int or sequence of int
        One for each tensor.

    Raises
    ------
    ShapeError
        If they do not broadcast.
    """
    given = [
        as_ints("broadcast_shapes: shape", (each,) if isinstance(each, int) else each)
        for each in shapes
    ]
    return Size(common_shape("broadcast_shapes", *given) if given else ())


@caches_views
def adjoint(input: Tensor) -> Tensor:
    """Return the conjugate with the last two dimensions exchanged.

    A view if the numbers are real.

    Parameters
    ----------
    input : Tensor, shape (..., rows, columns)
        Any dtype.

    Raises
    ------
    ShapeError
        If there is one dimension.
    """
    return conj(transpose(input, -2, -1) if len(input.layout.shape) else input)


@replayable
def block_diag(*tensors: Tensor) -> Tensor:
    """Return a matrix with the matrices given along its diagonal, otherwise 0.

    Vectors are rows.

    Parameters
    ----------
    *tensors : Tensor, of at most two dimensions
        Dtypes promote.

    Raises
    ------
    ShapeError
        If there is none, or one has more than two dimensions.
    """
    if not tensors:
        raise ShapeError("block_diag: there are no tensors; at least one is needed")
    for each in tensors:
        if each.ndim > 2:
            raise ShapeError(
                f"block_diag: a tensor is {each.layout.shape}; it must have at most 2"
                " dimensions"
            )
    kind = result_type(*tensors)
    tensors = tuple(distinct(tensors))
    blocks = [_rows(converted(each, kind)) for each in tensors]
    width = sum(each.shape[1] for each in blocks)
    rows, left = [], 0
    for block in blocks:
        right = width - left - block.shape[1]
        rows.append(pad(block, (left, right)) if block.shape[0] else block)
        left += block.shape[1]
    kept = [row for row in rows if row.shape[0]]
    if not kept:
        return fill_like(blocks[0], (0, width), 0, blocks[0].dtype)
    found = cat(kept)
    show_as(found, "BlockDiagBackward0", *tensors)
    return found


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return all combinations of elements of vectors, one a row.

    Parameters
    ----------
    *tensors : Tensor, shape (size,)
        Dtypes promote.

    Returns
    -------
    Tensor, shape (product of the sizes, number of tensors)
        Of one tensor, itself.

    Raises
    ------
    ShapeError
        If there is none, or one is not a vector.
    """
    if not tensors or any(each.ndim != 1 for each in tensors):
        shapes = [each.layout.shape for each in tensors]
        raise ShapeError(
            f"cartesian_prod: tensors are {shapes}; there must be vectors alone"
        )
    named = {f"tensors[{at}]": x for at, x in enumerate(tensors)}
    need_one_dtype("cartesian_prod", **named)
    if len(tensors) == 1:
        return tensors[0]
    sizes = tuple(each.shape[0] for each in tensors)
    columns = []
    for place, each in enumerate(tensors):
        along = tuple(-1 if at == place else 1 for at in range(len(sizes)))
        columns.append(reshape(expand(reshape(each, along), sizes), (-1,)))
    return stack(columns, 1)
