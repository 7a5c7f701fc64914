"""Nodes of a graph by number: which reads which values; pure.

A plan is made in many passes over the nodes. They follow numbers of nodes and values
here instead of the objects, whose `id` they would look up at each step. These are in
tuples, which the cycle collector leaves alone, as plans keep them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..codegen.partitioner import FusionNode
from ..ir.host_step import HostStep

if TYPE_CHECKING:
    from ..base.dtype import DType
    from ..base.shape import Shape
    from ..ir.lazy_graph import Node, NodeSignature


class NodeSummary(NamedTuple):
    """Summary of one node, for reports.

    Attributes
    ----------
    reads, slots : tuple of int
        Nodes whose results it reads; negative numbers are values from outside. Slots of
        its results.
    external : bool
        Whether a result has external references.
    """

    op: str
    shape: Shape
    dtype: DType
    reads: tuple[int, ...]
    external: bool
    slots: tuple[int, ...]


class NodeTable:
    """The nodes of a graph, and what they read and write, by number.

    Parameters
    ----------
    nodes : sequence of Node
        In recorded order.
    slots : mapping of int to int
        A number for each value, by `id`.
    external : collection of int
        The `id` of values with external references.

    Attributes
    ----------
    signatures : list of NodeSignature
        Of each node.
    reads, writes : list of tuple of int
        Slots of each node's inputs and results.
    sources : list of tuple of int
        For each input the node that makes it, or -1 - slot of a value from outside.
    external : list of int
        How many of each node's results have external references.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        slots: Mapping[int, int],
        external: Collection[int],
    ) -> None:
        self.signatures: list[NodeSignature] = []
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...]] = []
        self.sources: list[tuple[int, ...]] = []
        self.external: list[int] = []
        makers: dict[int, int] = {}
        for number, node in enumerate(nodes):
            reads = tuple([slots[id(value)] for value in node.values])
            self.signatures.append(node.signature)
            self.reads.append(reads)
            self.sources.append(tuple([makers.get(slot, -1 - slot) for slot in reads]))
            results = [id(value) for value in node.outputs]
            writes = tuple([slots[each] for each in results])
            self.writes.append(writes)
            self.external.append(len([1 for each in results if each in external]))
            for slot in writes:
                makers[slot] = number

    def fusion_nodes(
        self, numbers: Sequence[int], spaces: Sequence[FusionNode], varies: bool
    ) -> list[FusionNode]:
        """Return the nodes of these numbers as the partitioner sees them.

        Parameters
        ----------
        numbers : sequence of int
            In order, with all that they read.
        spaces : sequence of FusionNode
            Each without its operands.
        varies : bool
            Whether steps of loops are found.
        """
        place = [0] * len(self.signatures)
        for position, number in enumerate(numbers):
            place[number] = position
        found = []
        for number, (shape, _, _, split, alone, _, kind) in zip(numbers, spaces):
            reads, externals = [], []
            operands = self.signatures[number].operands
            for source, layout in zip(self.sources[number], operands):
                if source < 0:
                    externals.append(-1 - source)
                else:
                    reads.append((place[source], layout))
            found.append(
                FusionNode(
                    shape,
                    tuple(reads),
                    self.external[number] + len(externals),
                    split,
                    alone,
                    tuple(externals),
                    kind if varies else None,
                )
            )
        return found

    def live_nodes(self) -> list[int]:
        """Return the live nodes, in order (dead-code elimination).

        Host steps stay: other processes may wait for what this one does in them.
        """
        live = [count > 0 for count in self.external]
        for number, signature in enumerate(self.signatures):
            if any([isinstance(value, HostStep) for _, value in signature.params]):
                live[number] = True
        for number in range(len(live) - 1, -1, -1):
            if live[number]:
                for source in self.sources[number]:
                    if source >= 0:
                        live[source] = True
        return [number for number, needed in enumerate(live) if needed]

    def summaries(self) -> list[NodeSummary]:
        """Return the summaries of the nodes."""
        return [
            NodeSummary(
                signature.op.name,
                signature.layouts[0].shape,
                signature.dtypes[0],
                self.sources[number],
                self.external[number] > 0,
                self.writes[number],
            )
            for number, signature in enumerate(self.signatures)
        ]
