"""Submission of a flush, and its commit or rollback once its fate is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.lazy_graph import Failed, Node

if TYPE_CHECKING:
    import vkbackend

    from ..base.device import GpuDevice


class Flush:
    """One submission of nodes; see `device.Submission`.

    Parameters
    ----------
    device : GpuDevice
    nodes : sequence of Node
        What is submitted.
    rest : list of Node
        What is left pending then.
    dead : sequence of Node
        What is dropped then.
    detached : bool, default False
        Whether `nodes` are not among what is pending.
    """

    __slots__ = (
        "batch",
        "count",
        "dead",
        "device",
        "failed",
        "nodes",
        "pending",
        "rest",
    )

    def __init__(
        self,
        device: GpuDevice,
        nodes: Sequence[Node],
        rest: list[Node],
        dead: Sequence[Node] = (),
        detached: bool = False,
    ) -> None:
        self.device = device
        self.nodes = nodes
        self.rest = rest
        self.dead = dead
        self.pending = device.pending
        # Not those that a signal handler has asked for since these were found pending.
        self.count = len(rest) + (0 if detached else len(nodes) + len(dead))
        self.batch: vkbackend.Batch | None = None
        self.failed: Failed | None = None

    def is_submitted(self) -> bool:
        """Return whether the device does the work."""
        return self.batch is not None and self.batch.point is not None

    def give_up(self, error: Exception) -> None:
        """Drop the nodes for an error."""
        self.batch, self.failed = None, Failed(error)
        self.device.in_flight = self
        self.device.finish()

    def settle(self) -> None:
        """Hand out the results, or drop what failed, or leave all as it was."""
        if self.is_submitted():
            self._drop([*self.nodes, *self.dead] if self.dead else self.nodes)
        elif self.failed is not None:
            self._fail(self.failed)
        else:
            for node in self.nodes:
                for value in node.outputs:
                    if value.node is not None:
                        value.buffer = None

    def _drop(self, nodes: Sequence[Node]) -> None:
        """Note that nodes are pending no longer."""
        for node in nodes:
            for value in node.outputs:
                value.node = None
        for node in nodes:
            if node.arrays:
                _settle_arrays(node)
        if self.device.pending is self.pending:
            # What was added meanwhile stands behind what was pending.
            self.device.pending = self.rest + self.pending[self.count :]

    def _fail(self, failed: Failed) -> None:
        """Drop the nodes, and those left that need them.

        May be repeated, as it may have been interrupted.
        """
        lost, rest = split_dependents(self.nodes, self.rest)
        for node in lost:
            for value in node.outputs:
                value.buffer = failed
        # The last first: what a storage held last is what it holds again.
        for node in reversed(rest):
            for reference, value in reversed(node.arrays):
                array = reference()
                if array is not None:
                    array.give_back(value)
        # Before any of them is no longer pending, which tells what needs them.
        self.nodes = lost
        self.rest = rest
        self._drop([*lost, *self.dead])


def split_dependents(
    nodes: Sequence[Node], rest: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """Return nodes with those of the rest that need them, and the others."""
    needing, others = dict.fromkeys(nodes), []
    for node in rest:
        if any([each.node in needing for each in node.values]):
            needing[node] = None
        else:
            others.append(node)
    return [*needing], others


def _settle_arrays(node: Node) -> None:
    """Tell storages that their content is pending no longer, or lost."""
    for reference, value in node.arrays:
        array = reference()
        if array is not None:
            array.settle(value)
