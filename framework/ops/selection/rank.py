"""Elements of one rank along a dimension: kthvalue, median, nanmedian.

On GPUs for speed they are selected, elsewhere taken from what is sorted. NaN is above
every number, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.device import GpuDevice
from ...base.dtype import NUMERIC, DType, int32
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, normalize_dim
from ...dispatch.declare import composite, primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.reduce import need_countable
from ...kernels.select import rank_dispatches
from ..elementwise.binary import sub
from ..elementwise.cast import cast, refuse_bool
from ..elementwise.compare import (
    clamp_min,
    eq,
    isnan,
    logical_and,
    logical_or,
    ne,
    where,
)
from ..elementwise.unary import lazy_copy
from ..indexing.scatter import gather
from ..movement.slice import narrow, select
from ..reduce.common import (
    as_dtype_of,
    as_places,
    at_places,
    in_storage,
    place_dtype,
    stored_places,
)
from ..reduce.minmax import ValuesIndices
from ..reduce.sum import sum, total
from ..source import fill_like
from ..view import flatten, movedim, reshape, unsqueeze
from .sort import need_among, sorted_along

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=NUMERIC, outputs=("values", "indices"), typed="x")
def _rank(x: Tensor, rank: int, missing: str, places: DType) -> tuple[Tensor, Tensor]:
    """Return the element of a rank, from 0, of each line of (lines, count), and where.

    `missing` is one of `kernels.select.MISSING`. Equal elements are in their order.
    """


@_rank.spec
def _rank_spec(
    x: TensorSpec, rank: int, missing: str, places: DType
) -> tuple[TensorSpec, TensorSpec]:
    return TensorSpec(x.shape[:1], x.dtype), TensorSpec(x.shape[:1], places)


@_rank.kernel
def _rank_kernel(
    gpu: DeviceInfo, x: StridedSpec, rank: int, missing: str, places: DType
) -> list[Dispatch]:
    need_countable("rank", x)
    results = {"values": "values", "order": "indices"}
    return rank_dispatches(gpu, x, rank, missing, "x", results, places)


@_rank.vjp
def _rank_vjp(grad: Tensor, indices: Tensor, x_spec: TensorSpec) -> Tensor:
    one = x_spec.shape[0], 1
    return at_places(reshape(grad, one), reshape(indices, one), x_spec.shape, 1)


@_rank.reference
def _rank_reference(
    x: np.ndarray, rank: int, missing: str, places: DType
) -> tuple[np.ndarray, np.ndarray]:
    lines, count = x.shape
    ranks = np.full(lines, rank)
    if missing != "counts" and x.dtype.kind == "f":
        nan = np.count_nonzero(x != x, 1)
        middle = np.maximum(count - 1 - nan, 0) // 2
        ranks = np.where(nan > 0, count - 1, ranks)
        ranks = middle * (nan < count) if missing == "left_out" else ranks
    order = np.argsort(x, axis=1, kind="stable")
    chosen = np.take_along_axis(order, ranks[:, None], 1)
    return np.take_along_axis(x, chosen, 1)[:, 0], chosen[:, 0].astype(places.numpy)


def _ranked(
    x: Tensor, dim: int, rank: int, missing: str, keepdim: bool
) -> ValuesIndices:
    """Return the element of a rank along a dimension, and where it is."""
    if len(x.layout.shape) == 0:
        return ValuesIndices(lazy_copy(x), fill_like(x, (), 0, place_dtype(x)))
    if not x.numel() or (x.is_gpu and not selects_ranks(x)):
        return _of_sorted(x, dim, rank, missing, keepdim)
    lines = movedim(x, dim, -1)
    kept, count = lines.layout.shape[:-1], lines.layout.shape[-1]
    rows = in_storage(reshape(lines, (math.prod(kept), count)))
    values, indices = _rank(rows, rank, missing, stored_places(x))
    found = (
        as_dtype_of(reshape(values, kept), x.dtype),
        as_places(reshape(indices, kept)),
    )
    return ValuesIndices(*(unsqueeze(each, dim) if keepdim else each for each in found))


def selects_ranks(x: Tensor) -> bool:
    """Return whether a device selects elements of a rank quicker than it sorts."""
    device = x.device
    return isinstance(device, GpuDevice) and device.gpu.info.target.hides_latency


def of_rank(rows: Tensor, rank: int) -> Tensor:
    """Return the element of a rank of each line along the last dimension, or NaN.

    NaN is the result wherever a line has one.
    """
    return _ranked(rows, len(rows.layout.shape) - 1, rank, "takes_place", False).values


def _of_sorted(
    x: Tensor, dim: int, rank: int, missing: str, keepdim: bool
) -> ValuesIndices:
    """Return the element of a rank along a dimension, which is sorted."""
    most = rank + 1 if missing == "counts" else None
    found, size = sorted_along("rank", x, dim, False, most), x.layout.shape[dim]

    def at(place: int) -> list[Tensor]:
        if keepdim:
            return [narrow(each, dim, place, 1) for each in found]
        return [select(each, dim, place) for each in found]

    if missing == "counts" or not x.dtype.is_float:
        return ValuesIndices(*at(rank))
    if missing == "takes_place":
        # NaN, which is sorted to the end, takes the median's place.
        last = at(size - 1)
        has_nan = ne(last[0], last[0])
        values, indices = (where(has_nan, a, b) for a, b in zip(last, at(rank)))
        return ValuesIndices(values, indices)
    nan = sum(cast(isnan(x), int32), dim, True, dtype=int32)
    middle = clamp_min(sub(size - 1, nan), 0) // 2
    places = where(eq(nan, size), 0, middle)
    chosen = [gather(each, dim, places) for each in found]
    if not keepdim:
        kept = (*x.layout.shape[:dim], *x.layout.shape[dim + 1 :])
        chosen = [reshape(each, kept) for each in chosen]
    return ValuesIndices(*chosen)


@shown_as("KthvalueBackward0", "x")
@replayable
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Return the `k`-th smallest element along a dimension, and where it is.

    Parameters
    ----------
    x : Tensor
        NaN is above every number.
    k : int
        From 1 to the size of the dimension.
    dim : int, default -1
    keepdim : bool, default False
        Keep the dimension with size 1.

    Returns
    -------
    ValuesIndices
        (values, indices), as `sort` gives them.

    Raises
    ------
    ShapeError
        If there are fewer than `k` elements, or `k` is below 1.
    """
    refuse_bool("kthvalue", x=x)
    at = normalize_dim("kthvalue", dim, len(x.layout.shape) or 1)
    k = need_among("kthvalue", x, at, k, 1)
    return _ranked(x, at, k - 1, "counts", keepdim)


