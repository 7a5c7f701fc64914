"""Scatter with a reduction: sum, product, mean or extreme per destination.

Products and extremes sort entries by destination, then run a segmented scan over
distances that double: the last entry of each segment has the segment's reduction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...autograd.tape import show_as, shown_as
from ...base.dtype import INTEGER, NUMERIC, bool_, float32, float64, int32, uint8
from ...base.errors import DTypeError, ShapeError
from ...base.shape import normalize_dim
from ...dispatch.declare import composite
from ...dispatch.elementwise import number
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import div, floor_divide, mul
from ..elementwise.cast import cast, need_one_dtype
from ..elementwise.compare import eq, maximum, minimum, ne, where
from ..elementwise.unary import lazy_copy
from ..movement.concat import cat
from ..movement.slice import narrow
from ..reduce.common import as_dtype_of
from ..source import fill_like
from ..view import expand, flatten, reshape
from .gather import flat_offsets, put_rows, readable_index, take_rows
from .scatter import as_vector, gather, scatter_add, scatter_along
from .scatter import scatter as replaced
from .segment_sum import argsort_keys, sum_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...tensor.tensor import Tensor

MODES = ("sum", "prod", "mean", "amax", "amin")


def scatter(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | float | None = None,
    *,
    value: float | None = None,
    reduce: str | None = None,
) -> Tensor:
    """Return `x` with elements replaced: those of `src` at their index along `dim`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, any integer dtype
        As many dimensions as `x`, none larger than those of `src`, or than those of
        `x` except `dim`. Where several name one place, the last along `dim` wins.
    src : Tensor of the dtype of `x`, or number
    value : number
        In place of `src`.
    reduce : "add", "multiply" or None
        Combine the elements with those of `x` instead; see `scatter_reduce`.

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
    src = value if src is None else src
    if src is None:
        raise TypeError("scatter: src and value are both missing; give one of them")
    if reduce is not None:
        return _combined(x, dim, index, src, reduce)
    found = replaced(x, dim, index, src)
    if isinstance(src, TensorCore):
        show_as(found, "ScatterBackward0", x, src)
    else:
        show_as(found, "ScatterBackward1", x)
    return found


def _combined(
    x: Tensor, dim: int, index: Tensor, src: Tensor | float, reduce: str
) -> Tensor:
    modes = {"add": "sum", "multiply": "prod"}
    if reduce not in modes:
        raise ShapeError(
            f'scatter: reduce is {reduce!r}; it must be "add" or "multiply"'
        )
    source: Any = src
    if not isinstance(src, TensorCore):
        source = fill_like(
            x, index.layout.shape, number("scatter", x.dtype, src), x.dtype
        )
    return scatter_reduce(x, dim, index, source, modes[reduce])


