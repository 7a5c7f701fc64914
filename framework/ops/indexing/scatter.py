"""Gather, scatter and index functions along one dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import show_as, shown_as
from ...base.dtype import INTEGER, STORED, DType, int32, int64
from ...base.errors import DTypeError, ShapeError
from ...base.index_checks import CLASSES
from ...base.shape import Layout, Shape, TensorSpec, broadcast_shapes, normalize_dim
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_promote
from ...dispatch.declare import movement
from ...dispatch.replayable import replayable
from ...dispatch.scalar import number
from ...dispatch.view_cache import caches_views
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import add, mul, remainder
from ..elementwise.cast import cast
from ..elementwise.compare import eq, where
from ..elementwise.unary import unshared
from ..movement.slice import narrow, strided_scatter
from ..source import arange_like, fill_like
from ..view import expand, flatten, movedim, reshape, unsqueeze
from .gather import add_rows, put_rows, rows_of, store_rows, take_rows
from .row_index import readable_index, row_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...tensor.tensor import Tensor


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the places along a dimension that the indices name.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, shape (n,) or (), any integer dtype

    Returns
    -------
    Tensor
        Of the shape of `x`, but n in dimension `dim`.

    Raises
    ------
    ShapeError
        If `index` has more dimensions.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    """
    at = normalize_dim("index_select", dim, len(x.layout.shape) or 1)
    if len(index.layout.shape) > 1:
        raise ShapeError(
            f"index_select: index is {tuple(index.shape)}; it must have one dimension"
        )
    site = f"index_select: dimension {at}"
    shape = x.layout.shape
    gathered = take_rows(as_vector(x), flatten(index), site, dims=(at, at + 1))
    sizes = (*shape[:at], gathered.shape[1], *shape[at + 1 :]) if shape else ()
    out = reshape(gathered, sizes)
    show_as(out, "IndexSelectBackward0", x)
    return out


def as_vector(x: Tensor) -> Tensor:
    """Return the tensor, one without dimensions as one of one element, as PyTorch."""
    return x if x.layout.shape else reshape(x, (1,))


def _indices_of(index: Tensor, at: int) -> Tensor:
    """Return an index of each element as `rows_of` does, or of each slice, (n,).

    Slices where the index is a view that repeats along all other dimensions, as
    `index[:, None].expand(-1, width)`: then whole slices are moved.
    """
    shape, strides, _ = index.layout
    others = [each for each, size in enumerate(shape) if each != at and size != 1]
    if not others or 0 in shape or any(strides[each] for each in others):
        return rows_of(index, at)
    for each in others:
        index = narrow(index, each, 0, 1)
    return flatten(index)


