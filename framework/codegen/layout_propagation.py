"""Layout propagation: element-wise nodes iterate in the order of what reads them; pure.

The results of element-wise ops keep the memory order of operands that share one. What
then reads such a result in row-major order could not be fused with it: so a result that
nothing else needs is made in that order, where it is read in the first place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from ..base.shape import Layout, Shape
from ..ir.lazy_graph import Node, Operand, signature_of

if TYPE_CHECKING:
    from ..dispatch.op import Op

MOST_ACROSS = (2, 1)
"""Operands that a moved node reads across memory: of 4 bytes or more, and of less. More
would not fit tiles in shared memory, see `glsl.tiles`, with those of its readers."""


def propagate_layouts(
    nodes: Sequence[Node], external: Collection[int], fuses: Callable[[Node], bool]
) -> list[Node]:
    """Return the nodes, element-wise ones in the iteration order of their readers.

    Parameters
    ----------
    nodes : sequence of Node
        In recorded order.
    external : collection of int
        The `id` of values with external references, whose order stays.
    fuses : callable
        Whether what a node reads may be fused with it.
    """
    operands = [node.signature.operands for node in nodes]
    if all(each.is_contiguous for row in operands for each in row):
        return list(nodes)
    reads: dict[int, list[tuple[int, int]]] = {}
    for at, node in enumerate(nodes):
        for place, value in enumerate(node.values):
            reads.setdefault(id(value), []).append((at, place))
    changed: dict[int, Layout] = {}
    fused: set[int] = set()
    for at in reversed(range(len(nodes))):
        node = nodes[at]
        if not _is_movable(node, external):
            continue
        readers = reads.get(id(node.outputs[0]), [])
        wanted = {operands[reader][place] for reader, place in readers}
        joined = [nodes[reader] for reader, _ in readers]
        if len(wanted) != 1 or not all(
            each.op.elementwise_form is not None or fuses(each) for each in joined
        ):
            continue
        [layout] = wanted
        dims = None if layout.is_contiguous else _dims(layout, node.layouts[0].shape)
        if dims is None:
            continue
        moved = [_moved(each, layout.shape, dims) for each in operands[at]]
        if not _is_tiled(node, moved):
            continue
        operands[at] = tuple(moved)
        changed[at] = whole = Layout.contiguous(layout.shape)
        for reader, place in readers:
            row = operands[reader]
            operands[reader] = (*row[:place], whole, *row[place + 1 :])
        fused.update([reader for reader, _ in readers])
    return [
        _with_layouts(
            node,
            row,
            (changed[at],) if at in changed else node.layouts,
            node.op.elementwise_form if at in fused else None,
        )
        for at, (node, row) in enumerate(zip(nodes, operands))
    ]


def _dims(layout: Layout, shape: Shape) -> list[int | None] | None:
    """Return the dimension of `shape` that each of a layout is, in which it is read.

    Those of size 1 are none. None if the elements are not read in another order of
    dimensions.
    """
    order = layout.memory_order
    if order is None or layout.offset:
        return None
    read = [dim for dim in order if layout.shape[dim] != 1]
    made = [dim for dim, size in enumerate(shape) if size != 1]
    if [layout.shape[dim] for dim in read] != [shape[dim] for dim in made]:
        return None
    found = dict(zip(read, made))
    return [found.get(dim) for dim in range(len(layout.shape))]


def _moved(layout: Layout, shape: Shape, dims: list[int | None]) -> Layout:
    """Return the layout of an operand in another order: see `_dims`."""
    steps = tuple([0 if dim is None else layout.strides[dim] for dim in dims])
    return Layout(shape, steps, layout.offset)


def _is_tiled(node: Node, layouts: list[Layout]) -> bool:
    """Whether few operands are read across memory, so that tiles have room for them."""
    across = [
        value.dtype.itemsize
        for value, layout in zip(node.values, layouts)
        if all(step or size == 1 for size, step in zip(layout.shape, layout.strides))
        and not layout.is_contiguous
    ]
    return len(across) <= MOST_ACROSS[min(across, default=4) < 4]


def _is_movable(node: Node, external: Collection[int]) -> bool:
    """Whether a node may iterate in another order: it is not drawn in it."""
    if not node.op.is_elementwise or node.op.source is not None:
        return False
    return len(node.outputs) == 1 and id(node.outputs[0]) not in external


def _with_layouts(
    node: Node,
    operands: tuple[Layout, ...],
    layouts: tuple[Layout, ...],
    form: Op[..., Any] | None,
) -> Node:
    """Return a node whose operands, and results, have other layouts; of another op."""
    given = node.signature
    if operands == given.operands and layouts == given.layouts:
        return node
    inputs = tuple(map(Operand, node.values, operands))
    op, params = given.op, given.params
    if form is not None:
        op, params = form, (("compute", given.dtypes[0]), ("tensors", form.operands))
    signature = signature_of(op, params, inputs, layouts, given.dtypes, given.numbers)
    return node.with_operands(signature, node.values)