@shown_as("ScatterReduceBackward0", "x", "src")
def scatter_reduce(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return `x` with the elements of `src` combined at their index along `dim`.

    Parameters
    ----------
    x : Tensor
        Of bools "sum" and "amax" are whether any holds, "prod" and "amin" whether all.
    dim : int
    index : Tensor, any integer dtype
        As for `scatter_add`.
    src : Tensor of the dtype of `x`
    reduce : str
        "sum", "prod", "mean" (of integers rounded down), "amax" or "amin", of which
        "max" and "min" are other names.
    include_self : bool, default True
        Whether the element of `x` in a place counts too; where nothing goes, it stays.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or `reduce` is another.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    DTypeError
        If the dtypes differ, or the mean of bools is asked for.

    Notes
    -----
    But for sums and means, see `scatter_add`, the order of operations is fixed, so the
    result is the same in each run. The gradient of an extreme is shared evenly among
    equal elements.
    """
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in MODES:
        raise ShapeError(
            f"scatter_reduce: reduce is {reduce!r}; it must be one of {MODES}"
        )
    need_one_dtype("scatter_reduce", x=x, src=src)
    if not (x.layout.shape and index.layout.shape and src.layout.shape):
        flat = as_vector(x), dim, as_vector(index), as_vector(src)
        out = scatter_reduce(*flat, reduce, include_self=include_self)
        return reshape(out, x.layout.shape)
    at = normalize_dim("scatter_reduce", dim, len(x.layout.shape))
    if x.dtype is bool_ and src.dtype is bool_:
        if reduce == "mean":
            raise DTypeError("scatter_reduce: x is bool, which has no mean; cast it")
        counted = cast(x, uint8), dim, index, cast(src, uint8)
        other = "amin" if reduce in ("prod", "amin") else "amax"
        return cast(scatter_reduce(*counted, other, include_self=include_self), bool_)
    if reduce == "prod":
        return _product(x, at, index, src, include_self)
    if reduce in ("amax", "amin"):
        if not index.numel():
            return lazy_copy(x)
        for each, size in enumerate(index.layout.shape[: len(src.layout.shape)]):
            if size < src.layout.shape[each]:
                src = narrow(src, each, 0, size)
        return _scatter_minmax(x, index, src, at, reduce == "amax", include_self)
    base = x if include_self else replaced(x, at, index, 0)
    total = scatter_add(base, at, index, src)
    if reduce == "sum":
        return total
    counts = _counts(x, at, index, include_self)
    if x.dtype in INTEGER:
        return as_dtype_of(floor_divide(total, cast(counts, x.dtype)), x.dtype)
    return as_dtype_of(div(total, counts), x.dtype)


INDEX_MODES = ("prod", "mean", "amax", "amin")


@shown_as("IndexReduceBackward0", "x", "source")
def index_reduce(
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return `x` with slices of `source` combined at one index per slice.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor, shape (n,), any integer dtype
    source : Tensor of the dtype of `x`
        Of the shape of `x`, but n in dimension `dim`.
    reduce : str
        "prod", "mean", "amax" or "amin"; see `scatter_reduce`.
    include_self : bool, default True
        Whether the slice of `x` counts too.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or `reduce` is another.
    """
    if not x.layout.shape or not index.layout.shape:
        flat = as_vector(x), dim, as_vector(index), as_vector(source)
        out = index_reduce(*flat, reduce, include_self=include_self)
        return reshape(out, x.layout.shape)
    at = normalize_dim("index_reduce", dim, len(x.layout.shape))
    wanted = (*x.layout.shape[:at], index.numel(), *x.layout.shape[at + 1 :])
    if (
        reduce not in INDEX_MODES
        or len(index.layout.shape) != 1
        or source.layout.shape != wanted
    ):
        raise ShapeError(
            f"index_reduce: reduce is {reduce!r}, index {tuple(index.shape)}, source"
            f" {tuple(source.shape)}; reduce must be one of {INDEX_MODES}, index"
            f" have one dimension, and source be {wanted}"
        )
    along = (-1,) + (1,) * (len(x.layout.shape) - 1 - at)
    places = expand(reshape(readable_index("index_reduce", index), along), wanted)
    return scatter_reduce(x, at, places, source, reduce, include_self=include_self)


def _counts(x: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    """Return the element counts of each mean."""
    whole = float64 if x.dtype is float64 else float32
    kind = int32 if x.dtype in INTEGER else whole
    ones = fill_like(x, x.layout.shape, 1, kind)
    if not include_self:
        ones = replaced(ones, dim, index, 0)
    return scatter_add(ones, dim, index, fill_like(x, index.layout.shape, 1, kind))


def _product(
    x: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> Tensor:
    if not index.numel():
        return lazy_copy(x)
    wide = sum_dtype(x.dtype)
    base, factors = as_dtype_of(x, wide), as_dtype_of(src, wide)
    start = fill_like(base, x.layout.shape, 1, wide) if include_self else base
    out = _scattered(start, dim, index, factors, mul)
    return as_dtype_of(mul(base, out) if include_self else out, x.dtype)


def _scattered(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    combine: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return `x` with its elements replaced by segment reductions of `src`."""

    def write(base: Tensor, rows: Tensor, source: Tensor, site: str) -> Tensor:
        places = flatten(flat_offsets(rows, base.layout.shape[1], site))
        order = argsort_keys(places)
        places, values = (_gathered(each, order) for each in (places, source))
        values = _segmented_scan(places, values, rows.layout.shape[1], combine)
        if values.requires_grad and values.numel() > 1:
            # Only the end of a segment counts, and `put_rows` does not tell.
            count = values.numel()
            after = cat([narrow(places, 0, 1, count - 1), places[-1:] * 0 - 2])
            values = where(ne(places, after), values, values.detach())
        out = put_rows(reshape(base, (1, -1, 1)), places, reshape(values, (1, -1, 1)))
        return reshape(out, base.layout.shape)

    return scatter_along("scatter_reduce", x, dim, index, src, write)


def _gathered(x: Tensor, order: Tensor) -> Tensor:
    return flatten(take_rows(reshape(x, (1, -1, 1)), order))


def _segmented_scan(
    places: Tensor,
    values: Tensor,
    most: int,
    combine: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return the inclusive segmented scan of values sorted by destination.

    A segment has at most `most` entries. Source: Hillis and Steele, "Data Parallel
    Algorithms", 1986.
    """
    count, step = values.numel(), 1
    while step < most:
        rest = count - step
        later, earlier = narrow(values, 0, step, rest), narrow(values, 0, 0, rest)
        same = eq(narrow(places, 0, step, rest), narrow(places, 0, 0, rest))
        joined = where(same, combine(earlier, later), later)
        values = cat([narrow(values, 0, 0, step), joined])
        step *= 2
    return values


@composite(dtypes={"x": NUMERIC, "index": INTEGER, "src": NUMERIC})
def _scatter_minmax(
    x: Tensor,
    index: Tensor,
    src: Tensor,
    dim: int,
    greatest: bool,
    include_self: bool,
) -> Tensor:
    """Return `x` with the maximum or minimum of `src` at each destination.

    `src` is of the shape of `index`.
    """
    combine = maximum if greatest else minimum
    if not include_self:
        return _scattered(x, dim, index, src, combine)
    least: float = -math.inf if greatest else math.inf
    if not x.dtype.is_float:
        least = x.dtype.limits[0 if greatest else 1]
    start = fill_like(x, x.layout.shape, least, x.dtype)
    return combine(x, _scattered(start, dim, index, src, combine))


@_scatter_minmax.vjp
def _scatter_minmax_vjp(
    grad: Tensor,
    x: Tensor,
    index: Tensor,
    src: Tensor,
    out: Tensor,
    dim: int,
    include_self: bool,
) -> tuple[Tensor, None, Tensor]:
    is_extreme = cast(eq(x, out), grad.dtype)
    if not include_self:
        is_extreme = replaced(is_extreme, dim, index, 0)
    chosen = cast(eq(src, gather(out, dim, index)), grad.dtype)
    share = grad / scatter_add(is_extreme, dim, index, chosen)
    return is_extreme * share, None, chosen * gather(share, dim, index)
