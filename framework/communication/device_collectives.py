"""Collectives whose bytes a device moves itself, through pages that it has imported.

The host touches no element. What the ranks give comes to lie side by side in the memory
of the device; sums of that are ops as any other, in rank order, also within `fw.jit`.
Small tensors are the host's, see `SMALL`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

import vkbackend

from ..base import trace_hooks
from ..base.device import Device, GpuDevice
from ..base.dtype import DType, bool_, float32, float64
from ..base.errors import DistributedError
from ..base.shape import Layout
from ..ir.host_step import HostStep, Range
from ..ir.lazy_graph import Array, Value
from ..scheduler.executor import buffer_of
from ..scheduler.scheduler import compute, with_memory_retry
from ..tensor.tensor import Tensor
from .elements import contiguous, filler, writer
from .reductions import DIRECT
from .traced import is_recorded, recorded
from .transport import Call

if TYPE_CHECKING:
    from .group import Group


SMALL = DIRECT
"""Bytes of a tensor that the host reads, adds and writes sooner than a device does.

That takes a device one submission; its own way, three, and waits for two of them. All
ranks take the same way, and where not, as one is on the host, each knows the other:
below `DIRECT` all give the same bytes either way.
"""


def moves(group: Group, x: Tensor) -> bool:
    """Return whether the device of a tensor moves its bytes itself."""
    large = x.numel() * x.dtype.itemsize > SMALL
    return large and group.pages_of(x.device) is not None


def sums(group: Group, x: Tensor, op: str) -> bool:
    """Return whether the device of a tensor moves and reduces it itself.

    Others than sums and means of floats are reduced by the host. So are means over 3,
    5 and the like, which are rounded once, where the device has no float64 for them.
    """
    means = op == "mean" and x.dtype.is_float
    if means and group.size & (group.size - 1):
        means = x.dtype is not float64 and _has_float64(x.device)
    return (op == "sum" or means) and moves(group, x)


def _has_float64(device: Device) -> bool:
    return isinstance(device, GpuDevice) and device.gpu.info.shader_float64


def all_reduce(group: Group, call: Call, x: Tensor, op: str) -> Tensor:
    """Return the reduction of a tensor over all ranks.

    Parameters
    ----------
    group : Group
    call : Call
        What the ranks have to agree on.
    x : Tensor
    op : str
        One that `sums` has answered for.
    """
    size, count = group.size, x.numel()
    if size == 2 or count * x.dtype.itemsize <= DIRECT:
        return _folded(group, call, x, count, count, op).reshape(x.shape)
    least, more = divmod(count, size)
    lengths = tuple(least + (rank < more) for rank in range(size))
    own = lengths[group.rank]
    part = _folded(group, call, x, lengths, own, op)
    return _moved(group, call, part, own, lengths).reshape(x.shape)


def reduce_scatter(group: Group, call: Call, x: Tensor, dim: int, op: str) -> Tensor:
    """Return this rank's part of the reduction; see `all_reduce`."""
    first = x.movedim(dim, 0)
    own = x.numel() // group.size
    lengths = (own,) * group.size
    found = _folded(group, call, first, lengths, own, op)
    shape = (first.shape[0] // group.size, *first.shape[1:])
    return contiguous(found.reshape(shape).movedim(0, dim))


def all_gather(group: Group, call: Call, x: Tensor, dim: int) -> Tensor:
    """Return the tensors of all ranks, joined in a dimension; see `all_reduce`."""
    first = x.movedim(dim, 0)
    found = _moved(group, call, first, x.numel(), (x.numel(),) * group.size)
    shape = (group.size * first.shape[0], *first.shape[1:])
    return contiguous(found.reshape(shape).movedim(0, dim))


def broadcast(group: Group, call: Call, x: Tensor, source: int) -> Tensor:
    """Return the tensor of one rank; see `all_reduce`."""
    given = x.numel() if group.rank == source else 0
    taken = tuple(x.numel() * (rank == source) for rank in range(group.size))
    return _moved(group, call, x, given, taken).reshape(x.shape)


def all_to_all(group: Group, call: Call, x: Tensor, dim: int) -> Tensor:
    """Return the parts that all ranks have for this one; see `all_reduce`."""
    first = x.movedim(dim, 0)
    lengths = (x.numel() // group.size,) * group.size
    found = _moved(group, call, first, lengths, lengths)
    return contiguous(found.reshape(first.shape).movedim(0, dim))


def _folded(
    group: Group,
    call: Call,
    x: Tensor,
    given: int | tuple[int, ...],
    own: int,
    op: str,
) -> Tensor:
    """Return the reduction of what all ranks give this one, in their order.

    What it gives itself is read where it is.

    Parameters
    ----------
    group : Group
    call : Call
    x : Tensor
    given : int or tuple of int
        See `Move`.
    own : int
        Elements that each rank gives this one.
    op : str
    """
    size, rank = group.size, group.rank
    whole = contiguous(x)
    taken = tuple(own * (each != rank) for each in range(size))
    found = _moved(group, call, whole, given, taken).reshape(size - 1, own)
    start = 0 if isinstance(given, int) else starts(given)[rank]
    rows = [found[k] for k in range(size - 1)]
    rows.insert(rank, whole.reshape(-1)[start : start + own])
    short = x.dtype.is_float and x.dtype.itemsize == 2
    total: Tensor = rows[0].to(float32) if short else rows[0]
    for row in rows[1:]:
        total = total | row if x.dtype is bool_ else total + row
    if op == "mean" and size & (size - 1):
        # A device's division may be off by some units in the last place, which of
        # float64 are too few to change how the quotient of a float32 is rounded.
        total = (total.to(float64) / float(size)).to(float32)
    elif op == "mean":
        total = total * (1 / size)
    return total.to(x.dtype)


def _moved(
    group: Group,
    call: Call,
    x: Tensor,
    given: int | tuple[int, ...],
    taken: tuple[int, ...],
) -> Tensor:
    """Return what comes from all ranks, side by side; see `Move`."""
    step = Move(group, call, given, taken, x.dtype)
    if is_recorded(x):
        return recorded(x, step, (sum(taken),))
    trace_hooks.refuse(f"{call.name} communicates; communicate outside of the function")
    return step.moved(x)


@dataclass(frozen=True)
class Move(HostStep):
    """Exchange of elements among all ranks.

    Parameters
    ----------
    group : Group
    call : Call
    given : int or tuple of int
        Elements, of those that there are, that go to all ranks; or to each.
    taken : tuple of int
        Elements that come from each rank; none from itself if it needs no copy.
    dtype : DType
    """

    group: Group
    call: Call
    given: int | tuple[int, ...]
    taken: tuple[int, ...]
    dtype: DType

    @property
    def _parts(self) -> tuple[int, ...]:
        return (self.given,) if isinstance(self.given, int) else self.given

    @property
    def _sizes(self) -> int | tuple[int, ...]:
        """Bytes that are given, as transports take them."""
        sizes = tuple(each * self.dtype.itemsize for each in self._parts)
        return sizes[0] if isinstance(self.given, int) else sizes

    @property
    def _keeps_own(self) -> bool:
        """Whether what this rank gives itself is copied."""
        return self.taken[self.group.rank] > 0

    def run(self, data: np.ndarray) -> np.ndarray:
        """Return what comes from the ranks, moved by the host."""
        out = np.empty(sum(self.taken), data.dtype)
        parts = [data[a : a + n] for a, n in zip(starts(self._parts), self._parts)]
        goals: list[np.ndarray | None] = [
            out[a : a + n] for a, n in zip(starts(self.taken), self.taken)
        ]
        if not self._keeps_own:
            goals[self.group.rank] = None
        fill, consume = filler(parts), writer(goals)
        with trace_hooks.listening(None):
            self.group.exchange(self.call, self._sizes, fill, consume)
        return out

    def in_place(self, size: int) -> bool:
        """Return True: kernels write what others pull as any other memory."""
        return True

    def source_within(self) -> int | None:
        """Return the place of this rank's part among all, if it is given as it is."""
        rank, item = self.group.rank, self.dtype.itemsize
        if not isinstance(self.given, int) or self.given != self.taken[rank]:
            return None
        return starts(self.taken)[rank] * item if self.given else None

    def allocate(self, device: vkbackend.Device, size: int) -> vkbackend.Buffer | None:
        """Return memory from which the ranks' cards take, and to which they give."""
        return self.group.allocate(device, size)

    def run_on_device(
        self, device: vkbackend.Device, source: Range, target: Range
    ) -> bool:
        """Let the device move what comes from the ranks, if it has the pages."""
        pages = self.group.device_pages(device)
        if pages is None:
            return False
        item = self.dtype.itemsize
        parts = [(source[0], source[1] + item * start) for start in starts(self._parts)]
        goals = [(target[0], target[1] + item * start) for start in starts(self.taken)]
        rank, own = self.group.rank, None
        if self._keeps_own:
            own = parts[0] if isinstance(self.given, int) else parts[rank]
            own = None if own == goals[rank] else own
        fill, consume = pages.filler(parts), pages.writer(goals, rank, own)
        with trace_hooks.listening(None):
            self.group.exchange(self.call, self._sizes, fill, consume)
        return True

    def moved(self, x: Tensor) -> Tensor:
        """Return what comes from the ranks; the tensor is on a device, in memory."""
        device = x.device
        assert isinstance(device, GpuDevice)
        whole = contiguous(x.detach())
        with device.lock:
            device.settle()
            value = whole.array.value
            # Referenced, or another thread's flush could drop or donate it.
            kept = Array(value)
            compute(device, value)
            buffer = buffer_of(value)
        item, count = self.dtype.itemsize, sum(self.taken)
        out = self.allocate(device.gpu, count * item)
        if out is None:
            out = with_memory_retry(device, device.gpu.allocate, count * item)
        source = buffer, whole.layout.offset * item, whole.numel() * item
        found = self.run_on_device(device.gpu, source, (out, 0, count * item))
        assert found, "the pages are there for as long as the group is"
        with device.lock:
            device.settle()
            if value.buffer is not buffer:
                raise DistributedError(
                    f"{self.call.name}: another thread has changed the tensor while it"
                    " was sent; let one end before the other begins"
                )
        del kept
        layout = Layout.contiguous((count,))
        return Tensor.make(Array(Value(count, self.dtype, buffer=out)), layout, device)


def starts(lengths: Sequence[int]) -> list[int]:
    """Return where each of several lengths begins, side by side."""
    return [0, *accumulate(lengths)][: len(lengths)]
