"""Slices as views, and strided scatter into a copy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...autograd.tape import show_as
from ...base.dtype import STORED, bool_
from ...base.errors import DTypeError, IndexRangeError, ShapeError
from ...base.shape import (
    Layout,
    Shape,
    TensorSpec,
    ceil_div,
    collapse,
    contiguous_strides,
    normalize_dim,
)
from ...base.symbolic_number import is_symbolic, live
from ...base.validation import as_int, as_int_or_ints
from ...dispatch.declare import movement, primitive
from ...dispatch.view_cache import caches_views
from ...eager.base_tensor import TensorCore, strided
from ...ir.kernel_call import Argument, BufferOffset, Dispatch, StridedSpec, divisor
from ...kernels.linear import linear_dispatch, word_dispatch
from ...kernels.row_copy import (
    VECTOR,
    WORD,
    Rows,
    copies_rows,
    first_copy,
    row_dispatch,
)
from ..indexing.symbolic_index import (
    symbolic_index,
    symbolic_narrow,
    taken_by_symbols,
)
from ..source import fill_like
from ..view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

SCATTER_DIMS = 6
"""Dimensions of `copy/slice_update` and `copy/scatter_elements`."""


@movement(dtypes=STORED)
def _slice(x: Tensor, starts: Shape, steps: Shape, sizes: Shape) -> Tensor:
    """Return a view of every `steps`-th element from `starts`, `sizes` of them.

    Its gradient rule is in `slice_vjp`.
    """


@_slice.layout
def _slice_layout(layout: Layout, starts: Shape, steps: Shape, sizes: Shape) -> Layout:
    offset = sum(start * stride for start, stride in zip(starts, layout.strides))
    strides = tuple(step * stride for step, stride in zip(steps, layout.strides))
    return Layout(sizes, strides, layout.offset + offset)


@primitive(dtypes=STORED)
def strided_scatter(base: Tensor, source: Tensor, layout: Layout) -> Tensor:
    """Return a copy of `base` with `source` scattered to a strided layout.

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


@strided_scatter.spec
def strided_scatter_spec(
    base: TensorSpec, source: TensorSpec, layout: Layout
) -> TensorSpec:
    if base.dtype is not source.dtype:
        raise DTypeError(
            f"strided_scatter: base is {base.dtype.name} and source"
            f" {source.dtype.name}; they must be the same"
        )
    _nested(layout)
    return base


def _nested(layout: Layout) -> list[tuple[int, int, int]]:
    """Return (size, stride, stride in the source) from the longest stride down.

    Division by each stride in turn then recovers the coordinates from an offset.
    """
    if layout.numel == 0:
        return [(0, 1, 0)]
    sources = contiguous_strides(layout.shape)
    merged = collapse(layout.shape, [layout.strides, sources])
    dims = sorted(
        (
            (stride, size, source)
            for size, stride, source in zip(merged.shape, *merged.strides)
            if size != 1
        ),
        reverse=True,
    )
    reach = 0
    for stride, size, _ in reversed(dims):
        if stride <= reach:
            raise ShapeError(
                f"strided_scatter: elements of shape {tuple(layout.shape)} with strides"
                f" {layout.strides} share memory; change a copy instead"
            )
        reach += (size - 1) * stride
    if len(dims) > SCATTER_DIMS:
        raise ShapeError(
            f"strided_scatter: the region has {len(dims)} dimensions; at most"
            f" {SCATTER_DIMS} are possible"
        )
    return [(size, stride, source) for stride, size, source in dims]


@strided_scatter.kernel
def strided_scatter_kernel(
    gpu: DeviceInfo, base: StridedSpec, source: StridedSpec, layout: Layout
) -> Dispatch | list[Dispatch]:
    dims = _nested(layout)
    region = _Region(dims, layout.offset, base.dtype.itemsize).widened(
        gpu, source.layout.offset
    )
    if region.is_storable(gpu):
        # Where the base's memory becomes the result's, the region alone is written.
        copied = first_copy(gpu, "strided_scatter", base, "base", "out")
        return [copied, *region.dispatches(gpu)]
    dims += [(1, 1, 0)] * (SCATTER_DIMS - len(dims))
    push: dict[str, int | str] = {"base": "base", "source": "source", "result": "out"}
    push |= {"count": base.numel, "offset": layout.offset}
    for k, (size, stride, step) in enumerate(dims):
        push |= {f"size[{k}]": size, f"stride[{k}]": stride, f"step[{k}]": step}
    return word_dispatch("copy/slice_update", "strided_scatter", base, push)


