"""Queues, each with one timeline semaphore that counts its submissions.

A `TimelinePoint` says *when*: after the submission with that number on that queue. Work
is ordered by three rules, which the rest of the device layer builds on:

- Every command buffer begins with a full memory barrier, so a submission sees all that
  earlier submissions to the *same* queue did, and may overwrite what they read.
- Work on *another* queue is waited for with a semaphore: the caller passes its points.
- Every command buffer ends with a barrier towards the host, so the host may read mapped
  memory once it has waited for the point.

**A submission and its book-keeping cannot be parted.** A number is reserved and written
down wherever it matters (buffers, command buffers, arenas) before the driver is asked:

    point = queue.reserve()
    mark(read, written, point)
    queue.send(commands, waits, label, point)

If that ends early at any place, by an error of the driver or by Ctrl-C, the device is
left with an `unconfirmed` submission, and the next user of the queue resolves it: once
the device is idle, the driver either counted to it or never will, and then the host
counts in its place. So each number is given once, and each is reached.
"""

# Longer than most: numbers, submissions and waits of a queue cannot be parted.

import collections
import ctypes
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from vkbackend.errors import DeviceLost, SubmissionOvertaken
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

from .command_buffer import RECORDING, CommandBuffer, CommandPool
from .device_info import DeviceInfo
from .logical_device import LogicalDevice

# Longest uninterrupted wait: Python handles Ctrl-C between slices.
_WAIT_SLICE_SECONDS = 0.1
_NANOSECONDS = 1_000_000_000
# A short wait polls instead: blocking and waking up costs 20 us, and slows the host's
# next work threefold (130 us for a replay that takes 45 us beside an NVIDIA H200,
# driver 580.159.04, 2026-11-21). Never on a software device, which needs the processor.
_POLL_SECONDS = 2e-3
# Longer beside a discrete device, which shares no power with the processor: work of 1.1
# ms took 93 us beyond its kernels; of 4.6, 8.4 and 15 ms, where waits blocked, it took
# 460 to 610 (NVIDIA H200, driver 580.159.04, 2026-12-01).
_DISCRETE_POLL_SECONDS = 20e-3
# A host that runs further ahead than this waits for its oldest submission.
MAX_IN_FLIGHT = 64
# Submissions between two counter queries, which cost as much as a submission.
_QUERY_INTERVAL = 16
# More command buffers than can be open at once: one, and one in whatever interrupts it.
# Any further one was left behind.
_MAX_OPEN = 4
# A handler comes between once per signal; more often in a row, something else is wrong.
_MAX_OVERTAKEN = 100

P = ParamSpec("P")
R = TypeVar("R")

# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


