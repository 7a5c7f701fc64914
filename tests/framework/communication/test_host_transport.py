"""Mailboxes in shared pages, with ranks as threads."""

import threading
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import host_transport
from vkbackend.framework.communication.elements import filler
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.host_transport import chunk_sizes
from vkbackend.framework.communication.transport import Call


def test_pages_fit_into_what_is_left() -> None:
    assert chunk_sizes(2, 1 << 40) == (host_transport.CHUNK, 1 << 20)
    chunk, message = chunk_sizes(8, 64 << 20)
    assert 8 * (4 * chunk + 2 * 8 * message) <= 8 << 20
    assert chunk_sizes(8, 0)[0] == host_transport.LEAST_CHUNK


@pytest.mark.parametrize("size", [2, 3])
def test_random_bytes_in_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Lengths around those of slots, different for each pair of ranks."""
    cases = np.random.default_rng(0).integers(0, 700, (40, size, size))

    def given(case: int, source: int, target: int) -> np.ndarray:
        made = np.random.default_rng((case, source, target))
        return made.integers(0, 256, cases[case, source, target], np.uint8)

    def work(group: Group) -> list[Any]:
        return [
            group.exchange_arrays(
                "test", "", [given(case, group.rank, k) for k in range(size)]
            )
            for case in range(len(cases))
        ]

    for rank, found in enumerate(as_threads(monkeypatch, size).run(work)):
        for case, arrays in enumerate(found):
            for source, each in enumerate(arrays):
                np.testing.assert_array_equal(each, given(case, source, rank))


def test_messages_arrive_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several are sent and asked for at once, longer ones than a slot among them."""
    lengths = [0, 1, 100, 3, 300, 64, 65]

    def work(group: Group) -> Any:
        other = 1 - group.rank
        sent = [
            group.start_send("isend", fw.arange(n) + 10 * k, other, k % 2)
            for k, n in enumerate(lengths)
        ]
        asked = [
            group.start_recv("irecv", (n,), fw.int64, other, k % 2)
            for k, n in enumerate(lengths)
        ]
        found = [
            group.finish_recv(asked[k], (n,), fw.int64, fw.device("cpu"))[0].tolist()
            for k, n in reversed(list(enumerate(lengths)))
        ]
        for each in sent:
            group.finish(each)
        return found[::-1]

    for found in as_threads(monkeypatch, 2).run(work):
        for k, n in enumerate(lengths):
            assert found[k] == list(range(10 * k, 10 * k + n))


def test_pieces_are_filled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two while one is taken, so that a device always has a copy each way."""
    data = np.arange(6 * 512, dtype=np.uint8)

    def work(group: Group) -> list[str]:
        events: list[str] = []
        out = np.zeros_like(data)

        def fill(part: int, start: int, chunk: np.ndarray) -> None:
            events.append(f"fill {start // 512}")
            chunk[:] = data[start : start + chunk.size] + group.rank

        def consume(rank: int, start: int, chunk: np.ndarray) -> None:
            if rank != group.rank:
                events.append(f"take {start // 512}")
                out[start : start + chunk.size] = chunk

        for _ in range(2):
            group.exchange(Call("test"), data.nbytes, fill, consume)
        assert (out == data + (1 - group.rank)).all()
        return events

    order = ["fill 0", "take 0", "fill 1", "fill 2", "take 1", "fill 3", "take 2"]
    order += ["fill 4", "take 3", "fill 5", "take 4", "take 5"]
    assert as_threads(monkeypatch, 2, 512).run(work) == [2 * order] * 2


class _Made:
    """What a device has told to be made, and has made once it is waited for."""

    def __init__(self, events: list[str], name: str) -> None:
        self.events, self.name = events, name

    def wait(self, timeout_seconds: float) -> bool:
        self.events.append(self.name)
        return True


def test_a_device_has_its_next_copies_before_it_has_made_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the first piece on, also while the other ranks have not come yet."""
    data = np.arange(6 * 512, dtype=np.uint8)

    def work(group: Group) -> list[str]:
        events: list[str] = []
        out = np.zeros_like(data)

        def fill(part: int, start: int, chunk: np.ndarray) -> Any:
            events.append(f"fill {start // 512}")
            chunk[:] = data[start : start + chunk.size] + group.rank
            return _Made(events, f"filled {start // 512}")

        def consume(rank: int, start: int, chunk: np.ndarray) -> Any:
            if rank == group.rank:
                return None
            events.append(f"take {start // 512}")
            out[start : start + chunk.size] = chunk
            return _Made(events, f"taken {start // 512}")

        group.exchange(Call("test"), data.nbytes, fill, consume)
        group.barrier()
        assert (out == data + (1 - group.rank)).all()
        return events

    for events in as_threads(monkeypatch, 2, 512).run(work):
        assert events[:5] == ["fill 0", "fill 1", "fill 2", "filled 0", "take 0"]
        for piece in range(4):
            # Two copies out beside each copy in, from the first one to the end.
            later = events.index(f"fill {piece + 2}")
            assert later < events.index(f"filled {piece}") + 3
            assert later < events.index(f"taken {piece}")
        assert events[-1] == "taken 5"


