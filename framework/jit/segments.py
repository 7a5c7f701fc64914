"""Recordings in segments, beside and between which the host runs steps of the trace.

A step begins once the segment that makes what it takes has been submitted, in a thread
of its own, the courier. Segments that do not need what it makes are submitted
meanwhile, so the device computes while the host communicates; the first one that does
is submitted when the step has ended. Where that is the next one, the step runs without
the thread. A step may end before its elements are there, once the device has been told
to copy them: what is submitted next waits for that by itself, but not for copies of
steps that it does not need.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import vkbackend

from ..base.dtype import DType
from ..ir.host_step import HostStep, Range

Copy = tuple[vkbackend.Buffer, int, vkbackend.Buffer, int, int]

IDLE_BYTES = 16
"""Bytes that a segment without work copies, so that it has an end to wait for."""


@dataclass(frozen=True)
class Exchange:
    """A host step of a recording.

    Parameters
    ----------
    step : HostStep
    dtype : DType
        Of what it takes.
    source, target : (Buffer, int, int)
        Buffer, offset and size in bytes of what it takes and makes.
    """

    step: HostStep
    dtype: DType
    source: Range
    target: Range

    def run(self, gpu: vkbackend.Device) -> None:
        """Wait for what it takes, and write what it makes."""
        self.step.apply(gpu, self.dtype, self.source, self.target)

    def forbids(
        self, read: Sequence[vkbackend.Buffer], written: Sequence[vkbackend.Buffer]
    ) -> bool:
        """Return whether it has to end before a launch that uses some buffers."""
        source, target = self.source[0], self.target[0]
        return any(
            [each is target for each in read]
            + [each is target or each is source for each in written]
        )


@dataclass
class Segment:
    """Commands that are submitted together.

    Attributes
    ----------
    batch : Batch
    ended : int
        Number of exchanges, of all in order, that have to end before.
    begun : int
        Number of those that may begin afterwards.
    """

    batch: vkbackend.Batch
    ended: int
    begun: int = 0


@dataclass
class SegmentBuilder:
    """Segments of launches that are added in order.

    Parameters
    ----------
    gpu : vkbackend.Device

    Attributes
    ----------
    segments : list of Segment
    exchanges : list of Exchange
    homes : list of (int or None)
        Segment of each launch; None of one that stands for an exchange.
    """

    gpu: vkbackend.Device
    segments: list[Segment] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    homes: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin the first segment."""
        self._cut(0)

    def _cut(self, ended: int) -> None:
        batch = self.gpu.batch()
        self.segments.append(Segment(batch, ended, len(self.exchanges)))

    @property
    def batch(self) -> vkbackend.Batch:
        """The batch that commands are added to."""
        return self.segments[-1].batch

    def copied(self, exchange: Exchange, memory: vkbackend.Buffer) -> Exchange:
        """Return an exchange that takes a copy, which is made in what was added last.

        Parameters
        ----------
        exchange : Exchange
        memory : Buffer
            For the copy.
        """
        source, start, size = exchange.source
        self._prepare([source], [memory])
        self.batch.copy(source, memory, start, 0, size)
        return replace(exchange, source=(memory, 0, size))

    def exchange(self, exchange: Exchange) -> None:
        """Add an exchange, which may begin after what was added before."""
        self.homes.append(None)
        last = self.segments[-1]
        before = self.segments[-2] if len(self.segments) > 1 else last
        self.exchanges.append(exchange)
        # What is empty has not delayed it; but one that waits must not come after it.
        if not len(last.batch) and before is not last and last.ended == before.ended:
            before.begun = last.begun = len(self.exchanges)
            return
        last.begun = len(self.exchanges)
        self._cut(last.ended)

    def launch(
        self, read: Sequence[vkbackend.Buffer], written: Sequence[vkbackend.Buffer]
    ) -> None:
        """Prepare for a launch that uses some buffers, which is added to `batch`."""
        self._prepare(read, written)
        self.homes.append(len(self.segments) - 1)

    def _prepare(
        self, read: Sequence[vkbackend.Buffer], written: Sequence[vkbackend.Buffer]
    ) -> None:
        """Begin another segment if one of the exchanges has to end before."""
        last = self.segments[-1]
        needed = last.ended
        for number in range(last.ended, len(self.exchanges)):
            if self.exchanges[number].forbids(read, written):
                needed = number + 1
        self._need(needed)

    def finish(self) -> None:
        """Let the last segment, to which copies may be added, come after all."""
        self._need(len(self.exchanges))

    def _need(self, ended: int) -> None:
        last = self.segments[-1]
        if ended == last.ended:
            return
        if len(last.batch) or len(self.segments) == 1:
            self._cut(ended)
        else:
            last.ended = ended


