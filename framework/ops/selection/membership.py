"""Membership, runs of equal elements, coordinates and histograms with edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import ANY, INTEGER, bool_, int32, int64
from ...base.errors import DTypeError, ShapeError
from ...base.shape import contiguous_strides, normalize_dim
from ...base.validation import as_int, as_ints
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import add, floor_divide, mul, remainder, sub
from ..elementwise.cast import cast, need_one_dtype, refuse_bool
from ..elementwise.compare import (
    eq,
    le,
    logical_and,
    logical_not,
    ne,
    where,
)
from ..elementwise.complex_numbers import _imaginary_part
from ..elementwise.unary import lazy_copy
from ..indexing.compaction import (
    counted_runs,
    first_counted,
    is_listed_at_once,
    moves_elements,
    run_starts,
)
from ..indexing.masked import flatnonzero, masked_elements, nonzero
from ..indexing.scatter import index_add, index_select
from ..movement.concat import cat
from ..movement.slice import narrow
from ..reduce.common import as_places
from ..reduce.minmax import amax, amin, any
from ..reduce.scan import cumsum, diff
from ..reduce.sum import sum
from ..source import arange_like, fill_like
from ..view import flatten, movedim, reshape
from .sort import searchsorted, sort

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


class HistogramEdges(NamedTuple):
    """Counts of a histogram, and the edges of its bins."""

    hist: Tensor
    bin_edges: Tensor


def isin(
    elements: Tensor | float,
    test_elements: Tensor | float,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """Return whether each element is among others.

    Parameters
    ----------
    elements, test_elements : Tensor or number
        At least one is a tensor.
    assume_unique : bool, default False
        Taken as PyTorch has it; the result is the same.
    invert : bool, default False
        Return whether it is not.

    Returns
    -------
    Tensor, bool, shape of `elements`

    Raises
    ------
    TypeError
        If neither is a tensor.
    """
    given = {"elements": elements, "test_elements": test_elements}
    tensors = {name: x for name, x in given.items() if isinstance(x, TensorCore)}
    refuse_bool("isin", **tensors)
    for name, value in given.items():
        if isinstance(value, bool | complex):
            raise DTypeError(f"isin: {name} is {value}; it must be a real number")
    if not isinstance(elements, TensorCore):
        if not isinstance(test_elements, TensorCore):
            raise TypeError(
                "isin: elements and test_elements are both numbers; one must be a"
                " tensor"
            )
        whole: Tensor = fill_like(test_elements, (), elements, test_elements.dtype)
    else:
        whole = elements
    if not isinstance(test_elements, TensorCore):
        found = eq(whole, test_elements)
    elif test_elements.numel() == 0 or whole.numel() == 0:
        found = fill_like(whole, whole.shape, False, bool_)
    else:
        found = _among(whole, flatten(test_elements))
    return logical_not(found) if invert else found


def _among(elements: Tensor, others: Tensor) -> Tensor:
    kind = (elements.dtype, others.dtype)
    wide, rest = elements, others
    if kind[0] is not kind[1]:
        wide, rest = add(wide, 0 * flatten(rest)[0]), add(rest, 0 * flatten(wide)[0])
    ordered = sort(rest, 0).values
    places = searchsorted(ordered, wide, out_int32=True)
    at = where(eq(places, ordered.numel()), ordered.numel() - 1, places)
    return eq(reshape(index_select(ordered, 0, flatten(at)), wide.shape), wide)


def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the first element, or slice, of each run of equal ones.

    Parameters
    ----------
    input : Tensor
    return_inverse : bool, default False
        Also return the number of the run that each is in.
    return_counts : bool, default False
        Also return how long each run is.
    dim : int or None
        Compare the slices along this dimension; None compares elements.

    Returns
    -------
    Tensor, or tuple of Tensor

    Notes
    -----
    How many there are decides the shape, so it is read by the host, which waits for it.
    """
    if dim is None and not (return_inverse or return_counts):
        if not input.needs_grad and is_listed_at_once(input):
            return first_counted(*counted_runs(flatten(input)))
    whole = flatten(input) if dim is None else input
    at = normalize_dim("unique_consecutive", 0 if dim is None else dim, whole.ndim)
    size = whole.shape[at]
    rows = movedim(whole, at, 0)
    if rows.ndim == 1 and rows.dtype in ANY and moves_elements(rows):
        starts: Tensor = run_starts(rows)
    else:
        starts = fill_like(whole, (min(size, 1),), True, bool_)
        if size > 1:
            changed = ne(narrow(rows, 0, 1, size - 1), narrow(rows, 0, 0, size - 1))
            if changed.ndim > 1:
                changed = any(reshape(changed, (size - 1, -1)), 1)
            starts = cat([starts, changed])
    if rows.ndim == 1 and not return_counts:
        results = [masked_elements(whole, starts)]
    else:
        places = flatnonzero(starts)
        results = [index_select(whole, at, places)]
    if return_inverse:
        runs = sub(cumsum(starts, 0, dtype=int32), 1)
        runs = as_places(runs)
        results.append(reshape(runs, input.layout.shape) if dim is None else runs)
    if return_counts:
        ends = cat([places, fill_like(places, (1,), size, int32)])
        results.append(as_places(sub(narrow(ends, 0, 1, places.numel()), places)))
    return tuple(results) if len(results) > 1 else results[0]


