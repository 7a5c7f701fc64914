"""Step plans of optimizers: the kernels of a recorded step, run on other addresses.

One step is run on the slow path and recorded. If it only updates parameters and their
state in place, the next steps run its kernels again: only the addresses of gradients
and dynamic arguments such as the learning rate differ. No node is recorded again, so
the host has little to do.

The new values alias the old ones. That is allowed because the old ones are not
referenced: no other storage has them, and pending nodes run before, in the same
submission. For autograd each step is an in-place change, as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any

import vkbackend

from ..autotune import autotune
from ..base.device import GpuDevice
from ..base.errors import TraceError
from ..base.shape import Layout
from ..base.trace_hooks import Changing, TraceHooks
from ..ir.lazy_graph import Array, Node, Value
from ..scheduler.argument_table import ALIGNMENT, AddressTable
from ..scheduler.dynamic_args import DynamicArguments
from ..scheduler.executor import buffer_of
from ..scheduler.plan import Plan
from ..scheduler.scheduler import flush
from ..tensor.tensor import Tensor

_grad = attrgetter("own_grad")
_array = attrgetter("array")
_layout = attrgetter("layout")
_device = attrgetter("device")
_value = attrgetter("value")
_dtype = attrgetter("dtype")
_external_refs = attrgetter("external_refs")
_address = attrgetter("address")


def _layout_of_grad(parameter: Tensor) -> Layout | None:
    grad = parameter.own_grad
    return None if grad is None else grad.layout


def _sharing(values: Sequence[Value]) -> list[int]:
    """Return the first index of each value in a sequence; [] if all are different."""
    first: dict[int, int] = {}
    found = [first.setdefault(id(value), k) for k, value in enumerate(values)]
    return found if len(first) < len(values) else []


class NotRepeatable(Exception):
    """The recorded step cannot be repeated by a plan."""


class StepRecorder(TraceHooks):
    """Recorder of a step on the slow path.

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
        """Return a dynamic argument, read before each step."""
        number = Changing(read())
        number.read = read
        self.actions.append(number)
        return number

    def each_time(self, action: Callable[[], object]) -> None:
        """Record a host action that is repeated before each step."""
        self.actions.append(action)

    def called(self, owner: Any) -> None:
        """Guard the fingerprint of an object."""
        self.owners.append(owner)

    def on_grad_read(self, leaf: Any) -> None:
        """Accept the read of a gradient."""


