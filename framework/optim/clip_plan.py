"""Clipping plans: the kernels of a recorded clipping; see `recorded_plan`.

Clipping has one if it only updates gradients in place and computes a norm: then its
kernels run again on the next gradients of equal layouts, after those that compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat
from operator import attrgetter, is_
from weakref import WeakKeyDictionary

import vkbackend

from ..base import trace_hooks
from ..base.device import GpuDevice, on_device_removed
from ..ir.lazy_graph import Array, Value
from ..scheduler.bound_plan import BoundPlan
from ..scheduler.executor import buffer_of, memory_of
from ..scheduler.plan import Plan
from ..tensor.tensor import Tensor
from .recorded_plan import CallRecorder, NotRepeatable, RecordedPlan, are_unshared

_array = attrgetter("array")
_layout = attrgetter("layout")
_device = attrgetter("device")
_value = attrgetter("value")
_dtype = attrgetter("dtype")
_numel = attrgetter("numel")
_needs_grad = attrgetter("needs_grad")

Clip = Callable[[Sequence[Tensor]], Tensor]
"""Clips gradients on the slow path, and returns their norm."""

MAX_PLANS = 4
"""Plans that are cached per device."""

MAX_MISSES = 8
"""Cache misses in a row, after which no plan is made."""


class ClipPlan(RecordedPlan):
    """Plan of a recorded clipping, ready to be run again.

    Parameters
    ----------
    grads : sequence of Tensor
        The gradients of the recorded call.
    bound : object
        The rest of the cache key.
    norm : Tensor
        Its result.
    recorder : CallRecorder
        The recorded call.
    plan : Plan
        Plan of its nodes alone.
    device : GpuDevice

    Raises
    ------
    NotRepeatable
        If it does anything else than the module describes.
    """

    def __init__(
        self,
        grads: Sequence[Tensor],
        bound: object,
        norm: Tensor,
        recorder: CallRecorder,
        plan: Plan,
        device: GpuDevice,
    ) -> None:
        super().__init__(recorder, device)
        self.bound = bound
        self._plan = plan
        self._layouts = list(map(_layout, grads))
        values = [each.array.value for each in grads]
        self._kinds = [(value.numel, value.dtype) for value in values]
        if recorder.actions or recorder.owners:
            raise NotRepeatable
        befores = {
            id(before): k
            for k, each in enumerate(grads)
            for array, before in [recorder.arrays.get(id(each.array), (None, None))]
            if array is not None
        }
        if len(befores) != len(grads) or len(recorder.arrays) != len(grads):
            raise NotRepeatable
        nodes = recorder.nodes
        self._inputs = [
            befores.get(id(nodes[node].values[at]), -1) for _, node, at in plan.inputs
        ]
        if -1 in self._inputs:
            raise NotRepeatable
        self._check_outputs(recorder, plan, befores, values, norm)
        self._layout, self._dtype = norm.layout, norm.dtype
        self._kernels = BoundPlan(plan.execution_plan, nodes)

    def _check_outputs(
        self,
        recorder: CallRecorder,
        plan: Plan,
        befores: dict[int, int],
        values: Sequence[Value],
        norm: Tensor,
    ) -> None:
        """Check that new values alias the old ones, or have buffers of their own."""
        nodes, aliases = recorder.nodes, dict(plan.execution_plan.aliases)
        whose = {
            slot: befores[id(nodes[node].values[at])] for slot, node, at in plan.inputs
        }
        number = {id(value): k for k, value in enumerate(values)}
        self._norm = -1
        self._relocated: list[tuple[int, int]] = []
        for slot, node, at in plan.outputs:
            value = nodes[node].outputs[at]
            if value is norm.array.value:
                self._norm = slot
                continue
            k = number.pop(id(value), -1)
            if slot not in aliases:
                self._relocated.append((k, slot))
            elif whose.get(aliases[slot]) != k:
                raise NotRepeatable
        if number or self._norm < 0 or (-1 in [k for k, _ in self._relocated]):
            raise NotRepeatable

    def run(self, grads: Sequence[Tensor]) -> Tensor | None:
        """Clip gradients and return their norm, or None if the plan does not fit."""
        device = self._device
        with device.lock:
            arrays = list(map(_array, grads))
            values = list(map(_value, arrays))
            if not (self._is_current() and self._fits(grads, arrays, values)):
                return None
            memory: list[tuple[vkbackend.Buffer, int]] = []

            def record(batch: vkbackend.Batch) -> None:
                buffers = [buffer_of(values[at]) for at in self._inputs]
                memory[:] = memory_of(device.gpu, self._plan, buffers)
                self._kernels.record(batch, memory)

            self._submit(arrays, record)
            for k, slot in self._relocated:
                arrays[k].replace(Value(*self._kinds[k], buffer=memory[slot][0]))
            norm = Array(Value(1, self._dtype, buffer=memory[self._norm][0]))
            return Tensor.make(norm, self._layout, device)

    def _fits(
        self, grads: Sequence[Tensor], arrays: list[Array], values: list[Value]
    ) -> bool:
        """Return whether gradients have the recorded layouts, and are not shared."""
        count = len(self._layouts)
        return (
            len(grads) == count
            and all(map(is_, map(_layout, grads), self._layouts))
            and all(map(is_, map(_device, grads), repeat(self._device)))
            and True not in list(map(_needs_grad, grads))
            and list(zip(map(_numel, values), map(_dtype, values))) == self._kinds
            and are_unshared(arrays, values)
            and len(set(map(id, arrays))) == count
        )


class _PlanCache:
    """Plans of a device, the latest first, and the number of misses in a row."""

    def __init__(self) -> None:
        self.ready: list[ClipPlan] = []
        self.misses = 0


_plan_caches: WeakKeyDictionary[GpuDevice, _PlanCache] = WeakKeyDictionary()
# Cached plans hold their device.
on_device_removed(_plan_caches.clear)


def cached_clip(grads: Sequence[Tensor], bound: object, clip: Clip) -> Tensor:
    """Clip by a cached plan, or by `clip` where none fits; return the norm.

    Parameters
    ----------
    grads : sequence of Tensor
        At least one.
    bound : object
        Cache key: everything else that `clip` depends on.
    clip : callable
        The slow path.
    """
    device = grads[0].device
    if trace_hooks.running or not isinstance(device, GpuDevice):
        return clip(grads)
    known = _plan_caches.setdefault(device, _PlanCache())
    for each in known.ready:
        if each.bound == bound:
            norm = each.run(grads)
            if norm is not None:
                known.misses = 0
                return norm
    known.misses += 1
    if known.misses > MAX_MISSES:
        return clip(grads)
    recorder = CallRecorder(device)
    norm = recorder.run(lambda: clip(grads))
    with device.lock, suppress(NotRepeatable):
        plan = recorder.submit()
        if plan is not None:
            made = ClipPlan(grads, bound, norm, recorder, plan, device)
            known.ready = [made, *known.ready][:MAX_PLANS]
    return norm
