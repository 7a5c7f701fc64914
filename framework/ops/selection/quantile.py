"""Quantiles, the median without NaN, and the mode, from sorted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import show_as, shown_as
from ...base.dtype import float32, float64, int32
from ...base.errors import DTypeError, ShapeError
from ...base.shape import normalize_dim
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import add, lerp, mul, sub
from ..elementwise.cast import cast, need_numbers
from ..elementwise.clamp import clamp
from ..elementwise.compare import clamp_min, isnan, ne, where
from ..elementwise.unary import ceil, floor, lazy_copy, round
from ..indexing.scatter import gather
from ..movement.concat import cat
from ..movement.slice import narrow
from ..reduce.common import place_dtype
from ..reduce.minmax import ValuesIndices, argmax
from ..reduce.running_extreme import cummax
from ..reduce.sum import sum
from ..source import arange_like, fill_like
from ..view import another, expand, flatten, movedim, reshape, unsqueeze
from .rank import of_rank, selects_ranks
from .sort import sort

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def msort(input: Tensor) -> Tensor:
    """Return the elements in order along the first dimension; see `sort`.

    Parameters
    ----------
    input : Tensor, of at least one dimension
        Any dtype but complex.
    """
    return sort(input, 0).values if len(input.layout.shape) else lazy_copy(input)


def _fractions(name: str, x: Tensor, q: Tensor | float) -> tuple[Tensor, bool]:
    """Return the wanted fractions as a vector, and whether it was one number."""
    if isinstance(q, TensorCore):
        if q.dtype is not x.dtype:
            raise DTypeError(
                f"{name}: q is {q.dtype.name}, x {x.dtype.name}; they must be the same"
            )
        if q.ndim > 1:
            raise ShapeError(
                f"{name}: q is {q.layout.shape}; it must have at most one dimension"
            )
        if q.is_cpu:
            found = q.host_view()
            need_numbers(name, q, (found >= 0) & (found <= 1), "q is from 0 to 1")
        return reshape(q, (q.numel(),)), q.ndim == 0
    if not 0 <= q <= 1:
        raise ShapeError(f"{name}: q is {q}; it must be from 0 to 1")
    filled: Tensor = fill_like(x, (1,), q, x.dtype)
    return filled, True


@replayable
def _quantile(
    name: str,
    x: Tensor,
    q: Tensor | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Tensor:
    if x.dtype not in (float32, float64):
        raise DTypeError(
            f"{name}: x is {x.dtype.name}; it must be float32 or float64; call"
            " x.float() first"
        )
    if interpolation not in INTERPOLATIONS:
        raise ShapeError(
            f"{name}: interpolation is {interpolation!r}; it must be one of"
            f" {INTERPOLATIONS}"
        )
    fractions, single = _fractions(name, x, q)
    at = normalize_dim(name, 0 if dim is None else dim, len(x.layout.shape) or 1)
    kept = (1,) * len(x.layout.shape)
    if dim is not None and len(x.layout.shape):
        kept = (*x.layout.shape[:at], 1, *x.layout.shape[at + 1 :])
    rows = flatten(x) if dim is None or not len(x.layout.shape) else movedim(x, at, -1)
    size = rows.shape[-1]
    if size == 0:
        raise ShapeError(
            f"{name}: x is {x.layout.shape}; there are no elements to choose from"
        )
    if not isinstance(q, TensorCore) and not ignore_nan and _selects(x):
        found = _selected(rows, q, interpolation)
        return reshape(found, kept if keepdim else _dropped(x, dim, at))
    ordered = sort(rows, -1).values
    missing = sum(cast(isnan(rows), x.dtype), -1, True)
    last = sub(float(size - 1), missing) if ignore_nan else None
    # One row for each fraction, in front.
    shape = (fractions.numel(), *(1,) * (rows.ndim))
    ranks = mul(reshape(fractions, shape), float(size - 1) if last is None else last)
    if last is None:
        # A row with NaN has its last element, which is one, everywhere.
        ranks = where(ne(missing, 0.0), float(size - 1), ranks)
    ranks = clamp_min(ranks, 0.0)
    wide = expand(ordered, (fractions.numel(), *ordered.shape))
    found = _between(wide, expand(ranks, (*wide.shape[:-1], 1)), size, interpolation)
    results = reshape(found, (fractions.numel(), *found.shape[1:-1]))
    results = reshape(
        results,
        (fractions.numel(), *(kept if keepdim else _dropped(x, dim, at))),
    )
    if not single:
        return results
    out = another(results, reshape(results, results.shape[1:]), "SqueezeBackward4")
    if out.grad_node is not None:
        show_as(out, "SqueezeBackward4", results)
    return out


def _selects(x: Tensor) -> bool:
    """Return whether elements of a known rank are selected, and not sorted first."""
    return not x.needs_grad and selects_ranks(x)


def _selected(rows: Tensor, q: float, interpolation: str) -> Tensor:
    """Return the quantile of each row, from elements of one rank or of two."""
    real = rows.dtype.numpy.type
    rank = real(q) * real(rows.layout.shape[-1] - 1)
    low, high = (int(each(rank)) for each in (np.floor, np.ceil))
    if interpolation in ("nearest", "lower", "higher"):
        chosen = {"nearest": int(np.round(rank)), "lower": low, "higher": high}
        return of_rank(rows, chosen[interpolation])
    weight = rank - real(low)
    if interpolation == "midpoint":
        weight = np.ceil(weight) * real(0.5)
    least = of_rank(rows, low)
    return lerp(least, of_rank(rows, high) if high > low else least, float(weight))


def _dropped(x: Tensor, dim: int | None, at: int) -> tuple[int, ...]:
    return () if dim is None else (*x.layout.shape[:at], *x.layout.shape[at + 1 :])


def _between(ordered: Tensor, ranks: Tensor, size: int, interpolation: str) -> Tensor:
    """Return the elements at ranks that may lie between two places."""

    def at(rank: Tensor) -> Tensor:
        return gather(ordered, -1, cast(clamp(rank, 0.0, float(size - 1)), int32))

    if interpolation == "nearest":
        return at(round(ranks))
    if interpolation == "lower":
        return at(floor(ranks))
    if interpolation == "higher":
        return at(ceil(ranks))
    low = floor(ranks)
    weight = sub(ranks, low)
    if interpolation == "midpoint":
        weight = ceil(weight) * 0.5
    return lerp(at(low), at(ceil(ranks)), weight)


@autocast_float32_on_host
def quantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return quantiles along a dimension, or of all elements; NaN if any is.

    Parameters
    ----------
    input : Tensor, float
    q : number or Tensor of the dtype of `input`, shape () or (n,)
        From 0 to 1; several give a dimension in front. Those of a tensor are not
        checked on a device.
    dim : int or None
        None takes all elements.
    keepdim : bool, default False
        Keep the dimension with size 1.
    interpolation : str
        Between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Raises
    ------
    ShapeError
        If there are no elements, or `q` or `interpolation` is another.
    DTypeError
        If the dtypes differ.
    """
    given = input, q, dim, keepdim, interpolation
    return _quantile("quantile", *given, ignore_nan=False)


