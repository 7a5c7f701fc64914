"""Memory of the ranks' own cards from which the others pull.

What a rank gives lies in a block of its card's pool of memory that CUDA made. It tells
the others of a block when it gives something of it for the first time, with a
descriptor, and when the block is gone; numbers of blocks never come again. Which
messages there are each rank reads in the header of an exchange, so none is looked for
in vain, and a block is mapped once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import vkbackend
from vkbackend import cuda
from vkbackend.cuda import CudaBlock, CudaCopy, CudaMemory, CudaPool

from ..base.errors import DistributedError
from ..ir.kernel_call import linear_grid
from .descriptors import Links, first_failure
from .device_pages import Place
from .transport import Offer

_WORD = 4
_WORKGROUP = 256


class PeerMemory:
    """Blocks that the ranks of a group give each other, and pulls from them.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine; all make it at the same time.
    gpu : vkbackend.Device
        The card of this one.

    Raises
    ------
    DistributedError
        On all ranks, if one cannot give memory, or map that of another one.

    Attributes
    ----------
    gpu : vkbackend.Device
    told : int
        Messages that this rank has sent to each other one.
    """

    def __init__(self, comm: Any, gpu: vkbackend.Device) -> None:
        self.gpu, self.told = gpu, 0
        self._rank: int = comm.rank
        self._size: int = comm.size
        self._memory: CudaMemory | None = None
        self._pool: CudaPool | None = None
        self._links: Links | None = None
        self._given: set[int] = set()
        self._heard = [0] * comm.size
        self._opened: list[dict[int, CudaBlock]] = [{} for _ in range(comm.size)]
        try:
            self._open(comm)
        except BaseException:
            self.close()
            raise

    def _open(self, comm: Any) -> None:
        """Give a first block to all, and map theirs: what can fail does so here."""
        failure = ""
        try:
            self._memory = CudaMemory(self.gpu)
            self._pool = cuda.shared_pool(self.gpu)
            first = self._pool.allocate(1, name="first block")
        except (vkbackend.Error, MemoryError) as error:
            failure = str(error)
        _raise_on_all(comm, failure)
        self._links = Links(comm)
        try:
            self.offer((first, 0), [0])
            for rank in self.others():
                self.hear(rank, 1)
        except (vkbackend.Error, DistributedError) as error:
            failure = str(error)
        _raise_on_all(comm, failure)

    def others(self) -> Sequence[int]:
        """Return the other ranks, from the next one on: all begin with another card."""
        return [(self._rank + k) % self._size for k in range(1, self._size)]

    # Own memory

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._pool is not None

    @property
    def pool(self) -> CudaPool:
        """The pool of this rank's card."""
        assert self._pool is not None, "it is closed"
        return self._pool

    def holds(self, buffer: vkbackend.Buffer) -> bool:
        """Return whether the others can pull from a buffer, and pulls go to it."""
        return self.pool.place_of(buffer, 0) is not None

    def offer(self, place: Place, starts: Sequence[int]) -> Offer:
        """Return what others need to pull parts, after they were told of the block.

        Parameters
        ----------
        place : (Buffer, int)
            Of a buffer that `holds`.
        starts : sequence of int
            Where each part begins, in bytes from there.
        """
        found = self.pool.place_of(*place)
        assert found is not None, "the buffer is in the pool"
        block, offset = found
        for number in self._given - self.pool.numbers():
            self._tell(number)
            self._given.discard(number)
        if block.number not in self._given:
            descriptor = self.pool.export(block)
            try:
                self._tell(block.number, block.size, descriptor)
            finally:
                os.close(descriptor)
            self._given.add(block.number)
        return Offer(block.number, tuple(offset + each for each in starts), self.told)

    def _tell(self, number: int, size: int = 0, descriptor: int | None = None) -> None:
        assert self._links is not None
        try:
            for rank in self.others():
                self._links.send(rank, number, size, descriptor)
        except OSError as error:
            raise DistributedError(
                f"distributed: the other ranks cannot be told of memory: {error}"
            ) from error
        self.told += 1

    # That of others

    def hear(self, rank: int, told: int) -> None:
        """Take the messages of a rank, up to a number of all.

        Raises
        ------
        DistributedError
            If its memory cannot be mapped.
        """
        assert self._links is not None
        assert self._memory is not None
        try:
            while self._heard[rank] < told:
                number, size, descriptor = self._links.receive(rank)
                self._heard[rank] += 1
                if descriptor is None:
                    self._memory.free(self._opened[rank].pop(number))
                    continue
                try:
                    self._opened[rank][number] = self._memory.open(descriptor, size)
                finally:
                    os.close(descriptor)
        except (OSError, vkbackend.Error) as error:
            raise DistributedError(
                f"distributed: memory of rank {rank} cannot be mapped: {error}"
            ) from error

    def pull(
        self, rank: int, number: int, start: int, goal: Place, size: int
    ) -> CudaCopy:
        """Start to copy bytes of a rank's block to a buffer that `holds`."""
        assert self._memory is not None
        found = self.pool.place_of(*goal)
        assert found is not None, "the buffer is in the pool"
        source = self._opened[rank][number]
        return self._memory.pull(source, start, *found, size)

    def synchronize(self) -> None:
        """Wait for the pulls."""
        if self._memory is not None:
            self._memory.context.synchronize()

    # Within the card

    def copy(self, source: Place, goal: Place, size: int) -> vkbackend.TimelinePoint:
        """Start a copy between buffers of the card.

        A kernel makes it where the queue of kernels has got nothing since the source
        was written, at many times the rate of a copy engine. Otherwise it would wait
        for its turn there, and the queue for copies makes it.
        """
        gpu = self.gpu
        gpu.settle()
        x, out = (buffer.address + offset for buffer, offset in (source, goal))
        queue, written = gpu.compute_queue, source[0].last_write
        newest = written is not None and written == (queue, queue.submitted)
        words = not (x | out | size) % _WORD
        if not words or not (newest or queue.reached(queue.submitted)):
            return gpu.transfer.copy(source, goal, size)
        pipeline = gpu.pipeline("copy/words", constants={"LOCAL_X": _WORKGROUP})
        count = size // _WORD
        batch, arguments = gpu.batch(), {"x": x, "out_": out, "count": count}
        grid = linear_grid(count, _WORKGROUP)
        batch.dispatch(pipeline, grid, arguments, [(*source, size)], [(*goal, size)])
        return batch.submit()

    def close(self) -> None:
        """Wait for what is copied, and let go of all memory."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()
        if self._links is not None:
            self._links.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release()


def _raise_on_all(comm: Any, failure: str) -> None:
    failure = first_failure(comm, failure)
    if failure:
        raise DistributedError(f"distributed: {failure}")
