"""Transports: what moves bytes among the ranks of a group, behind one interface."""

from __future__ import annotations

import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

import vkbackend

from ..base.errors import DistributedError
from .progress import Begun, Steps, Task

if TYPE_CHECKING:
    from .device_pages import DevicePages
    from .world import World

Met = TypeVar("Met")

HEADER = 4096
"""Bytes that tell, before a message, what it is."""

COLLECTIVES = "collectives"
"""The line, see `Transport.start`, of what all ranks of a group take part in."""

Bytes = np.ndarray
Fill = Callable[[int, int, Bytes], vkbackend.TimelinePoint | None]
"""Write what goes to a rank, from a byte on, into an array.

It may return when a device will have done so, and so may `Consume`, to a transport that
has pages for the device.
"""
Consume = Callable[[int, int, Bytes], vkbackend.TimelinePoint | None]
"""Take what came from a rank, from a byte on."""


@dataclass(frozen=True)
class TransportChoice:
    """The transport of a group, and why it was chosen.

    Attributes
    ----------
    name : str
        "none" of a group of one process, "host", "cuda" or "mpi".
    reason : str
        Why.
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def with_reason(self, more: str) -> TransportChoice:
        """Return the same transport with a further reason."""
        return TransportChoice(self.name, f"{self.reason}; {more}")


@dataclass(frozen=True)
class Call:
    """What a rank asks for; all ranks of a group must ask for the same.

    Parameters
    ----------
    name : str
        Of the collective.
    shown : str
        Its arguments, for messages: equal in all ranks that ask for the same.
    """

    name: str
    shown: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.shown and ' of '}{self.shown}"


class Offer(NamedTuple):
    """Where what a rank gives lies, for those that pull it from its card.

    Attributes
    ----------
    number : int
        Of the block of its memory.
    starts : tuple of int
        Offset in it, in bytes, of each part.
    told : int
        Messages about blocks that the rank has sent to each other one.
    """

    number: int
    starts: tuple[int, ...]
    told: int


@dataclass(frozen=True)
class Header:
    """What the other ranks read of a call.

    Parameters
    ----------
    name, shown : str
        See `Call`.
    turn : int
        Number of the collective in its group; of a message its tag.
    sizes : tuple of int
        Bytes for each rank, or one number of bytes that all of them read.
    offer : Offer, optional
        Where they are in memory of the rank's card, rather than in shared pages.
    """

    name: str
    shown: str
    turn: int
    sizes: tuple[int, ...]
    offer: Offer | None = None

    def packed(self) -> bytes:
        """Return it as bytes, of which there are at most `HEADER`."""
        offer = None if self.offer is None else tuple(self.offer)
        data = pickle.dumps((self.name, self.shown, self.turn, self.sizes, offer))
        if len(data) > HEADER:
            raise DistributedError(
                f"{self.name}: what describes it takes {len(data)} bytes, and {HEADER}"
                " is the most; communicate among fewer ranks, or fewer dimensions"
            )
        return data

    @staticmethod
    def unpacked(data: Any) -> Header:
        """Return the header that bytes hold."""
        name, shown, turn, sizes, offer = pickle.loads(data)
        return Header(name, shown, turn, sizes, offer and Offer(*offer))


def mismatch(headers: Sequence[Header], ranks: Sequence[int], own: int) -> str:
    """Return how the ranks' calls differ; nothing if all ask for the same.

    Parameters
    ----------
    headers : sequence of Header
        By rank.
    ranks : sequence of int
        Ranks in the world.
    own : int
        The caller's place in both.
    """
    mine = headers[own]
    for rank, each in zip(ranks, headers):
        if (each.name, each.shown) != (mine.name, mine.shown):
            return (
                f"rank {rank} asks for {Call(each.name, each.shown)}, and this rank,"
                f" {ranks[own]}, for {Call(mine.name, mine.shown)} (collective"
                f" {mine.turn} of the group); all must ask for the same, with tensors"
                " of one shape and dtype"
            )
    return ""


class Transport(ABC):
    """Moves bytes among the ranks of a group.

    Parameters
    ----------
    world : World
        The processes.
    comm : mpi4py.MPI.Comm
        Those of the group; all of them make it at the same time.
    ranks : sequence of int
        Their ranks in the world.

    Attributes
    ----------
    name : str
        "host", "cuda" or "mpi".
    rank, size : int
        Place of this process among them, and their number.
    asked : str
        What was asked for: a name, or "any".
    refusal : str
        Why a device has not imported the pages, or has had no memory for exchanges;
        nothing if that has not happened.
    """

    name = ""
    refusal = ""
    asked = "any"

    def __init__(self, world: World, comm: Any, ranks: Sequence[int]) -> None:
        self.world, self.comm, self.ranks = world, comm, tuple(ranks)
        self.rank, self.size = comm.rank, comm.size
        self._failure = ""
        self._turns = 0
        self._last: dict[object, Task] = {}

    @abstractmethod
    def exchange(
        self, call: Call, sizes: int | Sequence[int], fill: Fill, consume: Consume
    ) -> Steps:
        """Let each rank give bytes to all, or to each other rank.

        Parameters
        ----------
        call : Call
        sizes : int or sequence of int
            Bytes of what all ranks get, or of what each gets. What they get has parts,
            each of which is filled and consumed once, in rank order.
        fill : callable
            See `Fill`; its first argument is 0 where all ranks get the same.
        consume : callable
            See `Consume`; called for what this rank gave itself, too.
        """

    def meet(
        self, call: Call, data: Bytes, use: Callable[[list[Bytes]], Met]
    ) -> Met | None:
        """Let all ranks give all of them few bytes, at once, where that is quicker.

        Parameters
        ----------
        call : Call
            As many bytes come from all ranks that ask for the same.
        data : ndarray of uint8
            This rank's.
        use : callable
            Takes those of all ranks, in their order, which it may not keep.

        Returns
        -------
        object
            What `use` returns; None, and nothing has happened, where `exchange` has to
            do it.
        """
        return None

    def pages_of(self, gpu: vkbackend.Device) -> DevicePages | None:
        """Return the pages that a device has imported; None if it has to go without."""
        return None

    def allocate(self, gpu: vkbackend.Device, size: int) -> vkbackend.Buffer | None:
        """Return memory for what collectives take and make, if some is better for that.

        Parameters
        ----------
        gpu : vkbackend.Device
        size : int
            Bytes.
        """
        return None

    @abstractmethod
    def send(self, call: Call, tag: int, target: int, data: Bytes) -> Steps:
        """Send bytes to another rank.

        Parameters
        ----------
        call : Call
            What the receiver has to expect.
        tag : int
            Of the message.
        target : int
            Rank in the group.
        data : ndarray of uint8
        """

    @abstractmethod
    def receive(self, call: Call, tag: int, source: int | None) -> Steps:
        """Receive bytes from another rank; results in them and its rank.

        Parameters
        ----------
        call : Call
            What is expected.
        tag : int
            Of the message.
        source : int or None
            Rank in the group; None means any.
        """

    @abstractmethod
    def _close(self) -> None:
        """Free what only this transport has; all ranks call it."""

    def surrendered(self, ranks: Iterable[int]) -> str:
        """Return the failure of a rank that has given up the group; or nothing."""
        return ""

    # Operations

    def start(self, call: Call, steps: Steps, line: object) -> Task:
        """Start an operation that runs after earlier ones of the same line.

        It begins when the one before is ready, and ends after it.

        Raises
        ------
        DistributedError
            If an earlier one has failed.
        """
        self.check(call)
        previous = self._last.get(line)

        def queued() -> Steps:
            assert previous is not None
            if not (previous.done or previous.ready):
                yield Begun(previous)
            self.check(call)
            try:
                result = yield from steps
            except MismatchError:
                yield previous
                raise
            yield previous
            return result

        started = steps if previous is None or previous.done else queued()
        task = self.world.progress.start(self, started, str(call))
        if task.error is None:
            self._last[line] = task
        return task

    def check(self, call: Call) -> None:
        """Raise `DistributedError` if the group cannot be used any more."""
        if self._failure:
            raise DistributedError(f"{call.name}: {self._failure}")

    def give_up(self, task: Task, error: BaseException) -> None:
        """Refuse all later operations: the ranks are not at the same place any more."""
        if isinstance(error, MismatchError):
            return
        # Their errors' tracebacks would keep memory for as long as there is the group.
        self._last = {line: each for line, each in self._last.items() if not each.done}
        if not self._failure:
            self._failure = (
                f"the group cannot be used any more, as {task.what} has failed before"
                f" ({type(error).__name__}: {error}); end the program, or make another"
                " group"
            )

    @property
    def closed(self) -> bool:
        """Whether the group was destroyed."""
        return self._failure == _CLOSED

    def close(self) -> None:
        """Free what the group has; all ranks call it."""
        if not self.closed:
            for task in self._last.values():
                self.world.progress.finish(task)
            self._failure = _CLOSED
            self._close()

    def compare(self, headers: Sequence[Header]) -> None:
        """Raise where the ranks' calls differ."""
        found = mismatch(headers, self.ranks, self.rank)
        if found:
            raise MismatchError(f"{headers[self.rank].name}: {found}")


_CLOSED = "the group was destroyed; make another one"


class MismatchError(DistributedError):
    """Ranks that ask for different things; all of them know, and may go on."""


def as_bytes(array: np.ndarray) -> Bytes:
    """Return the bytes of a contiguous array, which it shares."""
    return array.reshape(-1).view(np.uint8)


def rounds_of(headers: Sequence[Header], step: int) -> int:
    """Return how many pieces of `step` bytes the longest part has; at least 1."""
    longest = max(size for header in headers for size in header.sizes)
    return max(1, math.ceil(longest / step))
