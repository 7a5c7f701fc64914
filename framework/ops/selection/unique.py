"""Unique elements and unique slices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...base.device import GpuDevice
from ...base.dtype import ANY, bool_, int32, int64
from ...base.errors import ShapeError
from ...base.shape import normalize_dim
from ...dispatch.replayable import replayable
from ...kernels.counting import PRIVATE_COUNTS
from ..elementwise.binary import add, sub
from ..elementwise.cast import cast
from ..elementwise.compare import logical_or, lt, ne, where
from ..indexing.compaction import (
    FEW,
    counted_elements,
    counted_runs,
    first_counted,
    is_listed_at_once,
    moves_elements,
    run_starts,
)
from ..indexing.gather import store_rows
from ..indexing.masked import flatnonzero, masked_elements
from ..indexing.scatter import gather, index_copy, index_select, scatter
from ..movement.concat import cat
from ..movement.slice import narrow, select
from ..reduce.common import as_places
from ..reduce.minmax import ends_of
from ..reduce.scan import cumsum
from ..source import arange_like, fill_like
from ..view import flatten, movedim, reshape
from .histogram import _bincount
from .sort import short_argsort, short_sort

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the different elements, or slices, in order; every NaN is different.

    Parameters
    ----------
    x : Tensor
    sorted : bool, default True
        Taken as PyTorch has it; the result is always in order.
    return_inverse : bool, default False
        Also return where each element, or slice, of `x` is in the result.
    return_counts : bool, default False
        Also return how often each element, or slice, of the result occurs.
    dim : int or None
        Compare the slices at each place of this dimension, by their first element,
        then their second and so on; None compares elements.

    Returns
    -------
    Tensor, or tuple of Tensor
        The elements (one dimension), or `x` with as many places along `dim` as there
        are different slices; then what else was asked for.

    Raises
    ------
    ShapeError
        If slices have no elements to compare.

    Notes
    -----
    How many there are decides the shape, so it is read by the host, which waits for it.
    So are the extremes of many integers on a device, which are not sorted where they
    are close together.
    """
    x = x.detach()
    if dim is None:
        span = _dense_range(x)
        if span is not None:
            found = _of_range(x, *span, return_inverse, return_counts)
            return found if len(found) > 1 else found[0]
        more = return_inverse or return_counts
        if is_listed_at_once(x) and not more:
            return first_counted(*_counted_different(x))
        if is_listed_at_once(x) and x.numel() <= FEW:
            return _of_few(x, return_inverse, return_counts)
    whole = reshape(x, (x.numel(),)) if dim is None else x
    along = normalize_dim("unique", 0 if dim is None else dim, whole.ndim)
    size = whole.layout.shape[along]
    if dim is None:
        ordered, order, starts = _sorted_starts(whole)
        if not return_counts:
            results = [masked_elements(ordered, starts)]
        else:
            places = flatnonzero(starts)
            results = [index_select(ordered, 0, places)]
    else:
        order, starts = _ordered(_slices(whole, along))
        places = flatnonzero(starts)
        results = [index_select(whole, along, index_select(order, 0, places))]
    if return_inverse:
        inverse = index_copy(fill_like(order, (size,), 0, int32), 0, order, _at(starts))
        whole_shape = x.layout.shape if dim is None else (size,)
        results.append(as_places(reshape(inverse, whole_shape)))
    if return_counts:
        ends = cat([places, fill_like(places, (1,), size, int32)])
        results.append(as_places(sub(narrow(ends, 0, 1, places.numel()), places)))
    return tuple(results) if len(results) > 1 else results[0]


def _of_few(x: Tensor, return_inverse: bool, return_counts: bool) -> tuple[Tensor, ...]:
    """Return the results of `unique` of few elements, by one submission."""
    values, total, inverse, counts = _described(x)
    number = int(total.item())
    results = [narrow(values, 0, 0, number)]
    if return_inverse:
        results.append(inverse)
    if return_counts:
        results.append(narrow(counts, 0, 0, number))
    return tuple(results)


