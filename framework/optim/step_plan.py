"""Steps of optimizers that were made before: the same kernels on other addresses.

One step is done as usual and watched. If all that it does is to replace the content of
parameters and of what is remembered of them, where that lies, the next steps run its
kernels again: what differs is where the gradients lie, and numbers such as the learning
rate. Nothing is asked for anew, so the host has little to do.

The new content lies where the old did. That is allowed because nobody can see the old:
no other storage has it, and what is pending runs before, in the same submission. For
autograd each step is a change in place, as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any

import vkbackend

from ..base.device import GpuDevice
from ..base.errors import TraceError
from ..base.shape import Layout
from ..base.trace_hooks import Changing
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
    """Return the first place of each value in a sequence; [] if all are different."""
    first: dict[int, int] = {}
    found = [first.setdefault(id(value), k) for k, value in enumerate(values)]
    return found if len(first) < len(values) else []


class Unfit(Exception):
    """What was watched cannot be prepared."""


class Observer:
    """Watches a step that is done as usual; see `trace_hooks.Listener`.

    Attributes
    ----------
    nodes : list of Node
        What it asked for.
    arrays : dict of int to (Array, Value)
        Storages that got other content, with what they held.
    actions : list of Changing or callable
        What the host did, and the numbers that it read, in order.
    owners : list
        Objects whose fingerprint decides whether the step is still the same.
    fits : bool
        Whether all that happened could be repeated.
    """

    def __init__(self, device: GpuDevice) -> None:
        self.nodes: list[Node] = []
        self.arrays: dict[int, tuple[Array, Value]] = {}
        self.actions: list[Changing | Callable[[], object]] = []
        self.owners: list[Any] = []
        self.fits = True
        self._device = device

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Leave an operation pending."""
        with device.lock:
            device.pending.append(node)
        self.nodes.append(node)
        self.fits = self.fits and device is self._device

    def on_rebind(self, array: Array, before: Value) -> None:
        """Note that a storage has other content."""
        self.arrays.setdefault(id(array), (array, before))

    def on_copy(self, array: Array) -> None:
        """Note a new storage, which steps do not make once their state is there."""
        self.fits = False

    def on_draw(self, generator: Any, words: tuple[int, int, int, int]) -> Any:
        """Note a draw, which cannot be repeated."""
        self.fits = False
        return words

    def changing(self, read: Callable[[], float]) -> float:
        """Return a number that is read before each step."""
        number = Changing(read())
        number.read = read
        self.actions.append(number)
        return number

    def each_time(self, action: Callable[[], object]) -> None:
        """Note an action that is repeated before each step."""
        self.actions.append(action)

    def once(self, reason: str) -> None:
        """Note that the step did what it does only once."""
        self.fits = False

    def called(self, owner: Any) -> None:
        """Note an object whose fingerprint decides whether the step is the same."""
        self.owners.append(owner)

    def on_grad_write(self, leaf: Any, cleared: bool) -> None:
        """Note that the step changes a gradient, which is not repeated."""
        self.fits = False

    def on_grad_read(self, leaf: Any) -> None:
        """Expect it: a step reads the gradients of its parameters."""

    def refused(self, what: str) -> None:
        """Note what cannot be repeated; now it may be done."""
        self.fits = False


