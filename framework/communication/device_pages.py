"""Shared pages as a device sees them: it copies to and from them by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import vkbackend

from .transport import Bytes

Place = tuple[vkbackend.Buffer, int]
"""A buffer, and an offset in bytes."""

_PAUSE = 2e-4
"""Seconds that a look at a copy waits for it: less than 16 MB take."""

_POLLED_LOOKS = 5
"""Looks that poll: a thread that was put to sleep, and woken, goes on later."""


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

    def copy(
        self,
        source: Place,
        target: Place,
        size: int,
        after: Sequence[vkbackend.TimelinePoint],
        outward: bool = False,
    ) -> vkbackend.TimelinePoint:
        """Start a copy to or from the pages; see `Transfer.copy`.

        Slots are used again by what the ranks' counters say, so copies of different
        ones do not wait for each other, and go both ways at once: also where what is
        given is a part of what is taken.
        """
        copy = self.gpu.transfer.copy
        return copy(source, target, size, outward, self.buffer, after)

    def filler(self, parts: Sequence[Place]) -> DeviceFill:
        """Return what copies parts, one for each rank, to the pages.

        They are as the work makes them that has been submitted by now.
        """
        self.gpu.settle()
        written = [buffer.last_write for buffer, _ in parts[:1]]
        return DeviceFill(self, tuple(parts), tuple(filter(None, written)))

    def writer(
        self, goals: Sequence[Place], rank: int, own: Place | None
    ) -> DeviceTake:
        """Return what copies each rank's bytes to a place.

        Parameters
        ----------
        goals : sequence of (Buffer, int)
            By rank.
        rank : int
            This one, whose bytes are copied from where they are.
        own : (Buffer, int) or None
            There; None if they are not copied.
        """
        self.gpu.settle()
        return DeviceTake(self, tuple(goals), rank, own, goals[0][0].points())


@dataclass(frozen=True)
class DeviceFill:
    """A `Fill` of parts of one buffer, one for each rank; see `DevicePages`."""

    pages: DevicePages
    parts: tuple[Place, ...]
    after: tuple[vkbackend.TimelinePoint, ...]

    def place(self, part: int, start: int) -> Place:
        """Return where a byte of a part is."""
        buffer, offset = self.parts[part]
        return buffer, offset + start

    def __call__(self, part: int, start: int, out: Bytes) -> vkbackend.TimelinePoint:
        """Copy bytes of a part to the pages."""
        goal = self.pages.place_of(out)
        source = self.place(part, start)
        return self.pages.copy(source, goal, out.size, self.after, outward=True)


@dataclass(frozen=True)
class DeviceTake:
    """A `Consume` that copies each rank's bytes to one buffer of a device."""

    pages: DevicePages
    goals: tuple[Place, ...]
    rank: int
    own: Place | None
    after: tuple[vkbackend.TimelinePoint, ...]

    def place(self, rank: int, start: int) -> Place:
        """Return where a byte of a rank's belongs."""
        buffer, offset = self.goals[rank]
        return buffer, offset + start

    def own_place(self, start: int) -> Place | None:
        """Return where a byte is that this rank gives itself; None if it needs none."""
        return None if self.own is None else (self.own[0], self.own[1] + start)

    def __call__(
        self, source: int, start: int, chunk: Bytes
    ) -> vkbackend.TimelinePoint | None:
        """Copy bytes of a rank from the pages, or from where they are."""
        mine = source == self.rank
        place = self.own_place(start) if mine else self.pages.place_of(chunk)
        if place is None:
            return None
        written = place[0].last_write if mine else None
        after = self.after if written is None else (written, *self.after)
        return self.pages.copy(place, self.place(source, start), chunk.size, after)


class Waitable(Protocol):
    """What a device does: a `TimelinePoint`, or a copy that another driver makes."""

    def wait(self, timeout_seconds: float, /) -> bool:
        """Wait for its end; return False if the time ran out first."""


class Copied:
    """The condition that a device has made some copies.

    Parameters
    ----------
    points : sequence of TimelinePoint or CudaCopy
    """

    def __init__(self, points: Sequence[Waitable]) -> None:
        self._points = points
        self._looks = 0

    def holds(self) -> bool:
        """Return whether it has; waits a little for them."""
        self._looks += 1
        return all([self._look(each) for each in self._points])

    def _look(self, point: Waitable) -> bool:
        if self._looks <= _POLLED_LOOKS and isinstance(point, vkbackend.TimelinePoint):
            if point.queue.poll(point.value, _PAUSE):
                return True
        return point.wait(_PAUSE)

    def counters(self) -> None:
        """Return None: other processes cannot judge it."""

    def ranks(self) -> tuple[int, ...]:
        """Return none: it needs no other process."""
        return ()
