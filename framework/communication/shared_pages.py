"""Pages that the processes of one machine share, and the status that lies in them.

Each process has a section of `SECTION` words of 8 bytes, which it alone writes:

| words | what |
| --- | --- |
| `STATE` | `RUNNING`, `ENDED` or `FAILED` |
| `PROCESS` | number of the process at the operating system |
| `EPOCH` | grows before and after a change of what it waits for; odd within one |
| `COUNT`, then pairs | counters that it waits for, and their least values |
| `WHAT`, `WHY` | texts: what it waits in, and why it failed |
| `COUNTERS` | counters: they grow, and are never reset |
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import vkbackend
from vkbackend import window_pages

from ..base.errors import DistributedError

PAGE = 4096
SECTION = 1 << 14
"""Words of one process."""

STATE, PROCESS, EPOCH, COUNT, CONDITIONS, WHAT, WHY, COUNTERS = (
    *(0, 1, 2, 3, 4, 128, 256, 512),
)
MOST_CONDITIONS = (WHAT - CONDITIONS) // 2
UNKNOWN = MOST_CONDITIONS + 1
"""As `COUNT`: it waits for what others cannot judge."""

RUNNING, ENDED, FAILED = 1, 2, 3
_STORE = "/dev/shm"


def free_shared_bytes() -> int:
    """Return how many bytes of shared pages this machine has left."""
    try:
        found = os.statvfs(_STORE)
    except OSError:
        return sys.maxsize
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True)
class Wait:
    """What a process waits for, as others read it.

    Attributes
    ----------
    epoch : int
        Another one once it waits for something else.
    conditions : tuple of (int, int), or None
        Counters and their least values; None where that is unknown.
    text : str
        What it waits in.
    """

    epoch: int
    conditions: tuple[tuple[int, int], ...] | None
    text: str


class SharedPages:
    """Pages of an MPI window that all processes of a communicator have mapped.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine; all call this.
    size : int
        Bytes for each of them.

    Attributes
    ----------
    bytes : memoryview
        All of them, in the order of ranks, from the beginning of a page.
    """

    def __init__(self, comm: Any, size: int) -> None:
        from mpi4py import MPI

        total = comm.size * size + 2 * PAGE if comm.rank == 0 else 0
        free = comm.bcast(free_shared_bytes(), 0)
        if comm.size * size > free // 2:
            raise DistributedError(
                f"distributed: {comm.size} processes need {comm.size * size} bytes of"
                f" shared memory, and {_STORE} has {free} left; enlarge it"
            )
        self._window = MPI.Win.Allocate_shared(total, 1, comm=comm)
        pages, _ = self._window.Shared_query(0)
        start = -pages.address % PAGE
        buffer: Any = pages
        whole = memoryview(buffer).cast("B")
        self.bytes = whole[start : start + comm.size * size]
        self.address = pages.address + start
        self._window.Lock_all(MPI.MODE_NOCHECK)

    def imported(self, gpu: vkbackend.Device) -> vkbackend.Buffer:
        """Return the pages as a buffer of a device, from the first of the bytes on.

        Parameters
        ----------
        gpu : vkbackend.Device

        Raises
        ------
        vkbackend.Error
            If the device cannot import them.
        """
        size = -(-len(self.bytes) // PAGE) * PAGE
        pages = window_pages(self._window, self.address, size)
        return gpu.import_pages(pages, name="shared pages")

    def fence(self) -> None:
        """Order what this process has read and written before what it will."""
        self._window.Sync()

    def close(self) -> None:
        """Free the pages; all processes call this."""
        self.bytes = memoryview(b"")
        self._window.Unlock_all()
        self._window.Free()


class ControlPages:
    """Status and counters of the processes of one machine.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Those processes; all call this.
    ranks : sequence of int
        Their ranks in the world.
    """

    def __init__(self, comm: Any, ranks: Sequence[int]) -> None:
        self._pages = SharedPages(comm, 8 * SECTION)
        self.ranks = tuple(ranks)
        self.words = self._pages.bytes.cast("Q")
        self._bytes = self._pages.bytes
        self._own = comm.rank * SECTION
        self._free = list(range(self._own + SECTION - 1, self._own + COUNTERS - 1, -1))
        self.words[self._own + STATE] = RUNNING
        self.words[self._own + PROCESS] = os.getpid()
        comm.Barrier()
        self._peers = {}
        for place, rank in enumerate(self.ranks):
            if place != comm.rank:
                self._peers[rank] = _handle_of(self.words[place * SECTION + PROCESS])
        comm.Barrier()

    def fence(self) -> None:
        """Order what this process has read and written before what it will."""
        self._pages.fence()

    def close(self) -> None:
        """Free the pages; all processes call this."""
        self.words.release()
        self._bytes.release()
        self._pages.close()

    # Counters

    def allocate(self, count: int) -> list[int]:
        """Return counters of this process: places in `words`, which hold 0.

        Raises
        ------
        DistributedError
            If there are too many groups.
        """
        if count > len(self._free):
            raise DistributedError(
                f"distributed: {count} counters are asked for and {len(self._free)} are"
                " left; destroy groups that are not used any more"
            )
        found = [self._free.pop() for _ in range(count)]
        for place in found:
            self.words[place] = 0
        return found

    def give_back(self, counters: Sequence[int]) -> None:
        """Let counters be used for another group."""
        self._free += counters

    def owner(self, counter: int) -> int:
        """Return the rank, in the world, that a counter belongs to."""
        return self.ranks[counter // SECTION]

    # Status

    def publish(
        self, conditions: Sequence[tuple[int, int]] | None, text: str = ""
    ) -> None:
        """Say what this process waits for; nothing, where there are no conditions.

        Parameters
        ----------
        conditions : sequence of (int, int), or None
            Counters and their least values; None where others cannot judge it.
        text : str
            What it waits in.
        """
        words, own = self.words, self._own
        words[own + EPOCH] += 1
        self.fence()
        if conditions is None or len(conditions) > MOST_CONDITIONS:
            words[own + COUNT] = UNKNOWN
        else:
            words[own + COUNT] = len(conditions)
            for k, pair in enumerate(conditions):
                start = own + CONDITIONS + 2 * k
                words[start], words[start + 1] = pair
        self._write(own + WHAT, own + WHY, text)
        self.fence()
        words[own + EPOCH] += 1

    def waits(self) -> dict[int, Wait]:
        """Return what the processes wait for that do, by rank in the world."""
        found = {}
        words = self.words
        for place, rank in enumerate(self.ranks):
            start = place * SECTION
            epoch = words[start + EPOCH]
            self.fence()
            count = words[start + COUNT]
            pairs = None
            if count <= MOST_CONDITIONS:
                first = start + CONDITIONS
                flat = words[first : first + 2 * count].tolist()
                pairs = tuple(zip(flat[::2], flat[1::2]))
            text = self._read(start + WHAT, start + WHY)
            self.fence()
            if count and not epoch & 1 and words[start + EPOCH] == epoch:
                found[rank] = Wait(epoch, pairs, text)
        return found

    def end(self, why: str | None = None) -> None:
        """Say that this process has ended: by itself, or for a reason that is told."""
        if why is not None:
            self._write(self._own + WHY, self._own + COUNTERS, why)
        self.fence()
        self.words[self._own + STATE] = ENDED if why is None else FAILED

    def state(self, rank: int) -> int:
        """Return the state of a process, as it has said itself."""
        return self.words[self.ranks.index(rank) * SECTION + STATE]

    def obituary(self, rank: int) -> str:
        """Return how a process has ended; nothing of one that runs.

        Parameters
        ----------
        rank : int
            In the world.
        """
        if rank not in self._peers:
            return ""
        start = self.ranks.index(rank) * SECTION
        gone = _is_gone(self._peers[rank])
        self.fence()
        state = self.words[start + STATE]
        if state == FAILED:
            return f"has failed ({self._read(start + WHY, start + COUNTERS)})"
        if state == ENDED:
            return "has ended"
        if gone:
            return f"was killed (process {self.words[start + PROCESS]})"
        return ""

    def _write(self, first: int, last: int, text: str) -> None:
        room = 8 * (last - first) - 8
        data = text.encode()[:room]
        start = 8 * (first + 1)
        self._bytes[start : start + len(data)] = data
        self.words[first] = len(data)

    def _read(self, first: int, last: int) -> str:
        start, size = 8 * (first + 1), self.words[first]
        size = min(size, 8 * (last - first) - 8)
        return bytes(self._bytes[start : start + size]).decode(errors="replace")


def _handle_of(process: int) -> int | select.poll:
    """Return what tells the end of a process, also where its number is used again."""
    try:
        handle = os.pidfd_open(process)
    except (AttributeError, OSError):
        return process
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return poll


def _is_gone(handle: int | select.poll) -> bool:
    if not isinstance(handle, int):
        return bool(handle.poll(0))
    try:
        os.kill(handle, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
