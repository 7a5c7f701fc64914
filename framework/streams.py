"""Streams and events of PyTorch on a Vulkan device, which has one queue for computing.

Work is ordered by what it depends on, so that no stream has to wait for another one.
What was given to a device when an event was recorded can be asked for and waited for.
"""

from __future__ import annotations

import time
from typing import Any, NoReturn

from vkbackend import TimelinePoint
from vkbackend.errors import NoVulkanError

from .base.device import Device, GpuDevice, find_device
from .scheduler.scheduler import flush

MILLISECONDS = 1e3
"""Of a second."""


def _device_of(name: str, device: Any) -> GpuDevice:
    found = find_device("gpu" if device is None else device)
    if not isinstance(found, GpuDevice):
        raise NoVulkanError(
            f"{name}: the device is {found}, which has no queue; name a Vulkan device"
        )
    return found


class Stream:
    """The queue of a device, as PyTorch's streams are asked for; each has just one.

    As a block it changes nothing: work begins in the order of what it depends on.

    Parameters
    ----------
    device : Device, str, int or None
        A Vulkan device; None means the best one.
    priority : int, default 0
        Has no effect: there is one queue.

    Raises
    ------
    NoVulkanError
        If there is no Vulkan device, or the device is the host.

    Examples
    --------
    >>> stream = fw.Stream()
    >>> with stream:
    ...     y = fw.ones(3, device=stream.device) * 2
    >>> event = stream.record_event()
    >>> event.synchronize()
    >>> event.query()
    True
    """

    stream_id = 0

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _device_of("Stream", device)
        self.priority = priority

    @property
    def device_index(self) -> int | None:
        """Number of the device, best first."""
        return self.device.index

    def query(self) -> bool:
        """Return whether the device has done all work that it was given."""
        return self.record_event().query()

    def synchronize(self) -> None:
        """Wait until the device has done all work that it was given."""
        flush(self.device)
        self.device.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, or a new one, after all work so far; return it."""
        made = Event(self.device) if event is None else event
        made.record(self)
        return made

    def wait_event(self, event: Event) -> None:
        """Do nothing: later work follows what it depends on."""

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing: later work follows what it depends on."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device is self.device

    def __hash__(self) -> int:
        return hash((Stream, id(self.device)))

    def __repr__(self) -> str:
        return f"<torch.Stream device={self.device}, stream_id={self.stream_id}>"


class Event:
    """A moment in the work of a device, which can be waited for.

    Parameters
    ----------
    device : Device, str, int or None
        A Vulkan device; None means the best one.
    enable_timing : bool, default False
        Whether the time of the moment is taken: `record` then waits for the work so
        far, and reads the host's clock.
    blocking : bool, default False
        Has no effect: waiting does not spin.
    interprocess : bool, default False
        Must be False: events are of one process.

    Raises
    ------
    NoVulkanError
        If there is no Vulkan device, or the device is the host.
    NotImplementedError
        If `interprocess` is True.
    """

    event_id = 0

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        if interprocess:
            self.ipc_handle()
        self.device = _device_of("Event", device)
        self._timed = enable_timing
        self._point: TimelinePoint | None = None
        self._seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Set the event to the end of all work so far, which is submitted.

        Raises
        ------
        RuntimeError
            If the stream is one of another device.
        """
        if stream is not None and stream.device is not self.device:
            raise RuntimeError(
                f"record: the event is of {self.device}, the stream of {stream.device};"
                " they must be of one device"
            )
        flush(self.device)
        queue = self.device.gpu.compute_queue
        self._point = TimelinePoint(queue, queue.submitted)
        if self._timed:
            self.synchronize()
            self._seconds = time.perf_counter()

    def query(self) -> bool:
        """Return whether the work before the event is done; True if never recorded."""
        return self._point is None or self._point.done()

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        if self._point is not None:
            self._point.wait()
            self.device.check_indices()

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: later work follows what it depends on."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the time from this event to another one in milliseconds.

        Raises
        ------
        RuntimeError
            If one was not recorded, or made without `enable_timing`.
        """
        if self._seconds is None or end_event._seconds is None:
            raise RuntimeError(
                "elapsed_time: an event has no time; make both with enable_timing=True,"
                " and record them"
            )
        return (end_event._seconds - self._seconds) * MILLISECONDS

    def ipc_handle(self) -> NoReturn:
        """Raise `NotImplementedError`: events are of one process."""
        raise NotImplementedError(
            "Event: it would be shared by processes, and events are of one process;"
            " leave interprocess out"
        )

    def __repr__(self) -> str:
        return f"<torch.Event device={self.device}, timed={self._timed}>"


def current_stream(device: Device | str | int | None = None) -> Stream:
    """Return the stream of a device, which has one."""
    return Stream(device)
