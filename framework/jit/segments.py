"""Recordings in segments, beside and between which the host runs steps of the trace.

A step begins once the segment that makes what it takes has been submitted, and all
segments that do not need what it makes: so the device computes while the host
communicates. The first one that does is submitted when the step has ended, before the
next step begins. Segments become ready by the ends of steps alone, and steps run in
order, so one thread does all: a second one, to which steps were handed over, would be
woken late, and steps that poll would keep the interpreter from whoever submits. A step
may end before its elements are there, once the device has been told to copy them: what
is submitted next waits for that by itself, but not for copies of later steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import vkbackend

from ..base.dtype import DType
from ..ir.host_step import HostStep, Range

Copy = tuple[vkbackend.Buffer, int, vkbackend.Buffer, int, int]

IDLE_BYTES = 16
"""Bytes that a segment without work copies, so that it has an end to wait for."""


SEGMENTS_AHEAD = 32
"""Segments that are submitted after the one that makes what a step takes, before it.

With more in flight the host would wait for the device before it began the step.
"""


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
    """

    batch: vkbackend.Batch
    ended: int


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
    begins : list of int
        Number of segments before each exchange, of which the last make what it takes.
    homes : list of (int or None)
        Segment of each launch; None of one that stands for an exchange.
    """

    gpu: vkbackend.Device
    segments: list[Segment] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    homes: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin the first segment."""
        self._cut(0)

    def _cut(self, ended: int) -> None:
        batch = self.gpu.batch()
        self.segments.append(Segment(batch, ended))

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
        self.begins.append(len(self.segments))
        # What is empty has not delayed it.
        if len(last.batch) or before is last or last.ended != before.ended:
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
        self._begins = tuple(builder.begins)
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

    def submit(
        self, copies: Sequence[Copy] = (), changed: bool = False
    ) -> vkbackend.TimelinePoint:
        """Submit all segments, and run the host steps; see `Recording.submit`."""
        ran = 0
        # What the queues of copies had got when as many exchanges had ended.
        given = [self._submitted()]
        for number, segment in enumerate(self._segments):
            while ran < segment.ended or self._is_late(ran, number):
                self._exchanges[ran].run(self._gpu)
                ran += 1
                given.append(self._submitted())
            part, new = self._parts[number], self._take(number) and changed
            after = given[segment.ended] if number else None
            point = part.submit(() if number else copies, new, after)
        return point

    def _is_late(self, exchange: int, segment: int) -> bool:
        """Return whether an exchange, if there is one, is to begin before a segment."""
        begins = self._begins[exchange : exchange + 1]
        return bool(begins) and segment - begins[0] >= SEGMENTS_AHEAD

    def _submitted(self) -> dict[Any, int]:
        return {each: each.submitted for each in self._gpu.queues.beside_compute}

    def _take(self, number: int) -> bool:
        """Give a segment its arguments; return whether it has any."""
        part, start = self._parts[number], self._starts[number]
        part.content[:] = self.content[start : start + len(part.content)]
        return bool(part.content)

    @property
    def point(self) -> vkbackend.TimelinePoint | None:
        """Timeline point of the last `submit`; None if it did not come to its end."""
        return self._parts[-1].point
