"""Shape rules: broadcasting, strides, views and dimension collapsing; pure integers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex, overload

from .dtype import DType
from .errors import IndexRangeError, ShapeError
from .recent_cache import RecentCache
from .validation import as_int, as_int_or_ints

Shape = tuple[int, ...]


class Size(tuple[int, ...]):
    """Shape as tensors tell it: a tuple whose slices and sums are sizes too.

    Its `repr` is PyTorch's, so that what programs print stays the same.

    Examples
    --------
    >>> fw.zeros(2, 3, 5).shape[1:]
    torch.Size([3, 5])
    >>> fw.zeros(2, 3, 5).shape.numel()
    30
    """

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({[*self]})"

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(found, tuple) else found

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]  # no other elements
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__


size_of = functools.lru_cache(maxsize=4096)(Size)
"""Returns a shape as `Size`; the same object for the same shape while it is cached."""


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a tensor: the input of shape rules."""

    shape: Shape
    dtype: DType

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


class Layout(NamedTuple):
    """Layout of a tensor in its storage: shape, strides and offset, in elements."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def contiguous(shape: Shape) -> Layout:
        """Return the layout of a fresh row-major tensor."""
        shape = tuple(shape)  # not a `Size`, which is equal
        return interned(Layout(shape, contiguous_strides(shape)))

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return False
            expected *= max(size, 1)
        return True

    def expand(self, shape: Shape) -> Layout:
        """Return the layout broadcast to `shape`, which must be compatible."""
        if shape == self.shape:
            return self
        added = len(shape) - len(self.shape)
        strides = (0,) * added + tuple(
            0 if size == 1 and wanted != 1 else stride
            for size, wanted, stride in zip(self.shape, shape[added:], self.strides)
        )
        return Layout(shape, strides, self.offset)

    def permute(self, dims: Sequence[int]) -> Layout:
        """Return the layout with its dimensions in the order `dims`."""
        return Layout(
            tuple(self.shape[dim] for dim in dims),
            tuple(self.strides[dim] for dim in dims),
            self.offset,
        )

    @property
    def memory_order(self) -> tuple[int, ...] | None:
        """The dimensions in whose order the elements are contiguous; None if in none.

        Examples
        --------
        >>> Layout((2, 3, 5), (3, 1, 6)).memory_order
        (2, 0, 1)
        >>> Layout((2, 3), (6, 1)).memory_order
        """
        dims = range(len(self.shape))
        order = tuple(sorted(dims, key=lambda dim: -self.strides[dim]))
        return order if self.permute(order).is_contiguous else None

    def reshape(self, shape: Shape) -> Layout | None:
        """Return the same elements in `shape`, or None if that needs a copy."""
        if self.is_contiguous or self.numel == 0:
            return Layout(shape, contiguous_strides(shape), self.offset)
        groups = collapse(self.shape, [self.strides])
        strides: list[int] = []
        remaining = list(shape)
        for size, stride in zip(groups.shape, groups.strides[0]):
            taken: list[int] = []
            while math.prod(taken) < size and remaining:
                taken.append(remaining.pop(0))
            if math.prod(taken) != size:
                return None
            strides.extend(stride * step for step in contiguous_strides(tuple(taken)))
        strides.extend(0 for _ in remaining)
        return Layout(shape, tuple(strides), self.offset)


MOST_INTERNED = 1 << 14
_interned: RecentCache[Layout, Layout] = RecentCache(MOST_INTERNED)


def interned(layout: Layout) -> Layout:
    """Return the interned object of equal layouts.

    Caches look layouts up by identity. One that was not asked for while `MOST_INTERNED`
    others were is another object afterwards: such caches miss then, no more.
    """
    return _interned[layout] or _interned.shared(layout, layout)


def in_memory_order(layouts: Sequence[Layout]) -> tuple[Layout | None, list[Layout]]:
    """Return a result's layout in the memory order that operands share, and theirs.

    Parameters
    ----------
    layouts : sequence of Layout
        Of the operands of an element-wise op, all of one shape. Those that are
        broadcast along a dimension take the order of the others. But where one has a
        number for each row, as reductions give them, results are made in rows, too.

    Returns
    -------
    Layout or None, list of Layout
        None where the order is row-major, or they share none; the layouts with their
        dimensions in that order.

    Examples
    --------
    >>> kept, _ = in_memory_order([Layout((2, 3), (1, 2), 6), Layout((2, 3), (0, 1))])
    >>> kept
    Layout(shape=(2, 3), strides=(1, 2), offset=0)
    """
    if any(_is_of_rows(each) for each in layouts):
        return None, list(layouts)
    whole_ones = [each for each in layouts if 0 not in each.strides]
    if not whole_ones or whole_ones[0].is_contiguous:
        return None, list(layouts)
    first = whole_ones[0]
    order = first.memory_order
    if order is None or any(each.strides != first.strides for each in whole_ones):
        return None, list(layouts)
    whole = Layout.contiguous(first.permute(order).shape)
    kept = whole.permute(sorted(range(len(order)), key=order.__getitem__))
    return interned(kept), [each.permute(order) for each in layouts]


def _is_of_rows(layout: Layout) -> bool:
    """Whether the elements of a row are one, and those of rows are not."""
    if not any(layout.strides):
        return False
    return layout.strides[-1] == 0 and layout.shape[-1] > 1


@functools.lru_cache(maxsize=4096)
def spec_of(shape: Shape, dtype: DType) -> TensorSpec:
    """Return a spec; the same object for the same arguments while it is cached."""
    return TensorSpec(shape, dtype)


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Return row-major strides in elements."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)  # as in PyTorch
    return tuple(reversed(strides))


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """Return the common shape of operands under NumPy's broadcasting rule.

    Raises
    ------
    ShapeError
        If two sizes of one dimension differ and neither is 1; the message starts
        with `name`.
    """
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    result: list[int] = []
    for position in range(1, max(map(len, shapes)) + 1):
        sizes = {s[-position] for s in shapes if len(s) >= position} - {1}
        if len(sizes) > 1:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ShapeError(
                f"{name}: shapes do not broadcast: {listed}; dimension -{position} has"
                f" sizes {sorted(sizes)}, which must be equal or 1"
            )
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


def normalize_dim(name: str, dim: int, ndim: int) -> int:
    """Return `dim` counted from the front.

    Raises
    ------
    IndexRangeError
        If a tensor of `ndim` dimensions has no such dimension.
    TypeError
        If it is no whole number.
    """
    if type(dim) is not int:
        if isinstance(dim, bool):
            raise TypeError(f"{name}: dim is {dim}, a bool; it must be an int")
        dim = as_int(f"{name}: dim", dim)
    if not -ndim <= dim < ndim:
        raise IndexRangeError(
            f"{name}: there is no dimension {dim}: the tensor has {ndim};"
            f" dim must be from {-ndim} to {ndim - 1}"
        )
    return dim % ndim


def normalize_dims(
    name: str, dim: int | Sequence[int] | None, ndim: int
) -> tuple[int, ...]:
    """Return the dimensions sorted and counted from the front; None means all.

    A tensor without dimensions takes 0 and -1, as in PyTorch, which name none of it.

    Raises
    ------
    IndexRangeError
        If one does not exist.
    ShapeError
        If one is named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int and ndim:
        return (normalize_dim(name, dim, ndim),)
    if isinstance(dim, bool):
        normalize_dim(name, dim, ndim)
    given = as_int_or_ints(f"{name}: dim", dim)
    if isinstance(given, int):
        return (normalize_dim(name, given, ndim or 1),)[:ndim]
    dims = sorted(normalize_dim(name, each, ndim or 1) for each in given)
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{name}: a dimension is named twice: {given}")
    return tuple(dims)[:ndim]


