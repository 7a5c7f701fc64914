"""Blocks of loops' steps, so that loops of any length have the same kernels; pure.

A sum of many gradients, or a recurrence, is a chain: the same operations again and
again, each time over the last result and something new. As one kernel, or as kernels
that are full, it would have a kernel of its own for each length. Blocks of few sizes
keep a program that repeats its steps another number of times from compiling. A replay
always has the same number, and is not divided, unless its function was traced with
several.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .partitioner import FusionNode

BLOCKS = (16, 4, 1)
"""Steps in a kernel, the largest first."""

MIN_STEPS = 5
"""Steps from which a chain is divided; shorter ones have few kernels in any case."""

MAX_PERIOD = 3
"""Operations in a row that may make a step."""

MAX_DEPTH = 4
"""Operations between a step and the memory that it reads."""


@dataclass(eq=False)
class _Chain:
    """Chain: steps that apply the same operations to the last result.

    Attributes
    ----------
    path : tuple of object
        Kinds of a step's nodes, once there is a second one.
    steps : int
        Nodes in it.
    continues : bool
        Whether it seems to continue one of an earlier graph, which was cut.
    """

    path: tuple[object, ...] = ()
    steps: int = 1
    continues: bool = False

    @property
    def divided(self) -> bool:
        """Whether it is divided into blocks."""
        return self.continues or self.steps >= MIN_STEPS


class _Place:
    """Place of a node in its chain."""

    __slots__ = ("chain", "sources", "step")

    def __init__(self, chain: _Chain, step: int, sources: set[int]) -> None:
        self.chain = chain
        self.step = step
        self.sources = sources


def blocks_of_steps(fusion_nodes: Sequence[FusionNode]) -> dict[int, tuple[int, int]]:
    """Return the chain and the block of each node that ends a step of a chain.

    Parameters
    ----------
    fusion_nodes : sequence of FusionNode
        Nodes, each after what it reads.

    Returns
    -------
    dict of int to (int, int)
        By number of the node. Nodes of one chain and of different blocks are not to
        run in one kernel. Empty if no chain is long.
    """
    places: dict[int, _Place] = {}
    for number, node in enumerate(fusion_nodes):
        if node.kind is not None and node.reads:
            path = _path_to_last_step(fusion_nodes, number)
            if path:
                _add_step(fusion_nodes, places, path)
    blocks: dict[_Chain, list[int]] = {}
    return {
        number: (id(place.chain), _block_of(place.step, place.chain, blocks))
        for number, place in places.items()
        if place.chain.divided
    }


def _path_to_last_step(nodes: Sequence[FusionNode], number: int) -> list[int]:
    """Return a node and those above it, to the nearest one of its kind; or nothing."""
    kind, shape = nodes[number].kind, nodes[number].shape
    paths = [[number]]
    for _ in range(MAX_PERIOD):
        longer = []
        for path in paths:
            for read, _ in nodes[path[-1]].reads:
                if nodes[read].kind is kind:
                    return [*path, read]
                if nodes[read].shape == shape and nodes[read].split is None:
                    longer.append([*path, read])
        paths = longer
    return []


def _add_step(
    nodes: Sequence[FusionNode], places: dict[int, _Place], path: list[int]
) -> None:
    """Add a step to the chain of the step before, if it reads something new."""
    number, before = path[0], path[-1]
    sources = {
        source
        for node, inside in itertools.pairwise(path)
        for source in _sources(nodes, node, inside)
    }
    last = places.get(before)
    if last is None:
        continues = len(path) == 2 and _adds_to_former(nodes, before)
        last = _Place(_Chain(continues=continues), 0, set())
    kinds = tuple([nodes[each].kind for each in path[:-1]])
    chain = last.chain
    if sources <= last.sources or chain.path not in ((), kinds):
        return
    places[before] = last
    chain.path = kinds
    chain.steps = max(chain.steps, last.step + 2)
    places[number] = _Place(chain, last.step + 1, sources)


def _adds_to_former(nodes: Sequence[FusionNode], number: int) -> bool:
    """Return whether a node takes a value from outside, and results of kernels."""
    node = nodes[number]
    own = [nodes[read].shape is None or nodes[read].split for read, _ in node.reads]
    return len(node.external_reads) == 1 and bool(own) and all(own)


def _sources(
    nodes: Sequence[FusionNode], number: int, apart: int, depth: int = 0
) -> Iterator[int]:
    """Return what a node reads from memory, but for what it reads through another.

    Values from outside have numbers below 0.
    """
    node = nodes[number]
    for value in node.external_reads:
        yield -1 - value
    for read, _ in node.reads:
        if read == apart:
            continue
        if nodes[read].shape is None or depth == MAX_DEPTH:
            yield read
        else:
            yield from _sources(nodes, read, apart, depth + 1)


def _block_of(step: int, chain: _Chain, known: dict[_Chain, list[int]]) -> int:
    """Return the block of a step.

    The last one is alone, with what uses the result; and so is the first one of a chain
    that continues another, whose result it may overwrite.
    """
    found = known.get(chain)
    if found is None:
        sizes = [1] if chain.continues else []
        left = chain.steps - len(sizes) - 1
        for size in BLOCKS:
            count, left = divmod(left, size)
            sizes += [size] * count
        sizes.append(1)
        found = [block for block, size in enumerate(sizes) for _ in range(size)]
        known[chain] = found
    return found[step]