class StepPlan:
    """Plan of a recorded step, ready to be run again.

    Parameters
    ----------
    params : sequence of Tensor
        All parameters, with the gradients of the recorded step.
    recorder : StepRecorder
        The recorded step.
    plan : Plan
        Plan of the step's nodes alone.
    device : GpuDevice
        Its device.

    Raises
    ------
    NotRepeatable
        If it does more than to update unshared values in place, from those and
        gradients.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        recorder: StepRecorder,
        plan: Plan,
        device: GpuDevice,
    ) -> None:
        if not recorder.replayable:
            raise NotRepeatable
        self._device = device
        self._plans = device.plans
        self._generation = autotune.generation(device)
        self._params = list(params)
        self._params_arrays = list(map(_array, params))
        self._params_layouts = list(map(_layout, params))
        grads = [each.grad for each in params if each.grad is not None]
        self._layouts = list(map(_layout_of_grad, params))
        self._dtypes = list(map(_dtype, grads))
        self._arrays = [array for array, _ in recorder.arrays.values()]
        self._values = list(map(_value, self._arrays))
        self._ids = set(map(id, self._arrays))
        if not self._ids.isdisjoint(id(each.array) for each in grads):
            raise NotRepeatable
        self._sharing = _sharing([each.array.value for each in grads])
        self._steps = plan.execution_plan.steps
        self._held = plan.execution_plan.buffers
        self._own_addresses, self._grad_addresses = AddressTable(), AddressTable()
        self._words = DynamicArguments()
        self._written = False
        self._batch: vkbackend.Batch | None = None
        self._buffers: dict[vkbackend.Buffer, None] = {}
        slots = self._slots(recorder, plan, [each.array.value for each in grads])
        self._pack_arguments(recorder, slots)

    def _slots(
        self, recorder: StepRecorder, plan: Plan, grads: Sequence[Value]
    ) -> dict[int, tuple[AddressTable, int]]:
        """Return the address table and index of each slot: a storage or gradient."""
        befores = [before for _, before in recorder.arrays.values()]
        known = {id(value): (self._own_addresses, k) for k, value in enumerate(befores)}
        for k, value in zip(self._sharing or range(len(grads)), grads):
            if known.setdefault(id(value), (self._grad_addresses, k)) != (
                self._grad_addresses,
                k,
            ):
                raise NotRepeatable
        if len(known) < len(befores):
            raise NotRepeatable
        slots: dict[int, tuple[AddressTable, int]] = {}
        for slot, node, at in plan.inputs:
            source = known.get(id(recorder.nodes[node].values[at]))
            if source is None:
                raise NotRepeatable
            slots[slot] = source
        over = self._in_place_slots()
        number = {id(value): k for k, value in enumerate(self._values)}
        for slot, node, at in plan.outputs:
            own = (
                self._own_addresses,
                number.pop(id(recorder.nodes[node].outputs[at]), -1),
            )
            if own not in [slots.get(old) for old in over.get(slot, ())]:
                raise NotRepeatable
            slots[slot] = own
        if number:
            raise NotRepeatable
        return slots

    def _in_place_slots(self) -> dict[int, list[int]]:
        """Return for each slot those that it may alias in place."""
        launches = [launch for launch, _ in self._steps]
        readers = Counter(slot for launch in launches for slot in launch.reads)
        over: dict[int, list[int]] = {}
        for launch in launches:
            for old, new in launch.in_place:
                if readers[old] == 1:
                    over.setdefault(new, []).append(old)
        return over

    def _pack_arguments(
        self, recorder: StepRecorder, slots: dict[int, tuple[AddressTable, int]]
    ) -> None:
        """Pack the arguments of all kernels into one block."""
        self._content = bytearray()
        self._argument_ranges: list[tuple[int, int]] = []
        for launch, _ in self._steps:
            start = len(self._content)
            numbers = [recorder.nodes[node].numbers[at] for node, at in launch.scalars]
            packed = launch.pack(*[0] * len(launch.addresses), *launch.words, *numbers)
            self._argument_ranges.append((start, start + len(packed)))
            self._content += packed + bytes(-len(packed) % ALIGNMENT)
            for (slot, offset), (_, at) in zip(launch.addresses, launch.address_fields):
                if slot not in slots:
                    raise NotRepeatable
                addresses, k = slots[slot]
                addresses.add(start + at, k, offset)
            for field, number in zip(launch.scalar_fields, numbers):
                self._words.add(launch.pipeline.name, field, start, number)
        self._own_addresses.fix(self._content)
        self._grad_addresses.fix(self._content)
        try:
            self._words.fix(self._content, recorder.actions, {})
        except TraceError as error:
            raise NotRepeatable from error

    def run(self) -> bool:
        """Run the step, or return False if the plan does not fit."""
        device = self._device
        with device.lock:
            if self._generation != autotune.generation(device):
                return False
            # A fusion report must see the plan built.
            if device.plans is not self._plans:
                return False
            if not self._fits():
                return False
            # Before, as saved tensors may be overwritten from here on.
            for array in self._arrays:
                array.version += 1
            self._written, self._batch, self._words.marks = False, None, ()
            try:
                flush(device, self._record)
            except BaseException:
                # The second time in case that an interrupt ends the first.
                try:
                    self._roll_back()
                finally:
                    self._roll_back()
                raise
            self._grads.clear()
        return True

    def _roll_back(self) -> None:
        """Roll back host actions of a step that was not submitted; may be repeated."""
        if self._batch is None or self._batch.point is None:
            self._words.take_back()

    def _fits(self) -> bool:
        """Return whether the plan fits parameters and gradients; look up the latter."""
        params = self._params
        if not (
            all(map(is_, map(_array, params), self._params_arrays))
            and all(map(is_, map(_layout, params), self._params_layouts))
        ):
            return False
        if not all(map(is_, map(_layout_of_grad, params), self._layouts)):
            return False
        grads = [each for each in map(_grad, params) if each is not None]
        arrays = list(map(_array, grads))
        self._grads: list[Value] = list(map(_value, arrays))
        return (
            all(map(is_, map(_device, grads), repeat(self._device)))
            and all(map(is_, map(_dtype, self._grads), self._dtypes))
            and self._ids.isdisjoint(map(id, arrays))
            and (not self._sharing or _sharing(self._grads) == self._sharing)
            and self._owned_exclusively()
        )

    def _owned_exclusively(self) -> bool:
        """Return whether the values to be updated are not shared."""
        values = list(map(_value, self._arrays))
        if not (
            all(map(is_, map(type, self._arrays), repeat(Array)))
            and all(map(is_, map(type, values), repeat(Value)))
            and list(map(_external_refs, values)) == [1] * len(values)
        ):
            return False
        if not all(map(is_, values, self._values)):
            for found, known in zip(values, self._values):
                if (found.numel, found.dtype) != (known.numel, known.dtype):
                    return False
            self._values, self._buffers = values, {}
        return True

    def _record(self, batch: vkbackend.Batch) -> None:
        """Record the kernels in a batch, after those that compute the gradients.

        Again where a submission failed.
        """
        if not self._buffers:
            self._own_addresses.write(
                [buffer_of(value).address for value in self._values]
            )
            self._buffers = dict.fromkeys(map(buffer_of, self._values))
        self._batch = batch
        grads = list(map(buffer_of, self._grads))
        self._grad_addresses.write(list(map(_address, grads)))
        if not self._written:
            self._words.write()
            self._written = True
        commands: list[tuple[vkbackend.Pipeline, bytes, int, int, int] | None] = []
        for (launch, barrier), (start, end) in zip(self._steps, self._argument_ranges):
            if barrier:
                commands.append(None)
            packed = bytes(memoryview(self._content)[start:end])
            commands.append((launch.pipeline, packed, *launch.grid))
        batch.extend(commands, [*self._held, *grads], self._buffers)
