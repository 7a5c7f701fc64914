"""Freed spans of a pool: by size and address, in the order in which they came."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

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
