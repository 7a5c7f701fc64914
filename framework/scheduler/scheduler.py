"""Scheduler: runs the lazy graph as plan key, plan and batch.

A flush takes every lazy node of a device, a read those that it depends on. Their plan
key (ops, wiring, static arguments, layouts, live-out values) finds a cached `Plan`;
only an unknown key is partitioned, generated and compiled. Running a plan allocates
memory, packs arguments and submits one batch.

A flush is a transaction. Nodes stay pending until the device has taken the batch; the
commit is left to the next holder of the device's lock if an interrupt kept the flush
itself from it (`GpuDevice.settle`). An interrupt before that leaves all pending. After
an error as many nodes run as can, in recorded order; the others are dropped, and
storages that they were to change are rolled back to the last content that was computed,
or still can be: not to one that a later change had already made dead.
"""

# Longer than most: a flush, its pieces and its rollback are one transaction.

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import vkbackend

from ..autotune import autotune
from ..base import trace_hooks
from ..base.device import KEPT_PLANS, MAX_PENDING, GpuDevice, on_first_device
from ..ir.lazy_graph import Array, Failed, Node, Value
from .executor import plan_batch
from .graph_cut import cut_by_content, cut_place
from .plan_key import ValueSlice, external_of, nodes_to_plan, plan_key
from .submission import Flush, split_dependents

if TYPE_CHECKING:
    from .plan import Plan

EARLY_SUBMIT_NODES = 32
"""Pending nodes from which a backward pass submits the lazy graph as it begins.

The device then computes the forward pass while the host records the rest: a training
step of two transformer blocks, 38 nodes until then, whose loss is read took 2.3 ms
instead of 2.9 on an NVIDIA H200 (driver 580.159.04, 2026-11-22), and no kernel more
device time. For a perceptron of three layers, 13 nodes, the submission costs the host
as long as the device gains.
"""

MAX_PARTIAL_READS = 16
"""Consecutive reads that may leave nodes pending; the next one flushes the device.

Otherwise a loop that reads one value and accumulates another would let the graph grow,
differently each time.
"""

MAX_PENDING_BYTES = 1 << 24
"""Bytes of memory that a read may leave alive only for pending nodes.

Work on more takes longer than a submission of its own.
"""

PIECE_NODES, PIECE_BYTES = 32, 1 << 25
"""Nodes, and bytes of their results, from which on a long graph is cut."""

P = ParamSpec("P")
R = TypeVar("R")

TrailingCommands = Callable[[vkbackend.Batch], object]
"""Adds commands to a batch that is about to be submitted."""


def append(device: GpuDevice, node: Node) -> None:
    """Add a node to the lazy graph, flushing it when it has grown too long.

    Within `jit` it goes to the trace. The device's lock is to be held from the lookup
    of the node's inputs on: another thread could change a tensor, and then submit and
    drop the value it held before.
    """
    if trace_hooks.running:
        trace = trace_hooks.listener()
        if trace is not None:
            trace.on_node(device, node)
            return
    device.pending.append(node)
    if len(device.pending) >= device.max_pending:
        _limit_pending(device)


def append_all(device: GpuDevice, nodes: Sequence[Node], whole: bool = False) -> None:
    """Add nodes to the lazy graph, also within `jit`; if `whole`, not cut apart."""
    with device.lock:
        device.pending += nodes
        if len(device.pending) >= device.max_pending:
            _limit_pending(device, whole)


def append_replacing(
    device: GpuDevice, nodes: Sequence[Node], arrays: Sequence[Array]
) -> None:
    """Add nodes whose results become the content of arrays, one of each."""
    if trace_hooks.running:
        trace = trace_hooks.listener()
        if trace is not None:
            for node, array in zip(nodes, arrays):
                trace.on_node(device, node)
                array.rebind(node.outputs[0])
            return
    # At once, or another thread's flush could free the memory of their inputs.
    with device.lock:
        # Nor may a read in a signal handler drop nodes without external references.
        device.begin()
        try:
            device.pending += nodes
            for node, array in zip(nodes, arrays):
                array.replace(node.outputs[0])
                array.version += 1
        finally:
            device.running = None
        if len(device.pending) >= device.max_pending:
            _limit_pending(device, whole=True)


def _limit_pending(device: GpuDevice, whole: bool = False) -> None:
    """Submit the lazy graph, unless a submission is being made.

    Where a read has left nodes pending, only these: together, the newer ones would be
    cut at another place whenever their number differs, and need a new plan. Otherwise,
    unless `whole`, up to a place that is the same in loops of any length.
    """
    if device.within():
        return
    with device.lock:
        cut = device.left
        if not 0 < cut < len(device.pending):
            full = len(device.pending) >= MAX_PENDING
            place = cut_place if full else cut_by_content
            cut = 0 if whole else place(device.pending)
        nodes, rest = device.pending[:cut], device.pending[cut:]
        if not nodes or not rest:
            flush(device)
            return
        device.begin()
        try:
            device.reads = device.left = 0
            _run(Flush(device, nodes, rest))
        finally:
            device.running = None
        device.max_pending = min(2 * device.max_pending, MAX_PENDING)