def argwhere(input: Tensor) -> Tensor:
    """Return the coordinates of elements that are not zero; see `nonzero`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    """
    return nonzero(input)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return the coordinates of flat indices into a shape, one tensor a dimension.

    Parameters
    ----------
    indices : Tensor, an integer dtype
        Row-major; negative ones and those beyond wrap.
    shape : int or sequence of int

    Returns
    -------
    tuple of Tensor, each of the shape and dtype of `indices`

    Raises
    ------
    ShapeError
        If a size is below 0.
    DTypeError
        If `indices` is not of integers.
    """
    if indices.dtype not in INTEGER:
        raise DTypeError(
            f"unravel_index: indices is {indices.dtype.name}; it must be of integers"
        )
    given = (shape,) if isinstance(shape, int) else shape
    sizes = as_ints("unravel_index: shape", given)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"unravel_index: shape is {sizes}; no size may be below 0")
    if indices.dtype.itemsize < 4:
        indices = cast(indices, int64)
    return tuple(
        remainder(floor_divide(indices, max(step, 1)), max(size, 1))
        for size, step in zip(sizes, contiguous_strides(sizes))
    )


def isreal(input: Tensor) -> Tensor:
    """Return whether each element is a real number: all are that are not complex.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    """
    if input.dtype.is_complex:
        return eq(_imaginary_part(input), 0)
    made: Tensor = fill_like(input, input.layout.shape, True, bool_)
    return made


def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramEdges:
    """Return how many elements are in each bin, and the edges of the bins.

    Parameters
    ----------
    input : Tensor, float
    bins : int or Tensor, shape (bins + 1,), default 100
        Number of equal bins, or the edges in order.
    range : pair of number or None
        Ends of the equal bins; None means the smallest and the largest element.
    weight : Tensor, shape of `input`, or None
        What each element counts.
    density : bool, default False
        Divide by the sum of counts and by the width of each bin.

    Returns
    -------
    HistogramEdges
        (hist, bin_edges); the last bin has its upper end.

    Raises
    ------
    ShapeError
        If there is no bin, the range is empty, or weights have another shape.
    """
    from ..reduce.variance import _need_float

    _need_float("histogram", input)
    if isinstance(bins, TensorCore):
        need_one_dtype("histogram", input=input, bins=bins)
    if weight is not None and weight.shape != input.layout.shape:
        raise ShapeError(
            f"histogram: weight is {weight.layout.shape}; it must be"
            f" {input.layout.shape}"
        )
    edges = _edges(input, bins, range)
    count = edges.numel() - 1
    flat = flatten(input.detach())
    counts = fill_like(flat, (count,), 0, flat.dtype)
    if flat.numel():
        last = narrow(edges, 0, count, 1)
        inside = logical_and(le(narrow(edges, 0, 0, 1), flat), le(flat, last))
        place = sub(searchsorted(edges, flat, out_int32=True, right=True), 1)
        place = where(eq(flat, last), count - 1, place)
        mass = (
            fill_like(flat, flat.shape, 1, flat.dtype)
            if weight is None
            else flatten(weight)
        )
        place = where(inside, place, 0)
        counts = index_add(counts, 0, place, where(inside, mass, 0.0))
    if density:
        counts = counts / mul(diff(edges), sum(counts))
    # The caller's own edges are another tensor, as PyTorch's.
    return HistogramEdges(counts, lazy_copy(edges))


def _edges(x: Tensor, bins: int | Tensor, ends: tuple[float, float] | None) -> Tensor:
    if isinstance(bins, TensorCore):
        if bins.ndim != 1 or bins.numel() < 2:
            raise ShapeError(
                f"histogram: bins are {bins.layout.shape}; there must be at"
                " least two edges"
            )
        return bins
    number = as_int("histogram: bins", bins)
    if number < 1 or (ends is not None and not ends[0] < ends[1]):
        raise ShapeError(
            f"histogram: bins is {number}, the range {ends}; there must be a bin, and"
            " the range not be empty"
        )
    if ends is not None:
        low = fill_like(x, (1,), ends[0], x.dtype)
        high = fill_like(x, (1,), ends[1], x.dtype)
    elif x.numel():
        low, high = reshape(amin(x), (1,)), reshape(amax(x), (1,))
        same = eq(low, high)
        low, high = where(same, low - 0.5, low), where(same, high + 0.5, high)
    else:
        low, high = (fill_like(x, (1,), end, x.dtype) for end in (0, 1))
    # From the nearer end, as PyTorch's.
    step, half = sub(high, low) / number, (number + 1) // 2
    lower = arange_like(x, (half,), 0, 1, x.dtype)
    upper = arange_like(x, (number + 1 - half,), number - half, -1, x.dtype)
    return cat([add(low, mul(step, lower)), sub(high, mul(step, upper))])