def index_region(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[Tensor, Shape]:
    """Return the region of `x` that an index per element covers, and its shape.

    Raises
    ------
    ShapeError
        If the indices have another number of dimensions, or are larger than `x` in
        another dimension than `dim`.
    """
    sizes = [
        size if at == dim else index.layout.shape[at]
        for at, size in enumerate(x.layout.shape)
        if len(index.layout.shape) == len(x.layout.shape)
    ]
    if len(index.layout.shape) != len(x.layout.shape) or any(
        a > b for a, b in zip(sizes, x.layout.shape)
    ):
        raise ShapeError(
            f"{name}: index is {tuple(index.shape)}, x {tuple(x.shape)}; they must"
            " have as many"
            f" dimensions, and index none larger but dimension {dim}"
        )
    for at, size in enumerate(sizes):
        if size != x.layout.shape[at]:
            x = narrow(x, at, 0, size)
    return x, tuple(sizes)


@replayable
def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return, for each index, the element of `x` in its place but at index along `dim`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, any integer dtype
        As many dimensions as `x`, none larger except `dim`; any shape without elements.
    sparse_grad : bool, default False
        Taken without effect: the gradient is dense.

    Returns
    -------
    Tensor, shape of `index`

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    """
    return _gather("gather", x, dim, index)


def _gather(name: str, x: Tensor, dim: int, index: Tensor) -> Tensor:
    at = normalize_dim(name, dim, len(x.layout.shape) or 1)
    if index.numel() == 0:
        gathered = narrow(flatten(x), 0, 0, 0)
    else:
        places = as_vector(index)
        part, _ = index_region(name, as_vector(x), at, places)
        site = f"{name}: dimension {at}"
        places = _indices_of(places, at)
        gathered = take_rows(part, places, site, dims=(at, at + 1))
    out = reshape(gathered, index.layout.shape)
    show_as(out, "GatherBackward0", x)
    return out


@replayable
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return elements along a dimension, as `gather`, with broadcasting around it.

    Parameters
    ----------
    x : Tensor
    indices : Tensor, any integer dtype
        As many dimensions as `x`, which broadcast with its but for `dim`. Along a
        dimension they are taken modulo its size, so that negative ones count from the
        end.
    dim : int or None
        None takes from the flat tensor, where no index is taken modulo its size.

    Raises
    ------
    ShapeError, IndexRangeError
        As in `gather`.
    """
    if dim is None:
        return _gather("take_along_dim", flatten(x), 0, flatten(indices))
    at = normalize_dim("take_along_dim", dim, len(x.layout.shape))
    if len(indices.layout.shape) != len(x.layout.shape):
        raise ShapeError(
            f"take_along_dim: indices are {tuple(indices.shape)}, x {tuple(x.shape)};"
            " they must have"
            " as many dimensions"
        )
    around = [(*t.shape[:at], 1, *t.shape[at + 1 :]) for t in (x, indices)]
    common = broadcast_shapes("take_along_dim", *around)
    x, indices = (
        expand(t, (*common[:at], t.shape[at], *common[at + 1 :])) for t in (x, indices)
    )
    size = x.layout.shape[at]
    if size:
        indices = remainder(readable_index("take_along_dim", indices), size)
    return _gather("take_along_dim", x, at, indices)


def _fitting(name: str, x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    """Return as much of a source as there are indices.

    Raises
    ------
    DTypeError, ShapeError
        If it has another dtype than `x`, or is smaller than `index`.
    """
    if source.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: src is {source.dtype.name}, x {x.dtype.name};"
            " they must be the same"
        )
    if len(source.layout.shape) != len(x.layout.shape) or any(
        a > b for a, b in zip(index.layout.shape, source.layout.shape)
    ):
        raise ShapeError(
            f"{name}: index is {tuple(index.shape)}, src {tuple(source.shape)}; index"
            " must not be"
            " larger"
        )
    for each, size in enumerate(index.layout.shape):
        if size != source.layout.shape[each]:
            source = narrow(source, each, 0, size)
    return source


def scatter_along(
    name: str, x: Tensor, dim: int, index: Tensor, source: Tensor,
    write: Callable[[Tensor, Tensor, Tensor, str], Tensor],
) -> Tensor:  # fmt: skip
    """Return `x` with `source` written by `write` at one index per element."""
    if not (x.layout.shape and index.layout.shape and source.layout.shape):
        flat = as_vector(x), dim, as_vector(index), as_vector(source)
        return reshape(scatter_along(name, *flat, write), x.layout.shape)
    at = normalize_dim(name, dim, len(x.layout.shape))
    part, sizes = index_region(name, x, at, index)
    source = _fitting(name, x, index, source)
    site = f"{name}: dimension {at}"
    out = write(rows_of(part, at), _indices_of(index, at), rows_of(source, at), site)
    return _with_region(x, reshape(out, sizes))


def _with_region(x: Tensor, part: Tensor) -> Tensor:
    """Return `x` with its first places along each dimension replaced."""
    sizes = part.layout.shape
    if sizes == x.layout.shape:
        return part
    layout = Layout.contiguous(x.layout.shape)._replace(shape=sizes)
    return strided_scatter(x, part, layout)


def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor | float) -> Tensor:
    """Return `x` with elements replaced; see `scatter_reduce.scatter`."""
    if isinstance(src, TensorCore):
        return scatter_along("scatter", x, dim, index, src, put_rows)
    value = number("scatter", x.dtype, src)
    if not (x.layout.shape and index.layout.shape):
        flat = as_vector(x), dim, as_vector(index), value
        return reshape(scatter(*flat), x.layout.shape)
    at = normalize_dim("scatter", dim, len(x.layout.shape))
    part, sizes = index_region("scatter", x, at, index)
    single = fill_like(x, (1, 1, 1), value, x.dtype)
    site = f"scatter: dimension {at}"
    out = store_rows(rows_of(part, at), rows_of(index, at), single, site)
    return _with_region(x, reshape(out, sizes))


