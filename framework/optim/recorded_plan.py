"""Recorded plans: the kernels of a recorded call, run on other addresses.

A call is run on the slow path once and recorded. If it only updates unshared values in
place, and computes little else, the next calls run its kernels again, in the submission
of what is pending: no node is recorded anew, so the host has little to do. What may
differ from call to call is guarded, or read anew; see `step_plan` and `clip_plan`.

The new values alias the old ones. That is allowed because the old ones are not
referenced: no other storage has them, and pending nodes run before. For autograd each
run is an in-place change, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, TypeVar

from ..autotune import autotune
from ..base import trace_hooks
from ..base.device import GpuDevice
from ..base.trace_hooks import Changing, TraceHooks
from ..ir.lazy_graph import Array, Node, Value
from ..scheduler.plan import Plan
from ..scheduler.scheduler import TrailingCommands, flush

R = TypeVar("R")

_external_refs = attrgetter("external_refs")


class NotRepeatable(Exception):
    """The recorded call cannot be repeated by a plan."""


class CallRecorder(TraceHooks):
    """Recorder of a call on the slow path.

    Attributes
    ----------
    nodes : list of Node
        Its nodes.
    arrays : dict of int to (Array, Value)
        Mutated storages, with their values on entry.
    actions : list of Changing or callable
        Host actions and dynamic arguments, in order.
    owners : list
        Objects whose fingerprint is guarded.
    """

    def __init__(self, device: GpuDevice) -> None:
        self.nodes: list[Node] = []
        self.arrays: dict[int, tuple[Array, Value]] = {}
        self.actions: list[Changing | Callable[[], object]] = []
        self.owners: list[Any] = []
        self._device = device

    def run(self, call: Callable[[], R]) -> R:
        """Record a call, after what is pending has been submitted."""
        flush(self._device)
        with trace_hooks.listening(self):
            return call()

    def submit(self) -> Plan | None:
        """Submit what is pending; return the plan if it is of the call's nodes alone.

        The device's lock is held until the plan has been used.
        """
        pending = self._device.pending
        alone = len(pending) == len(self.nodes) and all(map(is_, pending, self.nodes))
        plan = flush(self._device, whole=True)
        return plan if alone else None

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Record a node, and leave it pending."""
        with device.lock:
            device.pending.append(node)
        self.nodes.append(node)
        self.replayable = self.replayable and device is self._device

    def on_rebind(self, array: Array, before: Value) -> None:
        """Record the mutation of a storage."""
        self.arrays.setdefault(id(array), (array, before))

    def changing(self, read: Callable[[], float]) -> float:
        """Return a dynamic argument, read before each run."""
        number = Changing(read())
        number.read = read
        self.actions.append(number)
        return number

    def each_time(self, action: Callable[[], object]) -> None:
        """Record a host action that is repeated before each run."""
        self.actions.append(action)

    def called(self, owner: Any) -> None:
        """Guard the fingerprint of an object."""
        self.owners.append(owner)

    def on_grad_read(self, leaf: Any) -> None:
        """Accept the read of a gradient."""


class RecordedPlan:
    """What step plans and clipping plans share: generation, ownership, submission."""

    def __init__(self, recorder: CallRecorder, device: GpuDevice) -> None:
        if not recorder.replayable:
            raise NotRepeatable
        self._device = device
        self._plans = device.plans
        self._generation = autotune.generation(device)

    def _is_current(self) -> bool:
        """Return whether the plan is of the device's generation."""
        device = self._device
        # A fusion report must see the plan built.
        if device.plans is not self._plans:
            return False
        return self._generation == autotune.generation(device)

    def _submit(self, arrays: Sequence[Array], record: TrailingCommands) -> None:
        """Submit what is pending, and the kernels, which change storages in place.

        `record` is called again where a submission failed.
        """
        # Before, as saved tensors may be overwritten from here on.
        for array in arrays:
            array.version += 1
        flush(self._device, record)


def are_unshared(arrays: Sequence[Array], values: Sequence[Value]) -> bool:
    """Return whether the values of storages belong to these, and to nothing else."""
    return (
        all(map(is_, map(type, arrays), repeat(Array)))
        and all(map(is_, map(type, values), repeat(Value)))
        and list(map(_external_refs, values)) == [1] * len(values)
    )
