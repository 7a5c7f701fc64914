"""Where a long lazy graph is cut, so that the pieces of loops are alike; pure.

Cut after a fixed number of nodes, the graph of a loop is cut within another operation
of its step whenever the loop has another length, and each place needs kernels of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..ir.lazy_graph import Node, NodeSignature

MIN_REPEATS = 8
"""Nodes of one signature from which it is taken for one of a loop's step."""


def cut_place(nodes: Sequence[Node]) -> int:
    """Return how many of the pending nodes to submit, the others being the newest.

    It is at the same place of the step that the graph ends with, whatever the number of
    steps: before the first node of it with a signature that the nodes before the loop
    have not, and with a kernel of its own if there are such. All nodes, if the last
    quarter repeats nothing.
    """
    places: dict[NodeSignature, list[int]] = {}
    for place, node in enumerate(nodes):
        places.setdefault(node.signature, []).append(place)
    earliest = len(nodes) - len(nodes) // 4
    repeated = [
        (not signature.op.is_elementwise, found[0], found)
        for signature, found in places.items()
        if len(found) >= MIN_REPEATS and found[-1] >= earliest
    ]
    if not repeated:
        return len(nodes)
    own, first, newest = max(repeated)
    step = newest[-1] - newest[-2]
    return min(
        (start, found[-1])
        for kernel, start, found in repeated
        if kernel is own and first - step < start and newest[-1] - step < found[-1]
    )[1]
