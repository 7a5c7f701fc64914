"""Transport that pulls from other ranks' cards, in memory that CUDA made.

It has the shared pages of `HostTransport`: counters and headers lie there, and what is
on the host goes through them. Where all ranks give and take in memory of their cards, a
rank copies to its outbox and says so; the others' cards pull from it. Elements never
reach the host, and nothing but copies runs beside the kernels.
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
from .device_pages import Copied, DeviceFill, DeviceTake
from .host_transport import SLOTS, HostTransport
from .mailboxes import Mailboxes, chunk_size
from .progress import Steps
from .transport import Call, Consume, Fill, Header, rounds_of

if TYPE_CHECKING:
    from .world import World


@dataclass(frozen=True)
class _Landing:
    """Bytes that were pulled from a rank, and still lie in the inbox.

    Attributes
    ----------
    rank, slot, offset, size : int
        Where, in bytes.
    start : int
        Of the first one among all that come from the rank.
    """

    rank: int
    slot: int
    offset: int
    size: int
    start: int


class CudaTransport(HostTransport):
    """Transport through mailboxes on the cards; see `Transport`.

    Parameters
    ----------
    world, comm, ranks
        See `Transport`.
    mailboxes : Mailboxes
        Of the same ranks; they belong to the transport from now on.
    """

    name = "cuda"

    def __init__(
        self, world: World, comm: Any, ranks: Sequence[int], mailboxes: Mailboxes
    ) -> None:
        self._mailboxes = mailboxes
        try:
            super().__init__(world, comm, ranks)
        except BaseException:
            mailboxes.close()
            raise

    def _release(self) -> None:
        self._mailboxes.close()
        super()._release()

    def exchange(
        self, call: Call, sizes: int | Sequence[int], fill: Fill, consume: Consume
    ) -> Steps:
        """Let each rank give bytes to all, or to each other rank."""
        if (
            isinstance(fill, DeviceFill)
            and isinstance(consume, DeviceTake)
            and fill.pages.gpu is self._mailboxes.gpu
        ):
            return self._pulled(call, sizes, fill, consume)
        return super().exchange(call, sizes, fill, consume)

    def _pulled(
        self,
        call: Call,
        sizes: int | Sequence[int],
        fill: DeviceFill,
        consume: DeviceTake,
    ) -> Steps:
        """Exchange from card to card; through the pages if a rank is on the host."""
        common = isinstance(sizes, int)
        step = self._mailboxes.chunk if common else self._mailboxes.part
        self._turns += 1
        own = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        mine = Header(call.name, call.shown, self._turns, own, on_device=True)
        place = 0 if common else self.rank
        headers: list[Header] = []
        landings: list[_Landing] = []
        piece, count = 0, 1
        filled = yield from self._offer(0, self._pieces, step, own, fill)
        self._put_header(self._pieces, mine)
        while piece < count:
            number = self._pieces
            yield Copied(filled)
            self._set(self._written[self.rank], number + 1)
            self._pieces += 1
            yield self._reached(self._written, number + 1)
            self._control.fence()
            if not piece:
                headers = self._headers(number)
                self._agree(headers, number + 1)
                if not all(each.on_device for each in headers):
                    self._set(self._read[self.rank], number + 1)
                    again = super().exchange(call, sizes, fill, consume)
                    return (yield from again)
                count = rounds_of(headers, step)
            yield Copied(self._mailboxes.landed(number % SLOTS))
            pulls, arriving = self._pull(piece, number, step, headers, place)
            self._keep_own(piece, step, own[place], consume)
            # Beside the pulls: what came before, and what goes out next.
            self._land(landings, consume)
            landings = arriving
            piece += 1
            if piece < count:
                filled = yield from self._offer(piece, number + 1, step, own, fill)
            yield Copied(pulls)
            self._set(self._read[self.rank], number + 1)
        self._land(landings, consume)

    def _offer(
        self, piece: int, number: int, step: int, own: Sequence[int], fill: DeviceFill
    ) -> Steps:
        """Fill a slot of the outbox once it is free; results in points of copies."""
        yield self._reached(self._read, number + 1 - SLOTS)
        points = []
        for k, size in enumerate(own):
            length = min(step, size - piece * step)
            # What a rank gives itself it copies from where it is.
            if length > 0 and (len(own) == 1 or k != self.rank):
                goal = self._mailboxes.place(number % SLOTS, k * step)
                source = fill.place(k, piece * step)
                points.append(self._mailboxes.copy(source, goal, length, outward=True))
        return points

    def _pull(
        self,
        piece: int,
        number: int,
        step: int,
        headers: Sequence[Header],
        place: int,
    ) -> tuple[list[CudaCopy], list[_Landing]]:
        """Start to pull a piece of every other rank."""
        pulls, landings = [], []
        slot, offset = number % SLOTS, place * step
        for rank in self._mailboxes.others():
            size = min(step, headers[rank].sizes[place] - piece * step)
            if size > 0:
                pulls.append(self._mailboxes.pull(rank, slot, offset, size))
                landings.append(_Landing(rank, slot, offset, size, piece * step))
        return pulls, landings

    def _keep_own(
        self, piece: int, step: int, size: int, consume: DeviceTake
    ) -> vkbackend.TimelinePoint | None:
        """Copy what this rank gives itself."""
        start = piece * step
        length = min(step, size - start)
        source = consume.own_place(start)
        if length <= 0 or source is None:
            return None
        goal = consume.place(self.rank, start)
        return self._mailboxes.copy(source, goal, length)

    def _land(self, landings: Sequence[_Landing], consume: DeviceTake) -> None:
        """Copy what has come to where it belongs; the device orders later work."""
        for each in landings:
            goal = consume.place(each.rank, each.start)
            self._mailboxes.land(each.rank, each.slot, each.offset, each.size, goal)


def open_mailboxes(
    comm: Any, device: Callable[[], Device]
) -> tuple[Mailboxes | None, str]:
    """Return mailboxes on the ranks' cards, or why there cannot be any.

    Nothing is opened, and no device is asked for, where a rank has no driver of CUDA's.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine; all call this.
    device : callable
        Returns the device of this process.

    Returns
    -------
    tuple of (Mailboxes or None) and str
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
        return Mailboxes(comm, gpu, SLOTS, chunk_size(comm.size, SLOTS)), ""
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
