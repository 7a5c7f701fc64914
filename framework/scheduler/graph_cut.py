"""Where a long lazy graph is cut, so that the pieces of loops are alike; pure.

Cut after a fixed number of nodes, the graph of a loop is cut within another operation
of its step whenever the loop has another length, and each place needs kernels of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..ir.lazy_graph import Node, NodeSignature

MIN_REPEATS = 8
"""Nodes of one signature from which it is taken for one of a loop's step."""


def cut_place(nodes: Sequence[Node]) -> int:
    """Return how many of the pending nodes to submit, the others being the newest.

    It is before a node of the step that the graph ends with, the same one whatever the
    number of steps: of the signature that appeared last, among those of hand-written
    kernels if there are any. All nodes, if the last quarter repeats nothing.
    """
    counts: Counter[NodeSignature] = Counter()
    first: dict[NodeSignature, int] = {}
    last: dict[NodeSignature, int] = {}
    for place, node in enumerate(nodes):
        signature = node.signature
        counts[signature] += 1
        first.setdefault(signature, place)
        last[signature] = place
    earliest = len(nodes) - len(nodes) // 4
    repeated = [
        (not signature.op.is_elementwise, first[signature], last[signature])
        for signature, count in counts.items()
        if count >= MIN_REPEATS and last[signature] >= earliest
    ]
    return max(repeated)[-1] if repeated else len(nodes)
