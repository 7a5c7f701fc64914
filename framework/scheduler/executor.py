"""Executor of plans: buffers for slots, one batch; and timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import vkbackend

from ..ir.lazy_graph import Failed, Node, Released, Value

if TYPE_CHECKING:
    from .plan import Plan


def buffer_of(value: Value) -> vkbackend.Buffer:
    """Return the buffer of a value that is in memory.

    Raises
    ------
    RuntimeError
        If the flush that was to compute it failed, or it was given back.
    """
    buffer = value.buffer
    if not isinstance(buffer, vkbackend.Buffer):
        if type(buffer) is Released:
            raise RuntimeError(f"read: {buffer.cause}")
        cause = f": {buffer.cause}" if type(buffer) is Failed else ""
        raise RuntimeError(
            "read: the value was never computed, because running its graph failed"
            f"{cause}; compute it anew"
        )
    return buffer


def plan_batch(
    gpu: vkbackend.Device,
    plan: Plan,
    nodes: Sequence[Node],
    alone: bool = True,
    starts: Mapping[int, int] | None = None,
) -> Any:
    """Return a batch of the launches of a plan for nodes of its key.

    The nodes' results get their memory, which the batch has yet to fill. With `alone`,
    nothing can be added to it. `starts` are the bytes by which inputs start later than
    their buffers, by slot.
    """
    inputs = []
    for _, node, at in plan.inputs:
        buffer = nodes[node].values[at].buffer
        if type(buffer) is not vkbackend.Buffer:
            buffer = buffer_of(nodes[node].values[at])
        inputs.append(buffer)
    memory = memory_of(gpu, plan, inputs)
    if starts:
        for slot, start in starts.items():
            buffer, address = memory[slot]
            memory[slot] = buffer, address + start
    bound_plan = plan.bound_plan
    if bound_plan is None:
        from .bound_plan import BoundPlan

        bound_plan = plan.bound_plan = BoundPlan(plan.execution_plan, nodes)
    elif bound_plan.numbers:
        bound_plan.write_numbers(nodes)
    batch: Any
    if alone:
        batch = bound_plan.submission(gpu, memory)
    else:
        batch = bound_plan.begin(gpu, memory)
    for slot, node, at in plan.outputs:
        nodes[node].outputs[at].buffer = memory[slot][0]
    return batch


def run_plan(gpu: vkbackend.Device, plan: Plan, nodes: Sequence[Node]) -> None:
    """Submit the launches of a plan for nodes of its key; waits for nothing."""
    plan_batch(gpu, plan, nodes).submit()


def memory_of(
    gpu: vkbackend.Device, plan: Plan, inputs: Sequence[vkbackend.Buffer]
) -> list[tuple[vkbackend.Buffer, int]]:
    """Return the buffer of each slot that is used, and the address in it.

    The same memory each time, where that is free: then commands that were recorded with
    its addresses are submitted again. What the caller still has of the last time, as a
    loss, lies in two places by turns.

    `inputs` are those of `plan.inputs`, in order.
    """
    memory: list[Any] = [(None, 0)] * plan.slots
    for (slot, _, _), buffer in zip(plan.inputs, inputs):
        memory[slot] = buffer, buffer.address
    execution_plan, former = plan.execution_plan, plan.places
    slots, sizes = execution_plan.memory
    block = execution_plan.block
    if block:
        sizes = (*sizes, execution_plan.block_size)
    buffers = gpu.allocate_each(sizes, former)
    places = []
    for buffer in buffers:
        places.append(buffer.address)
    plan.places = (places, *former[:1])
    for slot, buffer in zip(slots, buffers):
        memory[slot] = buffer, buffer.address
    if block:
        buffer = buffers[-1]
        start = buffer.address
        for slot, offset in block:
            memory[slot] = buffer, start + offset
    for slot, place in execution_plan.aliases:
        memory[slot] = memory[place]
    return memory


def seconds_of(
    gpu: vkbackend.Device, run: Callable[[], object], repeat: int = 1
) -> float:
    """Return the seconds of the batches that `run` submits; waits for them.

    On the device's clock, or on the host's where the device has none or its
    timestamps are already being recorded.

    Parameters
    ----------
    gpu : vkbackend.Device
    run : callable
        Submits the batches; must be repeatable.
    repeat : int, default 1
        Repetitions inside `run`, for short work; the time is that of one.
    """
    if gpu.logical.timestamps and gpu.open_profile is None:
        with gpu.profile(repeat=repeat, each=False) as profile:
            run()
        return sum(span.seconds for span in profile.spans) / repeat
    gpu.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        run()
    gpu.synchronize()
    return (time.perf_counter() - start) / repeat
