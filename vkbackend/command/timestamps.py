"""Timestamp queries: device time of each dispatch, or of whole batches.

While a `Profile` is open, every batch that is submitted writes timestamps between its
commands; a device without an open profile pays nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vkbackend.driver.queue import Queue, TimelinePoint, accepted_point
from vkbackend.errors import ArgumentError, DeviceLost
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

if TYPE_CHECKING:
    from vkbackend.driver.logical_device import LogicalDevice

    from .batch import Command

_POOL_SIZE = 4096
_ALL_DONE = vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT
_RESULT_FLAGS = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
_NANOSECOND = 1e-9


class Span(NamedTuple):
    """Execution interval of one command, from the end of all before it to its own end.

    Attributes
    ----------
    name : str
        The kernel's, `copy`, or `batch` for a whole one.
    groups : tuple of int or None
        The grid of a dispatch.
    batch : int
        Number of the batch, counted from the profile's start.
    start_seconds, end_seconds : float
        On the device's clock, whose zero means nothing.
    """

    name: str
    groups: tuple[int, int, int] | None
    batch: int
    start_seconds: float
    end_seconds: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_seconds - self.start_seconds


@dataclass(eq=False, slots=True)
class TimestampedBatch:
    """Batch with its range of timestamp queries.

    Attributes
    ----------
    pool, first : int
        The query pool and its first query.
    names : list of tuple
        Name and grid of the work between consecutive timestamps.
    point : TimelinePoint or None
        When they are written; set by the submitter.
    """

    pool: int
    first: int
    names: list[tuple[str, tuple[int, int, int] | None]]
    point: TimelinePoint | None = None


class Profile:
    """Profile of the batches submitted to a device; made by `Device.profile`.

    Attributes
    ----------
    spans : list of Span
        Measured intervals, in order; filled when the profile is closed.
    """

    def __init__(
        self, logical: LogicalDevice, queue: Queue, repeat: int, each: bool
    ) -> None:
        if repeat < 1:
            raise ArgumentError(f"profile: repeat is {repeat}; it must be at least 1")
        if not logical.timestamps:
            raise ArgumentError(
                f"profile: {logical.info.name} has no timestamps on its compute queue;"
                f" use the wall clock"
            )
        self.spans: list[Span] = []
        self._logical = logical
        self._queue = queue
        self._repeat = repeat
        self._each = each
        self._pools: list[int] = []
        self._used = _POOL_SIZE
        self._batches: list[TimestampedBatch] = []

    def instrument(
        self, commands: Sequence[Command]
    ) -> tuple[list[Command], TimestampedBatch]:
        """Return a batch's commands interleaved with timestamp writes, and its record.

        The submitter sets the record's point: a batch without one, or one that the
        device never executed, is left out of the profile.

        The commands come `repeat` times, a barrier before each further time; then they
        must give the same when run again, as those do that overwrite nothing they read.
        """
        names: list[tuple[str, tuple[int, int, int] | None]] = []
        body: list[Command] = []
        for time in range(self._repeat):
            body += [None] if time else []
            for command in commands:
                body.append(command)
                if command is not None:
                    names.append(_name_of(command))
        names = names if self._each else [("batch", None)]
        pool, first = self._allocate_queries(len(names) + 1)
        timestamped = TimestampedBatch(pool, first, names)
        self._batches.append(timestamped)
        return self._with_timestamps(body, pool, first, len(names) + 1), timestamped

    def _with_timestamps(
        self, body: Sequence[Command], pool: int, first: int, count: int
    ) -> list[Command]:
        functions = self._logical.functions
        reset, write = functions.vkCmdResetQueryPool, functions.vkCmdWriteTimestamp2

        def stamp(number: int) -> Callable[[int], object]:
            return lambda commands: write(commands, _ALL_DONE, pool, number)

        out: list[Command] = [lambda commands: reset(commands, pool, first, count)]
        out.append(stamp(first))
        number = first
        for command in body:
            out.append(command)
            if self._each and command is not None:
                number += 1
                out.append(stamp(number))
        return out if self._each else [*out, stamp(first + 1)]

    def _allocate_queries(self, count: int) -> tuple[int, int]:
        """Return a query pool, and the first of `count` unused queries in it."""
        if self._used + count > _POOL_SIZE:
            info = runtime.make(
                vk.VkQueryPoolCreateInfo,
                queryType=vk.VK_QUERY_TYPE_TIMESTAMP,
                queryCount=max(_POOL_SIZE, count),
            )
            name = f"timestamps {len(self._pools)}"
            self._pools.append(self._logical.create("QueryPool", info, name))
            self._used = 0
        first = self._used
        self._used += count
        return self._pools[-1], first

    def close(self) -> None:
        """Wait for the measured work and read the timestamps into `spans`.

        If the wait ends early, the queries may be in use, and stay until the device is
        closed. Of one that is closed, or in a forked child, nothing is left to read.
        """
        logical = self._logical
        if not logical.forked:
            try:
                self._queue.wait(self._queue.submitted)
            except DeviceLost:
                self._destroy_pools()
                raise
        with logical.lock:
            if logical.forked or logical.closing:
                self._pools.clear()
                self._batches.clear()
                return
            try:
                done = [
                    each
                    for each in self._batches
                    if accepted_point(each.point) is not None
                ]
                for number, batch in enumerate(done):
                    self.spans += self._read(number, batch)
            finally:
                self._destroy_pools()

    def _destroy_pools(self) -> None:
        for pool in self._pools:
            self._logical.destroy("QueryPool", pool)
        self._pools.clear()
        self._batches.clear()
        self._used = _POOL_SIZE

    def _read(self, number: int, batch: TimestampedBatch) -> list[Span]:
        count = len(batch.names) + 1
        ticks = (ctypes.c_uint64 * count)()
        result = self._logical.functions.vkGetQueryPoolResults(
            self._logical.handle,
            batch.pool,
            batch.first,
            count,
            ctypes.sizeof(ticks),
            ctypes.byref(ticks),
            ctypes.sizeof(ctypes.c_uint64),
            _RESULT_FLAGS,
        )
        self._logical.check("vkGetQueryPoolResults", result, "timestamps")
        unit = self._logical.info.timestamp_period * _NANOSECOND
        times = [tick * unit for tick in ticks]
        return [
            Span(name, groups, number, times[at], times[at + 1])
            for at, (name, groups) in enumerate(batch.names)
        ]


def _name_of(command: Command) -> tuple[str, tuple[int, int, int] | None]:
    if isinstance(command, tuple):
        pipeline, _, x, y, z = command
        return pipeline.name, (x, y, z)
    return "copy", None