class _Region(NamedTuple):
    """Region that is stored, in elements of some bytes.

    Attributes
    ----------
    dims : list of (int, int, int)
        Those of `_nested`.
    offset : int
        The first element.
    size : int
        Bytes of an element.
    """

    dims: list[tuple[int, int, int]]
    offset: int
    size: int

    def widened(self, gpu: DeviceInfo, source_offset: int) -> _Region:
        """Return the region in the largest elements that it is of, up to a vector."""
        dims, offset, size = self
        most = VECTOR if gpu.target.vec4_loads else WORD
        while size < most and dims and dims[-1][1:] == (1, 1):
            *around, (length, _, _) = dims
            starts = [number for dim in around for number in dim[1:]]
            if any(number % 2 for number in (length, offset, source_offset, *starts)):
                break
            dims = [(count, a // 2, b // 2) for count, a, b in around]
            dims.append((length // 2, 1, 1))
            offset, source_offset, size = offset // 2, source_offset // 2, size * 2
        return _Region(dims, offset, size)

    def is_storable(self, gpu: DeviceInfo) -> bool:
        """Return whether a shader may store single elements."""
        return self.size >= WORD or getattr(gpu, f"storage_{8 * self.size}bit")

    def dispatches(self, gpu: DeviceInfo) -> list[Dispatch]:
        """Return the dispatch that stores the source, if the region has elements."""
        dims, offset, size = self
        count = math.prod([each[0] for each in dims])
        if count == 0:
            return []
        out = BufferOffset("out", size * offset)
        *around, (length, *steps) = dims or [(1, 1, 1)]
        if steps == [1, 1] and len(around) <= 2 and size >= WORD:
            parts = size // WORD
            (outer, *_), (inner, *_) = sizes = [
                *[(1, 0, 0)] * (2 - len(around)),
                *around,
            ]
            targets, sources = ([parts * each[k] for each in sizes] for k in (1, 2))
            rows = Rows(
                parts * length,
                outer,
                inner,
                (sources[0], sources[1]),
                (targets[0], targets[1]),
            )
            if copies_rows(gpu, rows):
                even = parts * offset % 2 == 0
                return [row_dispatch(gpu, rows, "source", out, even)]
        push: dict[str, Argument] = {"source": "source", "out_": out, "count": count}
        for k in range(SCATTER_DIMS):
            extent, stride, step = dims[k] if k < len(dims) else (1, 0, 0)
            push |= {f"size[{k}]": extent, f"stride[{k}]": stride, f"step[{k}]": step}
        by = [divisor(extent) for extent, _, _ in dims[1:]]
        by += [(0, 0)] * (SCATTER_DIMS - 1 - len(by))
        push |= {f"magic[{k}]": magic for k, (magic, _) in enumerate(by)}
        # Six bits for each
        push["shifts"] = sum(shift << 6 * k for k, (_, shift) in enumerate(by))
        constants, defines = {"DIMS": len(dims)}, {"BYTES": str(size)}
        kernel = "copy/scatter_elements"
        return [linear_dispatch(kernel, count, push, constants, defines)]


@strided_scatter.vjp
def strided_scatter_vjp(
    grad: Tensor, source_spec: TensorSpec, layout: Layout
) -> tuple[Tensor, Tensor]:
    zeros = fill_like(grad, source_spec.shape, 0, source_spec.dtype)
    return strided_scatter(grad, zeros, layout), as_strided(grad, layout)


@strided_scatter.reference
def strided_scatter_reference(
    base: np.ndarray, source: np.ndarray, layout: Layout
) -> np.ndarray:
    out = base.copy()
    strided(out.reshape(-1), layout)[...] = source
    return out


@movement(dtypes=STORED)
def as_strided(x: Tensor, layout: Layout) -> Tensor:
    """Return a view of the row-major elements of `x` by a layout of their own.

    Its gradient rule is in `slice_vjp`.
    """


@as_strided.layout
def _as_strided_layout(own: Layout, layout: Layout) -> Layout | None:
    if not own.is_contiguous:
        return None
    return layout._replace(offset=layout.offset + own.offset)


def slices(x: Tensor, starts: Shape, steps: Shape, sizes: Shape) -> Tensor:
    """Return a view of a slice of every dimension, which must be within it."""
    if sizes == x.layout.shape:
        return x
    return _slice.of(x, starts, steps, sizes)


def _need_start(start: object) -> None:
    if isinstance(start, bool):
        raise TypeError(f"narrow: start is {start}; it must be an int")
    if isinstance(start, TensorCore) and (start.ndim or start.dtype is bool_):
        raise ShapeError(
            f"narrow: start is a tensor of {start.dtype.name} and shape"
            f" {tuple(start.shape)}; it must be an int, or an integer tensor without"
            " dimensions"
        )


@caches_views
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a view of neighbours along one dimension.

    Parameters
    ----------
    x : Tensor
    dim : int
    start : int or Tensor without dimensions
        Where they begin; a negative one counts from the end.
    length : int
        How many there are.

    Raises
    ------
    ShapeError
        If the dimension does not have them.
    """
    if not type(dim) is type(start) is type(length) is int:
        _need_start(start)
        dim = as_int("narrow: dim", dim)
        if live and is_symbolic(start):
            at = normalize_dim("narrow", dim, len(x.layout.shape))
            rows = symbolic_narrow(x, at, start, length)
            if rows is not None:
                return rows
        start = as_int("narrow: start", start)
        length = as_int("narrow: length", length)
    return _slice.of(x, *_narrowed(x.layout.shape, dim, start, length))


@functools.lru_cache(maxsize=4096)
def _narrowed(
    shape: Shape, dim: int, start: int, length: int
) -> tuple[Shape, Shape, Shape]:
    """Return the slices that `narrow` chooses: starts, steps and sizes."""
    ndim = len(shape)
    at = normalize_dim("narrow", dim, ndim)
    first = start + shape[at] if start < 0 else start
    if not 0 <= first <= shape[at]:
        raise IndexRangeError(
            f"narrow: start is {start}; dimension {at} has size {shape[at]}"
        )
    if not 0 <= length <= shape[at] - first:
        raise ShapeError(
            f"narrow: {length} elements from {start} on are not within dimension {at},"
            f" which has size {shape[at]}"
        )
    starts, sizes = [0] * ndim, list(shape)
    starts[at], sizes[at] = first, length
    return tuple(starts), (1,) * ndim, tuple(sizes)


@caches_views
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """Return a view of one place along a dimension, which is dropped.

    Parameters
    ----------
    x : Tensor, of at least one dimension
    dim : int
    index : int
        A negative one counts from the end.

    Raises
    ------
    IndexRangeError
        If the dimension does not have it.
    """
    at = normalize_dim("select", dim, len(x.layout.shape))
    if live and is_symbolic(index):
        chosen = symbolic_index((*[slice(None)] * at, index), x.layout.shape)
        if chosen is not None:
            return taken_by_symbols(x, x, chosen)
    position = normalize_index("select", index, at, x.layout.shape)
    part = narrow(x, at, position, 1)
    out = reshape(part, (*x.layout.shape[:at], *x.layout.shape[at + 1 :]))
    if out.grad_node is not None:
        show_as(out, "SelectBackward0", x)
    return out


def normalize_index(name: str, index: int, dim: int, shape: Shape) -> int:
    """Return a place along a dimension counted from the front.

    Raises
    ------
    IndexRangeError
        If the dimension does not have it.
    """
    if type(index) is not int:
        index = as_int(f"{name}: index", index)
    if not -shape[dim] <= index < shape[dim]:
        raise IndexRangeError(
            f"{name}: {index} is out of range: dimension {dim} has size {shape[dim]}"
        )
    return index % shape[dim]


@caches_views
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of all places along a dimension, which they lack; of size 0 none.

    Parameters
    ----------
    x : Tensor, of at least one dimension
        Any dtype.
    dim : int, default 0
        The dimension.
    """
    at = normalize_dim("unbind", dim, len(x.layout.shape))
    parts = tuple([select(x, at, place) for place in range(x.layout.shape[at])])
    if x.needs_grad:
        _name("unbind", x, parts, "Unbind")
    return parts


def _name(op: str, x: Tensor, parts: tuple[Tensor, ...], node: str) -> None:
    """Let tape entries of several views bear the name of what returned them."""
    for each in parts:
        if each.grad_node is not None:
            each.grad_node.op_name = op
            show_as(each, f"{node}Backward0", x)


@caches_views
def split(
    x: Tensor, split_size: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Return views of neighbouring parts along a dimension.

    Parameters
    ----------
    x : Tensor
    split_size : int or sequence of int
        Size of each part, the last of which may be smaller, or the sizes of all.
    dim : int, default 0

    Raises
    ------
    ShapeError
        If a size is below 0, or sizes do not add up to the dimension's.
    """
    at = normalize_dim("split", dim, len(x.layout.shape))
    whole = x.layout.shape[at]
    each = as_int_or_ints("split: split_size", split_size)
    if isinstance(each, tuple):
        sizes = list(each)
    else:
        if each < 0 or (each == 0 and whole > 0):
            raise ShapeError(f"split: split_size is {each}; it must be at least 1")
        count = max(1, ceil_div(whole, each)) if each else 1
        sizes = [max(0, min(each, whole - part * each)) for part in range(count)]
    if math.fsum(sizes) != whole or min(sizes, default=0) < 0:
        raise ShapeError(
            f"split: sizes {sizes} do not add up to {whole}, the size of dimension {at}"
        )
    ends = itertools.accumulate(sizes)
    parts = tuple([narrow(x, at, end - size, size) for end, size in zip(ends, sizes)])
    if x.needs_grad:
        node = "SplitWithSizes" if isinstance(each, tuple) else "Split"
        _name("split", x, parts, node)
    return parts


@caches_views
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of neighbouring parts of one size along a dimension.

    Parameters
    ----------
    x : Tensor
    chunks : int
        The size of a part is that of the dimension by it, rounded up, so that there may
        be fewer; the last part may be smaller. Of size 0 there are as many empty ones.
    dim : int, default 0

    Raises
    ------
    ShapeError
        If `chunks` is below 1.
    """
    at = normalize_dim("chunk", dim, len(x.layout.shape))
    chunks = as_int("chunk: chunks", chunks)
    if chunks < 1:
        raise ShapeError(f"chunk: chunks is {chunks}; it must be at least 1")
    if x.layout.shape[at] == 0:
        return tuple(x for _ in range(chunks))
    return split(x, ceil_div(x.layout.shape[at], chunks), at)


@caches_views
def tensor_split(
    x: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Return views of parts along a dimension, as `numpy.array_split` makes them.

    Parameters
    ----------
    x : Tensor
    indices_or_sections : int or sequence of int
        Number of parts, the first of which are larger by one where they must be, or
        where the second and later parts start.
    dim : int, default 0

    Raises
    ------
    ShapeError
        If the number of parts is below 1.
    """
    at = normalize_dim("tensor_split", dim, len(x.layout.shape))
    whole = x.layout.shape[at]
    parts = as_int_or_ints("tensor_split: indices_or_sections", indices_or_sections)
    if isinstance(parts, tuple):
        cuts = [slice(None, position).indices(whole)[1] for position in parts]
    else:
        if parts < 1:
            raise ShapeError(f"tensor_split: {parts} parts; at least 1 is possible")
        cuts = [
            part * (whole // parts) + min(part, whole % parts)
            for part in range(1, parts)
        ]
    bounds = zip([0, *cuts], [*cuts, whole])
    return tuple(narrow(x, at, start, max(0, end - start)) for start, end in bounds)
