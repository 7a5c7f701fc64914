"""Which pending operations join one element-wise kernel; pure.

A unit is a list of operations that become one kernel. Operations come in recorded
order, which is a valid execution order; joining keeps it valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..shape import Shape

MAX_OPERATIONS = 64
MAX_MEMORY_OPERANDS = 24


@dataclass(frozen=True)
class Item:
    """One operation as the rules see it.

    Parameters
    ----------
    shape : Shape or None
        Iteration shape of an element-wise operation; None for every other one.
    reads : tuple of (int, bool)
        Operations whose result it reads, and whether it reads it element by element in
        row-major order of the same shape.
    memory_operands : int
        Operands that are not results of other items, and its outputs.
    """

    shape: Shape | None
    reads: tuple[tuple[int, bool], ...]
    memory_operands: int


@dataclass
class Unit:
    """Operations that run as one kernel, in order."""

    shape: Shape | None
    members: list[int] = field(default_factory=list)
    depends: set[int] = field(default_factory=set)
    apart: set[int] = field(default_factory=set)
    memory_operands: int = 0


def group(items: list[Item]) -> list[list[int]]:
    """Partition operations into kernels.

    Returns
    -------
    list of list of int
        Kernels in execution order; each lists its operations in recorded order.
    """
    units: dict[int, Unit] = {}
    order: list[int] = []
    unit_of: list[int] = []
    for number, item in enumerate(items):
        unit = Unit(item.shape, [number], memory_operands=item.memory_operands)
        joinable = set()
        for read, aligned in item.reads:
            source = unit_of[read]
            unit.depends.add(source)
            if aligned and item.shape is not None:
                joinable.add(source)
            if not aligned:
                unit.apart.add(source)
        units[number] = unit
        order.append(number)
        unit_of.append(number)
        for other in sorted(joinable, key=order.index, reverse=True):
            if _may_join(units, order, other, number):
                _join(units, order, unit_of, other, number)
    return [sorted(units[key].members) for key in order]


def _may_join(units: dict[int, Unit], order: list[int], early: int, late: int) -> bool:
    first, second = units[early], units[late]
    if first.shape != second.shape or early in second.apart:
        return False
    if len(first.members) + len(second.members) > MAX_OPERATIONS:
        return False
    if first.memory_operands + second.memory_operands > MAX_MEMORY_OPERANDS:
        return False
    return _can_rise(units, order, early, late) or _can_sink(units, order, early, late)


def _can_rise(units: dict[int, Unit], order: list[int], early: int, late: int) -> bool:
    """Whether `late` may run in the place of `early`."""
    place = order.index(early)
    return all(
        order.index(other) < place for other in units[late].depends if other != early
    )


def _can_sink(units: dict[int, Unit], order: list[int], early: int, late: int) -> bool:
    """Whether `early` may run in the place of `late`: nothing between needs it."""
    between = order[order.index(early) + 1 : order.index(late)]
    return not any(early in units[other].depends for other in between)


def _join(
    units: dict[int, Unit],
    order: list[int],
    unit_of: list[int],
    early: int,
    late: int,
) -> None:
    """Merge `early` into `late`, at whichever of the two places is valid."""
    rise = _can_rise(units, order, early, late)
    first, second = units.pop(early), units[late]
    second.members += first.members
    second.depends = (second.depends | first.depends) - {early}
    second.apart |= first.apart
    second.memory_operands += first.memory_operands
    for member in first.members:
        unit_of[member] = late
    if rise:
        order.remove(late)
        order[order.index(early)] = late
    else:
        order.remove(early)
    for other in units.values():
        for names in (other.depends, other.apart):
            if early in names:
                names.remove(early)
                names.add(late)
