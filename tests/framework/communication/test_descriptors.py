"""Descriptors that go from rank to rank, with ranks as threads."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.rank_threads import Meeting, ThreadComm
from vkbackend import HostPages
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import descriptors
from vkbackend.framework.communication.descriptors import (
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
    send = descriptors._send

    def refuse(secret: str, own: int, rank: int, descriptor: int) -> None:
        if own == 1:
            raise OSError("no")
        send(secret, own, rank, descriptor)

    monkeypatch.setattr(descriptors, "_send", refuse)
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


def test_what_is_no_descriptor_is_refused() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0vkbackend-test")
        server.listen(1)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0vkbackend-test")
            client.sendall(b"1234")
            with pytest.raises(OSError, match="has sent no descriptor"):
                descriptors._receive(server)


def test_the_first_failure_is_that_of_all() -> None:
    def work(comm: ThreadComm) -> list[str]:
        told = ["", "b", "c"][comm.rank]
        return [first_failure(comm, each) for each in (told, "same", "")]

    assert by_rank(work) == [["b (rank 1)", "same", ""]] * SIZE
