"""Mailboxes on the ranks' own cards: each writes its outbox, and the others pull.

An outbox has as many slots as those in shared pages; so has the inbox that pulls go to,
for each other rank.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import vkbackend
from vkbackend.cuda import CudaBlock, CudaCopy, CudaMemory

from ..base.errors import DistributedError
from .descriptors import exchange_descriptors, first_failure
from .device_pages import Place

CHUNK = 64 << 20
"""Bytes of a slot: the host's part of a pull hides behind so long a one."""

BYTES = 512 << 20
"""Most bytes of a card that mailboxes take."""

_ALIGNMENT = 64


def chunk_size(size: int, slots: int) -> int:
    """Return the bytes of a slot, of so many ranks with so many slots each."""
    return min(CHUNK, BYTES // (size * slots)) // _ALIGNMENT * _ALIGNMENT


class Mailboxes:
    """Outboxes of all ranks and an inbox, in memory of CUDA's.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine; all make it at the same time.
    gpu : vkbackend.Device
        The card of this one.
    slots : int
        Of each outbox.
    chunk : int
        Bytes of a slot.

    Raises
    ------
    DistributedError
        On all ranks, if one cannot have its own.

    Attributes
    ----------
    gpu : vkbackend.Device
    chunk, part : int
        Bytes of a slot, and of what each rank has of it where each gets another part.
    """

    def __init__(
        self, comm: Any, gpu: vkbackend.Device, slots: int, chunk: int
    ) -> None:
        self.gpu, self.chunk = gpu, chunk
        self.part = chunk // comm.size // _ALIGNMENT * _ALIGNMENT
        self._rank: int = comm.rank
        self._size: int = comm.size
        self._slots = slots
        self._memory: CudaMemory | None = None
        self._landed: list[list[vkbackend.TimelinePoint]] = [[] for _ in range(slots)]
        try:
            self._open(comm)
        except BaseException:
            self.close()
            raise

    def _open(self, comm: Any) -> None:
        """Make this rank's memory, and map the others'."""
        failure, descriptor = "", -1
        try:
            self._memory = CudaMemory(self.gpu)
            size = self._slots * self.chunk
            self._outbox, descriptor = self._memory.allocate(size)
            size *= self._size - 1
            self._inbox, own = self._memory.allocate(size)
            os.close(own)
        except (vkbackend.Error, MemoryError) as error:
            failure = str(error)
        try:
            _raise_on_all(comm, failure)
            found = exchange_descriptors(comm, descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        assert self._memory is not None
        self._outboxes: list[CudaBlock] = []
        try:
            for rank, each in enumerate(found):
                own_one = rank == self._rank
                size = self._outbox.size
                self._outboxes.append(
                    self._outbox if own_one else self._memory.open(each, size)
                )
        except vkbackend.Error as error:
            failure = str(error)
        finally:
            for each in found:
                os.close(each)
        _raise_on_all(comm, failure)

    def place(self, slot: int, offset: int) -> Place:
        """Return where an offset in a slot of this rank's outbox is."""
        return self._outbox.vulkan, slot * self.chunk + offset

    def landed(self, slot: int) -> list[vkbackend.TimelinePoint]:
        """Return what may still read a slot of the inbox."""
        found, self._landed[slot] = self._landed[slot], []
        return found

    def pull(self, rank: int, slot: int, offset: int, size: int) -> CudaCopy:
        """Start to copy bytes of a slot of another rank's outbox to the inbox."""
        assert self._memory is not None
        start = slot * self.chunk + offset
        goal = self._inbox_offset(rank, slot) + offset
        return self._memory.pull(self._outboxes[rank], start, self._inbox, goal, size)

    def land(self, rank: int, slot: int, offset: int, size: int, goal: Place) -> None:
        """Copy what was pulled to a place; see `landed`."""
        source = self._inbox.vulkan, self._inbox_offset(rank, slot) + offset
        self._landed[slot].append(self.copy(source, goal, size))

    def copy(
        self, source: Place, goal: Place, size: int, outward: bool = False
    ) -> vkbackend.TimelinePoint:
        """Start a copy within the card; see `Transfer.copy`."""
        self.gpu.settle()
        return self.gpu.transfer.copy(source, goal, size, outward)

    def others(self) -> Sequence[int]:
        """Return the other ranks, from the next one on: all begin with another card."""
        return [(self._rank + k) % self._size for k in range(1, self._size)]

    def _inbox_offset(self, rank: int, slot: int) -> int:
        place = (rank - self._rank) % self._size - 1
        return (slot * (self._size - 1) + place) * self.chunk

    def close(self) -> None:
        """Wait for what is copied, and let go of all memory."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()


def _raise_on_all(comm: Any, failure: str) -> None:
    failure = first_failure(comm, failure)
    if failure:
        raise DistributedError(f"distributed: {failure}")
