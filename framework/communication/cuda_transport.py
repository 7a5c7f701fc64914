"""Transport that pulls from other ranks' cards, in memory that CUDA made.

It has the shared pages of `HostTransport`: counters and headers lie there, and what is
on the host goes through them. Where all ranks give and take in memory of their cards,
each pulls from the others' straight to where it takes: elements never reach the host,
nothing but copies between cards runs beside the kernels, and nothing is copied within a
card. For that, the compiler of replays allocates what collectives take and make from
the card's pool of memory that CUDA made (see `PeerMemory`), and so do eager collectives
what they make. What lies elsewhere is copied to that pool first.

An exchange has one round, whatever its size:

1. wait on the host until the device has made what this rank gives, and say where it is:
   number of a block, offsets in it;
2. once all have said so, wait until the device has done with what lies where this rank
   takes, pull, and wait for the pulls: then this rank has read;
3. once all have read, what was given may be overwritten, and the exchange ends.

No rank waits for anything but that others come to the same place of the same exchange,
and for work that its own device has: that cannot be a circle, and a rank that dies
before it has read ends the wait of all. A rank that gives up, after which its memory
may be overwritten, says so first; those that have pulled from it look for that in the
end. Where a pool has no memory left, the exchange goes through the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import vkbackend
from vkbackend import cuda
from vkbackend.cuda import CudaCopy
from vkbackend.errors import CudaError

from ..base.device import Device, GpuDevice
from ..base.errors import DistributedError
from .descriptors import available, first_failure
from .device_pages import Copied, DeviceFill, DeviceTake, Place, Waitable
from .host_transport import SLOTS, HostTransport
from .peer_memory import PeerMemory
from .progress import Steps
from .transport import Call, Consume, Fill, Header, Offer

if TYPE_CHECKING:
    from .world import World


@dataclass(frozen=True)
class _Given:
    """What a rank gives, in memory that others pull from.

    Attributes
    ----------
    buffer : Buffer
        The memory, which stays as it is until all have read.
    offer : Offer
        Where it is, for the others.
    made : sequence of Waitable
        When the device has made it.
    """

    buffer: vkbackend.Buffer
    offer: Offer
    made: Sequence[Waitable]


class CudaTransport(HostTransport):
    """Transport by pulls from other cards; see `Transport`.

    Parameters
    ----------
    world, comm, ranks
        See `Transport`.
    peers : PeerMemory
        Of the same ranks; it belongs to the transport from now on.
    """

    name = "cuda"

    def __init__(
        self, world: World, comm: Any, ranks: Sequence[int], peers: PeerMemory
    ) -> None:
        self._peers = peers
        try:
            super().__init__(world, comm, ranks)
        except BaseException:
            peers.close()
            raise

    def _release(self) -> None:
        self._peers.close()
        super()._release()

    def allocate(self, gpu: vkbackend.Device, size: int) -> vkbackend.Buffer | None:
        """Return memory of the card from which others pull; None if there is none."""
        if gpu is not self._peers.gpu or not self._peers.is_open:
            return None
        try:
            return self._peers.pool.allocate(size, name="exchange")
        except (vkbackend.Error, MemoryError) as error:
            # The first: further ones differ in numbers alone.
            why = f"exchanges went through the host's pages, as {error}"
            self.refusal = self.refusal or why
            return None

    def exchange(
        self, call: Call, sizes: int | Sequence[int], fill: Fill, consume: Consume
    ) -> Steps:
        """Let each rank give bytes to all, or to each other rank."""
        if (
            isinstance(fill, DeviceFill)
            and isinstance(consume, DeviceTake)
            and fill.pages.gpu is self._peers.gpu
        ):
            own = (sizes,) if isinstance(sizes, int) else tuple(sizes)
            given, inbox = self._given(own, fill), self._inbox(consume)
            if given is not None and inbox is not None:
                place = 0 if isinstance(sizes, int) else self.rank
                found = yield from self._pulled(call, own, place, given, inbox, consume)
                if found:
                    return
                del given, inbox
        yield from super().exchange(call, sizes, fill, consume)

    def _pulled(
        self,
        call: Call,
        own: Sequence[int],
        place: int,
        given: _Given,
        inbox: Place,
        consume: DeviceTake,
    ) -> Steps:
        """Exchange from card to card; results in False if a rank is on the host.

        Parameters
        ----------
        call : Call
        own : sequence of int
            Bytes of each part that this rank gives.
        place : int
            Which of each rank's parts is for this one.
        given : _Given
            All of them.
        inbox : (Buffer, int)
            Where pulls go: where this rank takes, or memory in its place.
        consume : DeviceTake
        """
        number = self._pieces
        yield self._reached(self._read, number + 1 - SLOTS)
        self._turns += 1
        mine = Header(call.name, call.shown, self._turns, tuple(own), given.offer)
        told = self._put_header(number, mine)
        yield Copied(given.made)
        self._set(self._written[self.rank], number + 1)
        self._pieces += 1
        yield self._reached(self._written, number + 1)
        self._control.fence()
        headers = self._headers(number, mine, told)
        self._agree(headers, number)
        if not all(each.offer for each in headers):
            self._has_read(number, number + 1)
            return False
        for rank in self._peers.others():
            offer = headers[rank].offer
            assert offer is not None, "each has one, as was just seen"
            self._peers.hear(rank, offer.told)
        yield Copied(inbox[0].points())
        try:
            pulls = self._pull(headers, place, inbox, consume)
            self._keep_own(own[place], consume)
            yield Copied(pulls)
        except BaseException:
            # The memory that they go to may be used for something else from here on.
            self._peers.synchronize()
            raise
        self._has_read(number, number + 1)
        self._land(headers, place, inbox, consume)
        yield self._reached(self._read, number + 1)
        self._control.fence()
        gone = self.surrendered(self.ranks)
        if gone:
            raise DistributedError(f"{call.name}: {gone}")
        return True

    def _given(self, own: Sequence[int], fill: DeviceFill) -> _Given | None:
        """Return what this rank gives, copied if need be; None without memory for it.

        Parameters
        ----------
        own : sequence of int
            Bytes of each part.
        fill : DeviceFill
        """
        buffer = fill.parts[0][0]
        offsets = [offset for _, offset in fill.parts]
        first = min(offsets)
        starts = [each - first for each in offsets]
        self._peers.gpu.settle()
        if self._peers.holds(buffer):
            written = buffer.last_write
            made = [] if written is None else [written]
            offer = self._peers.offer((buffer, first), starts)
            return _Given(buffer, offer, made)
        size = max(start + length for start, length in zip(starts, own))
        copied = self.allocate(self._peers.gpu, size)
        if copied is None:
            return None
        made = []
        if size:
            made.append(self._peers.copy((buffer, first), (copied, 0), size))
        return _Given(copied, self._peers.offer((copied, 0), starts), made)

    def _inbox(self, consume: DeviceTake) -> Place | None:
        """Return where pulls go; None without memory for it."""
        buffer = consume.goals[0][0]
        first = min(offset for _, offset in consume.goals)
        if self._peers.holds(buffer):
            return buffer, first
        made = self.allocate(self._peers.gpu, buffer.size - first)
        return None if made is None else (made, 0)

    def _pull(
        self, headers: Sequence[Header], place: int, inbox: Place, consume: DeviceTake
    ) -> list[CudaCopy]:
        """Start to pull what every other rank gives this one."""
        first = min(offset for _, offset in consume.goals)
        pulls = []
        for rank in self._peers.others():
            offer, size = headers[rank].offer, headers[rank].sizes[place]
            if size and offer is not None:
                goal = inbox[0], inbox[1] + consume.goals[rank][1] - first
                start = offer.starts[place]
                pulls.append(self._peers.pull(rank, offer.number, start, goal, size))
        return pulls

    def _keep_own(self, size: int, consume: DeviceTake) -> None:
        """Copy what this rank gives itself, from where it is."""
        source = consume.own_place(0)
        if size and source is not None:
            self._peers.copy(source, consume.place(self.rank, 0), size)

    def _land(
        self, headers: Sequence[Header], place: int, inbox: Place, consume: DeviceTake
    ) -> None:
        """Copy what was pulled to where it belongs, if it is not there."""
        if inbox[0] is consume.goals[0][0]:
            return
        first = min(offset for _, offset in consume.goals)
        for rank in self._peers.others():
            size = headers[rank].sizes[place]
            if size:
                goal = consume.goals[rank]
                source = inbox[0], inbox[1] + goal[1] - first
                self._peers.copy(source, goal, size)


def open_peer_memory(
    comm: Any, device: Callable[[], Device]
) -> tuple[PeerMemory | None, str]:
    """Return memory of the ranks' cards that all pull from, or why there is none.

    Nothing is opened, and no device is asked for, where a rank has no driver of CUDA's.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine; all call this.
    device : callable
        Returns the device of this process.

    Returns
    -------
    tuple of (PeerMemory or None) and str
        The same on all ranks.
    """
    failure = first_failure(comm, _without_driver())
    if failure:
        return None, failure
    failure, gpu = "", None
    try:
        gpu = _nvidia_device(device())
    except (DistributedError, vkbackend.Error) as error:
        failure = str(error)
    failure = first_failure(comm, failure)
    if failure or gpu is None:
        return None, failure
    peers = comm.allgather(gpu.info.uuid)
    failure = first_failure(comm, cuda.why_not(gpu.info, peers))
    if failure:
        return None, failure
    try:
        return PeerMemory(comm, gpu), ""
    except DistributedError as error:
        return None, str(error)


def _without_driver() -> str:
    """Return why CUDA cannot be used at all; nothing if it can."""
    if not available():
        return "the operating system hands over no descriptors"
    try:
        cuda.load()
    except CudaError as error:
        return str(error)
    return ""


def _nvidia_device(device: Device) -> vkbackend.Device:
    if not isinstance(device, GpuDevice):
        raise DistributedError(f"the device is {device}")
    info = device.gpu.info
    if not cuda.is_nvidia(info):
        raise DistributedError(f"the driver of {info.name} is {info.driver_name}")
    return device.gpu
