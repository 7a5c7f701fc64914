"""Hazard tracking: byte ranges read and written since the last barrier.

Reads may overlap reads. A read after a write, a write after a read and a write after a
write need a barrier between (Vulkan, "Execution and Memory Dependencies"); after the
barrier nothing is left to wait for.

Ranges are kept as bounds: a sorted list of starts and ends, where an even index opens a
range and an odd index closes it. Whether anything overlaps is then one bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Range = tuple[int, int]
"""A first byte and the byte after the last, as device addresses."""


class HazardTracker:
    """Hazard tracker: byte ranges read and written since the last barrier."""

    __slots__ = ("_reads", "_writes")

    def __init__(self) -> None:
        self._reads: list[int] = []
        self._writes: list[int] = []

    def conflicts(self, reads: Sequence[Range], writes: Sequence[Range]) -> bool:
        """Return whether work on these ranges must wait for recorded work.

        Parameters
        ----------
        reads, writes : sequence of (start, end)
            What the work reads and writes; an empty range conflicts with nothing.

        Returns
        -------
        bool
            Whether a read meets a recorded write, or a write meets anything recorded.
        """
        written, read = self._writes, self._reads
        if written and (_overlaps(written, reads) or _overlaps(written, writes)):
            return True
        return bool(read) and _overlaps(read, writes)

    def record(self, reads: Sequence[Range], writes: Sequence[Range]) -> None:
        """Remember what work reads and writes.

        Parameters
        ----------
        reads, writes : sequence of (start, end)
            Its ranges.
        """
        for bounds, ranges in ((self._reads, reads), (self._writes, writes)):
            for start, end in ranges:
                if start < end:
                    first = bisect_left(bounds, start)
                    last = bisect_right(bounds, end)
                    # An even place is outside every range: there a bound is due.
                    opening = () if first & 1 else (start,)
                    closing = () if last & 1 else (end,)
                    bounds[first:last] = (*opening, *closing)

    def clear(self) -> None:
        """Forget everything: a barrier has been recorded."""
        self._reads.clear()
        self._writes.clear()


def _overlaps(bounds: list[int], ranges: Sequence[Range]) -> bool:
    """Return whether any range shares a byte with those between the bounds."""
    for start, end in ranges:
        place = bisect_right(bounds, start)
        # Odd: it starts inside one. Unequal: one begins before it ends.
        if (place & 1 or place != bisect_left(bounds, end, place)) and start < end:
            return True
    return False