class Prepared:
    """A step that was watched, ready to be made again.

    Parameters
    ----------
    params : sequence of Tensor
        All parameters, with the gradients of the step that was watched.
    observer : Observer
        What was watched.
    plan : Plan
        Of the step's operations alone.
    device : GpuDevice
        Where it ran.

    Raises
    ------
    Unfit
        If it does more than to replace, where it lies, what only a storage has, from
        that and gradients.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        observer: Observer,
        plan: Plan,
        device: GpuDevice,
    ) -> None:
        if not observer.fits:
            raise Unfit
        self._device = device
        self._plans = device.plans
        self._params = list(params)
        self._params_arrays = list(map(_array, params))
        self._params_layouts = list(map(_layout, params))
        grads = [each.grad for each in params if each.grad is not None]
        self._layouts = list(map(_layout_of_grad, params))
        self._dtypes = list(map(_dtype, grads))
        self._arrays = [array for array, _ in observer.arrays.values()]
        self._values = list(map(_value, self._arrays))
        self._ids = set(map(id, self._arrays))
        if not self._ids.isdisjoint(id(each.array) for each in grads):
            raise Unfit
        self._sharing = _sharing([each.array.value for each in grads])
        self._steps = plan.execution_plan.steps
        self._held = plan.execution_plan.buffers
        self._own, self._given = AddressTable(), AddressTable()
        self._words = DynamicArguments()
        self._written = False
        self._batch: vkbackend.Batch | None = None
        self._buffers: dict[vkbackend.Buffer, None] = {}
        slots = self._slots(observer, plan, [each.array.value for each in grads])
        self._lay_out(observer, slots)

    def _slots(
        self, observer: Observer, plan: Plan, grads: Sequence[Value]
    ) -> dict[int, tuple[AddressTable, int]]:
        """Return what each slot of the plan is: the number of a storage or gradient."""
        befores = [before for _, before in observer.arrays.values()]
        known = {id(value): (self._own, k) for k, value in enumerate(befores)}
        for k, value in zip(self._sharing or range(len(grads)), grads):
            if known.setdefault(id(value), (self._given, k)) != (self._given, k):
                raise Unfit
        if len(known) < len(befores):
            raise Unfit
        slots: dict[int, tuple[AddressTable, int]] = {}
        for slot, node, at in plan.inputs:
            source = known.get(id(observer.nodes[node].values[at]))
            if source is None:
                raise Unfit
            slots[slot] = source
        over = self._over()
        number = {id(value): k for k, value in enumerate(self._values)}
        for slot, node, at in plan.outputs:
            own = self._own, number.pop(id(observer.nodes[node].outputs[at]), -1)
            if own not in [slots.get(old) for old in over.get(slot, ())]:
                raise Unfit
            slots[slot] = own
        if number:
            raise Unfit
        return slots

    def _over(self) -> dict[int, list[int]]:
        """Return for each slot those that it may lie over."""
        launches = [launch for launch, _ in self._steps]
        readers = Counter(slot for launch in launches for slot in launch.reads)
        over: dict[int, list[int]] = {}
        for launch in launches:
            for old, new in launch.in_place:
                if readers[old] == 1:
                    over.setdefault(new, []).append(old)
        return over

    def _lay_out(
        self, observer: Observer, slots: dict[int, tuple[AddressTable, int]]
    ) -> None:
        """Place the arguments of all kernels one behind the other."""
        self._content = bytearray()
        self._places: list[tuple[int, int]] = []
        for launch, _ in self._steps:
            start = len(self._content)
            numbers = [observer.nodes[node].numbers[at] for node, at in launch.scalars]
            packed = launch.pack(*[0] * len(launch.addresses), *launch.words, *numbers)
            self._places.append((start, start + len(packed)))
            self._content += packed + bytes(-len(packed) % ALIGNMENT)
            for (slot, offset), (_, at) in zip(launch.addresses, launch.address_fields):
                if slot not in slots:
                    raise Unfit
                addresses, k = slots[slot]
                addresses.add(start + at, k, offset)
            for field, number in zip(launch.scalar_fields, numbers):
                self._words.add(launch.pipeline.name, field, start, number)
        self._own.fix(self._content)
        self._given.fix(self._content)
        try:
            self._words.fix(self._content, observer.actions, {})
        except TraceError as error:
            raise Unfit from error

    def run(self) -> bool:
        """Make the step, or return False if it is not the one that was watched."""
        device = self._device
        with device.lock:
            if not device.fusing or device.plans is not self._plans:
                return False
            if not self._fits():
                return False
            # Before, as what the tape has saved may be written over from here on.
            for array in self._arrays:
                array.version += 1
            self._written, self._batch, self._words.marks = False, None, ()
            try:
                flush(device, self._add)
            except BaseException:
                # The second time in case that an interrupt ends the first.
                try:
                    self._take_back()
                finally:
                    self._take_back()
                raise
            self._grads.clear()
        return True

    def _take_back(self) -> None:
        """Undo what the host did for a step that was not taken; may be repeated."""
        if self._batch is None or self._batch.point is None:
            self._words.take_back()

    def _fits(self) -> bool:
        """Return whether the kernels would do what a step does; look up gradients."""
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
            and self._alone()
        )

    def _alone(self) -> bool:
        """Return whether only the storages to be changed have what they hold."""
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

    def _add(self, batch: vkbackend.Batch) -> None:
        """Add the kernels to a batch, after what computes the gradients.

        Again where a submission failed.
        """
        if not self._buffers:
            self._own.write([buffer_of(value).address for value in self._values])
            self._buffers = dict.fromkeys(map(buffer_of, self._values))
        self._batch = batch
        grads = list(map(buffer_of, self._grads))
        self._given.write(list(map(_address, grads)))
        if not self._written:
            self._words.write()
            self._written = True
        commands: list[tuple[vkbackend.Pipeline, bytes, int, int, int] | None] = []
        for (launch, barrier), (start, end) in zip(self._steps, self._places):
            if barrier:
                commands.append(None)
            packed = bytes(memoryview(self._content)[start:end])
            commands.append((launch.pipeline, packed, *launch.grid))
        batch.extend(commands, [*self._held, *grads], self._buffers)
