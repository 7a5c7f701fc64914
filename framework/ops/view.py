"""Reshape, permute and expand: views where strides allow it, otherwise copies."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..autograd.partial_grad import PartialGrad, accepts_partial
from ..autograd.tape import show_as
from ..base.device import META, Device
from ..base.dtype import STORED
from ..base.errors import ShapeError
from ..base.shape import (
    Layout,
    Shape,
    TensorSpec,
    broadcast_shapes,
    normalize_dim,
    normalize_dims,
)
from ..base.validation import as_int, as_int_or_ints, as_ints, check_numel
from ..dispatch.declare import composite, movement
from ..dispatch.view_cache import caches_views

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

_INTEGERS = frozenset({int})


@movement(dtypes=STORED)
def _view(x: Tensor, shape: Shape) -> Tensor:
    """Return the elements in row-major order in another shape."""


@_view.layout
def _view_layout(layout: Layout, shape: Shape) -> Layout | None:
    return layout.reshape(shape)


@_view.vjp
def _view_vjp(grad: Tensor, x_spec: TensorSpec) -> Tensor:
    return _view(grad, x_spec.shape)


def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Return the elements in another shape, or `x` itself; see `reshaping.reshape`."""
    now = x.layout.shape
    wanted = shape if isinstance(shape, tuple) else as_ints("reshape: shape", shape)
    if not _INTEGERS.issuperset(map(type, wanted)):
        wanted = as_ints("reshape: shape", wanted)
    if wanted == now:
        return x
    wanted = _filled(now, wanted)
    return x if wanted == now else _view.of(x, wanted)


def another(x: Tensor, out: Tensor, name: str) -> Tensor:
    """Return a view; where it is the tensor itself, another tensor of its elements.

    PyTorch's views are always other tensors: what is set on one, as `requires_grad_`
    or another shape in place, is not set on the other.

    Parameters
    ----------
    x, out : Tensor
        What was viewed, and the view.
    name : str
        The gradient node to show.
    """
    if out is not x:
        return out
    out = _permute.of(x, tuple(range(len(x.layout.shape))))
    if out.grad_node is not None:
        show_as(out, name, x)
    return out


