"""Places of stored elements: their keys in row-major order, and sums of equal ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.dtype import BOOL, int32, int64
from ..base.shape import contiguous_strides
from ..ops.indexing.gather import segment_sum
from ..tensor.tensor import Tensor


def keys_of(places: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the row-major numbers, int64, of places (dimensions, n)."""
    count = places.shape[1]
    keys: Tensor = places.new_zeros((count,))
    for dim, stride in enumerate(contiguous_strides(tuple(sizes))):
        keys = keys + places[dim] * stride
    return keys


def places_of(keys: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the places (dimensions, n) of row-major numbers."""
    strides = contiguous_strides(tuple(sizes))
    if not strides:
        return keys.new_zeros((0, *keys.shape))
    rows = [
        ops.remainder(ops.floor_divide(keys, max(stride, 1)), max(size, 1))
        for stride, size in zip(strides, sizes)
    ]
    found: Tensor = ops.stack(rows).to(int64)
    return found


def summed(groups: Tensor, values: Tensor, count: int) -> Tensor:
    """Return the sums of the values of each group: (count, ...) of (n, ...).

    Parameters
    ----------
    groups : Tensor, shape (n,), any integer dtype
    values : Tensor, shape (n, ...)
    """
    rest = tuple(values.shape[1:])
    if values.dtype in BOOL:
        return summed(groups, values.to(int32), count).to(values.dtype)
    flat = values.reshape((1, values.shape[0], math.prod(rest)))
    if 0 in flat.shape or not count:
        # On the tape, with a gradient of zeros.
        total = ops.sum(flat, 1, True).expand((1, max(count, 0), flat.shape[2]))
        return total.reshape((count, *rest))
    found = segment_sum(groups, flat, count, "sparse: the tensor", False)
    return found.reshape((count, *rest))


def merged(
    places: Tensor, values: Tensor, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return places in row-major order, each once, with the sums of their values.

    How many there are is read by the host, which waits for it.
    """
    if not places.shape[1]:
        return places, values
    keys: Any = ops.unique(keys_of(places, sizes), return_inverse=True)
    kept, groups = keys
    return places_of(kept, sizes), summed(groups, values, kept.numel())


def counted(values: np.ndarray, size: int) -> np.ndarray:
    """Return how many of sorted numbers below `size` lie before each number."""
    return np.searchsorted(values, np.arange(size + 1))