@replayable
def _described(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return different elements, their number, where each is, and how often it occurs.

    The first and the last are vectors with room for as many as `x` has.
    """
    size = x.numel()
    ordered, order, starts = _sorted_starts(reshape(x, (size,)))
    values, total = counted_elements(ordered, starts)
    inverse = index_copy(fill_like(order, (size,), 0, int32), 0, order, _at(starts))
    numbers: Tensor = arange_like(order, (size,), 0, 1, int32)
    places = counted_elements(numbers, starts)[0]
    following = cat(
        [narrow(places, 0, 1, size - 1), fill_like(places, (1,), size, int32)]
    )
    ends = where(lt(numbers, sub(total, 1)), following, size)
    inverse = reshape(inverse, x.layout.shape)
    return values, total, as_places(inverse), as_places(sub(ends, places))


def _sorted_starts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a vector in order, its argsort, and a mask of the first of equal ones."""
    ordered, order = short_sort(x, 0)
    starts = flatten(_changes(reshape(ordered, (x.numel(), 1))))
    return ordered, order, starts


@replayable
def _counted_different(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the different elements, in a vector with room for all, and their number.

    `is_listed_at_once` tells whether shaders may do that.
    """
    return counted_runs(short_sort(reshape(x, (x.numel(),)), 0)[0])


LEAST_MARKED = 1 << 18
"""Integers from which it pays to look for their range before they are sorted."""

DENSE = 4
"""Numbers of a range, for each integer in it, up to which each number is marked."""

_MARKED = frozenset({"uint8", "int8", "int16", "int32", "int64"})


def _dense_range(x: Tensor) -> tuple[int, int] | None:
    """Return the first number of a range that has all integers, and its size.

    None where they are few, or far apart, or on the host. The host waits for the range
    unless the dtype has no more.
    """
    dtype, numel = x.dtype, x.numel()
    if not isinstance(x.device, GpuDevice) or numel < LEAST_MARKED:
        return None
    if dtype.name not in _MARKED:
        return None
    if dtype.itemsize <= 2:
        least, largest = dtype.limits
    else:
        least, largest = map(int, ends_of("unique", x).tolist())
    size = largest - least + 1
    return (least, size) if size <= min(DENSE * numel, (1 << 31) - 1) else None


def _of_range(
    x: Tensor, least: int, size: int, return_inverse: bool, return_counts: bool
) -> tuple[Tensor, ...]:
    """Return the results of `unique`: marks of a range's numbers, in their order."""
    whole = reshape(x, (x.numel(),))
    whole = whole if whole.dtype is int64 else cast(whole, int32)
    offsets = cast(sub(whole, least), int32)
    # Stores to few places wait for each other, where shared memory has counts of them.
    if return_counts or size < PRIVATE_COUNTS:
        counts = _bincount(offsets, size)
        marks = ne(counts, 0)
    else:
        unmarked = fill_like(offsets, (1, size, 1), False, bool_)
        mark = fill_like(offsets, (1, 1, 1), True, bool_)
        marks = flatten(store_rows(unmarked, offsets, mark))
    places = flatnonzero(marks)
    values = add(cast(places, whole.dtype), least)
    results = [values if values.dtype is x.dtype else cast(values, x.dtype)]
    if return_inverse:
        inverse = index_select(_at(marks), 0, offsets)
        results.append(as_places(reshape(inverse, x.layout.shape)))
    if return_counts:
        results.append(as_places(index_select(counts, 0, places)))
    return tuple(results)


def _slices(x: Tensor, dim: int) -> Tensor:
    """Return the slices along a dimension as rows."""
    if len(x.layout.shape) < 2:
        return reshape(x, (x.numel(), 1))
    columns = [size for at, size in enumerate(x.layout.shape) if at != dim]
    if 0 in columns:
        raise ShapeError(
            f"unique: dim is {dim} for shape {tuple(x.shape)}, whose slices have no"
            " elements;"
            " no other dimension may have size 0"
        )
    return reshape(movedim(x, dim, 0), (x.layout.shape[dim], math.prod(columns)))


def _ordered(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the argsort of rows, and a mask of the first row of each group.

    Columns are ranked each for itself, then pairs of neighbours by their ranks, until
    there is one: as many rounds as the number of columns has binary digits.
    """
    ordered, order = short_sort(rows, 0)
    starts = _changes(ordered)
    while rows.layout.shape[1] > 1:
        rows = scatter(fill_like(order, order.shape, 0, int32), 0, order, _at(starts))
        count, width = rows.layout.shape
        if width % 2:
            rows = cat([rows, fill_like(rows, (count, 1), 0, int32)], 1)
        pairs = reshape(rows, (count, (width + 1) // 2, 2))
        upper, lower = select(pairs, 2, 0), select(pairs, 2, 1)
        # Stable: what is equal in the upper rank stays in the order of the lower.
        by_lower = short_argsort(lower, 0)
        order = gather(by_lower, 0, short_argsort(gather(upper, 0, by_lower), 0))
        starts = logical_or(
            _changes(gather(upper, 0, order)), _changes(gather(lower, 0, order))
        )
        rows = upper
    return select(order, 1, 0), select(starts, 1, 0)


def _changes(values: Tensor) -> Tensor:
    """Return a mask of elements that differ from the one above, or have none above."""
    count, width = values.layout.shape
    if width == 1 and values.dtype in ANY and moves_elements(values):
        return reshape(run_starts(flatten(values)), (count, 1))
    first = fill_like(values, (min(count, 1), width), True, bool_)
    if count < 2:
        return first
    above, below = narrow(values, 0, 0, count - 1), narrow(values, 0, 1, count - 1)
    return cat([first, ne(below, above)])


def _at(starts: Tensor) -> Tensor:
    """Return the number of the group that each place is in."""
    return sub(cumsum(starts, 0, dtype=int32), 1)
