"""Partitioner of the lazy graph into kernel groups; pure.

A kernel group is a list of nodes that become one kernel: element-wise ones of one
shape; or reductions of the rows of one shape, with element-wise ones of that shape and
of its rows. Nodes come in recorded order, which is a valid execution order; fusion
keeps it valid.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..base.shape import Layout, Shape
from .ir.reductions import is_row_shape
from .repeated_steps import blocks_of_steps

MAX_OPERATIONS = 64
MAX_MEMORY_OPERANDS = 24
MAX_REDUCTIONS = 4
MAX_PASSED = 160
"""Limit of per-row nodes times passes: every pass may recompute all of them."""

# Reasons why two kernel groups are not fused.
OWN_KERNEL = "one of them has a hand-written kernel"
SHAPES = "they walk over different shapes"
NARROW = "the device cannot write one of these small elements alone, which rows need"
OPERATIONS = f"together they have more than {MAX_OPERATIONS} operations"
OPERANDS = f"together they have more than {MAX_MEMORY_OPERANDS} operands and results"
REDUCTIONS = f"together they have more than {MAX_REDUCTIONS} reductions"
PASSED = f"together they have more than {MAX_PASSED} operations times walks over rows"
PLACES = "an element is read at another place than the one where it is made"
BETWEEN = "a kernel between them reads the first and is read by the second"
STEPS = "they are steps of a loop, which has kernels of the same sizes at any length"
EARLIER = "other joins came first"
SWITCHED_OFF = "fusion was switched off"


class FusionNode(NamedTuple):
    """Node as the partitioner sees it.

    Attributes
    ----------
    shape : Shape or None
        Iteration shape of an element-wise node, or input shape of a reduction; None
        for every other one.
    reads : tuple of (int, Layout)
        Nodes whose result it reads, and through which layout.
    memory_operands : int
        Operands that are not results of other nodes, and its outputs.
    split : int or None
        Leading dimensions of `shape` that number the rows, if it reduces rows.
    alone : bool
        Whether one element of its result can be written alone.
    external_reads : tuple of int
        Values from outside that it reads, by number from 0.
    kind : hashable or None
        The same object for nodes that compute the same, by which steps of a loop are
        found; None is never one.
    """

    shape: Shape | None
    reads: tuple[tuple[int, Layout], ...]
    memory_operands: int
    split: int | None = None
    alone: bool = True
    external_reads: tuple[int, ...] = ()
    kind: Hashable | None = None


@dataclass(slots=True)
class KernelGroup:
    """Kernel group: nodes that run as one kernel, in order.

    `blocks` are those of loops' steps in it, by their chain: `repeated_steps`.
    """

    shape: Shape | None
    split: int | None
    alone: bool
    members: list[int]
    depends: set[int]
    memory_operands: int
    reductions: int
    blocks: dict[int, int]


def group(
    fusion_nodes: Sequence[FusionNode],
    *,
    reductions: bool = True,
    siblings: bool = False,
) -> list[list[int]]:
    """Partition nodes into kernel groups.

    Parameters
    ----------
    fusion_nodes : sequence of FusionNode
        Operations, each after what it reads.
    reductions : bool, default True
        Whether reductions may join other operations.
    siblings : bool, default False
        Whether kernels that read a common value join too (horizontal fusion). The
        scheduler fuses launches of one program instead: `ir.horizontal`.

    Returns
    -------
    list of list of int
        Kernel groups in execution order; each lists its nodes in recorded order.
    """
    if not reductions:
        fusion_nodes = [
            node if node.split is None else node._replace(shape=None, split=None)
            for node in fusion_nodes
        ]
    grouping = _Grouping(fusion_nodes)
    grouping.join_producers()
    if siblings:
        grouping.join_siblings()
    return grouping.kernels()


def boundaries(
    fusion_nodes: Sequence[FusionNode], groups: list[list[int]]
) -> list[tuple[int, int, str]]:
    """Return why dependent kernel groups are not fused.

    Parameters
    ----------
    fusion_nodes : sequence of FusionNode
        Nodes.
    groups : list of list of int
        Result of `group`.

    Returns
    -------
    list of (int, int, str)
        For each group and each that it reads: the number of that one, its own, and
        the reason.
    """
    grouping = _Grouping(fusion_nodes)
    grouping.adopt(groups)
    return [
        (early, late, grouping.reason(early, late))
        for late in grouping.order
        for early in sorted(grouping.kernel_groups[late].depends)
    ]


class _Grouping:
    """Kernel groups so far.

    Attributes
    ----------
    kernel_groups : dict of int to KernelGroup
        By number.
    place : dict of int to int
        Position of each group in the execution order. A group that joins another takes
        one of the two positions, so that none is ever numbered anew.
    readers : dict of int to set of int
        Groups that depend on each.
    group_of : list of int
        Group of each node.
    block_of : dict of int to (int, int)
        Chain and block of nodes that are steps of a loop.
    """

    def __init__(self, fusion_nodes: Sequence[FusionNode]) -> None:
        self.fusion_nodes = fusion_nodes
        self.block_of = blocks_of_steps(fusion_nodes)
        self.kernel_groups: dict[int, KernelGroup] = {}
        self.place: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}
        self.group_of: list[int] = []

    @property
    def order(self) -> list[int]:
        """Groups in execution order."""
        return sorted(self.place, key=self.place.__getitem__)

    def join_producers(self) -> None:
        """Join each operation with those that it reads, in recorded order."""
        for number, node in enumerate(self.fusion_nodes):
            shape, reads, memory_operands, split, alone, _, _ = node
            depends = {self.group_of[read] for read, _ in reads}
            self.group_of.append(number)
            block = self.block_of.get(number)
            blocks = {} if block is None else {block[0]: block[1]}
            reductions = int(split is not None)
            self._add(
                number,
                KernelGroup(
                    *(shape, split, alone, [number]),
                    *(depends, memory_operands, reductions, blocks),
                ),
            )
            while shape is not None and self._join_one(number):
                pass

    def _add(self, number: int, kernel_group: KernelGroup) -> None:
        """Add a group at the position of its number."""
        self.kernel_groups[number] = kernel_group
        self.place[number] = number
        readers = self.readers
        readers[number] = set()
        for source in kernel_group.depends:
            readers[source].add(number)

    def join_siblings(self) -> None:
        """Join units that read a common value from memory (horizontal fusion)."""
        for late in list(self.order):
            while self._join_sibling(late):
                pass

    def kernels(self) -> list[list[int]]:
        """Return the members of each unit, in execution order."""
        return [sorted(self.kernel_groups[key].members) for key in self.order]

    def adopt(self, groups: list[list[int]]) -> None:
        """Take kernel groups as they are, numbered from 0."""
        number_of = {
            at: number
            for number, kernel_group in enumerate(groups)
            for at in kernel_group
        }
        self.group_of = [number_of[at] for at in range(len(self.fusion_nodes))]
        for number, members in enumerate(groups):
            given = [self.fusion_nodes[at] for at in members]
            lead = next((node for node in given if node.split is not None), given[0])
            alone = all(node.alone for node in given)
            operands = sum(node.memory_operands for node in given)
            reductions = sum(node.split is not None for node in given)
            blocks = dict([self.block_of[at] for at in members if at in self.block_of])
            reads = {number_of[read] for node in given for read, _ in node.reads}
            self._add(
                number,
                KernelGroup(
                    *(lead.shape, lead.split, alone, members),
                    *(reads - {number}, operands, reductions, blocks),
                ),
            )

    def reason(self, early: int, late: int) -> str:
        """Return why two groups are not fused, with their shapes if these differ."""
        first, second = self.kernel_groups[early].shape, self.kernel_groups[late].shape
        found = self._obstacle(early, late) or EARLIER
        return f"{found}: {first} and {second}" if found is SHAPES else found

    def _join_one(self, late: int) -> bool:
        """Fuse a group with the latest of its producers, if any may be fused."""
        groups = self.kernel_groups
        fusible = [
            each for each in groups[late].depends if groups[each].shape is not None
        ]
        if len(fusible) > 1:
            fusible.sort(key=self.place.__getitem__, reverse=True)
        for early in fusible:
            if not self._obstacle(early, late):
                self._join(early, late)
                return True
        return False

    def _join_sibling(self, late: int) -> bool:
        """Join a unit with the earliest sibling before it, if there is one."""
        reads = self._memory_reads(late)
        order = self.order
        for early in order[: order.index(late)]:
            if reads & self._memory_reads(early) and not self._obstacle(early, late):
                self._join(early, late)
                return True
        return False

    def _memory_reads(self, number: int) -> set[tuple[bool, int]]:
        """Return what a unit reads from memory: whether from outside, and which."""
        members = [self.fusion_nodes[at] for at in self.kernel_groups[number].members]
        external = {(True, read) for node in members for read in node.external_reads}
        return external | {
            (False, read)
            for node in members
            for read, _ in node.reads
            if self.group_of[read] != number
        }

    def _obstacle(self, early: int, late: int) -> str:
        """Return why two groups may not be fused; empty if they may."""
        first, second = self.kernel_groups[early], self.kernel_groups[late]
        space = _joint_space(first, second)
        if space is None:
            return _space_obstacle(first, second)
        members = len(first.members) + len(second.members)
        reductions = first.reductions + second.reductions
        if members > MAX_OPERATIONS:
            return OPERATIONS
        if first.memory_operands + second.memory_operands > MAX_MEMORY_OPERANDS:
            return OPERANDS
        if reductions > MAX_REDUCTIONS:
            return REDUCTIONS
        if reductions and members * (reductions + 1) > MAX_PASSED:
            return PASSED
        if first.blocks and second.blocks and _blocks_differ(first, second):
            return STEPS
        if not self._reads_fit(early, second, *space):
            return PLACES
        if self._can_rise(early, late) or self._can_sink(early, late):
            return ""
        return BETWEEN

    def _reads_fit(
        self, early: int, second: KernelGroup, shape: Shape, split: int | None
    ) -> bool:
        """Whether all that one group reads of the other stays within an invocation."""
        nodes, group_of = self.fusion_nodes, self.group_of
        plain = Layout.contiguous(shape)
        for member in second.members:
            for read, layout in nodes[member].reads:
                if group_of[read] != early:
                    continue
                if split is None:  # Then all nodes are element-wise, and of this shape.
                    if layout is not plain and layout != plain:
                        return False
                elif not _stays(nodes[read], nodes[member], layout, shape, split):
                    return False
        return True

    def _can_rise(self, early: int, late: int) -> bool:
        """Whether `late` may move up to `early`: nothing between is its producer."""
        place = self.place
        first = place[early]
        for other in self.kernel_groups[late].depends:
            if place[other] > first:
                return False
        return True

    def _can_sink(self, early: int, late: int) -> bool:
        """Whether `early` may move down to `late`: nothing between reads it."""
        place = self.place
        first, last = place[early], place[late]
        return not any(first < place[other] < last for other in self.readers[early])

    def _join(self, early: int, late: int) -> None:
        """Merge `early` into `late`, at whichever of the two positions is valid."""
        rise = self._can_rise(early, late)
        first, second = self.kernel_groups.pop(early), self.kernel_groups[late]
        space = _joint_space(first, second)
        assert space is not None
        second.shape, second.split = space
        second.members += first.members
        second.alone &= first.alone
        second.memory_operands += first.memory_operands
        second.reductions += first.reductions
        second.blocks |= first.blocks
        for member in first.members:
            self.group_of[member] = late
        place = self.place.pop(early)
        if rise:
            self.place[late] = place
        for source in first.depends:
            self.readers[source].remove(early)
            self.readers[source].add(late)
        readers = self.readers.pop(early)
        for other in readers:
            depends = self.kernel_groups[other].depends
            depends.remove(early)
            if other != late:
                depends.add(late)
        self.readers[late] |= readers - {late}
        second.depends |= first.depends


def _blocks_differ(first: KernelGroup, second: KernelGroup) -> bool:
    """Return whether groups have steps of one loop that are in different blocks."""
    blocks = second.blocks
    return any(
        blocks.get(chain, block) != block for chain, block in first.blocks.items()
    )


def _joint_space(
    first: KernelGroup, second: KernelGroup
) -> tuple[Shape, int | None] | None:
    """Return the common shape and split of two groups, if they have one."""
    if first.shape is None or second.shape is None:
        return None
    if first.split is None and second.split is None:
        same = first.shape is second.shape or first.shape == second.shape
        return (first.shape, None) if same else None
    if not (first.alone and second.alone):
        return None
    whole, other = (second, first) if first.split is None else (first, second)
    assert whole.shape is not None
    assert whole.split is not None
    assert other.shape is not None
    if other.split is not None:
        same = (other.shape, other.split) == (whole.shape, whole.split)
        return (whole.shape, whole.split) if same else None
    fits = other.shape == whole.shape
    fits = fits or is_row_shape(other.shape, whole.shape, whole.split)
    return (whole.shape, whole.split) if fits else None


def _space_obstacle(first: KernelGroup, second: KernelGroup) -> str:
    """Return why two groups have no common shape."""
    if first.shape is None or second.shape is None:
        return OWN_KERNEL
    rows = first.split is not None or second.split is not None
    return NARROW if rows and not (first.alone and second.alone) else SHAPES


def _stays(
    source: FusionNode,
    reader: FusionNode,
    layout: Layout,
    shape: Shape,
    split: int,
) -> bool:
    """Whether each element is read by the invocation that computes it."""
    of_row = source.split is not None or source.shape != shape
    for_row = reader.split is None and reader.shape != shape
    if not of_row:
        return not for_row and layout == Layout.contiguous(shape)
    if for_row:
        return layout.is_contiguous and layout.offset == 0
    return is_broadcast_row(layout, split)


def is_broadcast_row(layout: Layout, split: int) -> bool:
    """Whether each row of a layout is one element, in row-major order from the first.

    Parameters
    ----------
    layout : Layout
    split : int
        Leading dimensions that number the rows.
    """
    rows = Layout(layout.shape[:split], layout.strides[:split])
    inner = itertools.islice(zip(layout.shape, layout.strides), split, None)
    broadcast = all(size == 1 or stride == 0 for size, stride in inner)
    return layout.offset == 0 and broadcast and rows.is_contiguous
