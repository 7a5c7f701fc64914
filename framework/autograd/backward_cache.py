"""Backward cache: replays the nodes of backward passes, by tape structure.

A training loop differentiates the same tape in every step. The nodes that the rules
create depend on the wiring of the tape, on the calls that recorded its entries (equal
calls share their `GradNode.kind`), on their order and their scalars, on whether what
arrives is the constant 1, and on nothing else. So the first pass over a tape is only
noted, the second is recorded, and the next ones replay its nodes without running the
rules: the same signatures, on the tensors that are saved now.

Only the library's own rules are known to be pure. Other rules, and hooks, divide a pass
into segments, each of which is looked up with the gradients that have arrived at it.
Leaves accumulate after a segment as after rules that ran. What leads to leaves that
have hooks runs its rules, and so do passes that are recorded themselves, for gradients
of gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..autotune import autotune
from ..base import trace_hooks
from ..base.device import GpuDevice
from ..base.dtype import DType
from ..base.shape import Layout, TensorSpec
from ..eager.base_tensor import assembled
from ..eager.node_recorder import NodeRecorder, RecordedNode, replay_nodes
from ..ir.constants import is_one
from ..ir.lazy_graph import Array, Value
from ..scheduler.scheduler import submit_pieces
from .partial_grad import PartialGrad
from .running_pass import check_gradients
from .tape import Edge, GradNode, Saved

if TYPE_CHECKING:
    from .engine import BackwardPass

MOST_CACHED = 256
"""Segments cached per device; the oldest is evicted first."""

MOST_MISSES = 32
"""Consecutive cache misses after which few segments are looked up."""

LOOKUP_INTERVAL = 16
"""Segments per lookup after that."""


_NAMED_BY_CALL = frozenset({tuple, str, type(None), DType, TensorSpec})
"""Types of saved arguments that the key of the call determines."""


class CachedBackward(NamedTuple):
    """Cached backward pass over a segment.

    Attributes
    ----------
    recorded_nodes : tuple of RecordedNode
        Nodes, in order.
    constants : tuple of Array
        Constants that they read, numbered after the values of the segment.
    grads : tuple of (int, int, Layout)
        Of each target with a gradient its number, and the gradient's value and layout.
    released : tuple of int
        Nodes of the segment whose saved tensors the pass frees.
    leaf_edges : tuple of (int, int)
        Targets that are leaves, and how many edges of the segment lead to each.
    held : tuple of object
        Objects that the key names by identity, kept alive.
    """

    recorded_nodes: tuple[RecordedNode, ...]
    constants: tuple[Array, ...]
    grads: tuple[tuple[int, int, Layout], ...]
    released: tuple[int, ...]
    leaf_edges: tuple[tuple[int, int], ...]
    held: tuple[object, ...]


class TapeSegment:
    """Consecutive nodes of a backward pass, with their cache key.

    Parameters
    ----------
    nodes : sequence of GradNode
        In the order of the pass.

    Attributes
    ----------
    arrived : dict of (int, int) to Tensor
        Gradients that have arrived at the nodes, as in `BackwardPass.pending`.
    targets : list of Edge
        What is not in the segment and one of its edges leads to, once each.
    results : type
        Class of all the tensors.
    values : dict of Value to int
        Gradients that have arrived, there and at targets, and all saved tensors,
        numbered.
    key : list of int or float
        Cache key: equal for segments whose backward passes create the same nodes.
    """

    results: type[Any]

    def __init__(self, nodes: Sequence[GradNode]) -> None:
        self.nodes = nodes
        self.arrived: dict[tuple[int, int], Any] = {}
        self.targets: list[Edge] = []
        self.values: dict[Value, int] = {}
        self.key: list[Any] = []
        self._layouts: list[Layout] = []
        # Nodes of the segment by `id`; targets count down from -1.
        self._places: dict[int, int] = {}

    def find_arrived(self, pending: dict[tuple[int, int], Any]) -> bool:
        """Find the gradients that have arrived; return whether there are any."""
        places = self._places
        for at, node in enumerate(self.nodes):
            places[id(node)] = at
        for key, grad in pending.items():
            if key[0] in places:
                self.arrived[key] = grad
        return bool(self.arrived)

    def read(self, pending: dict[tuple[int, int], Any]) -> bool:
        """Read the segment; return whether its backward pass may be cached."""
        like = next(iter(self.arrived.values()))
        self.results = like.results
        for key, grad in self.arrived.items():
            if not self._number(self._places[key[0]], grad, like):
                return False
        if not self._read_nodes():
            return False
        for at, (target, output) in enumerate(self.targets):
            found = pending.get((id(target), output))
            if found is not None and not self._number(-1 - at, found, like):
                return False
        return True

    def _number(self, at: int, grad: Any, like: Any) -> bool:
        """Add a gradient that has arrived to the key; return whether it is plain."""
        if type(grad) is not like.results or grad.is_wrapper:
            return False
        if grad.device is not like.device:
            return False
        value, layout = grad.array.value, grad.layout
        self._layouts.append(layout)
        number = self.values.setdefault(value, len(self.values))
        self.key += (at, number, id(layout), id(value.dtype), is_one(value))
        return True

    def _read_nodes(self) -> bool:
        """Read the nodes: their kinds, their edges, and what they saved."""
        places, values, key = self._places, self.values, self.key
        results = self.results
        for node in self.nodes:
            key.append(id(node.kind))
            for edge in node.edges:
                if edge is None:
                    key.append(None)
                    continue
                at = places.get(id(edge[0]))
                if at is None or edge[1]:
                    if self._has_leaf_hooks(edge):
                        return False
                    at = self._target(edge)
                key.append(at)
            saved = node.saved
            assert saved is not None
            for each in saved.values():
                kind = type(each)
                if kind is Saved:
                    array, _, _, made, version, _ = each
                    if array.version != version or made is not results:
                        return False
                    key.append(values.setdefault(array.value, len(values)))
                elif kind is float or kind is int:
                    # Equal numbers of one kind of call differ only in the sign of zero.
                    key.append(each or str(each))
                elif kind not in _NAMED_BY_CALL:
                    key.append(repr(each))
        return True

    @staticmethod
    def _has_leaf_hooks(edge: Edge) -> bool:
        """Return whether an edge leads to a leaf that tells when it accumulates."""
        target = edge.target
        return not isinstance(target, GradNode) and target.hooks is not None

    def _target(self, edge: Edge) -> int:
        """Return the number of what an edge out of the segment leads to."""
        if edge.output:
            # So few that they may be searched.
            if edge in self.targets:
                return -1 - self.targets.index(edge)
        else:
            self._places[id(edge.target)] = -1 - len(self.targets)
        self.targets.append(edge)
        return -len(self.targets)

    def leaf_edges(self) -> tuple[tuple[int, int], ...]:
        """Return the targets that are leaves, and how many edges lead to each."""
        counts: dict[int, int] = {}
        for node in self.nodes:
            for edge in node.edges:
                if edge is not None and not isinstance(edge.target, GradNode):
                    at = -1 - self._places[id(edge.target)]
                    counts[at] = counts.get(at, 0) + 1
        return tuple(counts.items())

    def held(self) -> tuple[object, ...]:
        """Return the objects that the key names by identity."""
        kinds = {id(node.kind): node.kind for node in self.nodes}
        return (*self._layouts, *kinds.values())


def visit_all(backward_pass: BackwardPass, nodes: Sequence[GradNode]) -> None:
    """Apply the rules of nodes, last first; replay segments from the cache.

    Parameters
    ----------
    backward_pass : BackwardPass
    nodes : sequence of GradNode
        Those of the pass, in its order.
    """
    if backward_pass.create_graph or trace_hooks.running or check_gradients:
        _visit_each(backward_pass, nodes)
        return
    for segment, pure in _segments(backward_pass, nodes):
        last = segment[-1] is nodes[-1]
        if not (pure and _visit(backward_pass, segment, last)):
            _visit_each(backward_pass, segment)


def _visit_each(backward_pass: BackwardPass, nodes: Sequence[GradNode]) -> None:
    """Apply the rules of nodes."""
    for node in nodes:
        backward_pass.visit(node)
        if backward_pass.uses is not None:
            backward_pass.accumulate_after(node)


def _segments(
    backward_pass: BackwardPass, nodes: Sequence[GradNode]
) -> Iterator[tuple[Sequence[GradNode], bool]]:
    """Yield nodes whose rules are pure together, the others one by one; and which."""
    wanted = {id(edge[0]) for edge in backward_pass.wanted or () if edge is not None}
    start = 0
    for at, node in enumerate(nodes):
        if (
            node.kind is None
            or node.saved is None
            or node.hooks is not None
            or (wanted and id(node) in wanted)
        ):
            if start < at:
                yield nodes[start:at], True
            yield nodes[at : at + 1], False
            start = at + 1
    if start < len(nodes):
        yield nodes[start:] if start else nodes, True


_NEW = object()
_UNCACHEABLE = object()


def _visit(backward_pass: BackwardPass, nodes: Sequence[GradNode], last: bool) -> bool:
    """Visit nodes by replay, or while they are recorded; return False to do neither.

    `last` says whether the pass ends with them.
    """
    segment = TapeSegment(nodes)
    if not segment.find_arrived(backward_pass.pending):
        return False
    # A partial gradient has no device.
    device = getattr(next(iter(segment.arrived.values())), "device", None)
    if not isinstance(device, GpuDevice):
        return False
    if device.backward_misses > MOST_MISSES:
        device.backward_misses += 1
        if device.backward_misses % LOOKUP_INTERVAL:
            return False
    segment.key += (autotune.generation(device), backward_pass.retain, last)
    if not segment.read(backward_pass.pending):
        return False
    key = tuple(segment.key)
    cached = device.backward_cache.get(key, _NEW)
    if type(cached) is CachedBackward:
        device.backward_misses = 0
        _replay(device, backward_pass, segment, cached)
        return True
    device.backward_misses += 1
    if cached is None:
        device.backward_cache[key] = _record(device, backward_pass, segment, last)
        return True
    if cached is _NEW:
        device.backward_cache[key] = None
        if len(device.backward_cache) > MOST_CACHED:
            device.backward_cache.popitem(last=False)
    return False


def _replay(
    device: GpuDevice,
    backward_pass: BackwardPass,
    segment: TapeSegment,
    cached: CachedBackward,
) -> None:
    """Replay the nodes of a cached pass over a segment."""
    values = list(segment.values)
    values += [each.value for each in cached.constants]
    nodes = replay_nodes(cached.recorded_nodes, values)
    targets, pending, leaves = segment.targets, backward_pass.pending, {}
    grads = {}
    for at, number, layout in cached.grads:
        target, output = targets[at]
        grad = assembled(segment.results, Array(values[number]), layout, device)
        grads[id(target), output] = grad
        if not isinstance(target, GradNode):
            leaves[id(target)] = target
    # At once, or another thread's flush could drop values that only the tape refers to.
    with device.lock:
        device.pending += nodes
        for at in cached.released:
            segment.nodes[at].saved = None
        if backward_pass.wanted is None:
            for key in segment.arrived:
                del pending[key]
        # What is submitted finds dead what only the tape held, as in other passes.
        segment.arrived.clear()
        pending.update(grads)
        backward_pass.leaves.update(leaves)
        submit_pieces(device)
    if backward_pass.uses is not None:
        for at, count in cached.leaf_edges:
            backward_pass.count_passed(targets[at][0], count)


def _record(
    device: GpuDevice, backward_pass: BackwardPass, segment: TapeSegment, last: bool
) -> object:
    """Visit the nodes of a segment; return that recorded, or `_UNCACHEABLE`."""
    pending = backward_pass.pending
    recorder = NodeRecorder(device)
    leaf_edges = segment.leaf_edges()
    segment.arrived.clear()
    with trace_hooks.listening(recorder):
        for node in segment.nodes:
            backward_pass.visit(node)
        if last:
            # All are leaves, which are to accumulate them.
            for target, output in segment.targets:
                key = id(target), output
                if type(pending.get(key)) is PartialGrad:
                    pending[key] = pending[key].dense()
    recorded = _recorded(segment, recorder, pending)
    if backward_pass.uses is not None:
        for at, count in leaf_edges:
            backward_pass.count_passed(segment.targets[at][0], count)
    if recorded is None:
        return _UNCACHEABLE
    released = [at for at, node in enumerate(segment.nodes) if node.saved is None]
    return CachedBackward(*recorded, tuple(released), leaf_edges, segment.held())


def _recorded(
    segment: TapeSegment, recorder: NodeRecorder, pending: dict[tuple[int, int], Any]
) -> (
    tuple[
        tuple[RecordedNode, ...],
        tuple[Array, ...],
        tuple[tuple[int, int, Layout], ...],
    ]
    | None
):
    """Return recorded nodes, their constants, and gradients.

    None if these are not all of the pass.
    """
    numbers = dict(segment.values)
    constants = recorder.number_constants(numbers)
    recorded_nodes = recorder.recorded_nodes(numbers)
    if recorded_nodes is None:
        return None
    grads = []
    for at, (target, output) in enumerate(segment.targets):
        found = pending.get((id(target), output))
        if found is None:
            continue
        if type(found) is not segment.results or found.array.version:
            return None
        number = numbers.get(found.array.value)
        if number is None:
            return None
        grads.append((at, number, found.layout))
    return recorded_nodes, constants, tuple(grads)
