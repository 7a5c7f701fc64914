"""Queues, each with one timeline semaphore that counts its submissions.

A `TimelinePoint` says *when*: after the submission with that number on that queue. Work
is ordered by three rules, which the rest of the device layer builds on:

- Every command buffer begins with a full memory barrier, so a submission sees all that
  earlier submissions to the *same* queue did, and may overwrite what they read.
- Work on *another* queue is waited for with a semaphore: the caller passes its points.
- Every command buffer ends with a barrier towards the host, so the host may read mapped
  memory once it has waited for the point.
"""

import collections
import ctypes
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .errors import DeviceLost
from .logical import LogicalDevice
from .vk import generated as vk
from .vk import runtime

# Longest uninterrupted wait: Python handles Ctrl-C between slices.
_WAIT_SLICE_SECONDS = 0.1
_NANOSECONDS = 1_000_000_000
# A short wait polls instead: blocking and waking up costs 20 us, and what the host does
# next then takes three times as long (130 us for a replay that takes 45 us beside an
# NVIDIA H200, driver 580.159.04, 2026-11-21). Never on a software device, which needs
# the processor itself.
_POLL_SECONDS = 2e-3
# A host that runs further ahead than this waits for its oldest submission.
_MAX_IN_FLIGHT = 64
# Submissions between two questions to the driver how far it is, which cost as much as
# the submission itself.
_ASK_EVERY = 16


# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


class TimelinePoint(NamedTuple):
    """The end of one submission: number `value` on `queue`."""

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


def wait_all(points: Iterable[TimelinePoint]) -> None:
    """Wait for every point."""
    for point in points:
        point.wait()


def latest(points: Iterable[TimelinePoint]) -> tuple[TimelinePoint, ...]:
    """Return the last point of each queue, without those known to be done.

    The device is not asked: this runs for each buffer that dies.
    """
    if type(points) is tuple and len(points) == 1:
        (only,) = points
        return points if only.value > only.queue.completed else ()
    last: dict[Queue, TimelinePoint] = {}
    for point in points:
        known = last.get(point.queue)
        if known is None or known.value < point.value:
            last[point.queue] = point
    return tuple(
        [point for point in last.values() if point.value > point.queue.completed]
    )


def memory_barrier(
    source: tuple[int, int], destination: tuple[int, int]
) -> vk.VkDependencyInfo:
    """Return a `VkDependencyInfo` with one global barrier of (stages, accesses)."""
    barrier = runtime.make(
        vk.VkMemoryBarrier2,
        srcStageMask=source[0],
        srcAccessMask=source[1],
        dstStageMask=destination[0],
        dstAccessMask=destination[1],
    )
    return runtime.make(
        vk.VkDependencyInfo,
        memoryBarrierCount=1,
        pMemoryBarriers=barrier,
    )


_ANYTHING = (
    vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    vk.VK_ACCESS_2_MEMORY_READ_BIT | vk.VK_ACCESS_2_MEMORY_WRITE_BIT,
)
_ANY_WRITE = (
    vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    vk.VK_ACCESS_2_MEMORY_WRITE_BIT,
)
_HOST_READ = (vk.VK_PIPELINE_STAGE_2_HOST_BIT, vk.VK_ACCESS_2_HOST_READ_BIT)
_ACQUIRE = ctypes.byref(memory_barrier(_ANYTHING, _ANYTHING))
_RELEASE = ctypes.byref(memory_barrier(_ANY_WRITE, _HOST_READ))


