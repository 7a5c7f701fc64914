"""Step plans of optimizers: the kernels of a recorded step; see `recorded_plan`.

A step has one if it only updates parameters and their state in place: then only the
addresses of gradients and dynamic arguments such as the learning rate differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any

import vkbackend

from ..base.device import GpuDevice
from ..base.errors import TraceError
from ..base.shape import Layout
from ..ir.lazy_graph import Value
from ..scheduler.bound_plan import BoundPlan
from ..scheduler.dynamic_args import DynamicArguments
from ..scheduler.executor import buffer_of
from ..scheduler.launch import Launch
from ..scheduler.plan import Plan
from ..tensor.tensor import Tensor
from .recorded_plan import CallRecorder, NotRepeatable, RecordedPlan, are_unshared

_grad = attrgetter("own_grad")
_array = attrgetter("array")
_layout = attrgetter("layout")
_device = attrgetter("device")
_value = attrgetter("value")
_dtype = attrgetter("dtype")
_address = attrgetter("address")

_OWN, _GRADS = 0, 1
"""Address tables: of the values to be updated, and of the gradients."""


def _layout_of_grad(parameter: Tensor) -> Layout | None:
    grad = parameter.own_grad
    return None if grad is None else grad.layout


def _sharing(values: Sequence[Value]) -> list[int]:
    """Return the first index of each value in a sequence; [] if all are different."""
    first: dict[int, int] = {}
    found = [first.setdefault(id(value), k) for k, value in enumerate(values)]
    return found if len(first) < len(values) else []


class StepPlan(RecordedPlan):
    """Plan of a recorded step, ready to be run again.

    Parameters
    ----------
    params : sequence of Tensor
        All parameters, with the gradients of the recorded step.
    recorder : CallRecorder
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
        recorder: CallRecorder,
        plan: Plan,
        device: GpuDevice,
    ) -> None:
        super().__init__(recorder, device)
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
        self._held = plan.execution_plan.buffers
        self._written = False
        self._batch: vkbackend.Batch | None = None
        self._buffers: dict[vkbackend.Buffer, None] = {}
        sources = self._sources(recorder, plan, [each.array.value for each in grads])
        self._bound = BoundPlan(plan.execution_plan, recorder.nodes, sources)
        self._words = DynamicArguments()
        self._bound.add_dynamic(self._words, recorder.nodes)
        try:
            self._words.fix(self._bound.content, recorder.actions, {})
        except TraceError as error:
            raise NotRepeatable from error

    def _sources(
        self, recorder: CallRecorder, plan: Plan, grads: Sequence[Value]
    ) -> dict[int, tuple[int, int]]:
        """Return the address table and index of each slot: a storage or gradient."""
        befores = [before for _, before in recorder.arrays.values()]
        known = {id(value): (_OWN, k) for k, value in enumerate(befores)}
        for k, value in zip(self._sharing or range(len(grads)), grads):
            if known.setdefault(id(value), (_GRADS, k)) != (_GRADS, k):
                raise NotRepeatable
        if len(known) < len(befores):
            raise NotRepeatable
        sources: dict[int, tuple[int, int]] = {}
        for slot, node, at in plan.inputs:
            source = known.get(id(recorder.nodes[node].values[at]))
            if source is None:
                raise NotRepeatable
            sources[slot] = source
        launches = [launch for launch, _ in plan.execution_plan.steps]
        over = _in_place_slots(launches)
        number = {id(value): k for k, value in enumerate(self._values)}
        for slot, node, at in plan.outputs:
            own = _OWN, number.pop(id(recorder.nodes[node].outputs[at]), -1)
            if own not in [sources.get(old) for old in over.get(slot, ())]:
                raise NotRepeatable
            sources[slot] = own
        used = {slot for launch in launches for slot, _ in launch.addresses}
        if number or not used <= sources.keys():
            raise NotRepeatable
        return sources

    def run(self) -> bool:
        """Run the step, or return False if the plan does not fit."""
        with self._device.lock:
            if not (self._is_current() and self._fits()):
                return False
            self._written, self._batch, self._words.marks = False, None, ()
            try:
                self._submit(self._arrays, self._record)
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
        if not are_unshared(self._arrays, values):
            return False
        if not all(map(is_, values, self._values)):
            for found, known in zip(values, self._values):
                if (found.numel, found.dtype) != (known.numel, known.dtype):
                    return False
            self._values, self._buffers = values, {}
        return True

    def _record(self, batch: vkbackend.Batch) -> None:
        """Record the kernels in a batch, after those that compute the gradients."""
        bound = self._bound
        if not self._buffers:
            buffers = list(map(buffer_of, self._values))
            bound.write(map(_address, buffers), _OWN)
            self._buffers = dict.fromkeys(buffers)
        self._batch = batch
        grads = list(map(buffer_of, self._grads))
        bound.write(map(_address, grads), _GRADS)
        if not self._written:
            self._words.write()
            self._written = True
        batch.extend(bound.commands(), [*self._held, *grads], self._buffers)


class Truths(Mapping[str, Any]):
    """View of a group's options: whether each is something else than 0 or empty."""

    def __init__(self, group: Mapping[str, Any]) -> None:
        self._group = group

    def __getitem__(self, name: str) -> bool:
        return bool(self._group[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


def _in_place_slots(launches: Sequence[Launch]) -> dict[int, list[int]]:
    """Return for each slot those that it may alias in place."""
    readers = Counter(slot for launch in launches for slot in launch.reads)
    over: dict[int, list[int]] = {}
    for launch in launches:
        for old, new in launch.in_place:
            if readers[old] == 1:
                over.setdefault(new, []).append(old)
    return over