@autocast_promote
@shown_as("ScatterAddBackward0", "x", "src")
@replayable
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return `x` with the elements of `src` added at their index along `dim`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, any integer dtype
        As many dimensions as `x`, none larger than those of `src`, or than those of
        `x` except `dim`. All that name one place are added.
    src : Tensor of the dtype of `x`

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    DTypeError
        If the dtypes differ.

    Notes
    -----
    Floats are added on GPUs by atomics, in any order, unless columns are many and
    short: the last bits of sums may differ between runs, as in PyTorch, unless
    `use_deterministic_algorithms(True)`.
    """
    return scatter_along("scatter_add", x, dim, index, src, add_rows)


def scatter_slices(
    name: str, x: Tensor, dim: int, index: Tensor, source: Tensor,
    write: Callable[[Tensor, Tensor, Tensor, str], Tensor],
) -> Tensor:  # fmt: skip
    """Return `x` with slices of `source` written by `write` at one index per slice."""
    if not (x.layout.shape and index.layout.shape and source.layout.shape):
        flat = as_vector(x), dim, as_vector(index), as_vector(source)
        return reshape(scatter_slices(name, *flat, write), x.layout.shape)
    at = normalize_dim(name, dim, len(x.layout.shape))
    wanted = (*x.layout.shape[:at], index.numel(), *x.layout.shape[at + 1 :])
    if len(index.layout.shape) != 1 or source.layout.shape != wanted:
        raise ShapeError(
            f"{name}: index is {tuple(index.shape)}, source {tuple(source.shape)};"
            " index must have"
            f" one dimension, and source be {wanted}"
        )
    if source.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: source is {source.dtype.name}, x {x.dtype.name};"
            " they must be the same"
        )
    index = readable_index(name, index)
    written = write(
        rows_of(x, at), index, rows_of(source, at), f"{name}: dimension {at}"
    )
    return reshape(written, x.layout.shape)


@shown_as("IndexAddBackward0", "x", "source")
@replayable
def index_add(
    x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float = 1
) -> Tensor:
    """Return `x` with slices of `source`, times `alpha`, added along `dim`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, shape (n,), any integer dtype
        Where each slice goes.
    source : Tensor of the dtype of `x`
        Of the shape of `x`, but n in dimension `dim`.
    alpha : float, default 1

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    DTypeError
        If the dtypes differ.
    """
    if len(source.layout.shape) != len(x.layout.shape):
        raise ShapeError(
            f"index_add: source is {tuple(source.shape)}, x {tuple(x.shape)}; they must"
            " have as many dimensions"
        )
    scaled = source if alpha == 1 else mul(source, alpha)
    return scatter_slices("index_add", x, dim, index, scaled, add_rows)


@autocast_promote
@shown_as("IndexCopyBackward0", "x", "source")
@replayable
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return `x` with slices replaced by those of `source`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, shape (n,), any integer dtype
        Where each slice goes. Where several name one place, the last wins, or on a GPU,
        of 1 Mi or more single elements, any: see `use_deterministic_algorithms`.
    source : Tensor of the dtype of `x`
        Of the shape of `x`, but n in dimension `dim`.

    Raises
    ------
    ShapeError, IndexRangeError, DTypeError
        As in `index_add`.
    """
    return scatter_slices("index_copy", x, dim, index, source, put_rows)


def _fill_node(x: Tensor, dim: int, index: Tensor, value: object) -> str:
    return f"IndexFillBackward{int(isinstance(value, TensorCore))}"


@shown_as(_fill_node, "x", "value")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """Return `x` with the slices along `dim` that the indices name set to one value.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, any integer dtype, shape (n,) or ()
        Negative ones count from the end.
    value : number or Tensor without dimensions
        Cast to the dtype of `x`.

    Raises
    ------
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    ShapeError
        If `value` is a tensor with dimensions, or `index` has several.
    """
    at = normalize_dim("index_fill", dim, len(x.layout.shape) or 1)
    if index.ndim > 1:
        raise ShapeError(
            f"index_fill: index is {tuple(index.shape)}; it must have at most one"
            " dimension"
        )
    if isinstance(value, TensorCore):
        if value.ndim:
            raise ShapeError(
                f"index_fill: value is {tuple(value.shape)}; it must have no dimension"
            )
        value = cast(value, x.dtype)
        if value.requires_grad:
            # Where several name one place, its gradient counts once.
            blank = fill_like(x, x.layout.shape, 0, int32)
            return where(eq(index_fill(blank, dim, index, 1), 1), value, x)
        single = reshape(value, (1, 1, 1))
    else:
        single = fill_like(x, (1, 1, 1), value, x.dtype)
    site = f"index_fill: dimension {at}"
    rows = rows_of(as_vector(x), at)
    written = store_rows(rows, flatten(index), single, site, from_end=True)
    return reshape(written, x.layout.shape)


@caches_views
@shown_as("UnfoldBackward0", "x")
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of windows along a dimension, their elements as a last dimension.

    Parameters
    ----------
    x : Tensor
    dimension : int
    size : int
        Elements of a window.
    step : int
        From one window to the next.

    Returns
    -------
    Tensor
        Of the shape of `x`, but the number of windows in `dimension`, and `size` last.

    Raises
    ------
    ShapeError
        If a window does not fit, or `step` is below 1.
    """
    scalar, x = not x.layout.shape, as_vector(x)
    at = normalize_dim("unfold", dimension, len(x.layout.shape))
    size, step = as_int("unfold: size", size), as_int("unfold: step", step)
    if step < 1 or not 0 <= size <= x.layout.shape[at]:
        raise ShapeError(
            f"unfold: size {size}, step {step} for dimension {at} of size"
            f" {x.shape[at]}; the step must be at least 1 and the window fit"
        )
    if scalar:
        return narrow(x, 0, 0, size)
    return _unfold(x, at, size, step)


@movement(dtypes=STORED)
def _unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Return a sliding-window view along a dimension."""


