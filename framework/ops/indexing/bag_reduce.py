"""Reductions of bags of rows of a table, which are read where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.dtype import FLOAT, as_dtype, int32
from ...base.index_checks import BAG_OFFSETS, UNCHECKED, out_of_range
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.bag_reduce import bag_reduce_dispatch
from ..elementwise.cast import result_type
from ..elementwise.compare import clamp_min, lt, where
from ..reduce.common import as_dtype_of, in_storage
from ..reduce.sum import sum
from ..source import fill_like
from ..view import reshape, unsqueeze
from .bags import Bags
from .gather import segment_sum, take_rows
from .row_index import INDEX, checked_rows, index_constants
from .segment_sum import sum_dtype

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

DTYPES = {"weight": FLOAT, "index": INDEX, "offsets": INDEX, "shares": FLOAT}


@primitive(dtypes=DTYPES, typed="weight")
def bag_reduce(
    weight: Tensor,
    index: Tensor,
    offsets: Tensor | None,
    bags: int,
    mode: str,
    padding: int,
    site: str,
) -> Tensor:
    """Return the "sum", "mean" or "max" of rows (rows, width) of each bag.

    The index is a vector. Bags begin at `offsets`, and the last one ends at the next
    offset, if there are more of them than bags, or with the index; None if all have the
    same length. Row `padding` does not count; -1 for none. The maximum has no gradient.
    """


@bag_reduce.spec
def bag_reduce_spec(weight: TensorSpec, bags: int, **_: object) -> TensorSpec:
    return TensorSpec((bags, weight.shape[1]), weight.dtype)


@bag_reduce.kernel
def bag_reduce_kernel(
    gpu: DeviceInfo,
    weight: StridedSpec,
    index: StridedSpec,
    offsets: StridedSpec | None,
    bags: int,
    mode: str,
    padding: int,
    site: str,
) -> Dispatch:
    out, reading = bag_reduce_spec(weight, bags), index_constants(index, False)
    given = gpu, weight, index, offsets, out, mode, padding, site, reading
    return bag_reduce_dispatch(*given, {})


@bag_reduce.vjp
def bag_reduce_vjp(
    grad: Tensor,
    weight_spec: TensorSpec,
    index: Tensor,
    offsets: Tensor | None,
    bags: int,
    mode: str,
    padding: int,
) -> tuple[Tensor, None, None]:
    assert mode != "max", "bag_reduce: maxima have a gradient in bag_max"
    entries = Bags(index, offsets, bags, padding, weight_spec.shape[0])
    if not index.numel() or not grad.numel():
        return fill_like(grad, weight_spec.shape, 0, grad.dtype), None, None
    grad = entries.share(grad) if mode == "mean" else grad
    return entries.total(entries.each(grad)), None, None


@bag_reduce.reference
def bag_reduce_reference(
    weight: np.ndarray,
    index: np.ndarray,
    offsets: np.ndarray | None,
    bags: int,
    mode: str,
    padding: int,
    site: str,
) -> np.ndarray:
    if mode == "max":
        return bag_max_reference(weight, index, offsets, bags, padding, site)[0]
    found, starts, ends = _host_bags(weight, index, offsets, bags, padding, site)
    values = weight.astype(sum_dtype(as_dtype(weight.dtype)).numpy)[found]
    out = _host_reduced(np.add, values, starts, ends, 0)
    if mode == "mean":
        out /= np.maximum(ends - starts, 1)[:, None].astype(out.dtype)
    return out.astype(weight.dtype)


@primitive(dtypes=DTYPES, typed="weight")
def weighted_bag_sum(
    weight: Tensor,
    index: Tensor,
    offsets: Tensor | None,
    shares: Tensor,
    bags: int,
    padding: int,
    site: str,
) -> Tensor:
    """Return what `bag_reduce` does, of rows times their `shares`, one each."""


@weighted_bag_sum.spec
def weighted_bag_sum_spec(weight: TensorSpec, bags: int, **_: object) -> TensorSpec:
    return bag_reduce_spec(weight, bags)


@weighted_bag_sum.kernel
def weighted_bag_sum_kernel(
    gpu: DeviceInfo,
    weight: StridedSpec,
    index: StridedSpec,
    offsets: StridedSpec | None,
    bags: int,
    padding: int,
    site: str,
    **_: object,
) -> Dispatch:
    out, reading = bag_reduce_spec(weight, bags), index_constants(index, False)
    given = gpu, weight, index, offsets, out, "sum", padding, site, reading
    return bag_reduce_dispatch(*given, {"shares": "shares"})


@weighted_bag_sum.vjp
def weighted_bag_sum_vjp(
    grad: Tensor,
    weight: Tensor,
    index: Tensor,
    offsets: Tensor | None,
    shares: Tensor,
    bags: int,
    padding: int,
) -> tuple[Tensor, None, None, Tensor]:
    rows, width = weight.layout.shape
    if not index.numel() or not grad.numel():
        zeros = [fill_like(grad, e.layout.shape, 0, e.dtype) for e in (weight, shares)]
        return zeros[0], None, None, zeros[1]
    entries = Bags(index, offsets, bags, padding, rows)
    each, kept = entries.each(grad), entries.kept()
    taken = reshape(take_rows(unsqueeze(weight, 0), index), (index.numel(), width))
    products = sum(each * taken, 1)
    if kept is not None:
        products = where(kept, products, 0.0)
    return entries.total(each * unsqueeze(shares, 1)), None, None, products


@weighted_bag_sum.reference
def weighted_bag_sum_reference(
    weight: np.ndarray,
    index: np.ndarray,
    offsets: np.ndarray | None,
    shares: np.ndarray,
    bags: int,
    padding: int,
    site: str,
) -> np.ndarray:
    wide = sum_dtype(as_dtype(weight.dtype)).numpy
    rows = checked_rows(index, len(weight), site, False)
    factors = np.where(rows == padding, 0, shares.astype(wide))
    values = weight.astype(wide)[rows]
    values[rows == padding] = 0
    _, starts, ends = _host_bags(weight, index, offsets, bags, -1, site)
    out = _host_reduced(np.add, values * factors[:, None], starts, ends, 0)
    return out.astype(weight.dtype)


@primitive(dtypes=DTYPES, outputs=("out", "places"), typed="weight")
def bag_max(
    weight: Tensor,
    index: Tensor,
    offsets: Tensor | None,
    bags: int,
    padding: int,
    site: str,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each bag, see `bag_reduce`, and its row, int32.

    Of equal ones that is the first; -1 where there is none. NaN counts if it is first.
    """


