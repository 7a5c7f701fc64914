"""Memcpy threads: copies of host memory that several cores share."""

import ctypes
import os
import queue
import threading
from typing import Any

from vkbackend.driver.logical_device import LogicalDevice


def thread_count(most: int, idle_cores: int | None = None) -> int:
    """Return how many threads copy, the caller's included: 1 where cores are few.

    By default half of the cores that the process may use: the others feed the device,
    and with one or two cores handing over costs more than it gains.

    Parameters
    ----------
    most : int
        At least 1.
    idle_cores : int, optional
        Cores that do not copy, where half of them would be more.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    others = cores - cores // 2
    if idle_cores is not None:
        others = min(others, idle_cores)
    return max(1, min(most, cores - others))


class _Copy:
    """A copy that is shared: whoever takes part draws slices until none is left."""

    def __init__(self, target: int, source: int, size: int, slice_size: int) -> None:
        self._slice_size = slice_size
        self._target = target
        self._source = source
        self._size = size
        # Drawing from it is one step under the interpreter lock.
        self._slices = iter(range(0, size, slice_size))
        self._moved: list[int] = []
        self._helpers: set[Any] = set()
        self._drained = False

    @property
    def complete(self) -> bool:
        """Whether every byte was copied."""
        return sum(self._moved) == self._size

    def run(self, logical: LogicalDevice) -> None:
        """Copy slices, until none is left or the device is being closed."""
        for first in self._slices:
            target, source = self._target + first, self._source + first
            size = min(self._slice_size, self._size - first)
            if not logical.closing and ctypes.memmove(target, source, size):
                self._moved.append(size)

    def help(self, logical: LogicalDevice) -> None:
        """Take part from a thread that has not begun the copy, unless it is over."""
        call = threading.RLock()
        with call:
            self._helpers.add(call)
            if self._drained:
                return
            logical.unlocked_calls.add(call)
            try:
                self.run(logical)
            finally:
                logical.unlocked_calls.discard(call)

    def drain(self) -> None:
        """Wait for those who take part, and let no other begin."""
        self._drained = True
        for call in tuple(self._helpers):
            with call:
                pass


class MemcpyThreads:
    """Threads that share the copies of one device; they start at the first large one.

    Parameters
    ----------
    logical : LogicalDevice
        Whose closing ends copies, and waits for those that have begun.
    threads : int
        How many copy, the caller's included.
    slice_size : int
        Bytes that each copies at a time.
    """

    def __init__(self, logical: LogicalDevice, threads: int, slice_size: int) -> None:
        self._slice_size = slice_size
        self._logical = logical
        self._max_helpers = threads - 1
        self._helpers: list[threading.Thread] = []
        self._copies: queue.SimpleQueue[_Copy | None] = queue.SimpleQueue()

    def shares(self, size: int) -> bool:
        """Whether a copy of so many bytes is shared."""
        return self._max_helpers > 0 and size > self._slice_size

    def move(self, target: int, source: int, size: int) -> bool:
        """Copy between addresses; return False if the device was closed meanwhile.

        No thread touches the memory once it has returned or raised.
        """
        copy = _Copy(target, source, size, self._slice_size)
        try:
            try:
                self._summon(copy, (size - 1) // self._slice_size)
                copy.run(self._logical)
            finally:
                copy.drain()
        finally:
            # Again, for an interrupt that stopped the first.
            copy.drain()
        return copy.complete

    def _summon(self, copy: _Copy, most: int) -> None:
        """Hand the copy to helpers; without any, the caller copies everything."""
        while len(self._helpers) < self._max_helpers:
            helper = threading.Thread(
                target=_help, args=(self._copies, self._logical), daemon=True
            )
            self._helpers.append(helper)
            try:
                helper.start()
            except RuntimeError:
                # The system or the interpreter, which may be ending, has no more.
                self._helpers.pop()
                self._max_helpers = len(self._helpers)
        for _ in range(min(most, self._max_helpers)):
            self._copies.put(copy)

    def close(self) -> None:
        """End the threads; a later copy is its caller's alone."""
        self._max_helpers = 0
        while self._helpers:
            self._copies.put(None)
            self._helpers.pop()


def _help(copies: "queue.SimpleQueue[_Copy | None]", logical: LogicalDevice) -> None:
    """Take part in copies until None comes."""
    while (copy := copies.get()) is not None:
        copy.help(logical)
        del copy