def test_an_exchange_begins_before_a_device_has_taken_all_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its slots are filled meanwhile, and read after those before."""

    class Taken(_Made):
        looks = 0

        def wait(self, timeout_seconds: float) -> bool:
            self.looks += 1
            if "fill 1" not in self.events and self.looks < 10_000:
                return False
            return super().wait(timeout_seconds)

    def work(group: Group) -> list[str]:
        transport = group._transport
        assert isinstance(transport, host_transport.HostTransport)
        events: list[str] = []
        out = np.zeros((2, 1024), np.uint8)

        def exchange(number: int) -> None:
            def fill(part: int, start: int, chunk: np.ndarray) -> Any:
                if not start:
                    events.append(f"fill {number}")
                chunk[:] = 2 * number + group.rank
                return _Made(events, f"filled {number}")

            def consume(rank: int, start: int, chunk: np.ndarray) -> Any:
                if rank == group.rank:
                    return None
                out[number, start : start + chunk.size] = chunk
                return (Taken if number == 0 else _Made)(events, f"taken {number}")

            group.exchange(Call("test"), 1024, fill, consume)

        exchange(0)
        assert events.count("taken 0") < 2
        exchange(1)
        before = events.count("fill 1")
        group.barrier()
        assert before == 1
        own = transport._read[group.rank]
        assert transport._control.words[own] == transport._pieces == 5
        assert (out == [[1 - group.rank], [3 - group.rank]]).all()
        return events

    for events in as_threads(monkeypatch, 2, 512).run(work):
        assert events.index("fill 1") < len(events) - events[::-1].index("taken 0") - 1
        assert events[-1] == "taken 1"


def test_what_was_filled_ahead_is_over_before_ranks_are_told_to_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device may still write slots that the host fills in the next exchange."""

    def work(group: Group) -> list[str]:
        events: list[str] = []

        def fill(part: int, start: int, chunk: np.ndarray) -> Any:
            return _Made(events, f"filled {start // 512}")

        call = Call("test", f"what rank {group.rank} asks for")
        with pytest.raises(DistributedError, match="all must ask for the same"):
            group.exchange(call, 3 * 512, fill, lambda *given: None)
        group.barrier()
        return events

    made = ["filled 0", *[f"filled {piece}" for piece in range(3)]]
    assert as_threads(monkeypatch, 2, 512).run(work) == [made] * 2


def test_a_rank_meets_others_that_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have something else to do take the same slots by steps."""
    rounds = 3 * host_transport.SLOTS

    def work(group: Group) -> list[Any]:
        transport = group._transport
        assert isinstance(transport, host_transport.HostTransport)
        found = []
        for number in range(rounds):
            data = np.full(8, 10 * number + group.rank, np.uint8)
            if number % 3 == group.rank:
                other: list[np.ndarray] = []

                def consume(rank: int, start: int, chunk: np.ndarray) -> None:
                    other.append(chunk.copy())  # noqa: B023  # called at once

                group.exchange(Call("test"), 8, filler([data]), consume)
                found.append(np.stack(other).tolist())
            else:
                met = transport.meet(Call("test"), data, np.stack)
                assert met is not None
                found.append(met.tolist())
        assert transport._control.words[transport._read[group.rank]] == rounds
        return found

    expected = [[[10 * n + rank] * 8 for rank in range(3)] for n in range(rounds)]
    assert as_threads(monkeypatch, 3).run(work) == [expected] * 3


def test_a_meeting_waits_for_others_as_an_exchange_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a rank is late, has ended, or asks for something else."""
    late = threading.Event()

    def work(group: Group) -> Any:
        transport = group._transport
        assert isinstance(transport, host_transport.HostTransport)
        progress = transport.world.progress
        waited = []
        wait = progress.wait

        def noted(task: Any, background: bool = False) -> Any:
            waited.append(task.what)
            late.set()
            return wait(task, background)

        progress.wait = noted  # type: ignore[method-assign]  # watched
        if group.rank:
            assert late.wait(60)
        total = group.all_sum(fw.ones(2)).tolist()
        with pytest.raises(DistributedError, match="all must ask for the same"):
            group.all_sum(fw.ones(2 + group.rank))
        assert transport.meet(Call("test"), np.zeros(513, np.uint8), len) is None
        group.barrier()
        return total, waited[:1]

    found = as_threads(monkeypatch, 2, 512).run(work)
    assert [total for total, _ in found] == [[2.0, 2.0]] * 2
    assert found[0][1] == ["all_sum of float32 (2,)"]


def test_a_meeting_follows_an_exchange_that_has_ended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody has looked at what a device had yet to take."""

    class Taken(_Made):
        def wait(self, timeout_seconds: float) -> bool:
            return bool(self.events)

    def work(group: Group) -> list[str]:
        transport = group._transport
        assert isinstance(transport, host_transport.HostTransport)
        progress = transport.world.progress
        ended: list[str] = []
        given = lambda part, start, chunk: _Made([], "filled")  # noqa: E731
        taken = lambda rank, start, chunk: Taken(ended, "taken")  # noqa: E731
        group.exchange(Call("test"), 8, given, taken)
        assert progress._tasks
        started: list[str] = []
        start = progress.start

        def noted(owner: Any, steps: Any, what: str) -> Any:
            started.append(what)
            return start(owner, steps, what)

        progress.start = noted  # type: ignore[method-assign]  # watched
        ended.append("taken")
        own = transport.meet(Call("test"), np.zeros(1, np.uint8), len)
        assert own == 2
        assert not progress._tasks
        return started

    # Who comes first may have to wait for the other one.
    for started in as_threads(monkeypatch, 2).run(work):
        assert started in ([], ["test"])


def test_a_meeting_that_is_interrupted_ends_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work(group: Group) -> None:
        transport = group._transport
        assert isinstance(transport, host_transport.HostTransport)

        def fail(chunks: list[np.ndarray]) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            transport.meet(Call("test"), np.zeros(8, np.uint8), fail)
        # The other rank's end of the group may be found first.
        ended = "as test has failed before|has given up the group"
        with pytest.raises(DistributedError, match=ended):
            group.barrier()

    as_threads(monkeypatch, 2).run(work)
