"""Where a long lazy graph is cut, so that its pieces come again; pure.

Cut after a fixed number of nodes, the graph of a loop is cut within another operation
of its step whenever the loop has another length, or other nodes are before it, and each
place needs a plan, and kernels, of its own.
"""

from __future__ import annotations

import functools
import zlib
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
    have not, and with a kernel of its own if there are such. If the last quarter
    repeats nothing, it is where `cut_by_content` says.
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
        return cut_by_content(nodes)
    own, first, newest = max(repeated)
    step = newest[-1] - newest[-2]
    return min(
        (start, found[-1])
        for kernel, start, found in repeated
        if kernel is own and first - step < start and newest[-1] - step < found[-1]
    )[1]


def cut_by_content(nodes: Sequence[Node]) -> int:
    """Return a place in the second half that depends on the nodes there alone.

    Before the node of the highest rank, the last one of these; so whatever was pending
    before, the same nodes are soon cut at the same places, as in content-defined
    chunking (Muthitacharoen et al., "A low-bandwidth network file system", 2001).
    """
    half = (len(nodes) + 1) // 2
    ranks = [(_rank(nodes[at].signature), at) for at in range(half, len(nodes))]
    return max(ranks)[1] if ranks else len(nodes)


@functools.lru_cache(maxsize=4096)
def _rank(signature: NodeSignature) -> tuple[bool, int]:
    """Return a number for a signature, the same in each process.

    Higher for ops with kernels of their own: a cut before one seldom parts what is
    fused.
    """
    content = signature.op.name, [layout.shape for layout in signature.operands]
    return not signature.op.is_elementwise, zlib.crc32(repr(content).encode())
