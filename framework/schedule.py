"""Running the pending graph: signature, plan, batch.

A flush takes every pending node of a device. Its signature (ops, wiring, static
arguments, layouts, which values are still wanted) finds a `Plan`; only an unknown
signature is grouped, generated and compiled. Running a plan allocates memory, packs
arguments and submits one batch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import tracing, tuning
from .device import KEPT_PLANS, GpuDevice
from .execution import More, run_plan
from .pending import Array, Node, Value
from .plan import Plan, build_plan
from .tuner import tuned

SPARE = -1
"""Stands in a key before the slot of an input that nobody holds any more."""

MAX_PENDING = 1024
"""Pending nodes after which a device is flushed without being asked."""

WORTH_A_START = 32
"""Pending nodes that are submitted when a backward pass begins.

The device then computes what is known while the host asks for the rest: a training step
of two transformer blocks, 38 nodes until then, whose loss is read took 2.3 ms instead
of 2.9 on an NVIDIA H200 (driver 580.159.04, 2026-11-22), and no kernel more device
time. For a perceptron of three layers, 13 nodes, the submission costs the host as long
as the device gains.
"""


def append(device: GpuDevice, node: Node) -> None:
    """Add a node to the pending graph, flushing it when it has grown too long.

    Within `jit` it goes to the trace.
    """
    if tracing.running:
        trace = tracing.listener()
        if trace is not None:
            trace.asked(device, node)
            return
    with device.lock:
        device.pending.append(node)
        if len(device.pending) >= MAX_PENDING:
            flush(device)


def append_all(device: GpuDevice, nodes: Sequence[Node]) -> None:
    """Add nodes to the pending graph, also within `jit`."""
    with device.lock:
        device.pending += nodes
        if len(device.pending) >= MAX_PENDING:
            flush(device)


def append_replacing(
    device: GpuDevice, nodes: Sequence[Node], arrays: Sequence[Array]
) -> None:
    """Add nodes whose results become the content of arrays, one of each."""
    if tracing.running:
        trace = tracing.listener()
        if trace is not None:
            for node, array in zip(nodes, arrays):
                trace.asked(device, node)
                array.rebind(node.outputs[0])
            return
    # At once, or another thread's flush could take the memory of what they read.
    with device.lock:
        device.pending += nodes
        for node, array in zip(nodes, arrays):
            array.replace(node.outputs[0])
            array.version += 1
        if len(device.pending) >= MAX_PENDING:
            flush(device)


def flush(device: GpuDevice, more: More | None = None) -> Plan | None:
    """Submit everything pending on a device; waits for nothing.

    An error leaves the device usable: the failed graph is dropped, and reading one of
    its values says so.

    Parameters
    ----------
    device : GpuDevice
        Where.
    more : callable or None
        Adds what runs last, in the same submission. The results of what was pending
        have memory when it is called.

    Returns
    -------
    Plan or None
        Of what was pending.
    """
    with device.lock:
        nodes, device.pending = device.pending, []
        if nodes:
            # A running trace may hold nodes that read what nobody holds.
            return _submit(device, nodes, None if tracing.running else [], more)
        if more is not None:
            batch = device.gpu.batch()
            more(batch)
            batch.submit()
        return None


def start_early(device: GpuDevice) -> None:
    """Submit what is pending if it is much, at a place where graphs may well be cut.

    Not on software devices, which need the processor that the host needs.
    """
    if len(device.pending) >= WORTH_A_START and device.gpu.info.kind != "software":
        flush(device)


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


def run_apart(device: GpuDevice, nodes: Sequence[Node]) -> None:
    """Submit nodes whose inputs are in memory, and leave what is pending alone."""
    with device.lock:
        _submit(device, nodes, None)


def _submit(
    device: GpuDevice,
    nodes: Sequence[Node],
    spare: list[Value] | None,
    more: More | None = None,
) -> Plan:
    """Run nodes; with a list for `spare`, results may lie where unheld inputs did."""
    outside: list[Value] = []
    try:
        wiring = _number(nodes, outside, spare)
        plan = _plan_for(device, nodes, wiring, spare or ())
        run_plan(device.gpu, plan, nodes, more)
        return plan
    finally:
        for value in outside:
            value.slot = -1
        for node in nodes:
            for value in node.outputs:
                value.node = None
                value.slot = -1


def _plan_for(
    device: GpuDevice,
    nodes: Sequence[Node],
    wiring: tuple[object, ...],
    spare: Sequence[Value],
) -> Plan:
    plans = device.plans
    key = device.fusing, tuning.era(device.gpu), wiring
    plan = plans.get(key)
    if plan is None:
        slots = {
            id(value): value.slot
            for node in nodes
            for value in (*node.values, *node.outputs)
        }
        build = functools.partial(
            build_plan,
            device.gpu,
            nodes,
            slots,
            fusing=device.fusing,
            held=_held(nodes, wiring),
            spare=set(map(id, spare)),
        )
        plan = tuned(device.gpu, nodes, build)
        # What was measured may have begun another era.
        key = device.fusing, tuning.era(device.gpu), wiring
        plans[key] = plan
        if len(plans) > KEPT_PLANS:
            plans.popitem(last=False)
    else:
        plans.move_to_end(key)
    return plan


def _held(nodes: Sequence[Node], wiring: tuple[object, ...]) -> set[int]:
    """Return which results the wiring says are wanted, by `id`.

    They may no longer be: then the next graph of this wiring still finds its plan.
    """
    held = set()
    place = 0
    for node in nodes:
        place += 1
        for _ in node.values:
            place += 2 if wiring[place] == SPARE else 1
        for value in node.outputs:
            if wiring[place]:
                held.add(id(value))
            place += 1
    return held


def _number(
    nodes: Sequence[Node], outside: list[Value], spare: list[Value] | None = None
) -> tuple[object, ...]:
    """Give every value a slot, in the order in which it first appears.

    Parameters
    ----------
    nodes : sequence of Node
        A pending graph.
    outside : list of Value
        Filled with the inputs that no node makes.
    spare : list of Value or None
        Filled with those among them that nobody holds any more.

    Returns
    -------
    tuple
        Everything that decides a plan: forms, wiring, which results are still wanted,
        and which inputs are not.
    """
    key: list[object] = []
    count = 0
    for node in nodes:
        key.append(node.form)
        for value in node.values:
            if value.slot < 0:
                value.slot = count
                count += 1
                outside.append(value)
                if spare is not None and value.holders == 0 and type(value) is Value:
                    spare.append(value)
                    key.append(SPARE)
            key.append(value.slot)
        for value in node.outputs:
            value.slot = count
            count += 1
            key.append(value.holders > 0)
    return tuple(key)
