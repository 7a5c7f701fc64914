"""Rematerialisation: values a kernel recomputes instead of reading; pure.

A backward pass reads saved tensors. Where one is cheap to recompute from values that
are in memory anyway, doing so moves fewer bytes: the value is not read, and not written
either if nothing else reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..base.shape import Layout, Shape
from ..ir.lazy_graph import Node, NodeSignature
from .partitioner import MAX_MEMORY_OPERANDS, MAX_OPERATIONS

MAX_REMATERIALISED = 8
"""Most nodes that one kernel rematerialises of one other."""


class Read(NamedTuple):
    """Read of an operand: its node, negative if from outside, and its bytes."""

    source: int
    size: int
    in_order: bool
    """Whether it is read element by element, in the order of its kernel."""


class Operation(NamedTuple):
    """Node as rematerialisation sees it.

    Attributes
    ----------
    shape : Shape or None
        Shape of an element-wise node; None for every other one.
    cheap : bool
        Whether it may be rematerialised.
    size : int
        Bytes of its result.
    external : bool
        Whether the result has external references.
    reads : tuple of Read
    product : bool
        Whether its result may go to an epilogue.
    """

    shape: Shape | None
    cheap: bool
    size: int
    external: bool
    reads: tuple[Read, ...]
    product: bool = False


def is_cheap(glsl: str | None) -> bool:
    """Whether an expression has neither calls, other than `bool`, nor divisions."""
    return glsl is not None and not _CALLS.search(glsl.replace("bool(", ""))


_CALLS = re.compile(r"\w\(|/")


def rematerialised(
    operations: Mapping[int, Operation], kernel_groups: Sequence[Sequence[int]]
) -> dict[int, list[int]]:
    """Return the nodes rematerialised in each kernel, by its first node.

    Parameters
    ----------
    operations : mapping of int to Operation
        By number, in an order in which they may run.
    kernel_groups : sequence of sequence of int
        Nodes of each kernel.
    """
    return _Rematerialiser(operations, kernel_groups).made()


def operations_of(
    nodes: Sequence[Node],
    numbers: Sequence[int],
    sources: Sequence[Sequence[int]],
    external: Sequence[int],
) -> dict[int, Operation]:
    """Return the nodes of these numbers as rematerialisation sees them.

    Parameters
    ----------
    nodes : sequence of Node
    numbers : sequence of int
        Those to return.
    sources : sequence of sequence of int
        For each input of a node the node that makes it, or a number below 0 of a value
        from outside.
    external : sequence of int
        How many of each node's results have external references.
    """
    operations = {}
    known: dict[NodeSignature, tuple[Operation, list[bool]]] = {}
    for number in numbers:
        node = nodes[number]
        signature = node.signature
        found = known.get(signature)
        if found is None:
            found = known[signature] = _without_values(signature)
        (shape, cheap, size, _, _, product), in_order = found
        reads = [
            Read(source, value.numel * value.dtype.itemsize, plain)
            for source, value, plain in zip(sources[number], node.values, in_order)
        ]
        operations[number] = Operation(
            shape, cheap, size, external[number] > 0, tuple(reads), product
        )
    return operations


def _without_values(signature: NodeSignature) -> tuple[Operation, list[bool]]:
    """Return what nodes of a signature share, and which operands are read in order."""
    op, operands = signature.op, signature.operands
    plain = op.is_elementwise
    size = sum(numel * dtype.itemsize for numel, dtype in signature.outputs)
    operation = Operation(
        signature.layouts[0].shape if plain else None,
        plain and is_cheap(op.glsl),
        size,
        external=False,
        reads=(),
        product=bool(op.epilogue_dims),
    )
    return operation, [each == Layout.contiguous(each.shape) for each in operands]


class _Rematerialiser:
    def __init__(
        self,
        operations: Mapping[int, Operation],
        kernel_groups: Sequence[Sequence[int]],
    ) -> None:
        self.operations = operations
        self.kernel_groups = kernel_groups
        self.group_of = {
            at: k for k, kernel_group in enumerate(kernel_groups) for at in kernel_group
        }
        # Kernels that load a value; changes as values are rematerialised.
        self.readers: dict[int, set[int]] = {}
        for k, kernel_group in enumerate(kernel_groups):
            for source in self.outside(kernel_group):
                self.readers.setdefault(source, set()).add(k)

    def outside(self, kernel_group: Sequence[int]) -> dict[int, int]:
        """Return the values that a group loads from memory, and the bytes of each."""
        members = set(kernel_group)
        return {
            read.source: read.size
            for at in kernel_group
            for read in self.operations[at].reads
            if read.source not in members
        }

    def made(self) -> dict[int, list[int]]:
        found = {}
        for k, kernel_group in enumerate(self.kernel_groups):
            if self.plain(kernel_group) and not self.is_epilogue(k, kernel_group):
                more = self.rematerialised_by(k, kernel_group)
                if more:
                    found[kernel_group[0]] = sorted(more)
        return found

    def plain(self, kernel_group: Sequence[int]) -> bool:
        """Whether a group is element-wise throughout."""
        return all(self.operations[at].shape is not None for at in kernel_group)

    def is_epilogue(self, k: int, kernel_group: Sequence[int]) -> bool:
        """Whether a group alone reads a product, and so may be its epilogue."""
        return any(
            source >= 0
            and self.operations[source].product
            and self.readers[source] == {k}
            for source in self.outside(kernel_group)
        )

    def rematerialised_by(self, k: int, kernel_group: Sequence[int]) -> set[int]:
        """Return the nodes that one group rematerialises."""
        reads = self.outside(kernel_group)
        more: set[int] = set()
        for value in sorted(reads, reverse=True):
            if not self.fits(value, kernel_group):
                continue
            needed, leaves = self.closure(value, reads, more)
            if leaves is None or len(needed | more) > MAX_REMATERIALISED:
                continue
            if len(kernel_group) + len(needed | more) > MAX_OPERATIONS:
                continue
            if len(reads) + len(leaves) + len(kernel_group) > MAX_MEMORY_OPERANDS:
                continue
            saved = reads[value]
            if self.readers[value] == {k} and not self.operations[value].external:
                saved += self.operations[value].size
            if sum(leaves.values()) < saved:
                more |= needed
                del reads[value]
                self.readers[value].discard(k)
                for leaf, size in leaves.items():
                    reads[leaf] = size
                    self.readers.setdefault(leaf, set()).add(k)
        return more

    def fits(self, value: int, kernel_group: Sequence[int]) -> bool:
        """Whether a group can recompute a value that it reads, element by element."""
        if value < 0 or not self.operations[value].cheap:
            return False
        shape = self.operations[kernel_group[0]].shape
        return self.operations[value].shape == shape and all(
            read.in_order
            for at in kernel_group
            for read in self.operations[at].reads
            if read.source == value
        )

    def closure(
        self, value: int, known: Mapping[int, int], more: set[int]
    ) -> tuple[set[int], dict[int, int] | None]:
        """Return the nodes to recompute for a value, and the further values to load.

        The latter is None if one of those is not in memory.
        """
        maker, shape = self.group_of[value], self.operations[value].shape
        needed, leaves = {value}, {}
        pending = [value]
        while pending:
            for source, size, in_order in self.operations[pending.pop()].reads:
                if source in known or source in more or source in needed:
                    continue
                if source >= 0 and not self.stored(source, maker):
                    made = self.operations[source]
                    same = made.cheap and made.shape == shape and in_order
                    if not same or self.group_of[source] != maker:
                        return needed, None
                    needed.add(source)
                    pending.append(source)
                else:
                    leaves[source] = size
        return needed, leaves

    def stored(self, source: int, maker: int) -> bool:
        """Whether a value is stored even if the group `maker` did not read it."""
        others = self.readers.get(source, set()) - {maker}
        return self.operations[source].external or bool(others)
