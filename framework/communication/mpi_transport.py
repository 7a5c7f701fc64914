"""Transport through MPI's own messages: among machines, and where pages are not shared.

MPI moves bytes; sums are taken here, in rank order, which MPI does not promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .progress import Steps
from .transport import HEADER, Bytes, Call, Consume, Fill, Header, Transport


class Completed:
    """The condition that MPI has completed a request.

    Parameters
    ----------
    request : mpi4py.MPI.Request
    ranks : iterable of int
        Ranks in the world that have to take part.
    """

    def __init__(self, request: Any, ranks: Iterable[int]) -> None:
        self._request, self._ranks = request, ranks
        self._done = False

    def holds(self) -> bool:
        """Return whether it has."""
        self._done = self._done or self._request.Test()
        return self._done

    def counters(self) -> None:
        """Return None: other processes cannot judge it."""

    def ranks(self) -> Iterator[int]:
        """Return the ranks that take part."""
        return iter(self._ranks)


class MpiTransport(Transport):
    """Transport through MPI; see `Transport`."""

    name = "mpi"

    def exchange(
        self, call: Call, sizes: int | Sequence[int], fill: Fill, consume: Consume
    ) -> Steps:
        """Let each rank give bytes to all, or to each other rank."""
        self._turns += 1
        own = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        packed = Header(call.name, call.shown, self._turns, own).packed()
        told = np.zeros(HEADER, np.uint8)
        told[: len(packed)] = np.frombuffer(packed, np.uint8)
        heads = np.empty((self.size, HEADER), np.uint8)
        yield self._completed(self.comm.Iallgather(told, heads))
        headers = [Header.unpacked(each) for each in heads]
        self.compare(headers)
        given = np.empty(sum(own), np.uint8)
        starts = _starts(own)
        for k, size in enumerate(own):
            if size:
                fill(k, 0, given[starts[k] : starts[k] + size])
        place = self.rank if len(own) > 1 else 0
        counts = [each.sizes[place] for each in headers]
        got = np.empty(sum(counts), np.uint8)
        places = _starts(counts)
        if isinstance(sizes, int):
            request = self.comm.Iallgatherv(given, [got, counts, places, _BYTE()])
        else:
            out = [given, own, starts, _BYTE()]
            request = self.comm.Ialltoallv(out, [got, counts, places, _BYTE()])
        yield self._completed(request)
        for rank, size in enumerate(counts):
            if size:
                consume(rank, 0, got[places[rank] : places[rank] + size])

    def send(self, call: Call, tag: int, target: int, data: Bytes) -> Steps:
        """Send bytes to another rank."""
        header = Header(call.name, call.shown, tag, (data.size,)).packed()
        ranks = [self.ranks[target]]
        first = self.comm.Isend([header, len(header), _BYTE()], target, 2 * tag)
        second = self.comm.Isend(data, target, 2 * tag + 1)
        yield Completed(first, ranks)
        yield Completed(second, ranks)

    def receive(self, call: Call, tag: int, source: int | None) -> Steps:
        """Receive bytes from another rank; results in them and its rank."""
        from mpi4py import MPI

        ranks = self.ranks if source is None else [self.ranks[source]]
        head, status = bytearray(HEADER), MPI.Status()
        wanted = MPI.ANY_SOURCE if source is None else source
        request = self.comm.Irecv([head, HEADER, _BYTE()], wanted, 2 * tag)
        condition = Completed(_WithStatus(request, status), ranks)
        yield condition
        header, rank = Header.unpacked(head), status.Get_source()
        data = np.empty(header.sizes[0], np.uint8)
        yield Completed(self.comm.Irecv(data, rank, 2 * tag + 1), [self.ranks[rank]])
        return header, data, rank

    def _completed(self, request: Any) -> Completed:
        others = [rank for k, rank in enumerate(self.ranks) if k != self.rank]
        return Completed(request, others)

    def _close(self) -> None:
        """Leave the communicator to MPI, which frees it at the end."""


class _WithStatus:
    """A request that writes its status."""

    def __init__(self, request: Any, status: Any) -> None:
        self._request, self._status = request, status

    def Test(self) -> bool:
        done: bool = self._request.Test(self._status)
        return done


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def _BYTE() -> Any:
    from mpi4py import MPI

    return MPI.BYTE