def submit_pieces(device: GpuDevice) -> None:
    """Submit the oldest nodes of a lazy graph that has grown by many at once.

    Where the device computes beside the host, in pieces as if they had come one by one;
    otherwise all, if there are too many.
    """
    with device.lock:
        if device.first_submitted >= MAX_PENDING:
            if len(device.pending) >= MAX_PENDING:
                _limit_pending(device, whole=True)
            return
        while device.pending and len(device.pending) >= device.max_pending:
            if device.within():
                return
            device.begin()
            try:
                cut = device.left or cut_by_content(
                    device.pending[: device.max_pending]
                )
                device.reads = device.left = 0
                _run(Flush(device, device.pending[:cut], device.pending[cut:]))
            finally:
                device.running = None
            device.max_pending = min(2 * device.max_pending, MAX_PENDING)


def flush(
    device: GpuDevice, trailing: TrailingCommands | None = None, whole: bool = False
) -> Plan | None:
    """Submit the lazy graph of a device; waits for nothing.

    On failure it is submitted in pieces, which may need less memory. From the first
    node on that cannot run, pending nodes are dropped: reading one of the values
    raises the cause, and storages that were to change are rolled back to the last
    content that was computed. On an interrupt, nodes not submitted stay pending.

    Parameters
    ----------
    device : GpuDevice
        Device to flush.
    trailing : callable or None
        Adds commands that run last, in the same submission. The results of the graph
        have memory when it is called.
    whole : bool, default False
        Whether each input of the plan is the whole of a value, so that it can run on
        others.

    Returns
    -------
    Plan or None
        Plan of the graph.

    Raises
    ------
    ReentrantError
        In a signal handler, or finalizer, that runs within a submission.
    """
    with device.lock:
        device.begin()
        try:
            return _flush(device, trailing, whole)
        finally:
            device.running = None


def flush_in_pieces(device: GpuDevice, last: Node | None = None) -> None:
    """Submit the lazy graph, a long one in pieces; waits for nothing.

    Within a piece all comes as early as it can: what a program makes late, to save
    memory, as in checkpointing, would be there from the start.

    Parameters
    ----------
    device : GpuDevice
    last : Node, optional
        A pending node, which stays, with those after it; by default none does.
    """
    with device.lock:
        count = size = 0
        cuts: deque[Node] = deque()
        for node in device.pending:
            if node is last:
                cuts.append(node)
                break
            if count >= PIECE_NODES and size >= PIECE_BYTES:
                cuts.append(node)
                count = size = 0
            count += 1
            size += sum([value.nbytes for value in node.outputs])
        while cuts:
            # Not held by a variable here: it would hold what it takes.
            flush_before(device, cuts.popleft())
        if last is None:
            flush(device)


def flush_before(device: GpuDevice, node: Node) -> None:
    """Submit the lazy graph up to a pending node, which stays; waits for nothing.

    Parameters
    ----------
    device : GpuDevice
        Its lock is held.
    node : Node
    """
    device.begin()
    try:
        device.reads = device.left = 0
        cut = next(k for k, each in enumerate(device.pending) if each is node)
        if cut:
            _run(Flush(device, device.pending[:cut], device.pending[cut:]))
    finally:
        device.running = None


def _flush(
    device: GpuDevice, trailing: TrailingCommands | None = None, whole: bool = False
) -> Plan | None:
    older = device.left
    device.reads = device.left = 0
    device.max_pending = device.first_submitted
    # A copy, as more may be added before an interrupted flush is settled.
    nodes = device.pending.copy()
    if nodes:
        flush = Flush(device, nodes, [])
        flush.whole = whole
        return _run(flush, trailing, older)
    if trailing is not None:
        batch = device.gpu.batch()
        trailing(batch)
        batch.submit()
    return None


def compute(device: GpuDevice, value: Value) -> None:
    """Submit a value's dependencies, and leave the rest pending; waits for nothing.

    Results are as after a full flush: the rest finds its inputs in memory, and runs in
    the same order.

    Raises
    ------
    ReentrantError
        In a signal handler, or finalizer, that runs within a submission, unless the
        value is in memory.
    """
    with device.lock:
        # A replay may be moving the content of its memory.
        if value.node is None and type(value) is Value and device.within():
            return
        device.begin()
        try:
            device.max_pending = device.first_submitted
            if value.node is None:
                device.left = len(device.pending)
                return
            while not _submit_for(device, value.node):
                pass
        finally:
            device.running = None