def _node(x: Tensor, dim: object = None, keepdim: object = False) -> str:
    return f"MedianBackward{0 if dim is None else 1}"


@shown_as(_node, "x")
@replayable
def median(
    x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor | ValuesIndices:
    """Return the middle element in sorted order, of two the smaller; NaN if any is.

    Parameters
    ----------
    x : Tensor
    dim : int or None
        None takes all elements and gives their median alone, whose gradient is shared
        evenly among equal elements; of no elements NaN, or the least integer.
    keepdim : bool, default False
        Keep the dimension with size 1.

    Returns
    -------
    Tensor, or ValuesIndices
        With a dimension (values, indices).

    Raises
    ------
    ShapeError
        If there are no elements along `dim`.
    """
    refuse_bool("median", x=x)
    if dim is None:
        return _median(flatten(x)) if x.numel() else median_of_nothing(x)
    return _median_along(
        x, normalize_dim("median", dim, len(x.layout.shape) or 1), keepdim
    )


def median_of_nothing(x: Tensor) -> Tensor:
    """Return the median of a tensor without elements, as PyTorch has it."""
    if not x.dtype.is_float:
        return fill_like(x, (), x.dtype.limits[0], x.dtype)
    return total(flatten(x), (0,), False, x.dtype) * math.nan


@composite(dtypes=NUMERIC)
def _median(x: Tensor) -> Tensor:
    """Return the median of one dimension."""
    return _median_along(x, 0, False).values


@_median.vjp
def _median_vjp(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Share the gradient evenly among the elements that equal the median."""
    alike = logical_or(eq(x, out), logical_and(ne(x, x), ne(out, out)))
    chosen = cast(alike, grad.dtype)
    return chosen * (grad / total(chosen, (0,), False, grad.dtype))


def _median_along(x: Tensor, dim: int, keepdim: bool) -> ValuesIndices:
    size = x.layout.shape[dim] if len(x.layout.shape) else 1
    if size == 0:
        raise ShapeError(
            f"median: shape {tuple(x.shape)} has no elements along {dim}; there is no"
            " result"
        )
    return _ranked(x, dim, (size - 1) // 2, "takes_place", keepdim)


def _nan_node(input: Tensor, dim: object = None, keepdim: object = False) -> str:
    return f"NanmedianBackward{0 if dim is None else 1}"


@shown_as(_nan_node, "input")
@replayable
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor | ValuesIndices:
    """Return the median of all that is not NaN, or NaN if there is nothing else.

    Parameters
    ----------
    input : Tensor
    dim : int or None
        None takes all elements and gives their median alone.
    keepdim : bool, default False
        Keep the dimension with size 1.

    Returns
    -------
    Tensor, or ValuesIndices
        With a dimension (values, indices). Of two in the middle the smaller.

    Raises
    ------
    ShapeError
        If there are no elements along `dim`.
    """
    refuse_bool("nanmedian", input=input)
    if dim is None and not input.numel():
        return median_of_nothing(input)
    rows = flatten(input) if dim is None else input
    at = normalize_dim("nanmedian", 0 if dim is None else dim, rows.ndim or 1)
    if rows.ndim == 0:
        return ValuesIndices(lazy_copy(rows), fill_like(rows, (), 0, place_dtype(rows)))
    size = rows.shape[at]
    if size == 0:
        raise ShapeError(
            f"nanmedian: shape {input.layout.shape} has no elements along"
            f" {at}; there is no"
            " result"
        )
    found = _ranked(rows, at, (size - 1) // 2, "left_out", keepdim)
    return reshape(found.values, ()) if dim is None else found
