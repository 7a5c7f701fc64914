"""Races between queues, found by what submissions are told to wait for.

A submission comes after those before it on its queue, after what its semaphore waits
name, after what the host knew to be over, and after what those came after. Two of them
that touch the same bytes, one of which writes, must be in such an order, whatever a
driver makes of them: so races show also where all queues are one.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from vkbackend import Buffer, Device, TimelinePoint
from vkbackend.command import batch, dispatch_sequence, recording
from vkbackend.driver.queue import Queue

Clock = dict[Queue, int]
Access = tuple[TimelinePoint, range, bool]
"""When, which addresses, and whether they are written."""


class RaceChecker:
    """What was submitted to the queues of a device, and what it touches.

    Attributes
    ----------
    races : list of str
    """

    def __init__(self, device: Device) -> None:
        self.races: list[str] = []
        self._queues = device.queues.all
        self._clocks: dict[TimelinePoint, Clock] = {}
        self._pending: list[Access] = []
        self._seen: list[Access] = []

    def sent(self, queue: Queue, value: int, waits: Mapping[Queue, int]) -> None:
        """Take down a submission."""
        clock: Clock = {}
        known_done = [(each, each.completed) for each in self._queues]
        before = [(queue, value - 1), *waits.items(), *known_done]
        for other, number in before:
            known = self._clocks.get(TimelinePoint(other, number), {})
            for each, reached in {**known, other: number}.items():
                clock[each] = max(clock.get(each, 0), reached)
        clock[queue] = value
        self._clocks[TimelinePoint(queue, value)] = clock
        pending, self._pending = self._pending, []
        for access in pending:
            self._check(access)

    def touched(self, buffer: Buffer, point: TimelinePoint, written: bool) -> None:
        """Take down what a submission, made or to come, does with a buffer."""
        access = point, range(*buffer.address_range), written
        if point in self._clocks:
            self._check(access)
        else:
            self._pending.append(access)

    def _check(self, access: Access) -> None:
        point, bytes_, written = access
        if point not in self._clocks:
            self._pending.append(access)
            return
        for other, there, wrote in self._seen:
            meet = bytes_.start < there.stop and there.start < bytes_.stop
            if meet and (written or wrote) and other != point:
                if not self._after(point, other) and not self._after(other, point):
                    self.races.append(f"{other} and {point} touch {bytes_}")
        self._seen.append(access)

    def _after(self, point: TimelinePoint, other: TimelinePoint) -> bool:
        return self._clocks[point].get(other.queue, 0) >= other.value


@contextlib.contextmanager
def checked(device: Device) -> Iterator[RaceChecker]:
    """Check what is submitted to a device within."""
    checker = RaceChecker(device)
    send, read, written = Queue._send, Buffer.mark_read, Buffer.mark_written

    def sent(self: Queue, *given: Any) -> None:
        send(self, *given)
        checker.sent(self, given[4], given[2])

    def mark_read(self: Buffer, point: TimelinePoint) -> None:
        checker.touched(self, point, False)
        read(self, point)

    def mark_written(self: Buffer, point: TimelinePoint) -> None:
        checker.touched(self, point, True)
        written(self, point)

    def mark(
        reads: Iterable[Buffer], writes: Iterable[Buffer], point: TimelinePoint
    ) -> None:
        for each in reads:
            each.mark_read(point)
        for each in writes:
            each.mark_written(point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Queue, "_send", sent)
        patch.setattr(Buffer, "mark_read", mark_read)
        patch.setattr(Buffer, "mark_written", mark_written)
        for module in (batch, recording, dispatch_sequence):
            patch.setattr(module, "mark", mark)
        yield checker
        device.settle()