class _Courier:
    """Runs exchanges in order: in a thread of its own, or in that of the caller.

    A thread is started once an exchange has something to run beside: to hand one over,
    and to be woken when it has ended, takes as long as a small exchange.
    """

    def __init__(self, gpu: vkbackend.Device, exchanges: Sequence[Exchange]) -> None:
        self._gpu, self._exchanges = gpu, exchanges
        self._changed = threading.Condition()
        self._handed = self._ended = 0
        self._closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._caller = threading.current_thread()
        # What the queues of copies had got when as many exchanges had ended.
        self.copies = [self._submitted()]

    def _submitted(self) -> dict[Any, int]:
        return {each: each.submitted for each in self._gpu.queues.beside_compute}

    def _run_next(self) -> None:
        self._exchanges[self._ended].run(self._gpu)
        self.copies.append(self._submitted())

    def run_here(self, count: int) -> None:
        """Run exchanges, up to a number of all, once those before have ended."""
        self.wait(self._handed)
        while self._ended < count:
            self._run_next()
            # In this order, the thread has nothing to run at any moment.
            self._ended += 1
            self._handed = self._ended

    def begin(self, count: int) -> None:
        """Hand exchanges over to the thread, up to a number of all."""
        if count <= self._handed:
            return
        with self._changed:
            self._handed = count
            self._changed.notify_all()
        if self._thread is None:
            name = "vkbackend courier"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            thread.speaks_for = self._caller  # type: ignore[attr-defined]  # none of its own
            self._thread = thread
            thread.start()

    def wait(self, count: int) -> None:
        """Wait until as many have ended; raise the error of one."""
        if self._ended < count:
            with self._changed:
                while self._ended < count and self._error is None:
                    self._changed.wait()
        if self._error is not None:
            # The frames of the thread would keep the memory of the replay for a moment.
            self.join()
            raise self._error

    def close(self) -> None:
        """Let the thread end, after what runs now."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Run what is handed over."""
        while True:
            with self._changed:
                while self._handed <= self._ended and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            try:
                self._run_next()
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._ended += 1
                self._changed.notify_all()


class SegmentedRecording:
    """Recordings that are submitted in order, with host steps beside them.

    It has what `vkbackend.Recording` has for replays. `submit` returns once the last
    segment has been submitted, so it waits for the exchanges.

    Parameters
    ----------
    builder : SegmentBuilder
        After `finish`.
    """

    def __init__(self, builder: SegmentBuilder) -> None:
        self._gpu, self._segments = builder.gpu, tuple(builder.segments)
        self._exchanges = tuple(builder.exchanges)
        idle = self._gpu.allocate(2 * IDLE_BYTES, name="idle segment")
        self._parts: list[vkbackend.Recording] = []
        self._starts: list[int] = []
        self.content = bytearray()
        for segment in self._segments:
            if not len(segment.batch):
                segment.batch.copy(idle, idle, 0, IDLE_BYTES, IDLE_BYTES)
            part = self._gpu.record(segment.batch)
            self._parts.append(part)
            self._starts.append(len(self.content))
            self.content += part.content
        places = [iter(part.places) for part in self._parts]
        self.places: list[int | None] = []
        for home in builder.homes:
            place = None if home is None else next(places[home])
            if home is not None and place is not None:
                place += self._starts[home]
            self.places.append(place)
        self.dispatches = sum(each.dispatches for each in self._parts)
        self.barriers = sum(each.barriers for each in self._parts)
        begun = [each.begun for each in self._segments]
        ended = [each.ended for each in self._segments]
        # How many exchanges have to end before the next segment that begin after each.
        self._needed = [
            min(after, now) if min(after, now) > before else 0
            for before, now, after in zip([0, *begun], begun, [*ended[1:], 0])
        ]
        self._courier: _Courier | None = None

    def submit(
        self, copies: Sequence[Copy] = (), changed: bool = False
    ) -> vkbackend.TimelinePoint:
        """Submit all segments, and run the host steps; see `Recording.submit`."""
        if self._courier is not None:
            # An interrupt may have left it with an exchange.
            self._courier.join()
        courier = self._courier = _Courier(self._gpu, self._exchanges)
        try:
            for number, segment in enumerate(self._segments):
                courier.wait(segment.ended)
                part = self._parts[number]
                given = self._take(number) and changed
                after = courier.copies[segment.ended] if number else None
                point = part.submit(() if number else copies, given, after)
                # What the next segment needs has nothing to run beside.
                needed = self._needed[number]
                if needed:
                    courier.run_here(needed)
                courier.begin(segment.begun)
        finally:
            courier.close()
        return point

    def _take(self, number: int) -> bool:
        """Give a segment its arguments; return whether it has any."""
        part, start = self._parts[number], self._starts[number]
        part.content[:] = self.content[start : start + len(part.content)]
        return bool(part.content)

    @property
    def point(self) -> vkbackend.TimelinePoint | None:
        """Timeline point of the last `submit`; None if it did not come to its end."""
        return self._parts[-1].point
