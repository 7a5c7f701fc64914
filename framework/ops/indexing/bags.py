"""Bags of rows of a table, as gradients and composed sums see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.device import GpuDevice
from ...base.dtype import float32, float64, int32
from ...base.index_checks import UNCHECKED
from ...kernels.bag_reduce import has_long_bags
from ..elementwise.cast import cast
from ..elementwise.clamp import clamp
from ..elementwise.compare import clamp_min, logical_and, lt, ne, where
from ..reduce.common import as_dtype_of
from ..reduce.sum import sum
from ..selection.sort import searchsorted
from ..source import arange_like, fill_like
from ..view import expand, reshape, unsqueeze
from .gather import segment_sum, take_rows
from .row_index import flat_offsets

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@dataclass(frozen=True)
class Bags:
    """Bags of entries; see `bag_reduce`.

    Attributes
    ----------
    index : Tensor, shape (entries,), a dtype that shaders read
        The row of each entry.
    offsets : Tensor, shape (count,) or (count + 1,), or None
        Where each begins, and the last ends; None if they have the same length.
    count : int
    padding : int
        A row that does not count, or -1.
    rows : int
        Of the table.
    """

    index: Tensor
    offsets: Tensor | None
    count: int
    padding: int
    rows: int

    @property
    def length(self) -> int:
        """Entries of each bag, without offsets."""
        return self.index.numel() // max(1, self.count)

    def divided(self, width: int) -> bool:
        """Return whether bags are so long, and few, that kernels divide them."""
        device, entries = self.index.device, self.index.numel()
        if not isinstance(device, GpuDevice):
            return False
        return has_long_bags(device.gpu.info, entries, self.count, width)

    def numbers(self) -> Tensor:
        """Return the bag of each entry, with offsets; `count` behind the last."""
        assert self.offsets is not None, "bags: of equal length"
        marks = as_dtype_of(self.offsets, int32)
        numbers = arange_like(self.index, self.index.layout.shape, 0, 1, int32)
        return searchsorted(marks, numbers, right=True, out_int32=True) - 1

    def kept(self) -> Tensor | None:
        """Return which entries count; None if all do."""
        kept = None
        if self.padding >= 0:
            # As int32, which every device compares.
            rows = flat_offsets(self.index, self.rows, UNCHECKED)
            kept = ne(rows, self.padding)
        if self.offsets is not None and self.offsets.layout.shape[0] > self.count:
            inside = lt(self.numbers(), self.count)
            kept = inside if kept is None else logical_and(kept, inside)
        return kept

    def each(self, grad: Tensor) -> Tensor:
        """Return the row of (bags, width) of each entry's bag."""
        width = grad.layout.shape[1]
        if self.offsets is None:
            wide = expand(unsqueeze(grad, 1), (self.count, self.length, width))
            return reshape(wide, (self.index.numel(), width))
        taken = take_rows(unsqueeze(grad, 0), clamp(self.numbers(), 0, self.count - 1))
        return reshape(taken, (self.index.numel(), width))

    def share(self, grad: Tensor) -> Tensor:
        """Return rows divided by how many entries of their bag count."""
        kept = self.kept()
        if self.offsets is None and kept is None:
            return grad / max(1, self.length)
        if kept is None:
            kept = fill_like(grad, self.index.layout.shape, 1, int32)
        ones = cast(kept, int32)
        if self.offsets is None:
            counts = sum(reshape(ones, (self.count, self.length)), 1)
        else:
            bag, ones = self.numbers(), reshape(ones, (1, -1, 1))
            counts = segment_sum(bag, ones, self.count, UNCHECKED, False)
        kind = float64 if grad.dtype is float64 else float32
        counts = cast(reshape(clamp_min(counts, 1), (self.count, 1)), kind)
        return as_dtype_of(grad / counts, grad.dtype)

    def total(self, given: Tensor) -> Tensor:
        """Return the sums (rows, width) of what each entry gives its row."""
        kept = self.kept()
        if kept is not None:
            given = where(unsqueeze(kept, 1), given, 0.0)
        source = unsqueeze(given, 0)
        total = segment_sum(self.index, source, self.rows, UNCHECKED, False)
        return reshape(total, (self.rows, given.layout.shape[1]))

    def summed(self, rows: Tensor, mode: str) -> Tensor:
        """Return the sum, or mean, of the rows (entries, width) of each bag."""
        kept, width = self.kept(), rows.layout.shape[1]
        if kept is not None:
            rows = where(unsqueeze(kept, 1), rows, 0.0)
        if self.offsets is None:
            total = sum(reshape(rows, (self.count, self.length, width)), 1)
        else:
            bag = clamp(self.numbers(), 0, self.count - 1)
            parts = segment_sum(bag, unsqueeze(rows, 0), self.count, UNCHECKED, False)
            total = reshape(parts, (self.count, width))
        return self.share(total) if mode == "mean" else total
