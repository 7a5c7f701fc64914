"""Histograms and bin counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base import trace_hooks
from ...base.device import GpuDevice
from ...base.dtype import INTEGER, DType, float32, float64, int32, int64
from ...base.errors import DTypeError, ShapeError
from ...base.recent_cache import RecentCache
from ...base.shape import TensorSpec
from ...base.validation import as_int
from ...codegen.ir.reductions import SMALL
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...eager.base_tensor import evaluate
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.counting import bincount_dispatches
from ..elementwise.cast import cast
from ..elementwise.compare import clamp_max, clamp_min, eq, logical_and, where
from ..elementwise.unary import floor, lazy_copy
from ..indexing.scatter import index_add
from ..movement.slice import narrow
from ..reduce.common import as_dtype_of, whole_dtype
from ..reduce.minmax import amax, amin, ends_of, extremes
from ..source import fill_like
from ..view import flatten

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=(int32, int64))
def _bincount(numbers: Tensor, size: int, counts: DType = int32) -> Tensor:
    """Return how often each number from 0 to `size` - 1 occurs, as int32 or int64."""


@_bincount.spec
def _bincount_spec(numbers: TensorSpec, size: int, counts: DType) -> TensorSpec:
    return TensorSpec((size,), counts)


@_bincount.kernel
def _bincount_kernel(
    gpu: DeviceInfo, numbers: StridedSpec, size: int, counts: DType
) -> list[Dispatch]:
    return bincount_dispatches(gpu, numbers, size, counts)


@_bincount.reference
def _bincount_reference(numbers: np.ndarray, size: int, counts: DType) -> np.ndarray:
    flat = numbers.reshape(-1)
    return np.bincount(flat[(flat >= 0) & (flat < size)], minlength=size)


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each number from 0 on occurs, or the weights of its places.

    Parameters
    ----------
    x : Tensor, shape (n,), any integer dtype
        Nothing below 0.
    weights : Tensor or None
        Of the shape of `x`; added up instead of ones, and differentiable.
    minlength : int, default 0
        Numbers that are counted at least; otherwise up to the largest one.

    Returns
    -------
    Tensor
        int64 (int32 on a device without 64-bit integers), or the dtype of `weights`,
        float64 unless they
        are float32; int64 where there is no element.

    Raises
    ------
    ShapeError
        If the shapes do not fit, `minlength` or an element is below 0.

    Notes
    -----
    The extremes decide the shape, so they are read by the host, which waits for them.
    Where as many elements were counted before, a device counts those up to the largest
    one of then in the same submission.
    """
    if len(x.layout.shape) != 1 or (
        weights is not None and weights.shape != x.layout.shape
    ):
        found = "none" if weights is None else str(weights.shape)
        raise ShapeError(
            f"bincount: x is {tuple(x.shape)}, weights {found}; x must have one"
            " dimension, and"
            " weights its shape"
        )
    if x.dtype not in INTEGER:
        raise DTypeError(
            f"bincount: `x` is {x.dtype.name}; it must be an integer dtype"
        )
    minlength = as_int("bincount: minlength", minlength)
    if minlength < 0:
        raise ShapeError(f"bincount: minlength is {minlength}; it must be at least 0")
    if weights is not None and x.numel():
        size = max(minlength, _length(x))
        if weights.dtype not in (float32, float64):
            weights = cast(weights, float64)
        zeros = fill_like(weights, (size,), 0, weights.dtype)
        return index_add(zeros, 0, x, weights)
    counts = whole_dtype(x) if x.dtype.kind == "int" else whole_dtype(cast(x, int32))
    if x.numel() == 0:
        return fill_like(x, (minlength,), 0, counts)
    key, expected = (x.numel(), minlength, x.dtype), 0
    if isinstance(x.device, GpuDevice) and not trace_hooks.running:
        expected = _expected_lengths[key] or 0
    if expected:
        counted, ends = _counts_and_ends(x, expected, counts)
        # Both in the submission that the host waits for.
        evaluate(counted)
        size = max(minlength, _length_of(ends))
        if size <= expected:
            part = narrow(counted, 0, 0, size)
            return part if 2 * size >= expected else lazy_copy(part)
    else:
        size = max(minlength, _length(x))
    if size <= _MOST_EXPECTED:
        _expected_lengths.add(key, 1 << (size - 1).bit_length())
    return _counts(x, size, counts)


_expected_lengths: RecentCache[tuple[int, int, DType], int] = RecentCache(256)
"""Numbers to count before the largest is known, by elements, `minlength` and dtype."""

_MOST_EXPECTED = 1 << 20


@replayable
def _counts_and_ends(x: Tensor, size: int, dtype: DType) -> tuple[Tensor, Tensor]:
    return _counts(x, size, dtype), ends_of("bincount", x)


def _counts(x: Tensor, size: int, dtype: DType) -> Tensor:
    """Return how often each number from 0 to `size` - 1 occurs."""
    numbers = x if x.dtype is int64 else as_dtype_of(x, int32)
    if dtype is int32 or dtype is int64:
        return _bincount(numbers, size, dtype)
    return cast(_bincount(numbers, size), dtype)


def _length(x: Tensor) -> int:
    """Return one more than the largest element, after a look at the smallest."""
    return _length_of(ends_of("bincount", x)) if x.numel() else 0


def _length_of(ends: Tensor) -> int:
    """Return one more than the largest element; see `ends_of`."""
    least, largest = map(int, ends.tolist())
    if least < 0 or largest >= (1 << 31) - 1:
        raise ShapeError(
            f"bincount: elements are from {least} to {largest}; they must be from 0 to"
            f" {(1 << 31) - 2}"
        )
    return largest + 1


@replayable
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return how many elements are in each of `bins` equal parts of a range.

    Parameters
    ----------
    x : Tensor, float
    bins : int, default 100
    min, max : number
        The range; elements outside of it, and NaN, are not counted. Where they are
        equal, the smallest and largest element take their place.

    Returns
    -------
    Tensor, shape (bins,), dtype of `x`
        The last part has its upper end.

    Raises
    ------
    ShapeError
        If `bins` is below 1, or `max` below `min`.
    """
    if not x.dtype.is_float:
        raise DTypeError(
            f"histc: `x` is {x.dtype.name}; it must be a float dtype;"
            " call x.float() first"
        )
    bins = as_int("histc: bins", bins)
    if bins < 1 or max < min:
        raise ShapeError(
            f"histc: bins is {bins}, the range from {min} to {max}; there must be a"
            " bin, and max not be below min"
        )
    x = flatten(x.detach())
    if x.numel() == 0:
        return fill_like(x, (bins,), 0, x.dtype)
    low, high = _range(x, min, max)
    place = (x - low) * (bins / (high - low))
    inside = logical_and(x >= low, x <= high)
    within = where(inside, clamp_max(floor(place), float(bins - 1)), -1.0)
    return cast(_bincount(cast(clamp_min(within, -1.0), int32), bins), x.dtype)


def _range(x: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return the ends of a range as tensors; those of the elements if it is empty."""
    if low != high:
        ends = low, high
        first, last = (fill_like(x, (), end, x.dtype) for end in ends)
        return first, last
    if x.numel() <= SMALL:
        # What follows is one kernel with both.
        first, last = amin(x), amax(x)
    else:
        first, last = extremes("histc", x)
    same = eq(first, last)
    return where(same, first - 1.0, first), where(same, last + 1.0, last)