def _submit_for(device: GpuDevice, node: Node) -> bool:
    """Submit a node; out of memory, submit others that hold some and return False.

    The caller retries from its start, or its variables would hold that memory.
    """
    pending = device.pending.copy()
    if len(pending) == 1 and pending[0] is node:
        _flush(device)
        return True
    nodes, rest, dead = _split_dependencies(pending, node)
    if not rest:
        _flush(device)
        return True
    if nodes:
        try:
            _run(Flush(device, nodes, rest, dead), reading=True)
        except MemoryError:
            _, others = split_dependents(nodes, rest)
            if not _submit_some(device, others):
                raise
            return False
    device.left = len(device.pending)
    device.reads += 1
    if (
        device.reads > MAX_PARTIAL_READS
        or _pending_only_bytes(device.pending) > MAX_PENDING_BYTES
    ):
        _flush(device)
    return True


def _pending_only_bytes(nodes: Sequence[Node]) -> int:
    """Return the bytes of memory that only pending nodes refer to."""
    external = {
        value
        for node in nodes
        for value in node.values
        if not value.external_refs and value.node is None
    }
    return sum([value.numel * value.dtype.itemsize for value in external])


def with_memory_retry(
    device: GpuDevice, make: Callable[P, R], *args: P.args, **options: P.kwargs
) -> R:
    """Return the result of a call; out of memory, submit the lazy graph and retry.

    Parameters
    ----------
    device : GpuDevice
        Device that it allocates on.
    make : callable
        The call.
    *args, **options
        Its arguments.
    """
    try:
        return make(*args, **options)
    except MemoryError:
        if not _free_memory(device):
            raise
    return make(*args, **options)


def _free_memory(device: GpuDevice) -> bool:
    """Submit the lazy graph as far as possible; return whether any of it could run."""
    with device.lock:
        if device.within():
            return False
        device.begin()
        try:
            return _submit_some(device, device.pending.copy())
        finally:
            device.running = None


def _submit_some(device: GpuDevice, nodes: Sequence[Node]) -> bool:
    """Submit pending nodes until one cannot run; return whether any could."""
    return len(_submit_pieces(device, nodes, len(nodes))) < len(nodes)


def _split_dependencies(
    pending: Sequence[Node], last: Node
) -> tuple[list[Node], list[Node], list[Node]]:
    """Return the dependencies of a node, and the other nodes, in order.

    And apart from these the dead nodes, whose results nothing can read any more: they
    hold memory.
    """
    needed, nodes = {last}, []
    wanted: set[Node] = set()
    rest, dead = [], []
    for node in reversed(pending):
        if node in needed:
            nodes.append(node)
            needed.update([each.node for each in node.values if each.node is not None])
        elif (
            node in wanted
            or trace_hooks.running
            or any([value.external_refs for value in node.outputs])
        ):
            rest.append(node)
            wanted.update([each.node for each in node.values if each.node is not None])
        else:
            dead.append(node)
    return nodes[::-1], rest[::-1], dead


def submit_early(device: GpuDevice) -> None:
    """Submit the lazy graph if it is long, where graphs are often cut anyway.

    Not on devices that share the processor with the host.
    """
    if len(device.pending) < EARLY_SUBMIT_NODES:
        return
    if not device.gpu.info.target.shares_processor:
        flush(device)


@contextmanager
def unfused(device: GpuDevice) -> Iterator[None]:
    """Run each op recorded inside in a kernel of its own, without fusion.

    The lazy graph is submitted before, and the ops recorded inside at the end; other
    threads wait meanwhile.
    """
    with device.lock:
        flush(device)
        try:
            device.fusing = False
            yield
            flush(device)
        finally:
            # Twice, in case an interrupt comes in between.
            try:
                device.fusing = True
            finally:
                device.fusing = True


def run_detached(device: GpuDevice, nodes: Sequence[Node]) -> None:
    """Submit nodes whose inputs are in memory, and leave the lazy graph alone."""
    with device.lock:
        device.begin()
        flush = Flush(device, nodes, device.pending.copy(), detached=True)
        try:
            _submit(flush, donate=False)
        except Exception as error:
            flush.give_up(error)
            raise
        finally:
            device.running = None


