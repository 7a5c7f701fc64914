"""Rewrites of a lazy graph before it is divided into kernels; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..ir.lazy_graph import Node
from .cast_absorption import absorb_casts
from .layout_propagation import propagate_layouts
from .shape_alignment import align_shapes
from .unread_results import drop_unread_results


def rewritten(
    nodes: Sequence[Node], external: Collection[int], fuses: Callable[[Node], bool]
) -> Sequence[Node]:
    """Return nodes that make the same values, and more of which can be fused.

    Parameters
    ----------
    nodes : sequence of Node
        In recorded order.
    external : collection of int
        The `id` of values with external references.
    fuses : callable
        Whether what a node reads may be fused with it.
    """
    nodes = absorb_casts(drop_unread_results(nodes, external), external)
    nodes = propagate_layouts(nodes, external, fuses)
    return align_shapes(nodes, fuses)
