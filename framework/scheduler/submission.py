"""Submission of a flush, and its commit or rollback once it succeeds or fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.lazy_graph import Failed, Node

if TYPE_CHECKING:
    import vkbackend

    from ..base.device import GpuDevice


class Flush:
    """Submission of nodes; see `device.Submission`.

    Parameters
    ----------
    device : GpuDevice
    nodes : sequence of Node
        Nodes to submit.
    rest : list of Node
        Nodes that stay pending after a commit.
    dead : sequence of Node
        Dead nodes, dropped by a commit.
    detached : bool, default False
        Whether `nodes` are not in the lazy graph.
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
        "submitted",
        "whole",
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
        # Not nodes that a signal handler has recorded since.
        self.count = len(rest) + (0 if detached else len(nodes) + len(dead))
        self.batch: vkbackend.Batch | vkbackend.SequenceSubmission | None = None
        # Set once `submit` has returned; otherwise the batch knows.
        self.submitted = False
        self.failed: Failed | None = None
        # Whether its plan is to read whole values, and so can run on others.
        self.whole = False

    def is_submitted(self) -> bool:
        """Return whether the device has taken the batch."""
        return self.batch is not None and self.batch.point is not None

    def give_up(self, error: Exception) -> None:
        """Drop the nodes after an error."""
        self.batch, self.failed = None, Failed(error)
        self.device.in_flight = self
        self.device.finish()

    def settle(self) -> None:
        """Commit the results, or drop the failed nodes, or leave all as it was."""
        if self.submitted or self.is_submitted():
            self._drop([*self.nodes, *self.dead] if self.dead else self.nodes)
        elif self.failed is not None:
            self._fail(self.failed)
        else:
            for node in self.nodes:
                for value in node.outputs:
                    if value.node is not None:
                        value.buffer = None

    def _drop(self, nodes: Sequence[Node]) -> None:
        """Remove nodes from the lazy graph."""
        for node in nodes:
            for value in node.outputs:
                value.node = None
        for node in nodes:
            if node.arrays:
                _settle_arrays(node)
        if self.device.pending is self.pending:
            # Nodes added meanwhile stand behind those that were pending.
            self.device.pending = self.rest + self.pending[self.count :]

    def _fail(self, failed: Failed) -> None:
        """Drop the nodes, and those left that depend on them.

        Idempotent, as an interrupt may have cut it short.
        """
        lost, rest = split_dependents(self.nodes, self.rest)
        for node in lost:
            for value in node.outputs:
                value.buffer = failed
        # In reverse order, so that each storage returns to its last computed content.
        for node in reversed(rest):
            for reference, value in reversed(node.arrays):
                array = reference()
                if array is not None:
                    array.give_back(value)
        # Before any of them is settled, as that state decides which depend on them.
        self.nodes = lost
        self.rest = rest
        self._drop([*lost, *self.dead])


def split_dependents(
    nodes: Sequence[Node], rest: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """Return nodes with their dependents among the rest, and the others."""
    needing, others = dict.fromkeys(nodes), []
    for node in rest:
        if any([each.node in needing for each in node.values]):
            needing[node] = None
        else:
            others.append(node)
    return [*needing], others


def _settle_arrays(node: Node) -> None:
    """Commit or roll back the storages that a node was to change."""
    for reference, value in node.arrays:
        array = reference()
        if array is not None:
            array.settle(value)