@functools.lru_cache(maxsize=4096)
def _filled(now: Shape, shape: Shape) -> Shape:
    """Return a shape for the elements of another, with the size that -1 stands for."""
    numel = math.prod(now)
    shape = tuple(shape)
    known = math.prod(size for size in shape if size != -1)
    if shape.count(-1) == 1 and known > 0 and numel % known == 0:
        shape = tuple(numel // known if size == -1 else size for size in shape)
    if min(shape, default=0) < 0 or math.prod(shape) != numel:
        raise ShapeError(
            f"reshape: {now} has {numel} elements; {shape} does not hold as many"
        )
    return shape


@caches_views
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the tensor with neighbouring dimensions made one, as a view if possible.

    Parameters
    ----------
    x : Tensor
        Without dimensions it gets one.
    start_dim, end_dim : int, default 0, -1
        First and last of the dimensions.

    Raises
    ------
    ShapeError
        If `start_dim` comes after `end_dim`.
    """
    now = x.layout.shape or (1,)
    start = normalize_dim("flatten", start_dim, len(now))
    end = normalize_dim("flatten", end_dim, len(now))
    if start > end:
        raise ShapeError(
            f"flatten: start_dim {start_dim} comes after end_dim {end_dim}"
        )
    merged = math.prod(now[start : end + 1])
    return reshape(x, (*now[:start], merged, *now[end + 1 :]))


@caches_views
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return the tensor with one dimension split into several.

    Parameters
    ----------
    x : Tensor
    dim : int
    sizes : sequence of int
        At least one; one of them may be -1, which is what is left of the dimension.

    Raises
    ------
    ShapeError
        If the product of the sizes is not the dimension's.
    """
    at = normalize_dim("unflatten", dim, len(x.layout.shape))
    sizes = as_ints("unflatten: sizes", sizes)
    known = math.prod(size for size in sizes if size != -1)
    split = tuple(
        x.layout.shape[at] // known if size == -1 and known > 0 else size
        for size in sizes
    )
    if math.prod(split) != x.layout.shape[at] or min(split, default=0) < 0:
        raise ShapeError(
            f"unflatten: dimension {at} has size {x.shape[at]}; {sizes} does not"
            " multiply to that"
        )
    sizes = (*x.layout.shape[:at], *split, *x.layout.shape[at + 1 :])
    return another(x, reshape(x, sizes), "ViewBackward0")


@caches_views
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a view without dimensions of size 1.

    Parameters
    ----------
    x : Tensor
    dim : int, sequence of int or None
        Which to drop, if they have size 1; others stay. None means all.
    """
    dims = normalize_dims("squeeze", dim, len(x.layout.shape))
    kept = [n for at, n in enumerate(x.layout.shape) if n != 1 or at not in dims]
    out = reshape(x, tuple(kept))
    if out is x or out.grad_node is not None:
        kind = 0 if dim is None else 1 if isinstance(dim, int) else 2
        name = f"SqueezeBackward{kind}"
        if out is x:
            return another(x, out, name)
        show_as(out, name, x)
    return out


@caches_views
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """Return a view with a dimension of size 1 inserted before `dim`.

    Parameters
    ----------
    x : Tensor
        Any shape and dtype.
    dim : int
        Place of the new dimension; below 0 counted from the end of the result's.
    """
    at = normalize_dim("unsqueeze", dim, len(x.layout.shape) + 1)
    out = reshape(x, (*x.layout.shape[:at], 1, *x.layout.shape[at:]))
    if out.grad_node is not None:
        show_as(out, "UnsqueezeBackward0", x)
    return out


@movement(dtypes=STORED)
def _permute(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return a view with the dimensions in another order."""


@_permute.layout
def _permute_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    return layout.permute(dims)


@_permute.vjp
@accepts_partial
def _permute_vjp(
    grad: Tensor | PartialGrad, dims: tuple[int, ...]
) -> Tensor | PartialGrad:
    back = _back(dims)
    if isinstance(grad, PartialGrad):
        return grad.permuted(back)
    return _permute(grad, back)


@functools.lru_cache(maxsize=256)
def _back(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of dimensions that undoes another."""
    return tuple(int(dim) for dim in np.argsort(dims))


@caches_views
def permute(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return a view with the dimensions in the order `dims`.

    Parameters
    ----------
    x : Tensor
    dims : sequence of int
        Dimension i of the result is dims[i] of `x`; negative ones count from the end.

    Raises
    ------
    ShapeError
        If `dims` does not name every dimension once.
    """
    if type(dims) is not tuple or not _INTEGERS.issuperset(map(type, dims)):
        dims = as_ints("permute: dims", dims)
    return _permute.of(x, _order(len(x.layout.shape), dims))


@functools.lru_cache(maxsize=256)
def _order(ndim: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of dimensions, counted from the first."""
    order = tuple(normalize_dim("permute", dim, ndim) for dim in dims)
    if sorted(order) != list(range(ndim)):
        raise ShapeError(
            f"permute: dims are {dims}; they must name each of the {ndim}"
            " dimensions once"
        )
    return order


@caches_views
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions exchanged.

    Parameters
    ----------
    x : Tensor
        Any shape and dtype.
    dim0, dim1 : int
        The dimensions; below 0 counted from the end.
    """
    if type(dim0) is not int or type(dim1) is not int:
        dim0 = as_int("transpose: dim0", dim0)
        dim1 = as_int("transpose: dim1", dim1)
    out: Tensor = _permute.of(x, _exchanged(len(x.layout.shape), dim0, dim1))
    if out.grad_node is not None:
        show_as(out, "TransposeBackward0", x)
    return out


@caches_views
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return a view with two dimensions exchanged; see `transpose`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    axis0, axis1 : int
        The dimensions; below 0 counted from the end.
    """
    return transpose(input, axis0, axis1)


@functools.lru_cache(maxsize=256)
def _exchanged(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    """Return the order of dimensions with two of them exchanged."""
    first = normalize_dim("transpose", dim0, ndim or 1)
    second = normalize_dim("transpose", dim1, ndim or 1)
    order = list(range(ndim or 1))
    order[first], order[second] = second, first
    return tuple(order)[:ndim]


@caches_views
def t(x: Tensor) -> Tensor:
    """Return a view of a matrix with its dimensions exchanged; a vector as it is.

    Parameters
    ----------
    x : Tensor, of at most two dimensions
        Any dtype.

    Raises
    ------
    ShapeError
        If there are more than two dimensions.
    """
    if len(x.layout.shape) == 2:
        out = _permute.of(x, (1, 0))
    elif len(x.layout.shape) > 2:
        raise ShapeError(
            f"t: x is {tuple(x.shape)}; it must have at most 2 dimensions; use"
            " transpose or mT"
        )
    else:
        out = permute(x, tuple(range(len(x.layout.shape))))
    if out.grad_node is not None:
        show_as(out, "TBackward0", x)
    return out


@caches_views
def movedim(
    x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    """Return a view with some dimensions moved and the others in order around them.

    Parameters
    ----------
    x : Tensor
    source, destination : int or sequence of int
        Which dimensions are moved, and where to.

    Raises
    ------
    ShapeError
        If the two do not name as many different dimensions.
    """
    pairs = []
    for name, dims in (("source", source), ("destination", destination)):
        given = as_int_or_ints(f"movedim: {name}", dims)
        listed = (given,) if isinstance(given, int) else given
        pairs.append(
            [normalize_dim("movedim", dim, len(x.layout.shape) or 1) for dim in listed]
        )
    origins, targets = pairs
    if len(origins) != len(targets) or any(len(set(p)) != len(p) for p in pairs):
        raise ShapeError(
            f"movedim: source is {source}, destination {destination}; they must name as"
            " many dimensions, each once"
        )
    order = [dim for dim in range(len(x.layout.shape)) if dim not in origins]
    for target, origin in sorted(zip(targets, origins)):
        order.insert(target, origin)
    return _permute(x, tuple(order)[: x.ndim])


@movement(dtypes=STORED)
def _expand(x: Tensor, shape: Shape) -> Tensor:
    """Return a view that repeats dimensions of size 1."""


@_expand.layout
def _expand_layout(layout: Layout, shape: Shape) -> Layout:
    return layout.expand(shape)


# The tape sums a gradient in the broadcast shape back to the input's.
@_expand.vjp
def _expand_vjp(grad: Tensor) -> Tensor:
    return grad


@caches_views
def expand(x: Tensor, shape: Shape) -> Tensor:
    """Return a view that repeats dimensions of size 1.

    Parameters
    ----------
    x : Tensor
    shape : sequence of int
        -1 keeps a size; more sizes than dimensions add dimensions in front.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    if type(shape) is not tuple or not _INTEGERS.issuperset(map(type, shape)):
        shape = as_ints("expand: shape", shape)
    return _expand.of(x, _expanded(x.layout.shape, shape))


@functools.lru_cache(maxsize=4096)
def _expanded(now: Shape, shape: Shape) -> Shape:
    """Return what a shape expands to, with the sizes that -1 stands for."""
    added = len(shape) - len(now)
    wanted = tuple(
        now[dim - added] if size == -1 and dim >= added else size
        for dim, size in enumerate(shape)
    )
    fits = broadcast_shapes("expand", now, wanted) == wanted
    if not fits or min(wanted, default=0) < 0:
        raise ShapeError(
            f"expand: {now} does not expand to {shape}; each size is 0 or"
            " more, or"
            " -1 where there is one to keep"
        )
    check_numel("expand", wanted)
    return wanted


@caches_views
def broadcast_to(x: Tensor, shape: Shape) -> Tensor:
    """Return a view in a shape that `x` broadcasts to; parameters as in `expand`.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    shape : sequence of int
        The shape; -1 keeps a size.
    """
    return expand(x, shape)


@composite(dtypes=STORED)
def move(x: Tensor, origin: Device, target: Device) -> Tensor:
    """Return the elements of `x`, which are on `origin`, on another device."""
    if target is META:
        return type(x).without_data(x.layout.shape, x.dtype)
    return type(x).from_host(x.host_copy(), target, x.dtype)


@move.vjp
def move_vjp(grad: Tensor, origin: Device, target: Device) -> Tensor:
    return move(grad, target, origin)
