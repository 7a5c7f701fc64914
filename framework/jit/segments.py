"""Recordings in segments, between which the host runs steps of the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import vkbackend

from ..base.dtype import DType
from ..ir.host_step import HostStep

Copy = tuple[vkbackend.Buffer, int, vkbackend.Buffer, int, int]

IDLE_BYTES = 16
"""Bytes that a segment without work copies, so that it has an end to wait for."""


@dataclass(frozen=True)
class Exchange:
    """A host step between two segments.

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
    source: tuple[vkbackend.Buffer, int, int]
    target: tuple[vkbackend.Buffer, int, int]

    def run(self, gpu: vkbackend.Device) -> None:
        """Wait for what it takes, and write what it makes."""
        data = np.frombuffer(gpu.read(*self.source), self.dtype.storage)
        made = np.ascontiguousarray(self.step.run(data))
        buffer, offset, size = self.target
        assert made.nbytes == size
        gpu.upload(made.view(np.uint8), buffer, offset)


class SegmentedRecording:
    """Recordings that are submitted in order, with host steps between them.

    It has what `vkbackend.Recording` has for replays. `submit` returns once the last
    segment has been submitted, so it waits for the others.

    Parameters
    ----------
    gpu : vkbackend.Device
    segments : sequence of Batch
        One more than there are exchanges.
    exchanges : sequence of Exchange
    """

    def __init__(
        self,
        gpu: vkbackend.Device,
        segments: Sequence[vkbackend.Batch],
        exchanges: Sequence[Exchange],
    ) -> None:
        self._gpu, self._exchanges = gpu, tuple(exchanges)
        idle = gpu.allocate(2 * IDLE_BYTES, name="idle segment")
        self._parts: list[vkbackend.Recording] = []
        self._starts: list[int] = []
        self.content = bytearray()
        self.places: list[int | None] = []
        for position, batch in enumerate(segments):
            work = len(batch)
            if not work:
                batch.copy(idle, idle, 0, IDLE_BYTES, IDLE_BYTES)
            part = gpu.record(batch)
            self._parts.append(part)
            self._starts.append(len(self.content))
            if work:
                start = len(self.content)
                self.places += [
                    None if place is None else place + start for place in part.places
                ]
            if position < len(exchanges):
                self.places.append(None)  # the node of the exchange
            self.content += part.content
        self.dispatches = sum(each.dispatches for each in self._parts)
        self.barriers = sum(each.barriers for each in self._parts)

    def submit(
        self, copies: Sequence[Copy] = (), changed: bool = False
    ) -> vkbackend.TimelinePoint:
        """Submit all segments, and run the host steps; see `Recording.submit`."""
        first = self._parts[0]
        point = first.submit(copies, self._take(0) and changed)
        for number, exchange in enumerate(self._exchanges, 1):
            exchange.run(self._gpu)
            point = self._parts[number].submit((), self._take(number) and changed)
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
