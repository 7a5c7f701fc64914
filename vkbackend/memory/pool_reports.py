"""What a memory pool tells of itself: statistics, peaks and live allocations."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from .freed_spans import FreedSpans
from .joint_peaks import JointPeaks
from .memory import MemoryUsage
from .span import Lease, PoolStatistics, Region

if TYPE_CHECKING:
    from .pool import Pool


class PoolReports:
    """Base of `Pool`, which has its state.

    Attributes
    ----------
    beside : list of Pool
        Pools of other memory, whose counts are added if they are of the same use.
    counts : PoolStatistics
    """

    beside: list[Pool]
    counts: PoolStatistics
    _consistent: bool
    _freed: FreedSpans
    _joint: JointPeaks | None
    _leases: dict[int, Lease]
    _regions: dict[int, Region]
    _use: MemoryUsage

    def _begin(self) -> bool:
        """Begin an operation; return False within another, which must end first."""
        raise NotImplementedError

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts as they are now, by name."""
        begun, counts = self._begin(), self.counts
        pending = [span.size for span in self._freed if not span.done()]
        counts.deferred = sum(pending)
        counts.cached = counts.reserved - counts.in_use - counts.deferred
        counts.blocks = len(self._regions)
        counts.allocations = len(self._live_allocations())
        self._consistent = begun
        found = asdict(counts)
        for each in self._counted()[1:]:
            found = {name: found[name] + n for name, n in each.statistics().items()}
        if self._joint is not None and self.beside:
            found["peak_in_use"] = self._joint.in_use
            found["peak_reserved"] = self._joint.reserved
        return found

    def remove_beside(self, other: PoolReports) -> None:
        """Let go of a pool that was put beside this one; see `Pool.put_beside`."""
        self.beside = [each for each in self.beside if each is not other]
        if len(self._counted()) == 1:
            self._joint = None

    def _counted(self) -> list[Pool]:
        own = cast("Pool", self)
        return [own, *[each for each in self.beside if each._use is self._use]]

    def reset_peaks(self) -> None:
        """Let the peaks be what is in use and reserved now."""
        self._consistent = self._begin()
        self.counts.peak_in_use = self.counts.in_use
        self.counts.peak_reserved = self.counts.reserved
        for each in self._counted()[1:]:
            each.reset_peaks()
        if self._joint is not None:
            self._joint.reset()

    def live(self) -> list[dict[str, int | str]]:
        """Return name, address and size in bytes of every allocation, for a dump."""
        self._consistent = self._begin()
        found: list[dict[str, int | str]] = [
            {"name": name, "address": address, "size": size}
            for address, name, size in self._live_allocations()
        ]
        return found + [row for each in self._counted()[1:] for row in each.live()]

    def _live_allocations(self) -> list[tuple[int, str, int]]:
        """Return address, name and size of each live allocation."""
        return [
            (lease.address, *lease.request)
            for lease in tuple(self._leases.values())
            if lease.request is not None
        ]
