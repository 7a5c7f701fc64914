"""Partition of a hand-built graph into kernels: three rules, on numbers alone.

1. Dependent element-wise nodes of one shape share a kernel.
2. So do reductions of that shape, with the element-wise nodes on their results that
   lead back to it: softmax and norms become one kernel.
3. Independent kernels of one shape that read a common value are fused horizontally.

Two kernels are fused only if an execution order remains.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.shape import Shape
from ..codegen.partitioner import MAX_OPERATIONS

Space = tuple[Shape, Shape | None]
"""Iteration space of a kernel, and the shape of its reductions' results."""


@dataclass(frozen=True)
class PartitionNode:
    """Node as the rules see it.

    Parameters
    ----------
    space : Space or None
        None for a node that always is a kernel of its own.
    reads : tuple of int
        Earlier nodes, by number; negative numbers are values from outside.
    """

    space: Space | None
    reads: tuple[int, ...]


def partition(
    steps: Sequence[PartitionNode], *, reductions: bool = True, siblings: bool = True
) -> list[list[int]]:
    """Return the kernels in an execution order; members in order.

    Parameters
    ----------
    steps : sequence of PartitionNode
        The nodes, each after its inputs.
    reductions, siblings : bool, default True
        Whether rules 2 and 3 apply.
    """
    kernels = _Kernels(steps, reductions)
    kernels.join_readers()
    if siblings:
        kernels.join_siblings()
    kernels.split_tails()
    return kernels.in_order()


class _Kernels:
    """Kernels of a partition: sets of nodes, by the number of their kernel."""

    def __init__(self, steps: Sequence[PartitionNode], reductions: bool) -> None:
        self.steps = steps
        self.reductions = reductions
        self.kernel_of = list(range(len(steps)))
        self.members = {number: [number] for number in range(len(steps))}

    def join_readers(self) -> None:
        """Fuse kernels with their producers, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for number, step in enumerate(self.steps):
                for read in step.reads:
                    if read >= 0:
                        changed |= self._try(
                            self.kernel_of[read], self.kernel_of[number]
                        )

    def join_siblings(self) -> None:
        """Fuse kernels of one space that read a common value (horizontal fusion)."""
        for first, second in itertools.combinations(list(self.members), 2):
            if first in self.members and second in self.members:
                if self._outside(first) & self._outside(second):
                    self._try(first, second)

    def split_tails(self) -> None:
        """Split off nodes after reductions that do not lead back to the whole shape."""
        for kernel in list(self.members):
            space = self._space(kernel)
            if space is None or space[1] is None:
                continue
            whole = space[0]
            needed: set[int] = set()
            for number in reversed(self.members[kernel]):
                own = self.steps[number].space
                assert own is not None
                if own[0] == whole or number in needed:
                    needed.update(self.steps[number].reads)
            tail = [
                number
                for number in self.members[kernel]
                if self.steps[number].space != space
                and self.steps[number].space != (whole, None)
                and number not in needed
            ]
            rest = [number for number in self.members.pop(kernel) if number not in tail]
            for group in (*([number] for number in tail), rest):
                self.members.update({group[0]: group} if group else {})
                self.kernel_of = [
                    group[0] if number in group else before
                    for number, before in enumerate(self.kernel_of)
                ]
            for number in tail:
                for read in self.steps[number].reads:
                    if read in tail:
                        self._try(self.kernel_of[read], self.kernel_of[number])

    def in_order(self) -> list[list[int]]:
        """Return the kernels in an execution order."""
        order: list[list[int]] = []
        done: set[int] = set()
        waiting = sorted(self.members, key=lambda kernel: self.members[kernel][0])
        while waiting:
            ready = next(k for k in waiting if self._reads(k) <= done)
            waiting.remove(ready)
            done.add(ready)
            order.append(self.members[ready])
        return order

    def _try(self, first: int, second: int) -> bool:
        """Fuse two kernels if they may be."""
        if first == second or self._joint(first, second) is None:
            return False
        if len(self.members[first]) + len(self.members[second]) > MAX_OPERATIONS:
            return False
        if self._reaches(first, second) or self._reaches(second, first):
            return False
        self.members[first] = sorted(self.members[first] + self.members.pop(second))
        for number in self.members[first]:
            self.kernel_of[number] = first
        return True

    def _space(self, kernel: int) -> Space | None:
        """Return the widest space of a kernel's members."""
        spaces = [self.steps[number].space for number in self.members[kernel]]
        found = [space for space in spaces if space is not None]
        return max(found, key=_width) if found else None

    def _joint(self, first: int, second: int) -> Space | None:
        """Return the common space of two kernels, if there is one."""
        a, b = self._space(first), self._space(second)
        if a is None or b is None:
            return None
        if a[1] is None and b[1] is None:
            return a if a == b else None
        if not self.reductions:
            return None
        whole, other = (a, b) if _width(a) >= _width(b) else (b, a)
        return whole if other in (whole, (whole[0], None), (whole[1], None)) else None

    def _reads(self, kernel: int) -> set[int]:
        """Return the producers of a kernel."""
        return {
            self.kernel_of[read]
            for number in self.members[kernel]
            for read in self.steps[number].reads
            if read >= 0 and self.kernel_of[read] != kernel
        }

    def _outside(self, kernel: int) -> set[int]:
        """Return the values that a kernel loads from memory."""
        members = self.members[kernel]
        reads = (read for number in members for read in self.steps[number].reads)
        return {read for read in reads if read not in members}

    def _reaches(self, late: int, early: int) -> bool:
        """Whether `late` depends on `early` through a third kernel."""
        pending = self._reads(late) - {early}
        seen: set[int] = set()
        while pending:
            kernel = pending.pop()
            if kernel == early:
                return True
            if kernel not in seen:
                seen.add(kernel)
                pending |= self._reads(kernel)
        return False


def _width(space: Space) -> tuple[bool, int]:
    """Return the sort key of spaces: those with reductions, then the longer shapes."""
    size = 1
    for extent in space[0]:
        size *= extent
    return space[1] is not None, size
