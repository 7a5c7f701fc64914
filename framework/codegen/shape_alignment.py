"""Shape alignment: element-wise nodes walk over the shape of their neighbours; pure.

A contiguous tensor that is reshaped is the same elements in the same order. But what
makes it and what reads it walk over different shapes, and could not be fused: batch
normalisation computes in (batch, channels, inner) what an activation reads as images.
Nodes whose operands can be viewed in another shape walk over that one instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.shape import Layout, Shape, interned
from ..ir.lazy_graph import Node, Operand, signature_of

_Operands = list[tuple[Layout, ...]]


def align_shapes(nodes: Sequence[Node], fuses: Callable[[Node], bool]) -> list[Node]:
    """Return the nodes, element-wise ones in a shape that they can be fused in.

    Parameters
    ----------
    nodes : sequence of Node
        In recorded order.
    fuses : callable
        Whether a node may be fused with what it reads.
    """
    makers = {id(value): at for at, node in enumerate(nodes) for value in node.outputs}
    if not any([_is_apart(nodes, node, makers, fuses) for node in nodes]):
        return list(nodes)
    return _Alignment(nodes, fuses, makers).made()


def _is_apart(
    nodes: Sequence[Node],
    node: Node,
    makers: dict[int, int],
    fuses: Callable[[Node], bool],
) -> bool:
    """Whether a node reads all of an element-wise result in another shape."""
    for value, layout in zip(node.values, node.signature.operands):
        at = makers.get(id(value))
        if at is None or not nodes[at].op.is_elementwise:
            continue
        made = nodes[at].layouts[0]
        if layout is made or layout.shape == made.shape or not _is_whole(layout, made):
            continue
        if node.op.is_elementwise or fuses(node):
            return True
    return False


def _is_whole(layout: Layout, made: Layout) -> bool:
    """Whether a layout is all elements of a contiguous result, in their order."""
    whole = not layout.offset and layout.numel == made.numel
    return whole and layout.is_contiguous


class _Alignment:
    """Shapes of nodes so far.

    Attributes
    ----------
    operands : list of tuple of Layout
        Of each node.
    shapes : list of Shape or None
        What each node walks over if it may be fused, or None.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        fuses: Callable[[Node], bool],
        makers: dict[int, int],
    ) -> None:
        self.nodes = nodes
        self.makers = makers
        self.operands: _Operands = [node.signature.operands for node in nodes]
        self.shapes: list[Shape | None] = []
        self.readers: list[list[tuple[int, int]]] = [[] for _ in nodes]
        for number, node in enumerate(nodes):
            for place, value in enumerate(node.values):
                at = makers.get(id(value))
                if at is not None:
                    self.readers[at].append((number, place))
            self.shapes.append(self._shape(node, fuses))

    def _shape(self, node: Node, fuses: Callable[[Node], bool]) -> Shape | None:
        if node.op.is_elementwise:
            return node.layouts[0].shape
        return node.signature.operands[0].shape if fuses(node) else None

    def made(self) -> list[Node]:
        """Return the nodes in their shapes."""
        numbers = [
            number for number, node in enumerate(self.nodes) if node.op.is_elementwise
        ]
        self._follow_all_readers(numbers)
        for number in numbers:
            self._follow_makers(number)
        self._follow_all_readers(numbers)
        return [
            self._with_shape(node, number) for number, node in enumerate(self.nodes)
        ]

    def _follow_all_readers(self, numbers: Sequence[int]) -> None:
        for number in reversed(numbers):
            self._follow_readers(number)

    def _follow_readers(self, number: int) -> None:
        """Let a node walk over the shape that all its readers walk over."""
        own = self.nodes[number].layouts[0]
        wanted = {
            self.shapes[reader]
            for reader, place in self.readers[number]
            if self.shapes[reader] is not None
            and self.operands[reader][place].shape == self.shapes[reader]
            and _is_whole(self.operands[reader][place], own)
        }
        if len(wanted) == 1:
            [shape] = wanted
            if shape is not None and shape != self.shapes[number]:
                self._reshape(number, shape)

    def _follow_makers(self, number: int) -> None:
        """Let a node walk over the shape of what it reads, if its neighbours can, too.

        They are what is fused with it as it is.
        """
        own, found, beside = self.shapes[number], [], []
        for value, layout in zip(self.nodes[number].values, self.operands[number]):
            at = self.makers.get(id(value))
            if at is None or not self.nodes[at].op.is_elementwise:
                continue
            if not _is_whole(layout, self.nodes[at].layouts[0]):
                continue
            if self.shapes[at] == own:
                beside.append(at)
            else:
                found.append(self.shapes[at])
        beside += [at for at, _ in self.readers[number] if self.shapes[at] == own]
        for shape in found:
            assert shape is not None
            together = all([self._can_follow(at, shape) for at in beside])
            if together and self._reshape(number, shape):
                return

    def _can_follow(self, number: int, shape: Shape) -> bool:
        """Whether a node could walk over another shape."""
        movable = self.nodes[number].op.is_elementwise
        return movable and self._reshaped(number, shape) is not None

    def _reshape(self, number: int, shape: Shape) -> bool:
        """Let a node walk over another shape; return whether it can."""
        found = self._reshaped(number, shape)
        if found is None:
            return False
        self.operands[number], self.shapes[number] = found, shape
        return True

    def _reshaped(self, number: int, shape: Shape) -> tuple[Layout, ...] | None:
        """Return a node's operands in another shape, or None if they cannot be."""
        if self.nodes[number].layouts[0].numel == 0:
            return None
        found = []
        for layout in self.operands[number]:
            other = layout.reshape(shape)
            if other is None:
                return None
            found.append(interned(other))
        return tuple(found)

    def _with_shape(self, node: Node, number: int) -> Node:
        """Return a node that walks over its shape."""
        given, operands = node.signature, self.operands[number]
        if operands is given.operands:
            return node
        shape = self.shapes[number]
        assert shape is not None
        layouts = (Layout.contiguous(shape),)
        inputs = tuple(map(Operand, node.values, operands))
        signature = signature_of(
            given.op, given.params, inputs, layouts, given.dtypes, given.numbers
        )
        return node.with_operands(signature, node.values)