@autocast_float32_on_host
def nanquantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return quantiles of all that is not NaN along a dimension, or of all elements.

    Parameters
    ----------
    input : Tensor, float32 or float64
    q : number or Tensor of the dtype of `input`, shape () or (n,)
        From 0 to 1; several give a dimension in front. Those of a tensor are not
        checked on a device.
    dim : int or None
        None takes all elements.
    keepdim : bool, default False
        Keep the dimension with size 1.
    interpolation : str, default "linear"
        As in `quantile`.

    Returns
    -------
    Tensor, dtype of `input`
        NaN where there is nothing else.

    Raises
    ------
    ShapeError
        If there are no elements, or `q` or `interpolation` is another.
    DTypeError
        If the dtypes differ, or are others.
    """
    given = input, q, dim, keepdim, interpolation
    return _quantile("nanquantile", *given, ignore_nan=True)


@shown_as("ModeBackward0", "input")
@replayable
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Return the element that occurs most often along a dimension, and where it is.

    Parameters
    ----------
    input : Tensor
        Every NaN is another element.
    dim : int, default -1
    keepdim : bool, default False
        Keep the dimension with size 1.

    Returns
    -------
    ValuesIndices
        (values, indices): of elements that occur as often the smallest, and its last
        place. Indices are as `sort` gives them.

    Raises
    ------
    ShapeError
        If there are no elements.
    """
    at = normalize_dim("mode", dim, len(input.layout.shape) or 1)
    if len(input.layout.shape) == 0:
        return ValuesIndices(
            lazy_copy(input), fill_like(input, (), 0, place_dtype(input))
        )
    rows = movedim(input, at, -1)
    size = rows.shape[-1]
    if size == 0:
        raise ShapeError(
            f"mode: shape {input.layout.shape} has no elements along {at};"
            " there is no result"
        )
    values, indices = sort(rows.detach(), -1)
    first = fill_like(values, (*values.shape[:-1], 1), 1, int32)
    places = arange_like(values, (size,), 0, 1, int32)
    changed = first
    if size > 1:
        pair = narrow(values, -1, 1, size - 1), narrow(values, -1, 0, size - 1)
        changed = cat([first, cast(ne(*pair), int32)], -1)
    # How many of the same are there up to each place.
    starts = cummax(mul(changed, places), -1).values
    lengths = sub(add(places, 1), starts)
    end = unsqueeze(argmax(lengths, -1), -1)
    where_ = gather(indices, -1, end)
    found = [movedim(each, -1, at) for each in (gather(rows, -1, where_), where_)]
    if not keepdim:
        kept = (*input.layout.shape[:at], *input.layout.shape[at + 1 :])
        found = [reshape(each, kept) for each in found]
    return ValuesIndices(*found)