class Queue:
    """A device queue, its timeline semaphore and its command buffers.

    Attributes
    ----------
    handle : int
        The `VkQueue`.
    name : str
        For messages: `compute` or `transfer`.
    submitted : int
        Number of the last submission; 0 before the first.
    completed : int
        Last number known to be finished.
    at_close : list of callable
        Called before the queue's objects are destroyed, when it is idle.
    """

    def __init__(self, logical: LogicalDevice, family: int, name: str) -> None:
        self.name = name
        self.family = family
        self.submitted = 0
        self.completed = 0
        self.at_close: list[Callable[[], None]] = []
        self._logical = logical
        self._polls = logical.info.kind != "software"
        self._functions = logical.functions
        handle = ctypes.c_void_p()
        wanted = runtime.make(vk.VkDeviceQueueInfo2, queueFamilyIndex=family)
        logical.functions.vkGetDeviceQueue2(
            logical.handle, ctypes.byref(wanted), ctypes.byref(handle)
        )
        assert handle.value is not None
        self.handle = handle.value
        logical.set_name("Queue", self.handle, name)
        self.semaphore = self._create_semaphore()
        self._pool = logical.create(
            "CommandPool",
            runtime.make(
                vk.VkCommandPoolCreateInfo,
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                queueFamilyIndex=family,
            ),
            f"{name} commands",
        )
        self._used: collections.deque[tuple[int, int]] = collections.deque()
        self._spare: list[int] = []
        # Filled by whatever drops a recording, which may happen at any moment.
        self._retired: collections.deque[tuple[int, int]] = collections.deque()
        self._begin_once = runtime.make(
            vk.VkCommandBufferBeginInfo,
            flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
        )
        self._begin_often = runtime.make(
            vk.VkCommandBufferBeginInfo,
            flags=vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
        )
        # The commands of a submission, and others that follow them.
        self._command_infos = (vk.VkCommandBufferSubmitInfo * 2)(
            *[runtime.make(vk.VkCommandBufferSubmitInfo) for _ in range(2)]
        )
        # Looking them up, and referring to them, takes a microsecond each time.
        self._first_info, self._second_info = self._command_infos
        self._once_reference = ctypes.byref(self._begin_once)
        self._signal = _semaphore_info(self, 0)
        self._submit_info = runtime.make(
            vk.VkSubmitInfo2,
            pCommandBufferInfos=self._command_infos,
            signalSemaphoreInfoCount=1,
            pSignalSemaphoreInfos=self._signal,
        )
        self._submit_reference = ctypes.byref(self._submit_info)

    def _create_semaphore(self) -> int:
        kind = runtime.make(
            vk.VkSemaphoreTypeCreateInfo,
            semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE,
            initialValue=0,
        )
        info = runtime.make(vk.VkSemaphoreCreateInfo, pNext=kind)
        return self._logical.create("Semaphore", info, f"{self.name} timeline")

    def begin(self, reusable: bool = False, again: int | None = None) -> int:
        """Return a command buffer that is recording, past its first barrier.

        The caller holds the device's lock until it has called `submit`, `finish` or
        `abandon`. Waits only when `_MAX_IN_FLIGHT` submissions are unfinished.

        Parameters
        ----------
        reusable : bool, default False
            Whether it is for `finish`, and then submitted any number of times.
        again : int or None
            A reusable one that is not in use, to begin anew.
        """
        commands = self._next_buffer() if again is None else again
        often = ctypes.byref(self._begin_often) if reusable else self._once_reference
        result = self._functions.vkBeginCommandBuffer(commands, often)
        runtime.check("vkBeginCommandBuffer", result, self.name)
        self._functions.vkCmdPipelineBarrier2(commands, _ACQUIRE)
        return commands

    def finish(self, commands: int, last: bool = True) -> None:
        """End a command buffer, behind a barrier towards the host if it goes last."""
        functions = self._functions
        if last:
            functions.vkCmdPipelineBarrier2(commands, _RELEASE)
        runtime.check("vkEndCommandBuffer", functions.vkEndCommandBuffer(commands))

    def retire(self, commands: int, value: int) -> None:
        """Take back a reusable command buffer that `value` submitted last.

        May be called at any moment, also by garbage collection.
        """
        self._retired.append((value, commands))

    def _next_buffer(self) -> int:
        while self._retired:
            self._used.append(self._retired.popleft())
        if self._spare:
            return self._spare.pop()
        if self._used:
            value, commands = self._used[0]
            ask = self.submitted % _ASK_EVERY == 0 and self.reached(value)
            if ask or value <= self.completed or len(self._used) >= _MAX_IN_FLIGHT:
                self.wait(value)
                self._used.popleft()
                return commands
        return self._allocate_buffer()

    def _allocate_buffer(self) -> int:
        info = runtime.make(
            vk.VkCommandBufferAllocateInfo,
            commandPool=self._pool,
            level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            commandBufferCount=1,
        )
        handle = ctypes.c_void_p()
        result = self._functions.vkAllocateCommandBuffers(
            self._logical.handle, ctypes.byref(info), ctypes.byref(handle)
        )
        runtime.check("vkAllocateCommandBuffers", result, self.name)
        assert handle.value is not None
        return handle.value

    def abandon(self, commands: int) -> None:
        """Take back a command buffer whose recording failed."""
        self._functions.vkResetCommandBuffer(commands, 0)
        self._spare.append(commands)

    def submit(
        self,
        commands: int,
        waits: Mapping["Queue", int],
        label: str,
    ) -> TimelinePoint:
        """End and submit a command buffer; does not wait for the device.

        Parameters
        ----------
        commands : int
            What `begin` returned.
        waits : mapping of Queue to int
            Numbers on other queues that must be reached before it starts.
        label : str
            What it does, for the message of a failure.

        Returns
        -------
        TimelinePoint
            When it will be finished.
        """
        self.finish(commands)
        point = self._send(commands, None, waits, label)
        self._used.append((point.value, commands))
        return point

    def submit_again(
        self, first: int, then: int | None, waits: Mapping["Queue", int], label: str
    ) -> TimelinePoint:
        """Submit one or two reusable command buffers once more.

        Waits only when `_MAX_IN_FLIGHT` submissions are unfinished.

        Parameters
        ----------
        first : int
            What `finish` ended.
        then : int or None
            Another such, to run after it.
        waits, label
            See `submit`.
        """
        oldest = self.submitted - _MAX_IN_FLIGHT
        if oldest > self.completed:
            self.wait(oldest)
        return self._send(first, then, waits, label)

    def _send(
        self, first: int, then: int | None, waits: Mapping["Queue", int], label: str
    ) -> TimelinePoint:
        """Submit with the same structures each time, filled in."""
        info = self._submit_info
        self._first_info.commandBuffer = first
        info.commandBufferInfoCount = 1
        if then is not None:
            self._second_info.commandBuffer = then
            info.commandBufferInfoCount = 2
        value = self.submitted + 1
        self._signal.value = value
        info.waitSemaphoreInfoCount = len(waits)
        if waits:
            rows = [_semaphore_info(*wait) for wait in waits.items()]
            info.pWaitSemaphoreInfos = (vk.VkSemaphoreSubmitInfo * len(rows))(*rows)
        submit = self._functions.vkQueueSubmit2
        result = submit(self.handle, 1, self._submit_reference, 0)
        if result != vk.VK_SUCCESS:
            self._fail("vkQueueSubmit2", result, label)
        self.submitted = value
        self._logical.counters.submits += 1
        point: TimelinePoint = _tuple(TimelinePoint, (self, value))
        return point

    def reached(self, value: int) -> bool:
        """Return whether submission `value` is finished; does not wait."""
        if value <= self.completed:
            return True
        counter = ctypes.c_uint64()
        result = self._functions.vkGetSemaphoreCounterValue(
            self._logical.handle, self.semaphore, ctypes.byref(counter)
        )
        if result != vk.VK_SUCCESS:
            self._fail("vkGetSemaphoreCounterValue", result, "")
        self.completed = max(self.completed, counter.value)
        return value <= self.completed

    def wait(self, value: int, timeout_seconds: float | None = None) -> bool:
        """Wait for submission `value`; return False if the time ran out first."""
        if value <= self.completed:
            return True
        now = time.monotonic()
        deadline = None if timeout_seconds is None else now + timeout_seconds
        if self._polls and timeout_seconds is None:
            while time.monotonic() < now + _POLL_SECONDS:
                if self.reached(value):
                    return True
        info = runtime.make(
            vk.VkSemaphoreWaitInfo,
            semaphoreCount=1,
            pSemaphores=[self.semaphore],
            pValues=[value],
        )
        while True:
            left = _WAIT_SLICE_SECONDS
            if deadline is not None:
                left = min(left, max(0.0, deadline - time.monotonic()))
            result = self._functions.vkWaitSemaphores(
                self._logical.handle, ctypes.byref(info), int(left * _NANOSECONDS)
            )
            if result == vk.VK_SUCCESS:
                self.completed = max(self.completed, value)
                return True
            if result != vk.VK_TIMEOUT:
                self._fail("vkWaitSemaphores", result, "")
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def _fail(self, call: str, result: int, label: str) -> None:
        """Raise the error of a failed call, with how far the queue had got."""
        after = f"after '{label}'; " if label else ""
        runtime.check(
            call,
            result,
            f"{after}last completed timeline value {self.completed} of"
            f" {self.submitted} on the {self.name} queue",
        )

    def drain(self) -> None:
        """Wait for everything submitted; a lost device counts as finished."""
        try:
            self.wait(self.submitted)
        except DeviceLost:
            self.completed = self.submitted

    def close(self) -> None:
        """Destroy the semaphore and the command buffers; the queue must be idle."""
        for call in self.at_close:
            call()
        self._logical.destroy("CommandPool", self._pool)
        self._logical.destroy("Semaphore", self.semaphore)


def _semaphore_info(queue: Queue, value: int) -> vk.VkSemaphoreSubmitInfo:
    return runtime.make(
        vk.VkSemaphoreSubmitInfo,
        semaphore=queue.semaphore,
        value=value,
        stageMask=vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    )