def reduced_dims(
    name: str, dim: int | Sequence[int] | None, ndim: int
) -> tuple[int, ...]:
    """Return the dimensions of a reduction, as `normalize_dims`.

    None are all of them, as in PyTorch's sums and extremes.
    """
    return normalize_dims(name, dim, ndim) or tuple(range(ndim))


class Collapsed(NamedTuple):
    """Collapsed iteration space: as few dimensions as its operands allow."""

    shape: Shape
    strides: tuple[tuple[int, ...], ...]


def collapse(shape: Shape, strides: Sequence[tuple[int, ...]]) -> Collapsed:
    """Merge neighbouring dimensions that every operand traverses with one stride.

    Parameters
    ----------
    shape : Shape
        The iteration shape.
    strides : sequence of tuple of int
        Strides of each operand over that shape.

    Returns
    -------
    Collapsed
        At least one dimension, none of size 1 except when all are.
    """
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for dim, size in enumerate(shape):
        if size == 1:
            continue
        joins = bool(sizes) and all(
            walked[-1] == operand[dim] * size
            for walked, operand in zip(merged, strides)
        )
        if joins:
            sizes[-1] *= size
            for walked, operand in zip(merged, strides):
                walked[-1] = operand[dim]
        else:
            sizes.append(size)
            for walked, operand in zip(merged, strides):
                walked.append(operand[dim])
    if not sizes:
        return Collapsed((1,), tuple((0,) for _ in strides))
    return Collapsed(tuple(sizes), tuple(tuple(walked) for walked in merged))


def ceil_div(value: int, divisor: int) -> int:
    """Return `value / divisor` rounded up."""
    return -(-value // divisor)
