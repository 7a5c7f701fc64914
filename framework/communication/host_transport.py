"""Transport through pages that the processes of one machine share.

Each rank has a mailbox of a few slots, which it writes in turn. Counters that are never
reset say how far it has written, and how far it has read the others': a slot is written
again once everyone has read it. Messages between two ranks have slots of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import vkbackend

from .device_pages import Copied, DevicePages, DeviceTake
from .progress import READY, AnyOf, Condition, Reached, Steps, Task
from .shared_pages import SharedPages, free_shared_bytes
from .transport import (
    COLLECTIVES,
    HEADER,
    Bytes,
    Call,
    Consume,
    Fill,
    Header,
    Met,
    MismatchError,
    Transport,
    mismatch,
    rounds_of,
)

if TYPE_CHECKING:
    from .world import World

SLOTS = 4
"""Slots of a mailbox: a piece is taken from one, while the next two are filled.

The fourth is that of the piece before, which a device may not have taken yet.
"""

FILLED_AHEAD = 2
"""Pieces that are being filled while one is taken."""

CHUNK = 8 << 20
"""Bytes of a slot: copies of fewer do not reach the speed of the link."""

MESSAGE_SLOTS, MESSAGE_CHUNK = 2, 1 << 20
LEAST_CHUNK = 1 << 16
_ALIGNMENT = 64

Message = tuple[Header, Bytes]


def chunk_sizes(size: int, free: int) -> tuple[int, int]:
    """Return the bytes of a mailbox's slot and of a message's, for so many ranks.

    Parameters
    ----------
    size : int
        Number of ranks.
    free : int
        Bytes of shared memory that are left, an eighth of which is taken at most.
    """
    chunk, message = CHUNK, MESSAGE_CHUNK
    while (
        size * (SLOTS * chunk + MESSAGE_SLOTS * size * message) > free // 8
        and chunk > LEAST_CHUNK
    ):
        chunk //= 2
        message = max(message // 2, HEADER)
    return chunk, message


def _until(condition: Condition) -> Steps:
    """Wait for a condition."""
    yield condition


class _Idle:
    """The condition that a message has come, and that no other receive reads it."""

    def __init__(self, reading: Sequence[bool], source: int, arrived: Reached) -> None:
        self._reading, self._source, self._arrived = reading, source, arrived
        self.counters, self.ranks = arrived.counters, arrived.ranks

    def holds(self) -> bool:
        return not self._reading[self._source] and self._arrived.holds()


class HostTransport(Transport):
    """Transport through shared pages; see `Transport`."""

    name = "host"

    def __init__(self, world: World, comm: Any, ranks: Sequence[int]) -> None:
        super().__init__(world, comm, ranks)
        count = self.size
        free = comm.bcast(free_shared_bytes(), 0)
        self._chunk, self._message_chunk = chunk_sizes(count, free)
        self._part = self._chunk // count // _ALIGNMENT * _ALIGNMENT
        self._mailbox = SLOTS * (HEADER + self._chunk)
        self._channel = MESSAGE_SLOTS * (HEADER + self._message_chunk)
        self._pages = SharedPages(comm, self._mailbox + count * self._channel)
        self._bytes: Bytes = np.frombuffer(self._pages.bytes, np.uint8)
        self._slots = [
            [self._slot(rank, piece) for piece in range(SLOTS)] for rank in range(count)
        ]
        self._control = world.control
        own = self._control.allocate(3 + 2 * count)
        found = comm.allgather(own)
        self._own = own
        self._written = [each[0] for each in found]
        self._read = [each[1] for each in found]
        self._given_up = [each[2] for each in found]
        self._sent = [each[3 : 3 + count] for each in found]
        self._received = [each[3 + count :] for each in found]
        self._pieces = self._all_read = 0
        self._read_early: set[int] = set()
        self._early: list[list[Message]] = [[] for _ in ranks]
        self._reading = [False] * count
        self._imports: dict[vkbackend.Device, DevicePages | None] = {}
        self._importing = threading.Lock()
        world.at_end.append(self._release)

    def _close(self) -> None:
        self.world.at_end.remove(self._release)
        self._release()
        self._slots.clear()
        self._bytes = np.empty(0, np.uint8)
        self._pages.close()
        self._control.give_back(self._own)

    def pages_of(self, gpu: vkbackend.Device) -> DevicePages | None:
        """Return the pages as a device has imported them, which it does once."""
        with self._importing:
            if gpu not in self._imports:
                self._imports[gpu] = self._imported(gpu)
            return self._imports[gpu]

    def _imported(self, gpu: vkbackend.Device) -> DevicePages | None:
        try:
            buffer = self._pages.imported(gpu)
        except vkbackend.Error as error:
            self.refusal = f"the host copies what is on {gpu.name}, as {error}"
            return None
        return DevicePages(gpu, buffer, self._bytes.ctypes.data)

    def _release(self) -> None:
        """Let the devices let go of the pages, which are unmapped afterwards."""
        with self._importing:
            imports = [each for each in self._imports.values() if each]
            self._imports.clear()
        for each in imports:
            if each.gpu.usable:
                each.gpu.revoke(each.buffer)

    def _slot(self, rank: int, piece: int) -> tuple[memoryview, Bytes]:
        """Return the header and the data of a slot of a mailbox."""
        start = rank * (self._mailbox + self.size * self._channel)
        return self._cut(start + piece * (HEADER + self._chunk), self._chunk)

    def _message_slot(
        self, source: int, target: int, piece: int
    ) -> tuple[memoryview, Bytes]:
        start = source * (self._mailbox + self.size * self._channel) + self._mailbox
        start += target * self._channel
        start += piece % MESSAGE_SLOTS * (HEADER + self._message_chunk)
        return self._cut(start, self._message_chunk)

    def _cut(self, start: int, size: int) -> tuple[memoryview, Bytes]:
        data = start + HEADER
        return self._bytes[start:data].data, self._bytes[data : data + size]

    def _reached(self, counters: Iterable[int], least: int) -> Reached:
        return Reached(self._control, counters, least)

    def _set(self, counter: int, value: int) -> None:
        """Set a counter of this rank, after all that it has read or written."""
        self._control.fence()
        self._control.words[counter] = value

    def _has_read(self, first: int, stop: int) -> None:
        """Let the others fill slots of some pieces, once earlier ones are read, too.

        An exchange may begin while a device has yet to take the last pieces of the one
        before.
        """
        self._read_early.update(range(first, stop))
        while self._all_read in self._read_early:
            self._read_early.discard(self._all_read)
            self._all_read += 1
        self._set(self._read[self.rank], self._all_read)

    # Collectives

    def meet(
        self, call: Call, data: Bytes, use: Callable[[list[Bytes]], Met]
    ) -> Met | None:
        """Let all ranks give all of them bytes that fit into a slot; see `Transport`.

        Others may do by `exchange` what this rank does here: slots, headers and
        counters are the same.
        """
        progress = self.world.progress
        with progress.alone() as alone:
            number = self._pieces
            if not alone or data.size > self._chunk or not self._free(number).holds():
                return None
            self.check(call)
            written = self._reached(self._written, number + 1)
            try:
                progress.note_thread()
                _, room = self._slots[self.rank][number % SLOTS]
                room[: data.size] = data
                self._turns += 1
                mine = Header(call.name, call.shown, self._turns, (data.size,))
                told = self._put_header(number, mine)
                self._pieces += 1
                self._set(self._written[self.rank], number + 1)
                if progress.spin(written):
                    return self._met(number, mine, told, use)
                task = self.start(call, _until(written), COLLECTIVES)
            except BaseException as error:
                self.give_up(Task(self, _until(written), str(call)), error)
                raise
        progress.wait(task)
        with progress.alone():
            return self._met(number, mine, told, use)

    def _met(
        self, number: int, mine: Header, told: bytes, use: Callable[[list[Bytes]], Met]
    ) -> Met | None:
        """Use what all ranks have written to a slot; None if one has offered it."""
        self._control.fence()
        headers = self._headers(number, mine, told)
        found = None
        if any([each is not mine for each in headers]):
            self._agree(headers, number)
        if not any([each.offer for each in headers]):
            found = use(
                [
                    slots[number % SLOTS][1][: header.sizes[0]]
                    for slots, header in zip(self._slots, headers)
                ]
            )
        self._has_read(number, number + 1)
        return found

    def exchange(
        self, call: Call, sizes: int | Sequence[int], fill: Fill, consume: Consume
    ) -> Steps:
        """Let each rank give bytes to all, or to each other rank."""
        common = isinstance(sizes, int)
        step = self._chunk if common else self._part
        self._turns += 1
        own = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        mine = Header(call.name, call.shown, self._turns, own)
        place = 0 if common else self.rank
        headers: list[Header] = []
        first, count = self._pieces, rounds_of([mine], step)
        # What a device gives itself it takes from where it is.
        kept = self.rank if not common and isinstance(consume, DeviceTake) else None
        filled: list[list[vkbackend.TimelinePoint]] = []

        def fill_next() -> None:
            more = len(filled)
            filled.append(self._fill(more, first + more, step, own, fill, kept))

        slot = self._free(first)
        if not slot.holds():
            yield slot
        fill_next()
        told = self._put_header(first, mine)
        taken: list[list[vkbackend.TimelinePoint]] = []
        while len(taken) < count:
            piece, number = len(taken), self._pieces
            if filled[piece]:
                # A device has its next copies before it has made this one.
                ahead = min(count, piece + 1 + FILLED_AHEAD)
                while len(filled) < ahead and self._free(first + len(filled)).holds():
                    fill_next()
                yield Copied(filled[piece])
            self._set(self._written[self.rank], number + 1)
            self._pieces += 1
            written = self._reached(self._written, number + 1)
            if not written.holds():
                yield written
            self._control.fence()
            if not piece:
                headers = self._headers(number, mine, told)
                if mismatch(headers, self.ranks, self.rank):
                    # The host may fill these slots next.
                    yield Copied([each for points in filled for each in points])
                self._agree(headers, number)
                if any(each.offer for each in headers):
                    # Those who would pull give through the pages, too: from the start.
                    self._has_read(number, number + 1)
                    again = HostTransport.exchange(self, call, sizes, fill, consume)
                    return (yield from again)
                count = rounds_of(headers, step)
            taken.append(self._take(piece, number, step, headers, place, consume))
            # A device copies in both directions at once, and has its next copies before
            # it has ended these.
            while len(filled) < min(count, piece + 1 + FILLED_AHEAD):
                slot = self._free(first + len(filled))
                if not slot.holds():
                    yield slot
                fill_next()
            if len(taken) == count and any(taken[-2:]):
                # They refer to memory that its owner may let go of from here on.
                del fill, consume
                yield READY
            if piece:
                if taken[piece - 1]:
                    yield Copied(taken[piece - 1])
                self._has_read(number - 1, number)
        if taken[-1]:
            yield Copied(taken[-1])
        self._has_read(first + count - 1, first + count)

    def _put_header(self, number: int, header: Header) -> bytes:
        """Write the header of a piece that is the first; return it as it is there."""
        data = header.packed()
        self._slots[self.rank][number % SLOTS][0][: len(data)] = data
        return data

    def _headers(self, number: int, mine: Header, told: bytes) -> list[Header]:
        """Return the headers of all ranks, of a piece that is the first.

        Parameters
        ----------
        number : int
            Of the piece.
        mine : Header
            This rank's.
        told : bytes
            The same as `_put_header` has returned it.
        """
        slots = [each[number % SLOTS][0] for each in self._slots]
        size = len(told)
        # One that says the same, as most do, is not read.
        return [
            mine if slot[:size] == told else Header.unpacked(slot) for slot in slots
        ]

    def _free(self, number: int) -> Reached:
        """Return the condition that a piece can be filled: all have read its slot."""
        return self._reached(self._read, number + 1 - SLOTS)

    def _fill(
        self,
        piece: int,
        number: int,
        step: int,
        own: Sequence[int],
        fill: Fill,
        kept: int | None,
    ) -> list[vkbackend.TimelinePoint]:
        """Fill a slot that is free; return the points of a device's copies.

        Not with the part that is kept, if one is.
        """
        _, data = self._slots[self.rank][number % SLOTS]
        points = []
        for k, size in enumerate(own):
            length = min(step, size - piece * step)
            if length > 0 and k != kept:
                points.append(fill(k, piece * step, data[k * step : k * step + length]))
        return [each for each in points if each is not None]

    def _take(
        self,
        piece: int,
        number: int,
        step: int,
        headers: Sequence[Header],
        place: int,
        consume: Consume,
    ) -> list[vkbackend.TimelinePoint]:
        """Consume the slots of all ranks; return the points of a device's copies."""
        points = []
        for rank, header in enumerate(headers):
            length = min(step, header.sizes[place] - piece * step)
            if length > 0:
                _, data = self._slots[rank][number % SLOTS]
                start = place * step
                points.append(consume(rank, piece * step, data[start : start + length]))
        return [each for each in points if each is not None]

    def _agree(self, headers: Sequence[Header], number: int) -> None:
        try:
            self.compare(headers)
        except MismatchError:
            self._has_read(number, number + 1)
            raise

    # Messages

    def send(self, call: Call, tag: int, target: int, data: Bytes) -> Steps:
        """Send bytes to another rank."""
        sent = self._sent[self.rank][target]
        received = self._received[target][self.rank]
        step = self._message_chunk
        header = Header(call.name, call.shown, tag, (data.size,))
        for piece in range(rounds_of([header], step)):
            number = self._control.words[sent]
            yield self._reached([received], max(0, number + 1 - MESSAGE_SLOTS))
            head, room = self._message_slot(self.rank, target, number)
            if not piece:
                packed = header.packed()
                head[: len(packed)] = packed
            part = data[piece * step : (piece + 1) * step]
            room[: part.size] = part
            self._set(sent, number + 1)

    def receive(self, call: Call, tag: int, source: int | None) -> Steps:
        """Receive bytes from another rank; results in them and its rank."""
        sources = [source] if source is not None else self._others()
        while True:
            for rank in sources:
                for k, (header, data) in enumerate(self._early[rank]):
                    if header.turn == tag:
                        del self._early[rank][k]
                        return header, data, rank
            conditions = [_Idle(self._reading, k, self._arrived(k)) for k in sources]
            yield conditions[0] if len(conditions) == 1 else AnyOf(conditions)
            rank = next(rank for rank, each in zip(sources, conditions) if each.holds())
            self._reading[rank] = True
            message = yield from self._next_message(rank)
            self._reading[rank] = False
            self._early[rank].append(message)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _arrived(self, source: int) -> Reached:
        number = self._control.words[self._received[self.rank][source]]
        return self._reached([self._sent[source][self.rank]], number + 1)

    def _next_message(self, source: int) -> Steps:
        received = self._received[self.rank][source]
        step = self._message_chunk
        piece, count, start = 0, 1, 0
        data: Bytes = np.empty(0, np.uint8)
        header = None
        while piece < count:
            yield self._arrived(source)
            self._control.fence()
            number = self._control.words[received]
            head, room = self._message_slot(source, self.rank, number)
            if header is None:
                header = Header.unpacked(head)
                data = np.empty(header.sizes[0], np.uint8)
                count = rounds_of([header], step)
            part = data[start : start + step]
            part[:] = room[: part.size]
            start += part.size
            self._set(received, number + 1)
            piece += 1
        return header, data

    # Failures

    def give_up(self, task: Task, error: BaseException) -> None:
        """Refuse all later operations, and let the other ranks know."""
        if self.closed or isinstance(error, MismatchError):
            return
        super().give_up(task, error)
        if self._control.words[self._own[2]] == 0:
            self._control.words[self._own[2]] = 1

    def surrendered(self, ranks: Iterable[int]) -> str:
        """Return the failure of a rank that has given up the group; or nothing."""
        for rank in ranks:
            place = self.ranks.index(rank) if rank in self.ranks else self.rank
            if place != self.rank and self._control.words[self._given_up[place]]:
                return (
                    f"rank {rank} has given up the group, as an operation failed there"
                )
        return ""
