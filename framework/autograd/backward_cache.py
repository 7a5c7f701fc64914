"""Backward passes that come again: the same nodes for other values, without the rules.

A training loop walks the same tape in every step. What the rules ask for depends on
how the tape is wired, on the calls that left its entries, which are known by the same
object when they are alike (`GradNode.kind`), on their order and their numbers, and on
nothing else. So the first walk of a kind is only remembered, the second is watched, and
what it asked for is asked for again by the next ones: nodes of the same forms, on the
values that are saved now.

Only the library's own rules are known to be such, and only plain walks are repeated:
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
from ..eager.node_recorder import Row, Watcher, nodes_of
from ..ir.lazy_graph import Array, Value
from ..scheduler.scheduler import append_all
from .engine import GradNode, Saved, backward

MOST_WALKS = 64
"""Kinds of walks that are known per device; the oldest goes first."""

MOST_MISSES = 32
"""Walks in a row that were not known, after which few are looked up."""

FEW = 16
"""Of so many walks one is looked up then."""


_NAMED = frozenset({tuple, str, type(None), DType, TensorSpec})
"""Types of what is saved and known by the kind of the call alone."""


class Walk(NamedTuple):
    """What a walk asks for.

    Attributes
    ----------
    rows : tuple of Row
        Nodes, in order.
    grads : tuple of (int, Layout) or None
        For each leaf the value of its gradient, and how it lies; None without one.
    held : tuple of object
        What the key names by identity.
    """

    rows: tuple[Row, ...]
    grads: tuple[tuple[int, Layout] | None, ...]
    held: tuple[object, ...]


class Tape:
    """What can be reached from an output, and what tells it from other tapes.

    Attributes
    ----------
    nodes : list of GradNode
    leaves : list of TensorCore
    values : dict of Value to int
        The gradient that it starts with and all that is saved, numbered.
    key : list of int or float
        Equal for tapes on which walks ask for the same.
    """

    def __init__(self, grad: TensorCore) -> None:
        self.nodes: list[GradNode] = []
        self.leaves: list[Any] = []
        self.values: dict[Value, int] = {grad.array.value: 0}
        self.key: list[Any] = [id(grad.layout), id(grad.array.value.dtype)]

    def read(self, root: GradNode, results: type[Any]) -> bool:
        """Look at everything; return whether a walk may be repeated."""
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
                    if type(target) is GradNode:
                        at = len(nodes)
                        nodes.append(target)
                    else:
                        at = -1 - len(leaves)
                        leaves.append(target)
                    numbers[id(target)] = at
                key.append(at)
                if output:
                    return False
            for each in saved.values():
                kind = type(each)
                if kind is Saved:
                    array = each.array
                    if array.version != each.version or each.kind is not results:
                        return False
                    key.append(values.setdefault(array.value, len(values)))
                elif kind is float or kind is int:
                    # Equal numbers of the same kind of call differ in the sign of zero.
                    key.append(each or str(each))
                elif kind not in _NAMED:
                    key.append(repr(each))
        # Gradients are added up in the order of the calls, which wiring leaves open.
        called = [node.sequence for node in nodes]
        key += sorted(range(len(nodes)), key=called.__getitem__)
        for leaf in leaves:
            if leaf.own_grad is not None or leaf.hooks or leaf.results is not results:
                return False
        return True


def backward_again(output: TensorCore, grad: TensorCore) -> None:
    """Do what `backward([output], [grad])` does, in short where it was done before."""
    device, root = output.device, output.grad_node
    if isinstance(device, GpuDevice) and root is not None and not trace_hooks.running:
        tape = _tape(device, output, grad)
        if tape is not None:
            key = tuple(tape.key)
            walk = device.walks.get(key, _NEW)
            if type(walk) is Walk:
                device.missed_walks = 0
                _repeat(device, tape, walk, output.results)
                return
            device.missed_walks += 1
            if walk is None:
                device.walks[key] = _watched(device, tape, output, grad)
                return
            if walk is _NEW:
                device.walks[key] = None
                if len(device.walks) > MOST_WALKS:
                    device.walks.popitem(last=False)
    backward([output], [grad])


_NEW = object()
_UNFIT = object()


def _tape(device: GpuDevice, output: TensorCore, grad: TensorCore) -> Tape | None:
    """Return the tape behind an output, if it is one whose walks may be repeated."""
    if device.missed_walks > MOST_MISSES:
        device.missed_walks += 1
        if device.missed_walks % FEW:
            return None
    fits = grad.layout.shape == output.layout.shape and grad.device is device
    if not fits or grad.array.value.dtype is not output.array.value.dtype:
        return None
    tape = Tape(grad)
    tape.key += (id(device.gpu.info), autotune.era(device.gpu), device.fusing)
    root = output.grad_node
    assert root is not None
    return tape if tape.read(root, output.results) else None


def _repeat(device: GpuDevice, tape: Tape, walk: Walk, results: type[Any]) -> None:
    """Ask for the nodes of a walk, and give leaves their gradients."""
    values = list(tape.values)
    nodes = nodes_of(walk.rows, values)
    grads = [
        None
        if found is None
        else assembled(results, Array(values[found[0]]), found[1], device)
        for found in walk.grads
    ]
    # At once, or another thread's flush could drop what only the tape has held.
    with device.lock:
        append_all(device, nodes)
        # Leaves last: what they have can be computed, wherever an interrupt comes.
        for entry in tape.nodes:
            entry.saved = None
        for leaf, grad in zip(tape.leaves, grads):
            if grad is not None:
                leaf.own_grad = grad


def _watched(
    device: GpuDevice, tape: Tape, output: TensorCore, grad: TensorCore
) -> object:
    """Walk a tape; return what it asked for, or `_UNFIT`."""
    watcher = Watcher(device)
    with trace_hooks.listening(watcher):
        backward([output], [grad])
    numbers = dict(tape.values)
    rows = watcher.rows(numbers)
    if rows is None:
        return _UNFIT
    grads: list[tuple[int, Layout] | None] = []
    for leaf in tape.leaves:
        found = leaf.own_grad
        if found is None:
            grads.append(None)
            continue
        at = numbers.get(found.array.value)
        if at is None or type(found) is not output.results or found.array.version:
            return _UNFIT
        grads.append((at, found.layout))
    kinds = [node.kind for node in tape.nodes]
    held = grad.layout, output.array.value.dtype, device.gpu.info, *kinds
    return Walk(rows, tuple(grads), held)
