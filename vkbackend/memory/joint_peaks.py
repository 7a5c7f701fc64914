"""Peaks of pools that are counted together, as memory of one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pool import Pool


class JointPeaks:
    """The most bytes that several pools have had at once; the device's lock is held.

    Each has peaks of its own, which it may have had at other times than the others.

    Parameters
    ----------
    pools : callable
        Returns them.

    Attributes
    ----------
    in_use, reserved : int
        Bytes, as of `PoolStatistics`; at first the most that one pool has had.
    """

    def __init__(self, pools: Callable[[], Sequence[Pool]]) -> None:
        self._pools = pools
        counts = [each.counts for each in pools()]
        self.in_use = max([each.peak_in_use for each in counts])
        self.reserved = max([each.peak_reserved for each in counts])
        self.note()

    def note(self) -> None:
        """Note what there is now, after a pool has got more."""
        pools = self._pools()
        if _in_use(pools) > self.in_use:
            # Where a pool has not looked, what has died is counted.
            for each in pools:
                each.look()
            self.in_use = max(self.in_use, _in_use(pools))
        reserved = sum([each.counts.reserved for each in pools])
        self.reserved = max(self.reserved, reserved)

    def reset(self) -> None:
        """Let the peaks be what there is now."""
        self.in_use = self.reserved = 0
        self.note()


def _in_use(pools: Sequence[Pool]) -> int:
    return sum([each.counts.in_use for each in pools])
