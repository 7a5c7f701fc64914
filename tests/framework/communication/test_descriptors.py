"""Descriptors that go from rank to rank, with ranks as threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.rank_threads import Meeting, ThreadComm
from vkbackend import HostPages
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import descriptors
from vkbackend.framework.communication.descriptors import (
    Links,
    available,
    exchange_descriptors,
    first_failure,
)

SIZE = 3

pytestmark = [
    pytest.mark.skipif(not available(), reason="Linux hands them over"),
    pytest.mark.usefixtures("_no_collector"),
]


def by_rank(work: Callable[[ThreadComm], Any]) -> list[Any]:
    meeting = Meeting(SIZE)
    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(lambda rank: work(ThreadComm(meeting, rank)), range(SIZE)))


def test_each_rank_maps_the_memory_of_all() -> None:
    before = set(os.listdir("/proc/self/fd"))

    def work(comm: ThreadComm) -> list[int]:
        own = HostPages.shared(1)
        own.view()[0] = 10 + comm.rank
        assert own.descriptor is not None
        found = exchange_descriptors(comm, own.descriptor)
        seen = [HostPages.from_descriptor(each).view()[0] for each in found]
        for each in found:
            os.close(each)
        return seen

    assert by_rank(work) == [[10, 11, 12]] * SIZE
    # What other tests have left may be closed by now.
    assert set(os.listdir("/proc/self/fd")) <= before


def test_all_ranks_hear_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))
    connect = descriptors.Links._connect

    def refuse(self: Links, secret: str, server: Any, rank: int, size: int) -> None:
        if rank == 1:
            raise OSError("no")
        connect(self, secret, server, rank, size)

    monkeypatch.setattr(descriptors.Links, "_connect", refuse)
    monkeypatch.setattr(descriptors, "_SECONDS", 0.2)

    def work(comm: ThreadComm) -> str:
        with open(os.devnull, "rb") as file:
            with pytest.raises(DistributedError) as caught:
                exchange_descriptors(comm, file.fileno())
        return str(caught.value)

    told = set(by_rank(work))
    assert len(told) == 1
    assert "descriptors cannot be handed over: " in told.pop()
    # What other tests have left may be closed by now.
    assert set(os.listdir("/proc/self/fd")) <= before


def test_messages_wait_until_they_are_received() -> None:
    """Of memory, and of its end; what nobody has received is closed with the rest."""
    before = set(os.listdir("/proc/self/fd"))

    def work(comm: ThreadComm) -> list[tuple[int, int, bool]]:
        links, found = Links(comm), []
        others = [rank for rank in range(SIZE) if rank != comm.rank]
        with open(os.devnull, "rb") as file:
            for rank in others:
                links.send(rank, 10 + comm.rank, 5, file.fileno())
                links.send(rank, 10 + comm.rank)
                links.send(rank, 7, 1, file.fileno())
        comm.Barrier()
        for rank in others:
            for _ in range(2):
                number, size, taken = links.receive(rank)
                found.append((number, size, taken is not None))
                if taken is not None:
                    os.close(taken)
        comm.Barrier()
        links.close()
        return found

    for rank, found in enumerate(by_rank(work)):
        others = [10 + each for each in range(SIZE) if each != rank]
        assert found == [
            row for each in others for row in ((each, 5, True), (each, 0, False))
        ]
    # What other tests have left may be closed by now.
    assert set(os.listdir("/proc/self/fd")) <= before


def test_what_is_no_message_is_refused() -> None:
    """A rank that has ended sends none; to send it one is no failure."""

    def work(comm: ThreadComm) -> list[str]:
        links, told = Links(comm), []
        comm.Barrier()
        if comm.rank == 0:
            links.send(1, 3, 8)
            links._sockets[2].send(b"1234")
            links.close()
        comm.Barrier()
        if comm.rank == 0:
            return []
        for _ in range(2):
            with pytest.raises(OSError, match="rank 0") as caught:
                links.receive(0)
            told.append(str(caught.value))
        links.send(0, 1)
        return told

    ended = "rank 0 has ended"
    assert by_rank(work) == [
        [],
        ["rank 0 has sent no descriptor", ended],
        [ended, ended],
    ]


def test_the_first_failure_is_that_of_all() -> None:
    def work(comm: ThreadComm) -> list[str]:
        told = ["", "b", "c"][comm.rank]
        return [first_failure(comm, each) for each in (told, "same", "")]

    assert by_rank(work) == [["b (rank 1)", "same", ""]] * SIZE
