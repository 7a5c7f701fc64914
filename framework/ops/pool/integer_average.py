"""Means of windows of integers: exact sums, divided and cut to whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import int64
from ..elementwise.binary import div
from ..indexing.scatter import unfold
from ..movement.rearrange import pad
from ..reduce.sum import sum
from ..shape_constant import shape_constant
from ..view import reshape
from .filter_weights import Averages

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def integer_averages(
    x: Tensor, rules: Sequence[Averages], override: int | None
) -> Tensor:
    """Return means over windows of the last dimensions, cut towards 0.

    Parameters
    ----------
    x : Tensor, int64
    rules : sequence of Averages
        Of each of the last dimensions.
    override : int or None
        What sums are divided by instead of by the number of elements.
    """
    first = len(x.layout.shape) - len(rules)
    counts = np.ones((), np.int64)
    for at, rule in enumerate(rules, first):
        need = (rule.out - 1) * rule.stride + rule.kernel
        sides = [0, 0] * (len(x.layout.shape) - 1 - at)
        around = (*sides, rule.padding, max(0, need - rule.size - rule.padding))
        windows = unfold(pad(x, around), at, rule.kernel, rule.stride)
        x = sum(windows, -1)
        counts = counts[..., None] * rule.counts()
    if override is not None:
        return div(x, override, rounding_mode="trunc")
    divisors = shape_constant(x, np.ascontiguousarray(counts))
    shape = (1,) * first + counts.shape
    return div(x, reshape(divisors, shape), rounding_mode="trunc")


def is_integer(x: Tensor) -> bool:
    """Return whether means of windows are of integers; PyTorch has them of int64."""
    return x.dtype is int64
