"""Running the pending graph: signature, plan, batch.

A flush takes every pending node of a device. Its signature (ops, wiring, static
arguments, layouts, which values are still wanted) finds a `Plan`; only an unknown
signature is grouped, generated and compiled. Running a plan allocates memory, packs
arguments and submits one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import vkbackend

from .device import KEPT_PLANS, GpuDevice
from .graph import Node, Value
from .plan import Plan, build_plan

MAX_PENDING = 1024
"""Pending nodes after which a device is flushed without being asked."""


def append(device: GpuDevice, node: Node) -> None:
    """Add a node to the pending graph, flushing it when it has grown too long."""
    with device.lock:
        device.pending.append(node)
        if len(device.pending) >= MAX_PENDING:
            flush(device)


def flush(device: GpuDevice) -> None:
    """Submit everything pending on a device; waits for nothing.

    An error leaves the device usable: the failed graph is dropped, and reading one of
    its values says so.
    """
    with device.lock:
        nodes, device.pending = device.pending, []
        if not nodes:
            return
        try:
            _run(device.gpu, _plan_for(device, nodes), nodes)
        finally:
            for node in nodes:
                for value in node.outputs:
                    value.node = None


@contextmanager
def unfused(device: GpuDevice) -> Iterator[None]:
    """Give each operation that is asked for inside a kernel of its own.

    What was pending is submitted before, and what is asked for inside at the end; other
    threads wait meanwhile.
    """
    with device.lock:
        flush(device)
        device.fusing = False
        try:
            yield
            flush(device)
        finally:
            device.fusing = True


def realised(value: Value) -> vkbackend.Buffer:
    """Return the device memory of a value that is no longer pending.

    Raises
    ------
    RuntimeError
        If the flush that was to compute it failed.
    """
    if not isinstance(value.buffer, vkbackend.Buffer):
        raise RuntimeError(
            "read: the value was never computed, because running its graph failed;"
            " see the earlier error"
        )
    return value.buffer


def _plan_for(device: GpuDevice, nodes: Sequence[Node]) -> Plan:
    slots = _slots(nodes)
    key = device.fusing, _signature(nodes, slots)
    plan = device.plans.get(key)
    if plan is None:
        plan = device.plans[key] = build_plan(
            device.gpu, nodes, slots, fusing=device.fusing
        )
        if len(device.plans) > KEPT_PLANS:
            device.plans.popitem(last=False)
    device.plans.move_to_end(key)
    return plan


def _slots(nodes: Sequence[Node]) -> dict[int, int]:
    """Return a number for every value, in the order in which it first appears."""
    slots: dict[int, int] = {}
    for node in nodes:
        for operand in node.inputs:
            slots.setdefault(id(operand.value), len(slots))
        for value in node.outputs:
            slots.setdefault(id(value), len(slots))
    return slots


def _signature(nodes: Sequence[Node], slots: dict[int, int]) -> object:
    """Return everything that decides a plan, as one hashable value."""
    return tuple(
        (
            node.op,
            node.params,
            node.layouts,
            tuple(
                (slots[id(value)], value.dtype, layout) for value, layout in node.inputs
            ),
            tuple(value.holders > 0 for value in node.outputs),
        )
        for node in nodes
    )


def _run(gpu: vkbackend.Device, plan: Plan, nodes: Sequence[Node]) -> None:
    memory: dict[int, vkbackend.Buffer] = {}
    for slot, node, at in plan.inputs:
        memory[slot] = realised(nodes[node].inputs[at].value)
    batch = gpu.batch()
    for launch in plan.launches:
        for slot, size in launch.allocate:
            memory[slot] = gpu.allocate(size)
        arguments = launch.pack(
            *[memory[slot].address + offset for slot, offset in launch.addresses],
            *launch.words,
            *[nodes[node].scalars[at][1] for node, at in launch.scalars],
        )
        batch.dispatch(
            launch.pipeline,
            launch.grid,
            arguments,
            [memory[slot] for slot in launch.reads],
            [memory[slot] for slot in launch.writes],
        )
        for slot in launch.release:
            del memory[slot]
    batch.submit()
    for slot, node, at in plan.outputs:
        nodes[node].outputs[at].buffer = memory[slot]
