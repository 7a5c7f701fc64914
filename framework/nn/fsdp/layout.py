"""Tensors side by side in one that is divided into equal parts, one for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

ALIGNMENT = 64
"""Elements that starts of tensors are multiples of, so that kernels load vectors."""

LARGE, GRANULE = 1 << 14, 256
"""Elements of a part from which on its size is a multiple, and of what.

So each part begins where memory of its own could, and kernels write it in its place
among all.
"""


@dataclass(frozen=True)
class FlatLayout:
    """Where tensors lie in one of one dimension, and which part of it each rank has.

    Parameters
    ----------
    sizes : tuple of int
        Elements of each tensor.
    ranks : int
        Number of parts.

    Examples
    --------
    >>> layout = FlatLayout((100, 30), 2)
    >>> layout.starts, layout.chunk
    ((0, 128), 79)
    >>> layout.part(0, 1), layout.part(1, 1)
    ((0, 0), (0, 30))
    """

    sizes: tuple[int, ...]
    ranks: int

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First element of each tensor."""
        found, end = [], 0
        for size in self.sizes:
            start = -(-end // ALIGNMENT) * ALIGNMENT
            found.append(start)
            end = start + size
        return tuple(found)

    @cached_property
    def chunk(self) -> int:
        """Elements of a part."""
        end = self.starts[-1] + self.sizes[-1] if self.sizes else 0
        part = -(-end // self.ranks)
        return part if part < LARGE else -(-part // GRANULE) * GRANULE

    @property
    def total(self) -> int:
        """Elements of all parts."""
        return self.chunk * self.ranks

    def part(self, rank: int, tensor: int) -> tuple[int, int]:
        """Return the elements of a tensor that a rank has: the first, and the end.

        Parameters
        ----------
        rank, tensor : int
        """
        start, size = self.starts[tensor], self.sizes[tensor]
        low = min(max(rank * self.chunk - start, 0), size)
        high = min(max((rank + 1) * self.chunk - start, 0), size)
        return low, high

    def pieces(self, rank: int) -> list[tuple[int | None, int]]:
        """Return what a rank's part consists of, in order.

        Parameters
        ----------
        rank : int

        Returns
        -------
        list of (int or None, int)
            A tensor, or None where there is none, and the number of elements.
        """
        spans = [
            (tensor, start + low, start + high)
            for tensor, start in enumerate(self.starts)
            for low, high in [self.part(rank, tensor)]
        ]
        return _with_gaps(spans, rank * self.chunk, (rank + 1) * self.chunk)

    def whole(self) -> list[tuple[int | None, int]]:
        """Return what all parts together consist of; see `pieces`."""
        spans = [
            (tensor, start, start + size)
            for tensor, (start, size) in enumerate(zip(self.starts, self.sizes))
        ]
        return _with_gaps(spans, 0, self.total)


def _with_gaps(
    spans: Sequence[tuple[int, int, int]], start: int, stop: int
) -> list[tuple[int | None, int]]:
    """Return tensors and sizes, with None for what is between them."""
    found: list[tuple[int | None, int]] = []
    at = start
    for tensor, low, high in spans:
        if high <= low:
            continue
        if low > at:
            found.append((None, low - at))
        found.append((tensor, high - low))
        at = high
    if stop > at:
        found.append((None, stop - at))
    return found
