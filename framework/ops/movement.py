"""Operations that only choose or arrange elements; views wherever possible."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core import strided
from ..device import Device
from ..dispatch import Dispatch, Placed, linear_grid
from ..dtype import ANY
from ..errors import DTypeError, ShapeError
from ..primitive import composite, movement, primitive
from ..shape import (
    Layout,
    Shape,
    TensorSpec,
    broadcast_shapes,
    ceil_div,
    contiguous_strides,
    normalize_dim,
)
from .creation import fill_like

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor

PLACE_DIMS = 6


@movement(dtypes=ANY)
def _view(x: Tensor, shape: Shape) -> Tensor:
    """Return the elements in row-major order in another shape."""


@_view.layout
def _view_layout(layout: Layout, shape: Shape) -> Layout | None:
    return layout.reshape(shape)


@_view.vjp
def _view_vjp(grad: Tensor, x_spec: TensorSpec) -> Tensor:
    return _view(grad, x_spec.shape)


def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Return the elements in row-major order in another shape; one size may be -1.

    A view where strides allow it, otherwise a copy.

    Raises
    ------
    ShapeError
        If the number of elements differs.
    """
    shape = tuple(shape)
    known = math.prod(size for size in shape if size != -1)
    if shape.count(-1) == 1 and known > 0 and x.numel() % known == 0:
        shape = tuple(x.numel() // known if size == -1 else size for size in shape)
    if min(shape, default=0) < 0 or math.prod(shape) != x.numel():
        raise ShapeError(
            f"reshape: {x.shape} has {x.numel()} elements;"
            f" {shape} does not hold as many"
        )
    return x if shape == x.shape else _view(x, shape)


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the tensor with the dimensions from `start_dim` to `end_dim` as one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    start = normalize_dim("flatten", start_dim, x.ndim)
    end = normalize_dim("flatten", end_dim, x.ndim)
    if start > end:
        raise ShapeError(
            f"flatten: start_dim {start_dim} comes after end_dim {end_dim}"
        )
    merged = math.prod(x.shape[start : end + 1])
    return reshape(x, (*x.shape[:start], merged, *x.shape[end + 1 :]))


@movement(dtypes=ANY)
def _permute(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return a view with the dimensions in another order."""


@_permute.layout
def _permute_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    return layout.permute(dims)


@_permute.vjp
def _permute_vjp(grad: Tensor, dims: tuple[int, ...]) -> Tensor:
    return _permute(grad, tuple(int(dim) for dim in np.argsort(dims)))


def permute(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return a view with the dimensions in the order `dims`.

    Raises
    ------
    ShapeError
        If `dims` does not name every dimension once.
    """
    order = tuple(normalize_dim("permute", dim, x.ndim) for dim in dims)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(
            f"permute: dims are {tuple(dims)}; they must name each of the {x.ndim}"
            " dimensions once"
        )
    return _permute(x, order)


def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions exchanged."""
    first = normalize_dim("transpose", dim0, x.ndim)
    second = normalize_dim("transpose", dim1, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return _permute(x, tuple(order))


@movement(dtypes=ANY)
def _expand(x: Tensor, shape: Shape) -> Tensor:
    """Return a view that repeats dimensions of size 1."""


@_expand.layout
def _expand_layout(layout: Layout, shape: Shape) -> Layout:
    return layout.expand(shape)


# The tape sums a gradient in the broadcast shape back to the input's.
@_expand.vjp
def _expand_vjp(grad: Tensor) -> Tensor:
    return grad


def expand(x: Tensor, shape: Shape) -> Tensor:
    """Return a view that repeats dimensions of size 1; -1 keeps a size.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    added = len(shape) - x.ndim
    wanted = tuple(
        x.shape[dim - added] if size == -1 and dim >= added else size
        for dim, size in enumerate(shape)
    )
    if broadcast_shapes("expand", x.shape, wanted) != wanted:
        raise ShapeError(f"expand: {x.shape} does not expand to {tuple(shape)}")
    return x if wanted == x.shape else _expand(x, wanted)


@movement(dtypes=ANY)
def _slice(x: Tensor, starts: Shape, steps: Shape, sizes: Shape) -> Tensor:
    """Return a view of every `steps`-th element from `starts`, `sizes` of them."""


@_slice.layout
def _slice_layout(layout: Layout, starts: Shape, steps: Shape, sizes: Shape) -> Layout:
    offset = sum(start * stride for start, stride in zip(starts, layout.strides))
    strides = tuple(step * stride for step, stride in zip(steps, layout.strides))
    return Layout(sizes, strides, layout.offset + offset)


@_slice.vjp
def _slice_vjp(
    grad: Tensor, x_spec: TensorSpec, starts: Shape, steps: Shape, sizes: Shape
) -> Tensor:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    chosen = _slice_layout(Layout.contiguous(x_spec.shape), starts, steps, sizes)
    return place(zeros, grad, chosen)


@primitive(dtypes=ANY)
def place(base: Tensor, source: Tensor, layout: Layout) -> Tensor:
    """Return `base` with the elements that `layout` chooses taken from `source`.

    Parameters
    ----------
    base : Tensor
        Everything else.
    source : Tensor, shape `layout.shape`, same dtype
        The new elements.
    layout : Layout
        Where they go, over the row-major elements of `base`; no element twice.

    Raises
    ------
    ShapeError
        If elements of the layout overlap, or it has more than 6 dimensions.
    DTypeError
        If the dtypes differ.
    """


@place.spec
def place_spec(base: TensorSpec, source: TensorSpec, layout: Layout) -> TensorSpec:
    if base.dtype is not source.dtype:
        raise DTypeError(
            f"place: base is {base.dtype.name} and source {source.dtype.name};"
            " they must be the same"
        )
    _nested(layout)
    return base


def _nested(layout: Layout) -> list[tuple[int, int, int]]:
    """Return (size, stride, stride in the source) from the longest stride down.

    Division by each stride in turn then recovers the coordinates from an offset.
    """
    sources = contiguous_strides(layout.shape)
    dims = sorted(
        (
            (stride, size, source)
            for size, stride, source in zip(layout.shape, layout.strides, sources)
            if size != 1
        ),
        reverse=True,
    )
    reach = 0
    for stride, size, _ in reversed(dims):
        if stride <= reach:
            raise ShapeError(
                f"place: elements of shape {layout.shape} with strides {layout.strides}"
                " share memory; change a copy instead"
            )
        reach += (size - 1) * stride
    if len(dims) > PLACE_DIMS:
        raise ShapeError(
            f"place: the region has {len(dims)} dimensions; at most {PLACE_DIMS} are"
            " possible"
        )
    return [(size, stride, source) for stride, size, source in dims]


@place.kernel
def place_kernel(
    gpu: DeviceInfo, base: Placed, source: Placed, layout: Layout
) -> Dispatch:
    dims = _nested(layout)
    dims += [(1, 1, 0)] * (PLACE_DIMS - len(dims))
    push: dict[str, int | str] = {"base": "base", "source": "source", "result": "out"}
    push |= {"count": base.numel, "offset": layout.offset}
    for k, (size, stride, step) in enumerate(dims):
        push |= {f"size[{k}]": size, f"stride[{k}]": stride, f"step[{k}]": step}
    size = base.dtype.itemsize
    words = ceil_div(base.numel * size, 4)
    constants = {"LOCAL_X": 256, "SIZE": size}
    return Dispatch("copy/place", linear_grid(words, 256), push, constants)


@place.vjp
def place_vjp(
    grad: Tensor, source_spec: TensorSpec, layout: Layout
) -> tuple[Tensor, Tensor]:
    zeros = fill_like(grad, source_spec.shape, 0, source_spec.dtype)
    return place(grad, zeros, layout), _restride(grad, layout)


@place.reference
def place_reference(base: np.ndarray, source: np.ndarray, layout: Layout) -> np.ndarray:
    out = base.copy()
    strided(out.reshape(-1), layout)[...] = source
    return out


@movement(dtypes=ANY)
def _restride(x: Tensor, layout: Layout) -> Tensor:
    """Return a view of the row-major elements of `x` by a layout of their own."""


@_restride.layout
def _restride_layout(own: Layout, layout: Layout) -> Layout | None:
    if not own.is_contiguous:
        return None
    return layout._replace(offset=layout.offset + own.offset)


@_restride.vjp
def _restride_vjp(grad: Tensor, x_spec: TensorSpec, layout: Layout) -> Tensor:
    return place(fill_like(grad, x_spec.shape, 0, x_spec.dtype), grad, layout)


@composite(dtypes=ANY)
def move(x: Tensor, origin: Device, target: Device) -> Tensor:
    """Return the elements of `x`, which are on `origin`, on another device."""
    return type(x).from_host(x.numpy(), target)


@move.vjp
def move_vjp(grad: Tensor, origin: Device, target: Device) -> Tensor:
    return move(grad, target, origin)


class Region(NamedTuple):
    """What a basic index selects: a slice of each dimension, then a reshape."""

    starts: Shape
    steps: Shape
    sizes: Shape
    shape: Shape


def region(index: object, shape: Shape) -> Region:
    """Return the region that ints, slices, None and Ellipsis select.

    Raises
    ------
    ShapeError
        If there are more indices than dimensions, one is out of range, a slice has a
        step below 1, or an index is of another kind.
    """
    entries = index if isinstance(index, tuple) else (index,)
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise ShapeError("index: only one Ellipsis is possible")
    consumed = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if consumed > len(shape):
        raise ShapeError(f"index: {consumed} indices for a tensor of shape {shape}")
    if Ellipsis not in entries:
        entries = (*entries, Ellipsis)
    starts: list[int] = []
    steps: list[int] = []
    sizes: list[int] = []
    result: list[int] = []
    for entry in entries:
        if entry is None:
            result.append(1)
            continue
        repeat = len(shape) - consumed if entry is Ellipsis else 1
        for _ in range(repeat):
            each = slice(None) if entry is Ellipsis else entry
            start, step, size = _one_index(each, len(starts), shape)
            starts.append(start)
            steps.append(step)
            sizes.append(size)
            if isinstance(each, slice):
                result.append(size)
    return Region(tuple(starts), tuple(steps), tuple(sizes), tuple(result))


def _one_index(entry: object, dim: int, shape: Shape) -> tuple[int, int, int]:
    """Return start, step and size of one index."""
    if isinstance(entry, slice):
        start, stop, step = entry.indices(shape[dim])
        if step < 1:
            raise ShapeError(f"index: the step is {step}; it must be at least 1")
        return start, step, max(0, ceil_div(stop - start, step))
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise ShapeError(
            f"index: {entry!r} cannot index; ints, slices, None and Ellipsis can"
        )
    position = int(entry.__index__())
    if not -shape[dim] <= position < shape[dim]:
        raise ShapeError(
            f"index: {position} is out of range: dimension {dim} has size {shape[dim]}"
        )
    return position % shape[dim], 1, 1


def slice_(x: Tensor, index: object) -> Tensor:
    """Return a view by basic indexing: ints, slices, None and Ellipsis.

    Raises
    ------
    ShapeError
        If the index does not fit the shape; see `region`.
    """
    chosen = region(index, x.shape)
    return reshape(_slice(x, chosen.starts, chosen.steps, chosen.sizes), chosen.shape)
