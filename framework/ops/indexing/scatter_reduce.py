"""Scatter with a reduction: sum, product, mean or extreme per destination.

Where columns are many and short, an invocation reduces each, see `column_reduce`. Else
products and extremes are combined by atomics. Where a device has none of a dtype, or
the order of float products is to be fixed, entries are sorted by destination, and a
segmented scan over distances that double leaves each reduction in the last entry of its
segment.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as, shown_as
from ...base.determinism import is_deterministic
from ...base.device import Device, GpuDevice
from ...base.dtype import (
    INTEGER,
    DType,
    bool_,
    float32,
    float64,
    int32,
    uint8,
)
from ...base.errors import DTypeError, ShapeError
from ...base.index_checks import UNCHECKED
from ...base.shape import normalize_dim
from ...dispatch.declare import composite
from ...dispatch.replayable import replayable
from ...dispatch.scalar import number
from ...eager.base_tensor import TensorCore
from ...kernels.scatter import identity_of
from ..elementwise.binary import add, div, floor_divide, mul
from ..elementwise.cast import cast, need_one_dtype
from ..elementwise.compare import clamp_min, eq, maximum, minimum, ne, where
from ..elementwise.unary import lazy_copy
from ..movement.concat import cat
from ..movement.rearrange import flip
from ..movement.slice import narrow
from ..reduce.common import as_dtype_of
from ..source import fill_like
from ..view import expand, flatten, reshape
from .atomic_scatter import atomic_source, scatter_atomic
from .column_reduce import column_reduce
from .gather import (
    add_rows,
    put_rows,
    segment_sum,
    take_rows,
)
from .row_index import INDEX, flat_offsets, readable_index
from .scatter import as_vector, scatter_along, scatter_slices
from .scatter import scatter as replaced
from .segment_sum import (
    GATHERED,
    argsort_keys,
    reduces_columns,
    sum_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        `x` except `dim`. Where several name one place, the last along `dim` wins, or
        on a GPU, of 1 Mi or more, any: see `use_deterministic_algorithms`.
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
@replayable
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
    write = partial(_combined_rows, reduce=reduce, include_self=include_self)
    return scatter_along("scatter_reduce", x, at, index, src, write)


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
    write = partial(_combined_rows, reduce=reduce, include_self=include_self)
    return scatter_slices("index_reduce", x, at, index, source, write)


def _combined_rows(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    site: str,
    reduce: str,
    include_self: bool,
) -> Tensor:
    """Return (outer, rows, inner) with rows of `source` combined by `reduce`.

    The index is one for each row, (entries), or for each element of `source`.
    """
    if 0 in source.layout.shape:
        return lazy_copy(base)
    index, dtype = readable_index("scatter_reduce", index), base.dtype
    rows = base.layout.shape[1]
    if reduce in ("amax", "amin", "prod"):
        by_columns = reduces_columns(source, rows, not include_self)
        wide = dtype if by_columns else sum_dtype(dtype)
        operation = {"amax": "max", "amin": "min"}.get(reduce, reduce)
        atomic = not by_columns and _combines_by_atomics(base.device, wide, operation)
        parts = (atomic_source if atomic else as_dtype_of)(source, wide)
        given = as_dtype_of(base, wide), index, parts
        if reduce == "prod":
            return as_dtype_of(_scatter_product(*given, include_self, site), dtype)
        out = _scatter_minmax(*given, reduce == "amax", include_self, site)
        return as_dtype_of(out, dtype)
    if include_self and reduce == "sum":
        return add_rows(base, index, source, site)
    is_float = reduce == "sum" or dtype not in INTEGER
    if is_float and reduces_columns(source, rows, True):
        return _scatter_sum(base, index, source, reduce, include_self, site)
    counts = _entries(base, index, source, site)
    if not include_self:
        base = where(eq(counts, 0), base, 0)
    total = add_rows(base, index, source, UNCHECKED)
    if reduce == "sum":
        return total
    counts = add(counts, 1) if include_self else clamp_min(counts, 1)
    if dtype in INTEGER:
        return as_dtype_of(floor_divide(total, cast(counts, dtype)), dtype)
    kind = float64 if dtype is float64 else float32
    return as_dtype_of(div(total, cast(counts, kind)), dtype)


def _entries(base: Tensor, index: Tensor, source: Tensor, site: str) -> Tensor:
    """Return how many entries name each row, or each element, as int32."""
    outer, entries, inner = source.layout.shape
    around = (outer, inner) if len(index.layout.shape) == 3 else (1, 1)
    ones = fill_like(base, (around[0], entries, around[1]), 1, int32)
    return segment_sum(index, ones, base.layout.shape[1], site, False)


def _combines_by_atomics(device: Device, dtype: DType, operation: str) -> bool:
    """Return whether rows are combined by atomics, or as NumPy does on the host.

    Products of floats depend on the order, which `use_deterministic_algorithms` fixes.
    """
    if not isinstance(device, GpuDevice):
        return True
    if operation == "prod" and dtype.is_float and is_deterministic():
        return False
    return dtype.itemsize == 4 or "buffer_int64_atomics" in device.gpu.info.supported


def _combination(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    operation: str,
    include_self: bool,
    site: str,
) -> Tensor:
    """Return `base` with rows of `source` combined, by atomics or in order."""
    if reduces_columns(source, base.layout.shape[1], not include_self):
        # A gradient's source may have another dtype than its base.
        source = as_dtype_of(source, base.dtype)
        return column_reduce(base, index, source, operation, include_self, site)
    wide = sum_dtype(base.dtype)
    if wide is not base.dtype:
        parts = as_dtype_of(base, wide), index, as_dtype_of(source, wide), operation
        return as_dtype_of(_combination(*parts, include_self, site), base.dtype)
    if _combines_by_atomics(base.device, base.dtype, operation):
        given = base, index, source, operation, include_self, site
        return scatter_atomic(*given, from_end=False)
    joins: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    joins = {"max": maximum, "min": minimum, "prod": mul}
    combine = joins[operation]
    if not include_self:
        return _scattered(base, index, source, combine, site)
    least = identity_of(operation, base.dtype)
    start = fill_like(base, base.layout.shape, least, base.dtype)
    return combine(base, _scattered(start, index, source, combine, site))


def _each(index: Tensor, source: Tensor) -> Tensor:
    """Return indices of each element of `source`."""
    if len(index.layout.shape) == 3:
        return index
    return expand(reshape(index, (1, -1, 1)), source.layout.shape)


def _scattered(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    combine: Callable[[Tensor, Tensor], Tensor],
    site: str,
) -> Tensor:
    """Return `base` with elements replaced by segment reductions of `source`."""
    places = flatten(flat_offsets(_each(index, source), base.layout.shape[1], site))
    order = argsort_keys(places)
    places, values = (_gathered(each, order) for each in (places, source))
    values = _segmented_scan(places, values, source.layout.shape[1], combine)
    if values.requires_grad and values.numel() > 1:
        # Only the end of a segment counts, and `put_rows` does not tell.
        count = values.numel()
        after = cat([narrow(places, 0, 1, count - 1), places[-1:] * 0 - 2])
        values = where(ne(places, after), values, values.detach())
    rows, values = (reshape(each, (1, -1, 1)) for each in (base, values))
    out = put_rows(rows, places, values, last=True)
    return reshape(out, base.layout.shape)


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


@composite(dtypes={"base": GATHERED, "index": INDEX, "source": GATHERED})
def _scatter_sum(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    site: str,
) -> Tensor:
    """Return (outer, rows, inner) with the sum, or mean, of rows that name each.

    By columns; see `column_reduce`.
    """
    return column_reduce(base, index, source, reduce, include_self, site)


@_scatter_sum.vjp
def _scatter_sum_vjp(
    grad: Tensor,
    base: Tensor,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
) -> tuple[Tensor, None, Tensor]:
    counts = _entries(base, index, source, UNCHECKED)
    share = grad
    if reduce == "mean":
        most = add(counts, 1) if include_self else clamp_min(counts, 1)
        kind = float64 if grad.dtype is float64 else float32
        share = as_dtype_of(div(grad, cast(most, kind)), grad.dtype)
    kept = share if include_self else where(eq(counts, 0), grad, 0)
    return kept, None, take_rows(share, index)


@composite(dtypes={"base": GATHERED, "index": INDEX, "source": GATHERED})
def _scatter_minmax(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    greatest: bool,
    include_self: bool,
    site: str,
) -> Tensor:
    """Return (outer, rows, inner) with the extreme of rows that name each."""
    operation = "max" if greatest else "min"
    return _combination(base, index, source, operation, include_self, site)


@_scatter_minmax.vjp
def _scatter_minmax_vjp(
    grad: Tensor,
    base: Tensor,
    index: Tensor,
    source: Tensor,
    out: Tensor,
    include_self: bool,
) -> tuple[Tensor, None, Tensor]:
    is_extreme = cast(eq(base, out), grad.dtype)
    if not include_self:
        named = ne(_entries(base, index, source, UNCHECKED), 0)
        is_extreme = where(named, 0, is_extreme)
    wide = as_dtype_of(source, grad.dtype)
    chosen = cast(eq(wide, take_rows(out, index)), grad.dtype)
    share = grad / add_rows(is_extreme, index, chosen)
    shares = as_dtype_of(chosen * take_rows(share, index), source.dtype)
    return is_extreme * share, None, shares


@composite(dtypes={"base": GATHERED, "index": INDEX, "source": GATHERED})
def _scatter_product(
    base: Tensor, index: Tensor, source: Tensor, include_self: bool, site: str
) -> Tensor:
    """Return (outer, rows, inner) with the product of rows that name each."""
    return _combination(base, index, source, "prod", include_self, site)


@_scatter_product.vjp
def _scatter_product_vjp(
    grad: Tensor, base: Tensor, index: Tensor, source: Tensor, include_self: bool
) -> tuple[Tensor, None, Tensor]:
    """Multiply by the product of all other factors, which may be 0.

    Of what is not 0 that is the product by the factor, if none is 0, and nothing
    otherwise; of the only 0 it is the product of all that are not. That has no right
    derivative by the zeros, so a gradient that is recorded is computed without it.
    """
    stored, compute = (base.dtype, source.dtype), sum_dtype(base.dtype)
    grad, base, source = (as_dtype_of(each, compute) for each in (grad, base, source))
    grads = _product_vjp(grad, base, source, index, include_self)
    return as_dtype_of(grads[0], stored[0]), None, as_dtype_of(grads[1], stored[1])


def _product_vjp(
    grad: Tensor, base: Tensor, source: Tensor, index: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    if is_grad_enabled():
        return _recorded_product_vjp(grad, base, index, source, include_self)
    is_zero, base_is_zero = eq(source, 0), eq(base, 0)
    zeros = segment_sum(index, cast(is_zero, int32), base.shape[1], UNCHECKED, False)
    if include_self:
        zeros = add(zeros, cast(base_is_zero, int32))
    factors = where(base_is_zero, 1, base), index, where(is_zero, 1, source)
    product = grad * _combination(*factors, "prod", include_self, UNCHECKED)
    whole, rest = (where(eq(zeros, count), product, 0) for count in (0, 1))
    shares = take_rows(whole, index) / factors[2], take_rows(rest, index)
    grad_source = where(is_zero, shares[1], shares[0])
    if include_self:
        return where(base_is_zero, rest, whole / factors[0]), grad_source
    named = ne(_entries(base, index, source, UNCHECKED), 0)
    return where(named, 0, grad), grad_source


def _recorded_product_vjp(
    grad: Tensor, base: Tensor, index: Tensor, source: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    """Return the gradient in products alone: of what is before and behind a factor."""
    each, rows = _each(index, source), base.layout.shape[1]
    places = flatten(flat_offsets(each, rows, UNCHECKED))
    order = argsort_keys(places)
    places, values = (_gathered(x, order) for x in (places, source))
    most = source.layout.shape[1]
    before = _exclusive(places, values, most)
    after = flip(_exclusive(flip(places, 0), flip(values, 0), most), 0)
    grads = grad * base if include_self else grad
    others = before * after * _gathered(grads, places)
    unsorted = fill_like(others, (1, places.numel(), 1), 0, others.dtype)
    unsorted = put_rows(unsorted, order, reshape(others, (1, -1, 1)))
    ones = fill_like(base, base.layout.shape, 1, base.dtype)
    if include_self:
        grad_base = grad * _scattered(ones, index, source, mul, UNCHECKED)
    else:
        named = ne(_entries(base, index, source, UNCHECKED), 0)
        grad_base = where(named, 0, grad)
    return grad_base, reshape(unsorted, source.layout.shape)


def _exclusive(places: Tensor, values: Tensor, most: int) -> Tensor:
    """Return the product of the entries before each that name the same place."""
    products, count = _segmented_scan(places, values, most, mul), places.numel()
    ones = fill_like(values, (1,), 1, values.dtype)
    if count == 1:
        return ones
    same = eq(narrow(places, 0, 1, count - 1), narrow(places, 0, 0, count - 1))
    return cat([ones, where(same, narrow(products, 0, 0, count - 1), 1)])
