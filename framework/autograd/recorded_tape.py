"""Recorded tape: the tape entries of a recorded call, made again with its replay.

The entries of a call that is replayed differ only in the tensors that they save and in
what the edges of its inputs lead to. They are read off the tape after the call, from
its answer to its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.shape import TensorSpec
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import RecordedCall
from ..ir.lazy_graph import Array, Value, cache_key
from .tape import Edge, GradNode, Saved, ShownNode, edge_of

# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__

NOTHING = 0
"""Place of no edge; those of the tensors given come next, then those of entries."""


class RecordedEntry(NamedTuple):
    """Recorded tape entry.

    Attributes
    ----------
    name, rule, specs, kind
        See `GradNode`.
    edges : tuple of int
        Places of what they lead to.
    saved : tuple of (str, int, object)
        Name of each saved argument, and the number of its storage with the other fields
        of `Saved`; -1 with what is no tensor.
    shown : (str, tuple of int) or None
        Name and edges of what the graph shows in its place.
    """

    name: str
    rule: Callable[..., Any]
    edges: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    saved: tuple[tuple[str, int, Any], ...]
    kind: object
    shown: tuple[str, tuple[int, ...]] | None


class RecordedTape(NamedTuple):
    """Recorded tape entries of a call.

    Attributes
    ----------
    entries : tuple of RecordedEntry
        In order.
    kept : tuple of int
        Numbers of values that entries save, but for those of inputs and outputs.
    ends : tuple of int
        Places of the edges to the outputs.
    """

    entries: tuple[RecordedEntry, ...]
    kept: tuple[int, ...]
    ends: tuple[int, ...]

    def replay(self, call: RecordedCall, tensors: Sequence[TensorCore]) -> list[Any]:
        """Replay the call on other tensors, and its entries; return its outputs."""
        outputs, kept = call.replay_keeping(tensors, self.kept)
        storages = [each.array for each in (*tensors, *outputs)] + kept
        self.put_on(outputs, tensors, storages)
        return outputs

    def put_on(
        self,
        outputs: Sequence[Any],
        tensors: Sequence[TensorCore],
        storages: Sequence[Array],
    ) -> None:
        """Put outputs on the tape, by entries made again.

        Parameters
        ----------
        outputs : sequence of TensorCore
            Of a call like the recorded one.
        tensors : sequence of TensorCore
            That it was given.
        storages : sequence of Array
            By their numbers.
        """
        edges: list[Edge | None] = [None, *map(edge_of, tensors)]
        nodes, first = [], len(edges)
        for name, rule, leads_to, specs, saved, kind, shown in self.entries:
            arguments = {}
            for argument, at, rest in saved:
                if at < 0:
                    arguments[argument] = rest
                else:
                    storage = storages[at]
                    layout, device, made, where = rest
                    fields = storage, layout, device, made, storage.version, where
                    arguments[argument] = _tuple(Saved, fields)
            if len(leads_to) == 1:
                linked: tuple[Edge | None, ...] = (edges[leads_to[0]],)
            else:
                linked = tuple([edges[at] for at in leads_to])
            node = GradNode(name, rule, linked, specs, arguments, kind)
            nodes.append(node)
            edges.append(_tuple(Edge, (node, 0)))
            if shown is not None:
                node.shown = ShownNode(shown[0], tuple([edges[at] for at in shown[1]]))
        for out, at in zip(outputs, self.ends):
            if at != NOTHING:
                out.needs_grad = True
                out.grad_node = nodes[at - first]


def recorded_tape_of(
    tensors: Sequence[TensorCore],
    outputs: Sequence[TensorCore],
    numbers: dict[Value, int],
    start: int,
) -> RecordedTape | None:
    """Return the recorded tape of a recorded call; None if it cannot be replayed.

    Only the library's rules are known to depend on what is saved alone.

    Parameters
    ----------
    tensors : sequence of TensorCore
        That it was given.
    outputs : sequence of TensorCore
        That it returned.
    numbers : dict of Value to int
        The numbers of values; see `recorded_call_of`.
    start : int
        The entries' sequence numbers are above it.
    """
    return _read(_Reader(tensors, outputs, numbers), outputs, start)


def recorded_tape_of_views(
    x: TensorCore, views: Sequence[TensorCore], start: int
) -> RecordedTape | None:
    """Return the recorded tape of a call that returned views of one storage, or None.

    The number of the storage is 0.

    Parameters
    ----------
    x : TensorCore
        What they are views of.
    views : sequence of TensorCore
    start : int
        As in `recorded_tape_of`.
    """
    return _read(_Reader((x,), (), {}), views, start)


def _read(
    reader: _Reader, outputs: Sequence[TensorCore], start: int
) -> RecordedTape | None:
    if not reader.find_nodes(outputs, start):
        return None
    try:
        entries = tuple([reader.entry(node) for node in reader.nodes])
        ends = tuple([reader.end(out) for out in outputs])
    except LookupError:
        return None
    return RecordedTape(entries, tuple(reader.kept), ends)


class _Reader:
    """Reader of the tape of a call; its methods raise LookupError for what is not.

    Attributes
    ----------
    nodes : list of GradNode
        Those that the call recorded, in order.
    kept : list of int
        Numbers of values that are saved.
    """

    def __init__(
        self,
        tensors: Sequence[TensorCore],
        outputs: Sequence[TensorCore],
        numbers: dict[Value, int],
    ) -> None:
        self.nodes: list[GradNode] = []
        self.kept: list[int] = []
        self._numbers = numbers
        storages = [each.array for each in (*tensors, *outputs)]
        self._storages = {id(array): at for at, array in enumerate(storages)}
        self._first_kept = len(storages)
        self._distinct = len(self._storages) == len(storages)
        self._inputs: dict[tuple[int, int], int] = {}
        for at, each in enumerate(tensors):
            edge = edge_of(each)
            if edge is not None:
                key = id(edge.target), edge.output
                self._distinct = self._distinct and key not in self._inputs
                self._inputs[key] = 1 + at
        self._first_entry = 1 + len(tensors)
        self._places: dict[int, int] = {}

    def find_nodes(self, outputs: Sequence[TensorCore], start: int) -> bool:
        """Find the nodes of the call; return whether it can be replayed."""
        found: dict[int, GradNode] = {}
        edges = [edge_of(each) for each in outputs]
        while edges:
            edge = edges.pop()
            if edge is None or (id(edge.target), edge.output) in self._inputs:
                continue
            node = edge.target
            if type(node) is not GradNode or node.sequence <= start:
                return False
            if node.kind is None or node.hooks is not None:
                return False
            if id(node) not in found:
                found[id(node)] = node
                edges += node.edges
        self.nodes = sorted(found.values(), key=lambda node: node.sequence)
        places = enumerate(self.nodes, self._first_entry)
        self._places = {id(node): at for at, node in places}
        return self._distinct and bool(self.nodes)

    def place(self, edge: Edge | None) -> int:
        """Return the place of an edge."""
        if edge is None:
            return NOTHING
        at = self._inputs.get((id(edge.target), edge.output))
        if at is not None:
            return at
        if edge.output:
            raise LookupError
        return self._places[id(edge.target)]

    def end(self, output: TensorCore) -> int:
        """Return the place of the edge to an output, which an entry has made."""
        at = self.place(edge_of(output))
        if NOTHING < at < self._first_entry:
            raise LookupError
        return at

    def entry(self, node: GradNode) -> RecordedEntry:
        """Return the recorded entry of a node."""
        assert node.saved is not None
        saved = tuple([(name, *self._saved(node.saved[name])) for name in node.saved])
        edges = tuple([self.place(edge) for edge in node.edges])
        shown = getattr(node, "shown", None)
        if shown is not None:
            if type(shown) is not ShownNode or not all(
                [each is None or type(each) is Edge for each in shown.edges]
            ):
                raise LookupError
            shown = shown.name, tuple([self.place(edge) for edge in shown.edges])
        rest = node.specs, saved, node.kind, shown
        return RecordedEntry(node.op_name, node.apply, edges, *rest)

    def _saved(self, argument: Any) -> tuple[int, Any]:
        """Return the number of a saved argument's storage, and the rest of it."""
        if type(argument) is not Saved:
            if type(argument) is not TensorSpec and cache_key(argument) is None:
                raise LookupError
            return -1, argument
        array, layout, device, kind, version, where = argument
        if array.version != version:
            raise LookupError
        at = self._storages.get(id(array))
        if at is None:
            self._storages[id(array)] = at = self._first_kept + len(self.kept)
            self.kept.append(self._number(array))
        return at, (layout, device, kind, where)

    def _number(self, array: Array) -> int:
        return self._numbers[array.value]
