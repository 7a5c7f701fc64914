"""Tensors between the ranks of a pipeline, eagerly and as nodes of a trace.

Each tensor goes in a message of its own, and those of a micro-batch follow one that
says what they are. A trace has to know that before anything has been computed: while
the function is traced, ranks tell each other at once what they will send; each replay
tells it again, and compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.differentiate import backward
from ..base import trace_hooks
from ..base.device import CPU, Device, GpuDevice
from ..base.dtype import STORED, DType
from ..base.errors import DistributedError
from ..base.shape import Layout
from ..ir.host_step import HostStep
from ..tensor.factories import zeros, zeros_like
from ..tensor.from_data import tensor as tensor_of
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..communication.group import Group
    from ..communication.progress import Task

MOST_DIMENSIONS = 12
"""Dimensions of a tensor between stages, at most."""

Heads = list[list[int]]
"""Of each tensor its dtype, whether it has a gradient, and its shape."""


class Flow:
    """Tensors between the ranks of a pipeline, for one batch.

    Parameters
    ----------
    group : Group
    place : Device
        Where what comes is put.
    inputs : list of tuple
        Micro-batches of the first rank.
    """

    def __init__(
        self, group: Group, place: Device, inputs: list[tuple[Any, ...]]
    ) -> None:
        self._group, self._place, self._inputs = group, place, inputs
        self._tasks: list[Task] = []
        self._live: dict[int, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}

    def receive(self, number: int) -> tuple[Any, ...]:
        """Return what the rank before has computed of a micro-batch."""
        if self._group.rank == 0:
            return self._inputs[number]
        source, tag = self._group.rank - 1, 3 * number
        found = []
        for kind, taped, ndim, *dims in self._heads(number):
            x = self.arrive(tuple(dims[:ndim]), _KINDS[kind], source, tag + 1)
            found.append(x.requires_grad_() if taped else x)
        return tuple(found)

    def send(
        self, number: int, given: tuple[Any, ...], out: tuple[Any, ...], last: bool
    ) -> None:
        """Send on what was computed, and keep what its backward pass needs."""
        self._live[number] = given, out
        if last:
            return
        self._tell(number, [head_of(each) for each in out])
        for each in out:
            self.post(each.detach(), self._group.rank + 1, 3 * number + 1)

    def go_back(self, number: int, first: bool) -> None:
        """Take a micro-batch backward: from the rank behind, to the one before."""
        given, out = self._live.pop(number)
        taped = [each for each in out if each.requires_grad]
        rank, tag = self._group.rank, 3 * number + 2
        grads: list[Tensor] | None = None
        if rank < self._group.size - 1:
            grads = [self.arrive_like(each, rank + 1, tag) for each in taped]
        if taped:
            backward(taped, grads)
        if first:
            return
        for each in given:
            if isinstance(each, Tensor) and each.requires_grad:
                grad = each.grad
                self.post(
                    zeros_like(each.detach()) if grad is None else grad, rank - 1, tag
                )
                each.grad = None

    def arrive_like(self, x: Tensor, source: int, tag: int) -> Tensor:
        """Return a tensor that another rank posts, of the shape and dtype of one."""
        return self.arrive(tuple(x.shape), x.dtype, source, tag)

    def arrive(
        self, shape: tuple[int, ...], dtype: DType, source: int, tag: int
    ) -> Tensor:
        """Return a tensor that another rank posts."""
        return self._group.recv(shape, dtype, source, tag, self._place)

    def post(self, x: Tensor, target: int, tag: int) -> None:
        """Start to send a tensor."""
        self._tasks.append(self._group.start_send("send", x, target, tag))

    def finish(self) -> None:
        """Wait until all has been sent."""
        finish(self._group, self._tasks)

    def _heads(self, number: int) -> Heads:
        return _received(self._group, number)

    def _tell(self, number: int, heads: Heads) -> None:
        self._tasks += _told(self._group, number, heads)


class RecordedFlow(Flow):
    """The same as nodes of the running trace, which each replay runs again."""

    def __init__(
        self, group: Group, place: Device, inputs: list[tuple[Any, ...]]
    ) -> None:
        super().__init__(group, place, inputs)
        self._messages = TraceMessages(group)
        self._count = 0
        self._record(Tell(self._messages))

    def _record(
        self, step: HostStep, x: Tensor | None = None, shape: Sequence[int] = (1,)
    ) -> Tensor:
        from ..communication.traced import recorded

        if x is None:
            x = zeros(1, dtype="int32", device=self._place)
        return recorded(x, step, shape)

    def arrive(
        self, shape: tuple[int, ...], dtype: DType, source: int, tag: int
    ) -> Tensor:
        """Return a tensor that another rank posts."""
        self._count += 1
        like = zeros(1, dtype=dtype, device=self._place)
        step = Arrive(self._messages, self._count, shape, dtype, source, tag)
        if 0 in shape:
            return zeros(*shape, dtype=dtype, device=self._place)
        return self._record(step, like, shape)

    def post(self, x: Tensor, target: int, tag: int) -> None:
        """Send a tensor."""
        self._count += 1
        step = Post(self._messages, self._count, tuple(x.shape), x.dtype, target, tag)
        if x.numel():
            self._record(step, x.to(self._place), x.shape)

    def finish(self) -> None:
        """Wait until all has been sent."""
        self._record(Finish(self._messages))

    def _heads(self, number: int) -> Heads:
        with trace_hooks.listening(None):
            found = _received(self._group, number)
        self._messages.received[number] = found
        return found

    def _tell(self, number: int, heads: Heads) -> None:
        self._messages.told[number] = heads
        with trace_hooks.listening(None):
            self._messages.tasks += _told(self._group, number, heads)


def flow_of(group: Group, place: Device, inputs: list[tuple[Any, ...]]) -> Flow:
    """Return a flow for a batch: nodes of the running trace, if there is one."""
    trace = trace_hooks.listener()
    records = trace is not None and group.size > 1 and isinstance(place, GpuDevice)
    if records and trace is not None and trace.takes_host_steps():
        return RecordedFlow(group, place, inputs)
    return Flow(group, place, inputs)


@dataclass(eq=False)
class TraceMessages:
    """What the steps of one trace share.

    Attributes
    ----------
    told, received : dict of int to list
        Heads of micro-batches, by number, of the trace.
    tasks : list of Task
        What is being sent.
    fresh : bool
        Whether ranks have told each other already, as they do in the trace.
    """

    group: Group
    told: dict[int, Heads] = field(default_factory=dict)
    received: dict[int, Heads] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    fresh: bool = True


@dataclass(frozen=True)
class Tell(HostStep):
    """Says what will be sent, and compares what others say with the trace."""

    messages: TraceMessages

    def run(self, data: np.ndarray) -> np.ndarray:
        """Send and receive heads; return what is given."""
        messages = self.messages
        if messages.fresh:
            messages.fresh = False
            return data
        group = messages.group
        with trace_hooks.listening(None):
            for number, heads in messages.told.items():
                messages.tasks += _told(group, number, heads)
            for number, heads in messages.received.items():
                found = _received(group, number)
                if found != heads:
                    raise DistributedError(
                        f"Pipeline.step: rank {group.rank - 1} sends"
                        f" {_shown(found)} as micro-batch {number}, and rank"
                        f" {group.rank} was traced for {_shown(heads)}; within fw.jit"
                        " give all ranks the batch, so that they trace anew together"
                    )
        return data


@dataclass(frozen=True)
class Arrive(HostStep):
    """Receives a tensor; `count` tells it from others."""

    messages: TraceMessages
    count: int
    shape: tuple[int, ...]
    dtype: DType
    source: int
    tag: int

    def run(self, data: np.ndarray) -> np.ndarray:
        """Return the elements that come."""
        with trace_hooks.listening(None):
            x = self.messages.group.recv(
                self.shape, self.dtype, self.source, self.tag, "cpu"
            )
        return x.stored().reshape(-1)


@dataclass(frozen=True)
class Post(HostStep):
    """Starts to send a tensor; `count` tells it from others."""

    messages: TraceMessages
    count: int
    shape: tuple[int, ...]
    dtype: DType
    target: int
    tag: int

    def run(self, data: np.ndarray) -> np.ndarray:
        """Start to send elements; return them."""
        layout = Layout.contiguous(self.shape)
        with trace_hooks.listening(None):
            x = Tensor.from_stored(data, layout, CPU, self.dtype)
            messages = self.messages
            task = messages.group.start_send("send", x, self.target, self.tag)
            messages.tasks.append(task)
        return data


@dataclass(frozen=True)
class Finish(HostStep):
    """Waits until all has been sent."""

    messages: TraceMessages

    def run(self, data: np.ndarray) -> np.ndarray:
        """Wait; return what is given."""
        with trace_hooks.listening(None):
            finish(self.messages.group, self.messages.tasks)
        return data


def finish(group: Group, tasks: list[Task]) -> None:
    """Wait for what is being sent, and forget it, also after an error."""
    waiting = list(tasks)
    tasks.clear()
    for each in waiting:
        group.finish(each)


def _told(group: Group, number: int, heads: Heads) -> list[Task]:
    """Start to say what will be sent to the next rank."""
    target, tag = group.rank + 1, 3 * number
    messages = tensor_of([len(heads)], dtype=_HEADER), tensor_of(heads, dtype=_HEADER)
    return [group.start_send("send", each, target, tag) for each in messages]


def _received(group: Group, number: int) -> Heads:
    """Return what the rank before will send."""
    source, tag = group.rank - 1, 3 * number
    (count,) = group.recv((1,), _HEADER, source, tag, "cpu").tolist()
    size = (count, 3 + MOST_DIMENSIONS)
    found: Heads = group.recv(size, _HEADER, source, tag, "cpu").tolist()
    return found


_KINDS: list[DType] = list(STORED)
_HEADER = "int64"


def head_of(x: Any) -> list[int]:
    """Return what a tensor is, for the rank that gets it."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"Pipeline: a stage returns a {type(x).__name__}; it must return tensors"
        )
    if x.ndim > MOST_DIMENSIONS:
        raise ValueError(
            f"Pipeline: a stage returns a tensor of {x.ndim} dimensions; it may have"
            f" {MOST_DIMENSIONS}"
        )
    dims = [*x.shape, *[0] * (MOST_DIMENSIONS - x.ndim)]
    return [_KINDS.index(x.dtype), int(x.requires_grad), x.ndim, *dims]


def _shown(heads: Heads) -> str:
    return ", ".join(
        f"{_KINDS[kind].name} {tuple(dims[:ndim])}" for kind, _, ndim, *dims in heads
    )
