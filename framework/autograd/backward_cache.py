"""Backward cache: replays the nodes of a backward pass, by tape structure.

A training loop differentiates the same tape in every step. The nodes that the rules
create depend on the wiring of the tape, on the calls that recorded its entries (equal
calls share their `GradNode.kind`), on their order and their scalars, and on nothing
else. So the first pass over a tape is only noted, the second is recorded, and the next
ones replay its nodes without running the rules: the same signatures, on the tensors
that are saved now.

Only the library's own rules are known to be pure, and only plain passes are cached:
into leaves that have no gradient, without hooks, and not for gradients of gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autotune import autotune
from ..base import trace_hooks
from ..base.device import GpuDevice
from ..base.dtype import DType
from ..base.shape import Layout, TensorSpec
from ..eager.base_tensor import TensorCore, assembled
from ..eager.node_recorder import NodeRecorder, RecordedNode, replay_nodes
from ..ir.lazy_graph import Array, Value
from ..scheduler.scheduler import append_all
from .engine import GradNode, Saved, backward

MOST_CACHED = 64
"""Backward passes cached per device; the oldest is evicted first."""

MOST_MISSES = 32
"""Consecutive cache misses after which few passes are looked up."""

LOOKUP_INTERVAL = 16
"""Passes per lookup after that."""


_NAMED_BY_CALL = frozenset({tuple, str, type(None), DType, TensorSpec})
"""Types of saved arguments that the key of the call determines."""


class CachedBackward(NamedTuple):
    """Cached backward pass.

    Attributes
    ----------
    recorded_nodes : tuple of RecordedNode
        Nodes, in order.
    grads : tuple of (int, Layout) or None
        Value and layout of each leaf's gradient; None without one.
    held : tuple of object
        Objects that the key names by identity, kept alive.
    """

    recorded_nodes: tuple[RecordedNode, ...]
    grads: tuple[tuple[int, Layout] | None, ...]
    held: tuple[object, ...]


class TapeSignature:
    """Structure of the tape behind an output, with its cache key.

    Attributes
    ----------
    nodes : list of GradNode
    holders : list of GradNode
        Those that saved tensors.
    leaves : list of TensorCore
    values : dict of Value to int
        The seed gradient and all saved tensors, numbered.
    key : list of int or float
        Cache key: equal for tapes whose backward passes create the same nodes.
    """

    def __init__(self, grad: TensorCore) -> None:
        self.nodes: list[GradNode] = []
        self.holders: list[GradNode] = []
        self.leaves: list[Any] = []
        self.values: dict[Value, int] = {grad.array.value: 0}
        self.key: list[Any] = [id(grad.layout), id(grad.array.value.dtype)]

    def read(self, root: GradNode, results: type[Any]) -> bool:
        """Read the tape; return whether its backward pass may be cached."""
        nodes, leaves, values, key = self.nodes, self.leaves, self.values, self.key
        numbers = {id(root): 0}
        nodes.append(root)
        for node in nodes:
            saved = node.saved
            if node.kind is None or saved is None or node.hooks:
                return False
            key.append(id(node.kind))
            for edge in node.edges:
                if edge is None:
                    key.append(None)
                    continue
                target, output = edge
                at = numbers.get(id(target))
                if at is None:
                    if isinstance(target, GradNode):
                        at = len(nodes)
                        nodes.append(target)
                    else:
                        at = -1 - len(leaves)
                        leaves.append(target)
                    numbers[id(target)] = at
                key.append(at)
                if output:
                    return False
            holds = False
            for each in saved.values():
                kind = type(each)
                if kind is Saved:
                    holds = True
                    array, _, _, made, version, _ = each
                    if array.version != version or made is not results:
                        return False
                    key.append(values.setdefault(array.value, len(values)))
                elif kind is float or kind is int:
                    # Equal numbers of one kind of call differ only in the sign of zero.
                    key.append(each or str(each))
                elif kind not in _NAMED_BY_CALL:
                    key.append(repr(each))
            if holds:
                self.holders.append(node)
        # Gradients are accumulated in the order of the calls, which wiring leaves open.
        called = [node.sequence for node in nodes]
        key += sorted(range(len(nodes)), key=called.__getitem__)
        for leaf in leaves:
            if leaf.own_grad is not None or leaf.hooks or leaf.results is not results:
                return False
        return True


def cached_backward(output: TensorCore, grad: TensorCore) -> None:
    """Run `backward([output], [grad])`, replayed from the cache where possible."""
    device, root = output.device, output.grad_node
    if isinstance(device, GpuDevice) and root is not None and not trace_hooks.running:
        tape = _tape(device, output, grad)
        if tape is not None:
            key = tuple(tape.key)
            cached = device.backward_cache.get(key, _NEW)
            if type(cached) is CachedBackward:
                device.backward_misses = 0
                _replay(device, tape, cached, output.results)
                return
            device.backward_misses += 1
            if cached is None:
                device.backward_cache[key] = _record(device, tape, output, grad)
                return
            if cached is _NEW:
                device.backward_cache[key] = None
                if len(device.backward_cache) > MOST_CACHED:
                    device.backward_cache.popitem(last=False)
    backward([output], [grad])


_NEW = object()
_UNCACHEABLE = object()


def _tape(
    device: GpuDevice, output: TensorCore, grad: TensorCore
) -> TapeSignature | None:
    """Return the tape behind an output, if its backward pass may be cached."""
    if device.backward_misses > MOST_MISSES:
        device.backward_misses += 1
        if device.backward_misses % LOOKUP_INTERVAL:
            return None
    fits = grad.layout.shape == output.layout.shape and grad.device is device
    if not fits or grad.array.value.dtype is not output.array.value.dtype:
        return None
    tape = TapeSignature(grad)
    tape.key.append(autotune.generation(device))
    root = output.grad_node
    assert root is not None
    return tape if tape.read(root, output.results) else None


def _replay(
    device: GpuDevice, tape: TapeSignature, cached: CachedBackward, results: type[Any]
) -> None:
    """Replay the nodes of a cached pass, and accumulate into the leaves."""
    values = list(tape.values)
    nodes = replay_nodes(cached.recorded_nodes, values)
    grads = [
        None
        if found is None
        else assembled(results, Array(values[found[0]]), found[1], device)
        for found in cached.grads
    ]
    # At once, or another thread's flush could drop values that only the tape refers to.
    with device.lock:
        device.pending += nodes
        # Leaves last: their gradients can be computed, wherever an interrupt comes.
        for entry in tape.holders:
            entry.saved = None
        for leaf, grad in zip(tape.leaves, grads):
            if grad is not None:
                leaf.own_grad = grad
        # Where they are submitted, what only the tape held is dead, as in other passes.
        append_all(device, (), whole=True)


def _record(
    device: GpuDevice, tape: TapeSignature, output: TensorCore, grad: TensorCore
) -> object:
    """Run a backward pass; return it recorded, or `_UNCACHEABLE`."""
    recorder = NodeRecorder(device)
    with trace_hooks.listening(recorder):
        backward([output], [grad])
    numbers = dict(tape.values)
    recorded_nodes = recorder.recorded_nodes(numbers)
    if recorded_nodes is None:
        return _UNCACHEABLE
    grads: list[tuple[int, Layout] | None] = []
    for leaf in tape.leaves:
        found = leaf.own_grad
        if found is None:
            grads.append(None)
            continue
        at = numbers.get(found.array.value)
        if at is None or type(found) is not output.results or found.array.version:
            return _UNCACHEABLE
        grads.append((at, found.layout))
    kinds = [node.kind for node in tape.nodes]
    held = grad.layout, output.array.value.dtype, *kinds
    return CachedBackward(recorded_nodes, tuple(grads), held)
