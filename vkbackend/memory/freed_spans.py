"""Freed spans of a pool: by size and address, in the order in which they came."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Iterator, Sequence

from .span import MemorySpan

Bin = collections.OrderedDict[int, MemorySpan]
"""Freed spans of one size by address, the oldest first."""


class FreedSpans:
    """Spans that nobody owns and that are not merged into the free space.

    Attributes
    ----------
    bins : dict of int to Bin
        By their bytes; a bin may be empty.
    bytes : int
        Of all of them.
    """

    __slots__ = ("bins", "bytes")

    def __init__(self, spans: Iterable[MemorySpan] = ()) -> None:
        self.bins: dict[int, Bin] = {}
        self.bytes = 0
        for span in spans:
            self.add(span)

    def __iter__(self) -> Iterator[MemorySpan]:
        for freed in self.bins.values():
            yield from freed.values()

    def add(self, span: MemorySpan) -> None:
        """Add a span as the newest one."""
        freed = self.bins.get(span.size)
        if freed is None:
            freed = self.bins[span.size] = Bin()
        freed[span.address] = span
        self.bytes += span.size

    def remove(self, span: MemorySpan) -> None:
        """Take out a span."""
        self.bytes -= span.size
        del self.bins[span.size][span.address]

    def parts_of(
        self, wanted: Iterable[tuple[int, int]], free: Iterable[tuple[int, int]]
    ) -> list[MemorySpan]:
        """Return the spans that wanted bytes lie in which nobody owns.

        Parameters
        ----------
        wanted : iterable of (int, int)
            Address and bytes of each range.
        free : iterable of (int, int)
            Those of the free space, which wanted ones may lie in for another part.
        """
        spans = {span.address: span for span in self}
        unused = [*free, *[(span.address, span.size) for span in spans.values()]]
        parts: set[int] = set()
        for row in covering(sorted(unused), wanted):
            parts.update(row)
        return [spans[address] for address in parts if address in spans]


def covering(
    ranges: Sequence[tuple[int, int]], wanted: Iterable[tuple[int, int]]
) -> Iterator[list[int]]:
    """Yield the starts of adjoining ranges that a wanted one lies in, if there are any.

    Parameters
    ----------
    ranges : sequence of (int, int)
        Start and size of ranges that do not overlap, in order.
    wanted : iterable of (int, int)
        Start and size of each range that is looked for.
    """
    starts = [start for start, _ in ranges]
    for start, size in wanted:
        end, reached, found = start + size, start, []
        for at in range(max(0, bisect.bisect_right(starts, start) - 1), len(ranges)):
            first, length = ranges[at]
            if reached >= end or first > reached:
                break
            found.append(first)
            reached = max(reached, first + length)
        if reached >= end:
            yield found
