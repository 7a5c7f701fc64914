"""Ranks of a group as processes of this machine, without MPI.

Rank 0 stands in the middle of a star of pipes; pages are a memfd that it hands over.
"""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import vkbackend
from vkbackend import HostPages
from vkbackend.framework.communication import host_transport, shared_pages
from vkbackend.framework.communication.descriptors import exchange_descriptors
from vkbackend.framework.communication.progress import Progress
from vkbackend.framework.communication.shared_pages import ControlPages

SECONDS = 120.0
"""Seconds after which a rank gives up the others."""


class PipeComm:
    """The part of an MPI communicator that transports use.

    Parameters
    ----------
    rank, size : int
    pipes : sequence of Connection
        Of rank 0, to each other one; of the others, to rank 0.
    """

    def __init__(self, rank: int, size: int, pipes: Sequence[Connection]) -> None:
        self.rank, self.size, self._pipes = rank, size, pipes

    def _receive(self, pipe: Connection) -> Any:
        if not pipe.poll(SECONDS):
            raise TimeoutError(f"rank {self.rank} hears nothing")
        return pipe.recv()

    def allgather(self, value: Any) -> list[Any]:
        if self.rank:
            self._pipes[0].send(value)
            found: list[Any] = self._receive(self._pipes[0])
            return found
        found = [value, *[self._receive(each) for each in self._pipes]]
        for each in self._pipes:
            each.send(found)
        return found

    def bcast(self, value: Any, root: int) -> Any:
        return self.allgather(value)[root]

    def Barrier(self) -> None:
        self.allgather(None)


class PipePages:
    """Memory in the place of `SharedPages`: a memfd of rank 0."""

    def __init__(self, comm: PipeComm, size: int) -> None:
        own = HostPages.shared(comm.size * size if comm.rank == 0 else 1)
        assert own.descriptor is not None
        found = exchange_descriptors(comm, own.descriptor)
        self.pages = HostPages.from_descriptor(found[0])
        for each in found:
            os.close(each)
        self.bytes = self.pages.view()[: comm.size * size]
        self.address = self.pages.address

    def imported(self, gpu: vkbackend.Device) -> vkbackend.Buffer:
        return gpu.import_pages(self.pages)

    def fence(self) -> None:
        pass

    def close(self) -> None:
        self.bytes = memoryview(b"")
        del self.pages


def world_of(comm: PipeComm) -> Any:
    """Return what transports need of a `World`."""
    shared_pages.SharedPages = PipePages  # type: ignore[assignment, misc]
    host_transport.SharedPages = PipePages  # type: ignore[assignment, misc]
    control = ControlPages(comm, range(comm.size))
    return SimpleNamespace(
        control=control,
        progress=Progress(comm.rank, control, SECONDS),
        rank=comm.rank,
        at_end=[],
    )


def run(work: Callable[..., None], size: int, *arguments: Any) -> list[int | None]:
    """Call a function of a module in as many processes; return their statuses.

    Parameters
    ----------
    work : callable
        Takes a `PipeComm` and `arguments`.
    size : int
    *arguments
    """
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(size - 1)]
    pipes = [[pair[0] for pair in pairs], *[[pair[1]] for pair in pairs]]
    started = [
        context.Process(target=_call, args=(work, rank, size, pipes[rank], arguments))
        for rank in range(size)
    ]
    for each in started:
        each.start()
    for each in started:
        each.join(SECONDS)
    for each in started:
        if each.is_alive():
            each.kill()
            each.join()
    return [each.exitcode for each in started]


def _call(
    work: Callable[..., None],
    rank: int,
    size: int,
    pipes: Sequence[Connection],
    arguments: Sequence[Any],
) -> None:
    work(PipeComm(rank, size, pipes), *arguments)
