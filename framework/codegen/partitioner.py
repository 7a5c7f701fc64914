"""Which pending operations join one kernel; pure.

A unit is a list of operations that become one kernel: element-wise ones of one shape;
or reductions of the rows of one shape, with element-wise ones of that shape and of its
rows. Operations come in recorded order, which is a valid execution order; joining keeps
it valid.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from ..base.shape import Layout, Shape
from .ir.reductions import is_row_shape

MAX_OPERATIONS = 64
MAX_MEMORY_OPERANDS = 24
MAX_REDUCTIONS = 4
MAX_PASSED = 160
"""Operations of rows times walks over them: all may be computed anew in each walk."""

# Why two units stay apart.
OWN_KERNEL = "one of them has a hand-written kernel"
SHAPES = "they walk over different shapes"
NARROW = "the device cannot write one of these small elements alone, which rows need"
OPERATIONS = f"together they have more than {MAX_OPERATIONS} operations"
OPERANDS = f"together they have more than {MAX_MEMORY_OPERANDS} operands and results"
REDUCTIONS = f"together they have more than {MAX_REDUCTIONS} reductions"
PASSED = f"together they have more than {MAX_PASSED} operations times walks over rows"
PLACES = "an element is read at another place than the one where it is made"
BETWEEN = "a kernel between them reads the first and is read by the second"
EARLIER = "other joins came first"
SWITCHED_OFF = "fusion was switched off"


@dataclass(frozen=True)
class Item:
    """One operation as the rules see it.

    Parameters
    ----------
    shape : Shape or None
        Iteration shape of an element-wise operation, or shape of what a reduction
        takes; None for every other one.
    reads : tuple of (int, Layout)
        Operations whose result it reads, and how.
    memory_operands : int
        Operands that are not results of other items, and its outputs.
    split : int or None
        Leading dimensions of `shape` that number the rows, if it reduces rows.
    alone : bool
        Whether one element of its result can be written alone.
    """

    shape: Shape | None
    reads: tuple[tuple[int, Layout], ...]
    memory_operands: int
    split: int | None = None
    alone: bool = True


@dataclass
class Unit:
    """Operations that run as one kernel, in order."""

    shape: Shape | None
    split: int | None
    alone: bool
    members: list[int] = field(default_factory=list)
    depends: set[int] = field(default_factory=set)
    memory_operands: int = 0
    reductions: int = 0


def group(items: list[Item]) -> list[list[int]]:
    """Partition operations into kernels.

    Returns
    -------
    list of list of int
        Kernels in execution order; each lists its operations in recorded order.
    """
    return _Grouping(items).run()


def boundaries(
    items: list[Item], groups: list[list[int]]
) -> list[tuple[int, int, str]]:
    """Return why kernels that read each other are not one.

    Parameters
    ----------
    items : list of Item
        Operations.
    groups : list of list of int
        What `group` made of them.

    Returns
    -------
    list of (int, int, str)
        For each kernel and each that it reads: the number of that one, its own, and
        the reason.
    """
    grouping = _Grouping(items)
    grouping.adopt(groups)
    return [
        (early, late, grouping.reason(early, late))
        for late in grouping.order
        for early in sorted(grouping.units[late].depends)
    ]


class _Grouping:
    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.units: dict[int, Unit] = {}
        self.order: list[int] = []
        self.unit_of: list[int] = []

    def run(self) -> list[list[int]]:
        for number, item in enumerate(self.items):
            unit = Unit(item.shape, item.split, item.alone, [number])
            unit.memory_operands = item.memory_operands
            unit.reductions = int(item.split is not None)
            unit.depends = {self.unit_of[read] for read, _ in item.reads}
            self.units[number] = unit
            self.order.append(number)
            self.unit_of.append(number)
            while self._join_one(number):
                pass
        return [sorted(self.units[key].members) for key in self.order]

    def adopt(self, groups: list[list[int]]) -> None:
        """Take units as they are, numbered from 0."""
        self.order = list(range(len(groups)))
        number_of = {at: number for number, unit in enumerate(groups) for at in unit}
        self.unit_of = [number_of[at] for at in range(len(self.items))]
        for number, members in enumerate(groups):
            given = [self.items[at] for at in members]
            lead = next((item for item in given if item.split is not None), given[0])
            alone = all(item.alone for item in given)
            unit = Unit(lead.shape, lead.split, alone, members)
            unit.memory_operands = sum(item.memory_operands for item in given)
            unit.reductions = sum(item.split is not None for item in given)
            reads = {number_of[read] for item in given for read, _ in item.reads}
            unit.depends = reads - {number}
            self.units[number] = unit

    def reason(self, early: int, late: int) -> str:
        """Return why two units stay apart, with their shapes if these differ."""
        first, second = self.units[early].shape, self.units[late].shape
        found = self._obstacle(early, late) or EARLIER
        return f"{found}: {first} and {second}" if found is SHAPES else found

    def _join_one(self, late: int) -> bool:
        """Join a unit with the latest of those that it reads, if any may join."""
        unit = self.units[late]
        if unit.shape is None:
            return False
        for early in sorted(unit.depends, key=self.order.index, reverse=True):
            if not self._obstacle(early, late):
                self._join(early, late)
                return True
        return False

    def _obstacle(self, early: int, late: int) -> str:
        """Return why two units may not join; empty if they may."""
        first, second = self.units[early], self.units[late]
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
        if not self._reads_fit(early, second, *space):
            return PLACES
        if self._can_rise(early, late) or self._can_sink(early, late):
            return ""
        return BETWEEN

    def _reads_fit(
        self, early: int, second: Unit, shape: Shape, split: int | None
    ) -> bool:
        """Whether all that one unit reads of the other one stays in an invocation."""
        return all(
            _stays(self.items[read], self.items[member], layout, shape, split)
            for member in second.members
            for read, layout in self.items[member].reads
            if self.unit_of[read] == early
        )

    def _can_rise(self, early: int, late: int) -> bool:
        """Whether `late` may run in the place of `early`."""
        place = self.order.index(early)
        others = self.units[late].depends - {early}
        return all(self.order.index(other) < place for other in others)

    def _can_sink(self, early: int, late: int) -> bool:
        """Whether `early` may run in the place of `late`: nothing between needs it."""
        between = self.order[self.order.index(early) + 1 : self.order.index(late)]
        return not any(early in self.units[other].depends for other in between)

    def _join(self, early: int, late: int) -> None:
        """Merge `early` into `late`, at whichever of the two places is valid."""
        rise = self._can_rise(early, late)
        first, second = self.units.pop(early), self.units[late]
        space = _joint_space(first, second)
        assert space is not None
        second.shape, second.split = space
        second.members += first.members
        second.depends = (second.depends | first.depends) - {early}
        second.alone &= first.alone
        second.memory_operands += first.memory_operands
        second.reductions += first.reductions
        for member in first.members:
            self.unit_of[member] = late
        if rise:
            self.order.remove(late)
            self.order[self.order.index(early)] = late
        else:
            self.order.remove(early)
        for other in self.units.values():
            if early in other.depends:
                other.depends.remove(early)
                other.depends.add(late)


def _joint_space(first: Unit, second: Unit) -> tuple[Shape, int | None] | None:
    """Return the shape and the split that two units have together, if they have."""
    if first.shape is None or second.shape is None:
        return None
    if first.split is None and second.split is None:
        return (first.shape, None) if first.shape == second.shape else None
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


def _space_obstacle(first: Unit, second: Unit) -> str:
    """Return why two units have no shape together."""
    if first.shape is None or second.shape is None:
        return OWN_KERNEL
    rows = first.split is not None or second.split is not None
    return NARROW if rows and not (first.alone and second.alone) else SHAPES


def _stays(
    source: Item, reader: Item, layout: Layout, shape: Shape, split: int | None
) -> bool:
    """Whether an element read is one that the same invocation made."""
    of_row = source.split is not None or source.shape != shape
    for_row = reader.split is None and reader.shape != shape
    if not of_row:
        return not for_row and layout == Layout.contiguous(shape)
    if for_row:
        return layout.is_contiguous and layout.offset == 0
    return is_broadcast_row(layout, split or 0)


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