class TimelinePoint(NamedTuple):
    """Timeline point: the end of submission number `value` on `queue`."""

    queue: "Queue"
    value: int

    def done(self) -> bool:
        """Return whether the device has got there; does not wait."""
        return self.queue.reached(self.value)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the device has got there.

        Parameters
        ----------
        timeout_seconds : float, optional
            Longest time to wait; None waits for as long as it takes.

        Returns
        -------
        bool
            False if the time ran out first.
        """
        return self.queue.wait(self.value, timeout_seconds)

    def __repr__(self) -> str:
        return f"TimelinePoint({self.queue.name}, {self.value})"


class _Wait(NamedTuple):
    """What waits for a queue's timeline: the value, the structure, and its lock.

    The lock is held while the driver waits, for who closes the device.
    """

    values: Any
    reference: Any
    call: Any


def wait_all(points: Iterable[TimelinePoint]) -> None:
    """Wait for every point."""
    for point in points:
        point.wait()


def accepted_point(reserved: TimelinePoint | None) -> TimelinePoint | None:
    """Return a reserved point if its submission was accepted by the device."""
    if reserved is None:
        return None
    try:
        return reserved if reserved.queue.is_accepted(reserved.value) else None
    except DeviceLost:
        return None


def retry_if_overtaken(submit: Callable[P, R]) -> Callable[P, R]:
    """Decorate a submission: retry it when another one overtook it.

    It must be restartable.
    """

    @functools.wraps(submit)
    def submitted(*args: P.args, **options: P.kwargs) -> R:
        for _ in range(_MAX_OVERTAKEN):
            try:
                return submit(*args, **options)
            except SubmissionOvertaken:  # Nothing was sent.
                pass
        return submit(*args, **options)

    return submitted


def latest(points: Iterable[TimelinePoint]) -> tuple[TimelinePoint, ...]:
    """Return the last point of each queue, without those known to be done.

    The device is not asked: this runs for each buffer that dies.
    """
    if type(points) is tuple and 0 < len(points) <= 2:
        # What one queue has written and read, without a table.
        only = points[0]
        if only.queue is points[-1].queue:
            if points[-1].value > only.value:
                only = points[-1]
            return (only,) if only.value > only.queue.completed else ()
    last: dict[Queue, TimelinePoint] = {}
    for point in points:
        known = last.get(point.queue)
        if known is None or known.value < point.value:
            last[point.queue] = point
    return tuple(
        [point for point in last.values() if point.value > point.queue.completed]
    )


class Queue:
    """Queue of a device, with its timeline semaphore and command buffers.

    Parameters
    ----------
    logical : LogicalDevice
    family : int
        Of queues.
    name : str
        For messages.
    number : int, default 0
        Of the queue within its family.

    Attributes
    ----------
    handle : int
        The `VkQueue`.
    name : str
        For messages: `compute`, `transfer` or `readback`.
    submitted : int
        Last number given to a submission; 0 before the first.
    completed : int
        Last number known to be finished.
    at_close : list of callable
        Called before the queue's objects are destroyed, when it is idle.
    commands : CommandPool
        Its command buffers.
    """

    def __init__(
        self, logical: LogicalDevice, family: int, name: str, number: int = 0
    ) -> None:
        self.name = name
        self.family = family
        self.submitted = 0
        self.completed = 0
        self.at_close: list[Callable[[], None]] = []
        self._logical = logical
        self._poll_seconds = poll_seconds(logical.info)
        self._functions = logical.functions
        handle = ctypes.c_void_p()
        wanted = runtime.make(
            vk.VkDeviceQueueInfo2, queueFamilyIndex=family, queueIndex=number
        )
        logical.functions.vkGetDeviceQueue2(
            logical.handle, ctypes.byref(wanted), ctypes.byref(handle)
        )
        assert handle.value is not None
        self.handle = handle.value
        logical.set_name("Queue", self.handle, name)
        self.semaphore = self._create_semaphore()
        self.commands = CommandPool(logical, family, name)
        # The one to use next first; each stays here, also while it is in use.
        self._one_time = collections.deque([CommandBuffer()])
        # Numbers that the driver never got, and the host counted instead.
        self._skipped: set[int] = set()
        # The commands of a submission, and others that follow them.
        self._command_infos = (vk.VkCommandBufferSubmitInfo * 2)(
            *[runtime.make(vk.VkCommandBufferSubmitInfo) for _ in range(2)]
        )
        # Looking them up, and referring to them, takes a microsecond each time.
        self._first_info, self._second_info = self._command_infos
        self._signal = _semaphore_info(self, 0)
        self._submit_info = runtime.make(
            vk.VkSubmitInfo2,
            pCommandBufferInfos=self._command_infos,
            signalSemaphoreInfoCount=1,
            pSignalSemaphoreInfos=self._signal,
        )
        self._submit_reference = ctypes.byref(self._submit_info)
        # Those that no wait uses at present.
        self._idle_waits: list[_Wait] = []
        self._counters: list[tuple[Any, Any]] = []

    def _create_semaphore(self) -> int:
        kind = runtime.make(
            vk.VkSemaphoreTypeCreateInfo,
            semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE,
            initialValue=0,
        )
        info = runtime.make(vk.VkSemaphoreCreateInfo, pNext=kind)
        return self._logical.create("Semaphore", info, f"{self.name} timeline")

    def begin(self) -> int:
        """Return a command buffer that is recording, past its first barrier.

        It is for one submission. The caller holds the device's lock until it has called
        `submit`, or `finish` and `send`, or `abandon`; one that is never heard of again
        is used anew. Waits only when `MAX_IN_FLIGHT` submissions are unfinished.
        """
        one_time = self._one_time
        buffer = one_time[0]
        if buffer.value > self.completed:
            buffer = self._next_buffer(buffer)
        # Whatever happens from here on, others are taken before this one.
        one_time.rotate(-1)
        self.commands.begin(buffer)
        return buffer.handle

    def _next_buffer(self, oldest: CommandBuffer) -> CommandBuffer:
        """Return a command buffer that is free or new, and stands first."""
        one_time = self._one_time
        self._logical.confirm_submission()
        if oldest.value == RECORDING:
            if len(one_time) >= _MAX_OPEN:
                return oldest
        elif len(one_time) >= MAX_IN_FLIGHT:
            self.wait(oldest.value)
            return oldest
        elif self.submitted % _QUERY_INTERVAL == 0 or oldest.value <= self.completed:
            if self.reached(oldest.value):
                return oldest
        one_time.appendleft(CommandBuffer())
        return one_time[0]

    def finish(self, commands: int) -> None:
        """End a command buffer that `begin` returned."""
        self.commands.end(commands)

    def abandon(self, commands: int) -> None:
        """Take back a command buffer unless a submission has it; it is used next."""
        one_time = self._one_time
        buffer = self._find_buffer(commands)
        if buffer.value == RECORDING:
            self.commands.reset(buffer)
            if buffer is one_time[-1]:
                one_time.rotate(1)

    def _find_buffer(self, commands: int) -> CommandBuffer:
        """Return the record of a command buffer that `begin` returned."""
        last = self._one_time[-1]
        if last.handle == commands:
            return last
        return next(each for each in self._one_time if each.handle == commands)

    def allocate_for(self, owner: object) -> CommandBuffer:
        """Return an open command buffer for any number of submissions.

        See `CommandPool.allocate_for`; the caller holds the device's lock.
        """
        return self.commands.allocate_for(owner, self.reached)

    def reserve(self) -> TimelinePoint:
        """Return the number of the next submission, which `send` gives to the driver.

        The caller holds the device's lock until then, asks nothing of this queue in
        between, and leaves no trace that the point must not have if it never comes to
        `send`: the point is reached all the same, after all that was submitted before.
        """
        logical = self._logical
        if logical.unconfirmed is not None:
            logical.confirm_submission()
        logical.unconfirmed = self
        self.submitted = value = self.submitted + 1
        point: TimelinePoint = _tuple(TimelinePoint, (self, value))
        return point

    def send(
        self,
        commands: int,
        waits: Mapping["Queue", int],
        label: str,
        point: TimelinePoint,
        before: CommandBuffer | None = None,
    ) -> None:
        """Submit a command buffer that is finished; does not wait for the device.

        Parameters
        ----------
        commands : int
            What `begin` returned.
        waits : mapping of Queue to int
            Numbers on other queues that must be reached before it starts.
        label : str
            What it does, for the message of a failure.
        point : TimelinePoint
            What `reserve` returned.
        before : CommandBuffer or None
            One that is sealed, to run before it.
        """
        self._find_buffer(commands).value = point.value
        if before is None:
            self._send(commands, None, waits, label, point.value)
        else:
            before.value = point.value
            self._send(before.handle, commands, waits, label, point.value)
            self._logical.counters.resubmits += 1

    def submit(
        self,
        commands: int,
        waits: Mapping["Queue", int],
        label: str,
    ) -> TimelinePoint:
        """Finish and send a command buffer whose point is not reserved beforehand.

        Returns
        -------
        TimelinePoint
            When it will be finished.
        """
        self.finish(commands)
        point = self.reserve()
        self.send(commands, waits, label, point)
        return point

    def resubmit(
        self,
        first: CommandBuffer,
        then: CommandBuffer | None,
        waits: Mapping["Queue", int],
        label: str,
        point: TimelinePoint,
    ) -> None:
        """Submit one or two reusable command buffers again.

        Parameters
        ----------
        first : CommandBuffer
            One that is sealed.
        then : CommandBuffer or None
            Another such, to run after it.
        waits, label, point
            See `send`.
        """
        first.value = value = point.value
        if then is None:
            self._send(first.handle, None, waits, label, value)
        else:
            then.value = value
            self._send(first.handle, then.handle, waits, label, value)
        self._logical.counters.resubmits += 1

    def throttle(self) -> None:
        """Throttle the host: wait if `MAX_IN_FLIGHT` submissions are unfinished."""
        oldest = self.submitted - MAX_IN_FLIGHT
        if oldest > self.completed:
            self.wait(oldest)

    def _send(
        self,
        first: int,
        then: int | None,
        waits: Mapping["Queue", int],
        label: str,
        value: int,
    ) -> None:
        """Submit with preallocated structures."""
        logical = self._logical
        info = self._submit_info
        self._first_info.commandBuffer = first
        info.commandBufferInfoCount = 1
        if then is not None:
            self._second_info.commandBuffer = then
            info.commandBufferInfoCount = 2
        self._signal.value = value
        info.waitSemaphoreInfoCount = len(waits)
        if waits:
            rows = [_semaphore_info(*wait) for wait in waits.items()]
            info.pWaitSemaphoreInfos = (vk.VkSemaphoreSubmitInfo * len(rows))(*rows)
        if logical.unconfirmed is not self or self.submitted != value:
            raise SubmissionOvertaken(
                f"vkQueueSubmit2: {label}: another submission was made within this one,"
                f" by a signal handler or a finalizer; this one was not sent"
            )
        submit = self._functions.vkQueueSubmit2
        result = submit(self.handle, 1, self._submit_reference, 0)
        if result:
            # By the specification nothing has happened then.
            self._skipped.add(value)
            self._fail("vkQueueSubmit2", result, label)
        logical.unconfirmed = None
        logical.counters.submits += 1

    def is_accepted(self, value: int) -> bool:
        """Return whether submission `value` was accepted: is done, or will be."""
        if value not in self._skipped:
            self._logical.confirm_submission()
        return value not in self._skipped

    def confirm_submission(self) -> None:
        """Resolve the last submission; see `LogicalDevice.confirm_submission`."""
        logical, value = self._logical, self.submitted
        logical.idle()
        if not self._query_counter(value):
            self._skipped.add(value)
            info = runtime.make(
                vk.VkSemaphoreSignalInfo, semaphore=self.semaphore, value=value
            )
            result = self._functions.vkSignalSemaphore(
                logical.handle, ctypes.byref(info)
            )
            if result:
                self._fail("vkSignalSemaphore", result, "")

    def reached(self, value: int) -> bool:
        """Return whether submission `value` is finished; does not wait."""
        if value <= self.completed:
            return True
        self._logical.check_lost()
        self._logical.confirm_submission()
        return self._query_counter(value)

    def _query_counter(
        self, value: int, counter: Any = None, reference: Any = None
    ) -> bool:
        """Query the semaphore's counter; return whether it has reached `value`.

        Given both, the driver writes to `counter`, which `reference` refers to.
        """
        if counter is None:
            counter = ctypes.c_uint64()
            reference = ctypes.byref(counter)
        functions = self._functions
        # Another thread may have closed the device meanwhile.
        if value <= self.completed:
            return True
        result = functions.vkGetSemaphoreCounterValue(
            self._logical.handle, self.semaphore, reference
        )
        if result:
            self._fail("vkGetSemaphoreCounterValue", result, "")
        self.completed = max(self.completed, counter.value)
        return value <= self.completed

    def wait(self, value: int, timeout_seconds: float | None = None) -> bool:
        """Wait for submission `value`; return False if the time ran out first."""
        if value <= self.completed:
            return True
        deadline = None
        if timeout_seconds is not None:
            deadline = time.monotonic() + timeout_seconds
        elif self._poll_seconds and self.poll(value, self._poll_seconds):
            return True
        waits = self._idle_waits
        try:
            wait = waits.pop()
        except IndexError:
            wait = self._make_wait()
        wait.values[0] = value
        reached = self._wait(value, wait, deadline)
        # Not after an interrupt, which may have left its lock held.
        waits.append(wait)
        return reached

    def _make_wait(self) -> _Wait:
        """Return what waits for the timeline, for one wait at a time."""
        values = (ctypes.c_uint64 * 1)()
        info = runtime.make(
            vk.VkSemaphoreWaitInfo,
            semaphoreCount=1,
            pSemaphores=[self.semaphore],
            pValues=values,
        )
        return _Wait(values, ctypes.byref(info), threading.RLock())

    def poll(self, value: int, seconds: float) -> bool:
        """Wait for a short time by polling; return whether `value` was reached.

        On a software device, which needs the processor, it only looks.
        """
        if value <= self.completed:
            return True
        # A loss shows in the counter's query, and what was unconfirmed is resolved.
        self._logical.check_lost()
        self._logical.confirm_submission()
        counters = self._counters
        try:
            counter, reference = counters.pop()
        except IndexError:
            counter = ctypes.c_uint64()
            reference = ctypes.byref(counter)
        try:
            if self._query_counter(value, counter, reference):
                return True
            until = time.monotonic() + seconds if self._poll_seconds else 0.0
            while time.monotonic() < until:
                if self._query_counter(value, counter, reference):
                    return True
            return False
        finally:
            counters.append((counter, reference))

    def _wait(self, value: int, wait: _Wait, deadline: float | None) -> bool:
        """Wait in slices, in which the driver blocks."""
        logical = self._logical
        while True:
            if value <= self.completed:
                return True
            logical.check_lost()
            if logical.unconfirmed is not None:
                logical.confirm_submission()
            left = _WAIT_SLICE_SECONDS
            if deadline is not None:
                left = min(left, max(0.0, deadline - time.monotonic()))
            result = self._wait_slice(value, wait, int(left * _NANOSECONDS))
            if result == vk.VK_SUCCESS:
                self.completed = max(self.completed, value)
                return True
            if result != vk.VK_TIMEOUT:
                self._fail("vkWaitSemaphores", result, "")
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def _wait_slice(self, value: int, wait: _Wait, nanoseconds: int) -> int:
        """Wait for one slice; return the driver's result."""
        logical, ask = self._logical, self._functions.vkWaitSemaphores
        handle, call, reference = logical.handle, wait.call, wait.reference
        with call:
            try:
                logical.unlocked_calls.add(call)
                # A device that was closed meanwhile had come to the end of everything,
                # and its semaphore is gone.
                if value <= self.completed:
                    return vk.VK_SUCCESS
                return int(ask(handle, reference, nanoseconds))
            finally:
                logical.unlocked_calls.discard(call)

    def _fail(self, call: str, result: int, label: str) -> None:
        """Raise the error of a failed call, with the queue's progress."""
        after = f"after '{label}'; " if label else ""
        sent = self.submitted - (self._logical.unconfirmed is self)
        self._logical.check(
            call,
            result,
            f"{after}last completed timeline value {self.completed} of"
            f" {sent} on the {self.name} queue",
        )

    def drain(self) -> None:
        """Wait for everything submitted; a lost device counts as finished."""
        try:
            self._logical.confirm_submission()
            self.wait(self.submitted)
        except DeviceLost:
            self.completed = self.submitted

    def close(self) -> None:
        """Destroy the semaphore and the command buffers; the queue must be idle."""
        for call in self.at_close:
            call()
        self.commands.close()
        self._logical.destroy("Semaphore", self.semaphore)


def poll_seconds(info: DeviceInfo) -> float:
    """Return for how long a wait for a device polls before it blocks."""
    if info.target.shares_processor:
        return 0.0
    return _DISCRETE_POLL_SECONDS if info.kind == "discrete" else _POLL_SECONDS


def _semaphore_info(queue: Queue, value: int) -> vk.VkSemaphoreSubmitInfo:
    return runtime.make(
        vk.VkSemaphoreSubmitInfo,
        semaphore=queue.semaphore,
        value=value,
        stageMask=vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    )
