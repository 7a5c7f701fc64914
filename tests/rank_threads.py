"""Ranks of a group as threads of one process, over memory in the place of a window.

What several processes do, in milliseconds: only MPI itself, and the ends of processes,
need processes.
"""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import vkbackend
from vkbackend import HostPages
from vkbackend.framework.base.device import CPU, GpuDevice
from vkbackend.framework.communication import (
    device_collectives,
    host_transport,
    shared_pages,
)
from vkbackend.framework.communication.cuda_transport import (
    CudaTransport,
    open_peer_memory,
)
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.host_transport import HostTransport
from vkbackend.framework.communication.progress import Progress
from vkbackend.framework.communication.shared_pages import ControlPages
from vkbackend.framework.communication.transport import TransportChoice

LONG = 60.0
"""Seconds after which a test that hangs fails."""


class Meeting:
    """What the threads of one communicator share."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=LONG)
        self.slots: list[Any] = [None] * size
        self.pages = HostPages.anonymous(1)
        self.imported: dict[vkbackend.Device, vkbackend.Buffer] = {}
        self.lock = threading.Lock()


class ThreadComm:
    """The part of an MPI communicator that transports use."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank = meeting, rank
        self.size = len(meeting.slots)

    def Barrier(self) -> None:
        self.meeting.barrier.wait()

    def allgather(self, value: Any) -> list[Any]:
        self.meeting.slots[self.rank] = value
        self.Barrier()
        found = list(self.meeting.slots)
        self.Barrier()
        return found

    def bcast(self, value: Any, root: int) -> Any:
        return self.allgather(value)[root]


class ThreadPages:
    """Memory in the place of `SharedPages`."""

    def __init__(self, comm: ThreadComm, size: int) -> None:
        if comm.rank == 0:
            comm.meeting.pages = HostPages.anonymous(comm.size * size)
        comm.Barrier()
        self.pages, self.meeting = comm.meeting.pages, comm.meeting
        self.bytes = self.pages.view()[: comm.size * size]
        comm.Barrier()

    def imported(self, gpu: vkbackend.Device) -> vkbackend.Buffer:
        """All ranks have one device, which imports pages once."""
        with self.meeting.lock:
            if gpu not in self.meeting.imported:
                self.meeting.imported[gpu] = gpu.import_pages(self.pages)
            return self.meeting.imported[gpu]

    def fence(self) -> None:
        pass

    def close(self) -> None:
        pass


class Ranks:
    """Runs functions on as many ranks as there are, each in a thread."""

    def __init__(self, size: int, gpu: GpuDevice | None = None) -> None:
        self.size, self.gpu = size, gpu

    def run(self, function: Callable[[Group], Any], keep: bool = False) -> list[Any]:
        """Return the results by rank; with `keep` an exception is a result, too."""
        meeting = Meeting(self.size)
        results: list[Any] = [None] * self.size

        def work(rank: int) -> None:
            group = group_of(ThreadComm(meeting, rank), self.gpu)
            try:
                results[rank] = function(group)
            except BaseException as error:
                results[rank] = error
                assert group._transport is not None
                group._transport.world.control.end(repr(error))
            finally:
                if isinstance(group._transport, CudaTransport):
                    group._transport._peers.close()

        threads = [
            threading.Thread(target=work, args=(rank,), daemon=True)
            for rank in range(self.size)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG)
        assert not [each for each in threads if each.is_alive()]
        for each in [] if keep else results:
            if isinstance(each, BaseException):
                raise each
        return results


def group_of(comm: ThreadComm, gpu: GpuDevice | None = None) -> Group:
    control = ControlPages(comm, range(comm.size))
    world = SimpleNamespace(
        control=control,
        progress=Progress(comm.rank, control, LONG),
        rank=comm.rank,
        at_end=[],
    )
    transport: HostTransport
    if gpu is None:
        transport = HostTransport(world, comm, range(comm.size))  # type: ignore[arg-type]
    else:
        peers, why = open_peer_memory(comm, lambda: gpu)
        assert peers is not None, why
        transport = CudaTransport(world, comm, range(comm.size), peers)  # type: ignore[arg-type]
    choice = TransportChoice(transport.name, "threads")
    return Group(transport, choice, lambda: CPU)


def as_threads(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    chunk: int = 256,
    gpu: GpuDevice | None = None,
) -> Ranks:
    """Return ranks whose messages have pieces of `chunk` bytes.

    With a device their transport is that of cards that pull from each other. Devices
    move what they have, however small.
    """
    monkeypatch.setattr(device_collectives, "SMALL", 0)
    monkeypatch.setattr(shared_pages, "SharedPages", ThreadPages)
    monkeypatch.setattr(host_transport, "SharedPages", ThreadPages)
    monkeypatch.setattr(host_transport, "CHUNK", chunk)
    monkeypatch.setattr(host_transport, "MESSAGE_CHUNK", chunk)
    return Ranks(size, gpu)