def _run(
    flush: Flush,
    trailing: TrailingCommands | None = None,
    older: int = 0,
    reading: bool = False,
) -> Plan | None:
    """Submit a flush, or as much of it as can run; return the plan if it is one.

    Nodes that fail for want of memory, which may be there later, stay pending if the
    flush serves a read. Where nothing can run, that many older nodes stay pending, as
    the cause may be newer nodes.
    """
    device = flush.device
    try:
        return _submit(flush, trailing)
    except vkbackend.DeviceLost as error:
        flush.give_up(error)
        raise
    except vkbackend.ReentrantError:  # Of a signal handler, which let it pass.
        raise
    except Exception as error:
        if flush.is_submitted():
            raise
        left = _submit_pieces(device, flush.nodes, len(flush.nodes) // 2)
        if left and reading and isinstance(error, MemoryError):
            raise
        if len(left) == len(flush.nodes):
            kept = set(_retryable(left[:older], error))
            left = [node for node in left if node not in kept] or left
        if left:
            _piece(device, left).give_up(error)
            raise
    if trailing is not None:
        batch = device.gpu.batch()
        trailing(batch)
        batch.submit()
    return None


def _retryable(nodes: Sequence[Node], error: Exception) -> list[Node]:
    """Return the nodes that may be able to run another time.

    Not those spared before, or with an input that was not computed, except for want of
    memory: they would take newer ones with them each time.
    """
    if isinstance(error, MemoryError):
        return [*nodes]
    spared = [
        node
        for node in nodes
        if not hasattr(node, "spared")
        and all([type(value.buffer) is not Failed for value in node.values])
    ]
    for node in spared:
        node.spared = True
    return spared


def _submit_pieces(
    device: GpuDevice, nodes: Sequence[Node], size: int
) -> Sequence[Node]:
    """Submit nodes in pieces up to a size; return those left from an error on.

    As in eager mode, ops recorded before the failing one take effect.
    """
    while size:
        piece = nodes[:size]
        try:
            _submit(_piece(device, piece))
        except vkbackend.ReentrantError:
            raise
        except Exception:  # A node that fails alone stays in `nodes`, for the caller.
            size //= 2
        else:
            nodes = nodes[size:]
            size = min(size, len(nodes))
    return nodes


def _piece(device: GpuDevice, nodes: Sequence[Node]) -> Flush:
    """Return the submission of some of the pending nodes."""
    gone = set(nodes)
    return Flush(device, nodes, [node for node in device.pending if node not in gone])


def _submit(
    flush: Flush, trailing: TrailingCommands | None = None, donate: bool = True
) -> Plan:
    """Run the nodes of a flush, and then the commands that `trailing` adds.

    With `donate`, results may alias inputs without external references.
    """
    device, nodes, rest = flush.device, flush.nodes, flush.rest
    device.in_flight = flush
    # Nodes of a running trace may read values without external references.
    donated: list[Value] | None = [] if donate and not trace_hooks.running else None
    slots: dict[Value | ValueSlice, int] = {}
    starts: dict[int, int] | None = None if flush.whole else {}
    try:
        needed, former = _needed(rest) if rest else (_NONE, _NONE)
        wiring = plan_key(nodes, slots, needed, former, donated, starts)
        plan = _plan_for(device, nodes, wiring, slots, donated or ())
        batch = plan_batch(device.gpu, plan, nodes, trailing is None, starts)
        if trailing is not None:
            trailing(batch)
        flush.batch = batch
        batch.submit()
        flush.submitted = True
    finally:
        device.finish()
    return plan


_NONE: set[Value] = set()


def _needed(rest: Sequence[Node]) -> tuple[set[Value], set[Value]]:
    """Return the values that nodes read, and the rollback values of their storages."""
    needed = {value for node in rest for value in node.values}
    former = {
        array.former
        for node in rest
        for reference, _ in node.arrays
        if (array := reference()) is not None
    }
    return needed, former


def _import_planning() -> None:
    """Import what makes plans, so that no flush does it, while it holds a lock."""
    from . import kernel_search  # noqa: F401 - imports the others


on_first_device(_import_planning)


def _plan_for(
    device: GpuDevice,
    nodes: Sequence[Node],
    wiring: tuple[object, ...],
    slots: dict[Value | ValueSlice, int],
    donated: Sequence[Value],
) -> Plan:
    plans = device.plans
    key = autotune.generation(device), wiring
    plan = plans.get(key)
    if plan is None:
        from .kernel_search import autotuned_plan
        from .lowering_cache import lowering_cache
        from .plan import build_plan

        rebased, numbers = nodes_to_plan(nodes, wiring, slots)
        build = functools.partial(
            build_plan,
            device.gpu,
            rebased,
            numbers,
            fusing=device.fusing,
            external=external_of(nodes, wiring),
            donated=set(map(id, donated)),
        )
        plan = autotuned_plan(
            device.gpu, rebased, lambda: build(cache=lowering_cache(device))
        )
        # A benchmark may have begun another generation.
        key = autotune.generation(device), wiring
        plans[key] = plan
        if len(plans) > KEPT_PLANS:
            plans.popitem(last=False)
    else:
        plans.move_to_end(key)
    return plan
