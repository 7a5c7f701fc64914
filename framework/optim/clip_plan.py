"""Clipping that was done before: the same kernels on other gradients.

What is prepared for steps of optimizers, see `step_plan`, is prepared for clipping too:
it is done as usual once and watched. If all that it does is to replace, where they lie,
the elements of gradients that nobody else has, and to make a norm, then its kernels run
again on the next gradients that lie alike, behind what computes these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import vkbackend

from ..autotune import autotune
from ..base import trace_hooks
from ..base.device import GpuDevice, on_device_removed
from ..ir.lazy_graph import Array, Value
from ..scheduler.executor import buffer_of, memory_of
from ..scheduler.plan import Plan
from ..scheduler.scheduler import flush
from ..tensor.tensor import Tensor
from .step_plan import Observer, Unfit

_array = attrgetter("array")
_layout = attrgetter("layout")
_device = attrgetter("device")
_value = attrgetter("value")
_dtype = attrgetter("dtype")
_numel = attrgetter("numel")
_external_refs = attrgetter("external_refs")
_requires_grad = attrgetter("requires_grad")

Clip = Callable[[Sequence[Tensor]], Tensor]
"""Clips gradients at length, and returns their norm."""

MOST_KNOWN = 4
"""Kinds of calls that are kept ready per device."""

MOST_MISSES = 8
"""Calls in a row that were of no kind kept ready, after which none is made ready."""


class Clipped:
    """Clipping that was watched, ready to be done again.

    Parameters
    ----------
    grads : sequence of Tensor
        The gradients of the call that was watched.
    bound : object
        What tells it from others beside the gradients.
    norm : Tensor
        Its answer.
    observer : Observer
        What was watched.
    plan : Plan
        Of that alone.
    device : GpuDevice

    Raises
    ------
    Unfit
        If it does anything else than the module says.
    """

    def __init__(
        self,
        grads: Sequence[Tensor],
        bound: object,
        norm: Tensor,
        observer: Observer,
        plan: Plan,
        device: GpuDevice,
    ) -> None:
        self.bound = bound
        self._device, self._plan, self._plans = device, plan, device.plans
        self._generation = autotune.generation(device.gpu)
        self._layouts = list(map(_layout, grads))
        values = [each.array.value for each in grads]
        self._kinds = [(value.numel, value.dtype) for value in values]
        if not observer.fits or observer.actions or observer.owners:
            raise Unfit
        befores = {
            id(before): k
            for k, each in enumerate(grads)
            for array, before in [observer.arrays.get(id(each.array), (None, None))]
            if array is not None
        }
        if len(befores) != len(grads) or len(observer.arrays) != len(grads):
            raise Unfit
        nodes = observer.nodes
        self._inputs = [
            befores.get(id(nodes[node].values[at]), -1) for _, node, at in plan.inputs
        ]
        if -1 in self._inputs:
            raise Unfit
        self._check_outputs(observer, plan, befores, values, norm)
        self._layout, self._dtype = norm.layout, norm.dtype
        # Of the nodes only the numbers, as the rest holds memory.
        self._nodes: list[Any] = [SimpleNamespace(numbers=n.numbers) for n in nodes]

    def _check_outputs(
        self,
        observer: Observer,
        plan: Plan,
        befores: dict[int, int],
        values: Sequence[Value],
        norm: Tensor,
    ) -> None:
        """See that new elements lie where old ones did, or in memory of their own."""
        nodes, aliases = observer.nodes, dict(plan.execution_plan.aliases)
        whose = {
            slot: befores[id(nodes[node].values[at])] for slot, node, at in plan.inputs
        }
        number = {id(value): k for k, value in enumerate(values)}
        self._norm = -1
        self._elsewhere: list[tuple[int, int]] = []
        for slot, node, at in plan.outputs:
            value = nodes[node].outputs[at]
            if value is norm.array.value:
                self._norm = slot
                continue
            k = number.pop(id(value), -1)
            if slot not in aliases:
                self._elsewhere.append((k, slot))
            elif whose.get(aliases[slot]) != k:
                raise Unfit
        if number or self._norm < 0 or (-1 in [k for k, _ in self._elsewhere]):
            raise Unfit

    def run(self, grads: Sequence[Tensor]) -> Tensor | None:
        """Clip gradients and return their norm, or None if they are of another kind."""
        device = self._device
        with device.lock:
            if not device.fusing or device.plans is not self._plans:
                return None
            arrays = list(map(_array, grads))
            values = list(map(_value, arrays))
            if self._generation != autotune.generation(device.gpu) or not self._fits(
                grads, arrays, values
            ):
                return None
            memory: list[tuple[vkbackend.Buffer, int]] = []
            # Before, as what the tape has saved may be written over from here on.
            for array in arrays:
                array.version += 1

            def add(batch: vkbackend.Batch) -> None:
                # Again where a submission failed.
                memory[:] = self._add(batch, values)

            flush(device, add)
            for k, slot in self._elsewhere:
                arrays[k].replace(Value(*self._kinds[k], buffer=memory[slot][0]))
            norm = Array(Value(1, self._dtype, buffer=memory[self._norm][0]))
            return Tensor.make(norm, self._layout, device)

    def _fits(
        self, grads: Sequence[Tensor], arrays: list[Array], values: list[Value]
    ) -> bool:
        """Return whether gradients lie as those watched, and nobody else has them."""
        count = len(self._layouts)
        return (
            len(grads) == count
            and all(map(is_, map(_layout, grads), self._layouts))
            and all(map(is_, map(_device, grads), repeat(self._device)))
            and True not in list(map(_requires_grad, grads))
            and list(zip(map(_numel, values), map(_dtype, values))) == self._kinds
            and all(map(is_, map(type, arrays), repeat(Array)))
            and all(map(is_, map(type, values), repeat(Value)))
            and list(map(_external_refs, values)) == [1] * count
            and len(set(map(id, arrays))) == count
        )

    def _add(
        self, batch: vkbackend.Batch, values: Sequence[Value]
    ) -> list[tuple[vkbackend.Buffer, int]]:
        """Add the kernels to a batch; return where the norm will lie."""
        plan, gpu = self._plan, self._device.gpu
        buffers = [buffer_of(values[at]) for at in self._inputs]
        memory = memory_of(gpu, plan, buffers)
        execution_plan = plan.execution_plan
        batch.extend(
            plan.bound_plan.commands([at for _, at in memory], self._nodes),
            [
                *execution_plan.buffers,
                *[memory[slot][0] for slot in execution_plan.reads],
            ],
            [memory[slot][0] for slot in execution_plan.writes],
        )
        return memory


class _Known:
    """What is kept ready for a device, the latest first, and how often none was."""

    def __init__(self) -> None:
        self.ready: list[Clipped] = []
        self.misses = 0


_known: WeakKeyDictionary[GpuDevice, _Known] = WeakKeyDictionary()
# What is kept ready holds its device.
on_device_removed(_known.clear)


def clip_again(grads: Sequence[Tensor], bound: object, clip: Clip) -> Tensor:
    """Return what `clip` answers, in short where the like was done before.

    Parameters
    ----------
    grads : sequence of Tensor
        At least one.
    bound : object
        All else that `clip` depends on.
    clip : callable
        Does it at length.
    """
    device = grads[0].device
    if trace_hooks.running or not isinstance(device, GpuDevice):
        return clip(grads)
    known = _known.setdefault(device, _Known())
    for each in known.ready:
        if each.bound == bound:
            norm = each.run(grads)
            if norm is not None:
                known.misses = 0
                return norm
    known.misses += 1
    if known.misses > MOST_MISSES:
        return clip(grads)
    flush(device)
    observer = Observer(device)
    with trace_hooks.listening(observer):
        norm = clip(grads)
    with device.lock:
        pending = device.pending
        alone = len(pending) == len(observer.nodes)
        alone = alone and all(map(is_, pending, observer.nodes))
        plan = flush(device)
        if plan is not None and alone:
            try:
                made = Clipped(grads, bound, norm, observer, plan, device)
            except Unfit:
                return norm
            known.ready = [made, *known.ready][:MOST_KNOWN]
    return norm