@_unfold.layout
def _unfold_layout(layout: Layout, dim: int, size: int, step: int) -> Layout:
    shape, strides = list(layout.shape), list(layout.strides)
    shape[dim] = (shape[dim] - size) // step + 1
    strides[dim] *= step
    return Layout((*shape, size), (*strides, layout.strides[dim]), layout.offset)


@_unfold.vjp
def _unfold_vjp(
    grad: Tensor, x_spec: TensorSpec, dim: int, size: int, step: int
) -> Tensor:
    windows = grad.layout.shape[dim]
    # Window w, element k is place w * step + k.
    start = arange_like(grad, (windows, 1), 0, step, int32)
    places = flatten(add(start, arange_like(grad, (size,), 0, 1, int32)))
    source = flatten(movedim(grad, -1, dim + 1), dim, dim + 1)
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    return index_add(zeros, dim, places, source)


@replayable
def repeat_interleave(
    x: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Return the tensor with each element several times in a row along `dim`.

    Parameters
    ----------
    x : Tensor
    repeats : int or Tensor of integers, shape (n,)
        How often, for all or for each place along `dim`. A tensor decides the shape of
        the result, so it is read by the host, which waits for it.
        None takes `x` as the numbers, and repeats the places themselves.
    dim : int or None
        None takes the flat tensor.
    output_size : int or None
        Size of the result, which must be right; nothing is saved by giving it.

    Raises
    ------
    ShapeError
        If a number is below 0, there is not one for each place, or `output_size` is
        another.
    """
    if repeats is None:
        x, repeats = arange_like(x, (x.numel(),), 0, 1, x.dtype), x
    if dim is None:
        x, dim = flatten(x), 0
    at = normalize_dim("repeat_interleave", dim, len(x.layout.shape))
    if isinstance(repeats, TensorCore):
        if repeats.dtype not in INTEGER:
            raise DTypeError(
                f"repeat_interleave: repeats are {repeats.dtype.name}; they must be"
                " integers"
            )
        numbers = repeats.host_copy()
    else:
        wanted = "an int, or a tensor of as many as there are places"
        numbers = np.asarray(as_int("repeat_interleave: repeats", repeats, wanted))
    if numbers.min(initial=0) < 0 or (
        numbers.ndim and numbers.shape != (x.layout.shape[at],)
    ):
        raise ShapeError(
            f"repeat_interleave: repeats are {numbers.tolist()} for dimension {at} of"
            f" size {x.shape[at]}; one for all or one for each, at least 0, is possible"
        )
    if not numbers.ndim:
        sizes = (*x.layout.shape[: at + 1], int(numbers), *x.layout.shape[at + 1 :])
        wide = expand(unsqueeze(x, at + 1), sizes)
        return unshared(flatten(wide, at, at + 1), x)
    places = np.repeat(np.arange(x.layout.shape[at], dtype=np.int32), numbers)
    if output_size is not None and output_size != len(places):
        raise ShapeError(
            f"repeat_interleave: output_size is {output_size}; the result has"
            f" {len(places)} places"
        )
    return index_select(x, at, type(x).from_host(places, x.device))


@replayable
def one_hot(x: Tensor, num_classes: int = -1, dtype: DType = int64) -> Tensor:
    """Return, for each class, a row of zeros with a one in its place.

    Parameters
    ----------
    x : Tensor, any integer dtype
        Classes.
    num_classes : int, default -1
        Size of a row; -1 means one more than the largest class, which is then read by
        the host, which waits for it.
    dtype : DType, default int64

    Returns
    -------
    Tensor, shape (*x.shape, num_classes)

    Raises
    ------
    ShapeError
        If `num_classes` is less than -1, or -1 where there is no class.
    IndexRangeError
        If a class is not from 0 to `num_classes` - 1: on the host at once, on a device
        by the next read; see `set_index_checks`.
    """
    num_classes = as_int("one_hot: num_classes", num_classes)
    if num_classes < -1:
        raise ShapeError(
            f"one_hot: num_classes is {num_classes}; it must be at least 0, or -1"
        )
    if num_classes == -1:
        if not x.numel():
            raise ShapeError(
                f"one_hot: x of shape {tuple(x.shape)} has no class; give num_classes"
            )
        num_classes = int(x.amax().item()) + 1
    places = row_numbers(x, num_classes, f"one_hot: {CLASSES}")
    classes = arange_like(x, (num_classes,), 0, 1, int32)
    return cast(eq(reshape(places, (*x.layout.shape, 1)), classes), dtype)
