"""Stable sort along a dimension: sort, topk, kthvalue, median, searchsorted.

How is the choice of `kernels.sort`. Elements move with their places, which are int32
until the last pass; see `reduce.minmax`. NaN is above every number, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...autograd.tape import show_as
from ...base.device import GpuDevice
from ...base.dtype import ANY, NUMERIC, DType, bool_, int32
from ...base.errors import ShapeError
from ...base.shape import Layout, Shape, TensorSpec, normalize_dim
from ...base.validation import as_int
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Argument, Dispatch, StridedSpec
from ...kernels.linear import linear_dispatch, linear_workgroup
from ...kernels.reduce import need_countable
from ...kernels.shader_types import place_defines, storage_defines
from ...kernels.sort import MAX_PLACES, sort_dispatches
from ..elementwise.cast import converted, refuse_bool, result_type
from ..elementwise.unary import lazy_copy
from ..indexing.gather import rows_of, store_rows
from ..indexing.scatter import gather
from ..movement.transpose import row_major
from ..reduce.common import (
    as_dtype_of,
    as_places,
    empty_result,
    in_storage,
    place_dtype,
    stored_places,
)
from ..reduce.minmax import ValuesIndices
from ..source import fill_like
from ..view import permute, reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=ANY, outputs=("values", "indices"), typed="x")
def _sort(
    x: Tensor, descending: bool, most: int, places: DType
) -> tuple[Tensor, Tensor]:
    """Return the first `most` of (outer, count, inner) in sorted order, and indices."""


@_sort.spec
def _sort_spec(
    x: TensorSpec, descending: bool, most: int, places: DType
) -> tuple[TensorSpec, TensorSpec]:
    outer, count, inner = x.shape
    if count > MAX_PLACES:
        raise ShapeError(
            f"sort: the dimension has size {count}; places are of 32 bits and"
            f" tell at most {MAX_PLACES} apart"
        )
    shape = outer, min(count, most), inner
    return TensorSpec(shape, x.dtype), TensorSpec(shape, places)


@_sort.kernel
def _sort_kernel(
    gpu: DeviceInfo, x: StridedSpec, descending: bool, most: int, places: DType
) -> list[Dispatch]:
    need_countable("sort", x)
    results = {"values": "values", "order": "indices"}
    return sort_dispatches(gpu, x, most, descending, "x", results, places)


@_sort.vjp
def _sort_vjp(grad: Tensor, indices: Tensor, x_spec: TensorSpec) -> Tensor:
    zeros = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    return store_rows(zeros, indices, grad)


@_sort.reference
def _sort_reference(
    x: np.ndarray, descending: bool, most: int, places: DType
) -> tuple[np.ndarray, np.ndarray]:
    if descending:
        # Sorted from the other end, so that equal elements keep their order.
        reversed_order = np.argsort(x[:, ::-1], axis=1, kind="stable")
        order = (x.shape[1] - 1 - reversed_order)[:, ::-1]
    else:
        order = np.argsort(x, axis=1, kind="stable")
    order = order[:, :most]
    return np.take_along_axis(x, order, 1), order


def sorted_along(
    name: str, x: Tensor, dim: int, descending: bool, most: int | None = None
) -> ValuesIndices:
    """Return the first `most` along a dimension, or all, in order."""
    values, indices = _ordered(name, x, dim, descending, most, stored_places(x))
    return ValuesIndices(values, as_places(indices))


def _ordered(
    name: str, x: Tensor, dim: int, descending: bool, most: int | None, places: DType
) -> ValuesIndices:
    """Return the first `most` along a dimension, or all, and `places` of a dtype."""
    at = normalize_dim(name, dim, len(x.layout.shape) or 1)
    if len(x.layout.shape) == 0:
        node = "TopkBackward0" if name == "topk" else "SortBackward0"
        return ValuesIndices(lazy_copy(x, node), fill_like(x, (), 0, places))
    wanted = x.layout.shape[at] if most is None else most
    shape: Shape = (*x.layout.shape[:at], wanted, *x.layout.shape[at + 1 :])
    if math.prod(shape) == 0:
        return ValuesIndices(
            empty_result(x, shape, 0, x.dtype), fill_like(x, shape, 0, places)
        )
    order = _rows_last(x, at)
    if order is None:
        found = _sort(in_storage(rows_of(x, at)), descending, wanted, places)
        values, indices = (reshape(each, shape) for each in found)
    else:
        rows = _ordered(name, permute(x, order), -1, descending, most, places)
        values, indices = (_in_order(each, order, x) for each in rows)
    values = as_dtype_of(values, x.dtype)
    show_as(values, "TopkBackward0" if name == "topk" else "SortBackward0", x)
    return ValuesIndices(values, indices)


LEAST_ROW, LEAST_MOVED = 128, 1 << 18
"""Elements of a line, and of all, from which lines across memory are copied to rows and
back on GPUs. Shorter ones are sorted beside their neighbours, which are read together.
4096 lines of 4096 float32 took 1033 us across memory and 573 as rows, where a copy
moves them in 40 (NVIDIA H200, driver 580.159.04, 2026-11-30)."""


def _rows_last(x: Tensor, at: int) -> tuple[int, ...] | None:
    """Return the dimensions in an order in which lines along `at` are sorted as rows.

    They are rows already where the tensor is contiguous in that order. None where lines
    are sorted as they are.
    """
    layout, device = x.layout, x.device
    if type(layout) is not Layout or not isinstance(device, GpuDevice):
        return None
    last = len(layout.shape) - 1
    if math.prod(layout.shape[at + 1 :]) == 1:
        return None
    order = layout.memory_order
    if order is not None and order[last] == at:
        return order
    many = layout.shape[at] >= LEAST_ROW and layout.numel >= LEAST_MOVED
    if not many or not device.gpu.info.target.coalesces_loads:
        return None
    return (*(dim for dim in range(last + 1) if dim != at), at)


def _in_order(rows: Tensor, order: tuple[int, ...], x: Tensor) -> Tensor:
    """Return a result whose dimensions are in an order, as `x` has them.

    In memory it is as `x`: in that order, or row-major.
    """
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    out = permute(rows, back)
    return out if x.layout.memory_order == order else row_major(out)


def short_sort(x: Tensor, dim: int) -> ValuesIndices:
    """Return what `sort` does with int32 indices, for ops that compute with them."""
    return _ordered("sort", x, dim, False, None, int32)


def short_argsort(x: Tensor, dim: int) -> Tensor:
    """Return the indices of `short_sort`."""
    return short_sort(x, dim).indices


@replayable
def sort(
    x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> ValuesIndices:
    """Return the elements in order along a dimension, and where they were.

    Parameters
    ----------
    x : Tensor
    dim : int, default -1
    descending : bool, default False
        Largest first.
    stable : bool, default False
        Taken as PyTorch has it; equal elements always keep their order.

    Returns
    -------
    ValuesIndices
        (values, indices); NaN is above every number. Indices are int64,
        or int32 on a device without 64-bit integers.

    Examples
    --------
    >>> from vkbackend.framework import Tensor
    >>> sort(Tensor([3.0, 1.0, 2.0])).indices.tolist()
    [1, 2, 0]
    """
    found = sorted_along("sort", x, dim, descending)
    if stable and found.values.grad_node is not None:
        show_as(found.values, "SortBackward1", x)
    return found


@replayable
def argsort(
    x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """Return the places that sort a dimension.

    Parameters
    ----------
    x : Tensor
        NaN is above every number.
    dim : int, default -1
    descending : bool, default False
        Largest first.
    stable : bool, default False
        Taken as PyTorch has it; equal elements always keep their order.

    Returns
    -------
    Tensor, int64, shape of `x`
        int32 on a device without 64-bit integers.
    """
    return sorted_along("argsort", x, dim, descending).indices


@replayable
def topk(
    x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """Return the `k` largest or smallest elements along a dimension.

    Parameters
    ----------
    x : Tensor
    k : int
        From 0 to the size of the dimension.
    dim : int, default -1
    largest : bool, default True
        NaN is above every number.
    sorted : bool, default True
        Taken as PyTorch has it; the result is always in order, the best first, and of
        equal elements the first.

    Returns
    -------
    ValuesIndices
        (values, indices), as `sort` gives them.

    Raises
    ------
    ShapeError
        If there are fewer than `k` elements.
    """
    refuse_bool("topk", x=x)
    at = normalize_dim("topk", dim, len(x.layout.shape) or 1)
    k = need_among("topk", x, at, k, 0)
    if len(x.layout.shape) == 0 and k == 0:
        x = reshape(x, (1,))
    return sorted_along("topk", x, at, largest, k)


def need_among(name: str, x: Tensor, dim: int, k: int, least: int) -> int:
    k, size = as_int(f"{name}: k", k), x.layout.shape[dim] if len(x.layout.shape) else 1
    if not least <= k <= size:
        raise ShapeError(
            f"{name}: k is {k}; it must be from {least} to {size}, the size of"
            f" dimension {dim} of shape {tuple(x.shape)}"
        )
    return k


@primitive(dtypes=NUMERIC, typed="sorted_sequence")
def _searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool, places: DType
) -> Tensor:
    """Return how many of each sorted row are before values.

    (rows, count) and (rows, entries), or one row for all of them.
    """


@_searchsorted.spec
def _searchsorted_spec(
    sorted_sequence: TensorSpec, values: TensorSpec, right: bool, places: DType
) -> TensorSpec:
    return TensorSpec(values.shape, places)


@_searchsorted.kernel
def _searchsorted_kernel(
    gpu: DeviceInfo,
    sorted_sequence: StridedSpec,
    values: StridedSpec,
    right: bool,
    places: DType,
) -> Dispatch:
    for each in (sorted_sequence, values):
        need_countable("searchsorted", each)
    rows, count = sorted_sequence.shape
    push: dict[str, Argument] = {"sorted_": "sorted_sequence", "values": "values"}
    push |= {"out_": "out", "numel": values.numel, "count": count}
    push["entries"] = values.shape[1]
    return linear_dispatch(
        "sort/searchsorted",
        values.numel,
        push,
        {"RIGHT": int(right), "SHARED": int(rows == 1)},
        {**storage_defines(values.dtype), **place_defines(places)},
        linear_workgroup(gpu),
    )


@_searchsorted.reference
def _searchsorted_reference(
    sorted_sequence: np.ndarray, values: np.ndarray, right: bool, places: DType
) -> np.ndarray:
    side: Literal["left", "right"] = "right" if right else "left"
    rows = np.broadcast_to(sorted_sequence, (len(values), sorted_sequence.shape[1]))
    found = [np.searchsorted(row, each, side) for row, each in zip(rows, values)]
    before = np.array(found).reshape(values.shape)
    return np.where(values != values, rows.shape[1], before)


@replayable
def searchsorted(
    sorted_sequence: Tensor,
    values: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Literal["left", "right"] | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return where values would have to be inserted to keep a sequence sorted.

    Parameters
    ----------
    sorted_sequence : Tensor, shape (n,) or (..., n)
        Sorted along the last dimension, which is not checked.
    values : Tensor or number
        Of any shape for a sequence of one dimension, otherwise the sizes but the last
        must be the same. Other dtypes are compared in the one that both promote to.
        NaN comes behind all elements.
    out_int32 : bool, default False
        Return int32 instead of int64.
    right : bool, default False
        Behind elements that are equal, instead of before them.
    side : "left", "right" or None
        The same in NumPy's words; "left" contradicts `right`.
    sorter : Tensor, any integer dtype, shape of `sorted_sequence`, or None
        Places that sort the sequence, which then need not be sorted itself.

    Returns
    -------
    Tensor, int64, shape of `values`
        int32 if asked for, and on a device without 64-bit integers.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or `side` is another or contradicts `right`.
    """
    right = _is_right(right, side)
    x = sorted_sequence
    if sorter is not None:
        if sorter.shape != x.shape:
            raise ShapeError(
                f"searchsorted: sorter is {tuple(sorter.shape)}, sorted_sequence"
                f" {tuple(x.shape)};"
                " they must be the same"
            )
        x = gather(x, -1, sorter)
    kind = result_type(x, values)
    if kind is bool_:
        refuse_bool("searchsorted", sorted_sequence=x)
    x = converted(x, kind)
    sought: Tensor = (
        fill_like(x, (), values, kind)
        if isinstance(values, int | float)
        else as_dtype_of(values, kind)
    )
    if x.ndim == 0 or (x.ndim > 1 and sought.shape[:-1] != x.shape[:-1]):
        raise ShapeError(
            f"searchsorted: sorted_sequence is {tuple(x.shape)}, values"
            f" {tuple(sought.shape)}; sizes"
            " but the last must be the same, or the sequence have one dimension"
        )
    places = int32 if out_int32 else place_dtype(x)
    if sought.numel() == 0 or x.numel() == 0:
        return fill_like(sought, sought.shape, 0, places)
    rows = math.prod(x.shape[:-1])
    lists = in_storage(reshape(x, (rows, x.shape[-1])))
    entries = in_storage(reshape(sought, (rows, sought.numel() // rows)))
    return reshape(_searchsorted(lists, entries, right, places), sought.shape)


def _is_right(right: bool, side: str | None) -> bool:
    if side not in (None, "left", "right") or (right and side == "left"):
        raise ShapeError(
            f"searchsorted: side is {side!r} and right {right}; side must be None,"
            ' "left" or "right", and "left" goes with right=False'
        )
    return right or side == "right"


@replayable
def bucketize(
    x: Tensor | float,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Tensor:
    """Return between which boundaries elements lie.

    Parameters
    ----------
    x : Tensor or number
        NaN is behind all.
    boundaries : Tensor, shape (n,)
        In order, which is not checked.
    out_int32 : bool, default False
        Return int32 instead of int64.
    right : bool, default False
        Whether an element equal to a boundary is behind it, not before.

    Returns
    -------
    Tensor, int64, shape of `x`
        How many boundaries are before each element, 0 to n.

    Raises
    ------
    ShapeError
        If the boundaries have not one dimension.
    """
    if len(boundaries.layout.shape) != 1:
        raise ShapeError(
            f"bucketize: boundaries are {tuple(boundaries.shape)}; they must have one"
            " dimension"
        )
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)
