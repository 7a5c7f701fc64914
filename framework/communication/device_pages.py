"""Shared pages as a device sees them: it copies to and from them by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import vkbackend

from .transport import Bytes, Consume, Fill

Place = tuple[vkbackend.Buffer, int]
"""A buffer, and an offset in bytes."""

_PAUSE = 2e-4
"""Seconds that a look at a copy waits for it: less than 16 MB take."""


@dataclass(frozen=True)
class DevicePages:
    """Pages that a device has imported.

    Parameters
    ----------
    gpu : vkbackend.Device
    buffer : vkbackend.Buffer
        All of them.
    address : int
        Of the first in this process.
    """

    gpu: vkbackend.Device
    buffer: vkbackend.Buffer
    address: int

    def place_of(self, chunk: Bytes) -> Place:
        """Return where the bytes of an array that lies in them are."""
        return self.buffer, chunk.ctypes.data - self.address

    def _copy(self, source: Place, target: Place, size: int) -> vkbackend.TimelinePoint:
        self.gpu.settle()
        return self.gpu.transfer.copy(source, target, size)

    def filler(self, parts: Sequence[Place]) -> Fill:
        """Return what copies parts, one for each rank, to the pages."""

        def fill(place: int, start: int, out: Bytes) -> vkbackend.TimelinePoint:
            buffer, offset = parts[place]
            return self._copy((buffer, offset + start), self.place_of(out), out.size)

        return fill

    def writer(self, goals: Sequence[Place], rank: int, own: Place) -> Consume:
        """Return what copies each rank's bytes to a place.

        Parameters
        ----------
        goals : sequence of (Buffer, int)
            By rank.
        rank : int
            This one, whose bytes are copied from where they are.
        own : (Buffer, int)
            There.
        """

        def consume(source: int, start: int, chunk: Bytes) -> vkbackend.TimelinePoint:
            buffer, offset = goals[source]
            place = self.place_of(chunk)
            if source == rank:
                place = own[0], own[1] + start
            return self._copy(place, (buffer, offset + start), chunk.size)

        return consume


class Copied:
    """The condition that a device has made some copies.

    Parameters
    ----------
    points : sequence of vkbackend.TimelinePoint
    """

    def __init__(self, points: Sequence[vkbackend.TimelinePoint]) -> None:
        self._points = points

    def holds(self) -> bool:
        """Return whether it has; waits a little for them."""
        return all([each.wait(_PAUSE) for each in self._points])

    def counters(self) -> None:
        """Return None: other processes cannot judge it."""

    def ranks(self) -> tuple[int, ...]:
        """Return none: it needs no other process."""
        return ()