@bag_max.spec
def bag_max_spec(
    weight: TensorSpec, bags: int, **_: object
) -> tuple[TensorSpec, TensorSpec]:
    shape = bags, weight.shape[1]
    return TensorSpec(shape, weight.dtype), TensorSpec(shape, int32)


@bag_max.kernel
def bag_max_kernel(
    gpu: DeviceInfo,
    weight: StridedSpec,
    index: StridedSpec,
    offsets: StridedSpec | None,
    bags: int,
    padding: int,
    site: str,
) -> Dispatch:
    out, reading = bag_reduce_spec(weight, bags), index_constants(index, False)
    given = gpu, weight, index, offsets, out, "max", padding, site, reading
    return bag_reduce_dispatch(*given, {"places": "places"})


@bag_max.vjp
def bag_max_vjp(
    grad: Tensor, weight_spec: TensorSpec, places: Tensor
) -> tuple[Tensor, None, None]:
    if not grad.numel():
        return fill_like(grad, weight_spec.shape, 0, grad.dtype), None, None
    if not grad.is_gpu:  # where each is looked at
        grad, places = where(lt(places, 0), 0.0, grad), clamp_min(places, 0)
    index, source = (unsqueeze(each, 0) for each in (places, grad))
    total = segment_sum(index, source, weight_spec.shape[0], UNCHECKED, False)
    return reshape(total, weight_spec.shape), None, None


@bag_max.reference
def bag_max_reference(
    weight: np.ndarray,
    index: np.ndarray,
    offsets: np.ndarray | None,
    bags: int,
    padding: int,
    site: str,
) -> tuple[np.ndarray, np.ndarray]:
    found, starts, ends = _host_bags(weight, index, offsets, bags, padding, site)
    values, full = weight[found], starts < ends
    later = np.ones(len(values), bool)
    later[starts[full]] = False
    values[np.isnan(values) & later[:, None]] = -np.inf
    out = _host_reduced(np.maximum, values, starts, ends, 0)
    numbers = np.arange(len(values))
    bag = np.clip(np.searchsorted(ends, numbers, "right"), 0, max(0, bags - 1))
    first = (values == out[bag]) | np.isnan(values) if bags else values == values
    numbers = np.where(first, numbers[:, None], len(values))
    firsts = _host_reduced(np.minimum, numbers, starts, ends, -1)
    places = np.append(found, -1)[np.where(firsts < 0, len(found), firsts)]
    return out, places.astype(np.int32)


def _host_bags(
    weight: np.ndarray,
    index: np.ndarray,
    offsets: np.ndarray | None,
    bags: int,
    padding: int,
    site: str,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows that count, and where those of each bag begin and end.

    Raises
    ------
    IndexRangeError
        If there is no such row, or offsets do not rise.
    """
    rows = checked_rows(index, len(weight), site, False)
    if offsets is None:
        bounds = np.arange(bags + 1) * (len(rows) // max(1, bags))
    else:
        bounds = np.append(offsets.astype(np.int64), len(rows))[: bags + 1]
    wrong = np.flatnonzero((np.diff(bounds, prepend=0) < 0) | (bounds > len(rows)))
    if wrong.size:
        name = site.partition(":")[0]
        raise out_of_range(f"{name}: {BAG_OFFSETS}", int(bounds[wrong[0]]), 0)
    kept = rows != padding
    before = np.append(0, np.cumsum(kept))
    return rows[kept], before[bounds[:-1]], before[bounds[1:]]


def _host_reduced(
    function: np.ufunc,
    values: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    nothing: int,
) -> np.ndarray:
    """Return bags of rows reduced, those without any to `nothing`."""
    out = np.full((len(starts), values.shape[1]), nothing, values.dtype)
    full = starts < ends
    if full.any():
        out[full] = function.reduceat(values[: ends[-1]], starts[full], 0)
    return out


def reduced_bags(
    bags: Bags, weight: Tensor, shares: Tensor | None, mode: str
) -> Tensor:
    """Return the "sum", "mean" or "max" of each bag, or the sum of rows by `shares`.

    `weight` is (rows, width), and shares one for each entry.
    """
    site, dtype = "embedding_bag: weight", weight.dtype
    index, offsets = bags.index, bags.offsets
    count, padding = bags.count, bags.padding
    if shares is not None:
        dtype = result_type(weight, shares)
    table = in_storage(as_dtype_of(weight, dtype))
    if shares is not None:
        factors = as_dtype_of(shares, table.dtype)
        out = weighted_bag_sum(table, index, offsets, factors, count, padding, site)
    elif mode == "max" and table.requires_grad and is_grad_enabled():
        out, _ = bag_max(table, index, offsets, count, padding, site)
    else:
        out = bag_reduce(table, index, offsets, count, mode, padding, site)
    return as_dtype_of(out, dtype)
