"""Cast absorption: losses of 16-bit logits read these, not a copy in float32; pure.

A model computes in 16 bits, and its loss is of `logits.float()`: kernels of the loss
convert what they load anyway, and round what they store. So a cast that only they read
is left out, with the cast of their gradient back, if all that is made between is read
by nothing else. The results are the same numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..base.dtype import DType, bfloat16, float16, float32
from ..ir.lazy_graph import Node, Operand, Value, signature_of

ABSORBING: dict[str, int | None] = {
    "cross_entropy_rows": None,
    "cross_entropy_rows_with_grad": 4,
    "cross_entropy_dlogits": 0,
}
"""Ops that absorb casts of their first operand, and which result has its dtype."""

_NARROW = (float16, bfloat16)

_Readers = dict[int, list[tuple[int, int]]]


def absorb_casts(nodes: Sequence[Node], external: Collection[int]) -> Sequence[Node]:
    """Return the nodes with what absorbs casts in place of these.

    Parameters
    ----------
    nodes : sequence of Node
        In recorded order. Those that are left out stay, and nothing reads them.
    external : collection of int
        The `id` of values with external references.
    """
    if not any([node.op.name in ABSORBING for node in nodes]):
        return nodes
    makers: dict[int, int] = {}
    readers: _Readers = {}
    for number, node in enumerate(nodes):
        for place, value in enumerate(node.values):
            readers.setdefault(id(value), []).append((number, place))
        makers.update((id(value), number) for value in node.outputs)
    found = list(nodes)
    for number, node in enumerate(nodes):
        # A plan binds what comes from outside by its first reader.
        if _is_cast(node, float32) and id(node.values[0]) in makers:
            _absorb(found, number, readers, external)
    return found


def _is_cast(node: Node, dtype: DType) -> bool:
    """Return whether a node casts between a 16-bit float and float32, to `dtype`.

    It does so with all elements of a value, in their order.
    """
    if node.op.name != "cast" or node.outputs[0].dtype is not dtype:
        return False
    (value,) = node.values
    narrow = value.dtype if dtype is float32 else dtype
    return narrow in _NARROW and _is_whole(value, node)


def _is_whole(value: Value, node: Node) -> bool:
    """Return whether a node's first operand is all of a value, in its order."""
    layout = node.signature.operands[0]
    whole = layout.is_contiguous and not layout.offset
    return node.values[0] is value and whole and layout.numel == value.numel


def _absorb(
    nodes: list[Node], number: int, readers: _Readers, external: Collection[int]
) -> None:
    """Let the readers of a cast read what it converts, if they all can."""
    cast = nodes[number]
    source, wide = cast.values[0], cast.outputs[0]
    changed: dict[int, Node] = {}
    if id(wide) in external:
        return
    for reader, place in readers.get(id(wide), ()):
        node = nodes[reader]
        if place or node.op.name not in ABSORBING or not _is_whole(wide, node):
            return
        result = ABSORBING[node.op.name]
        outputs, dtypes = list(node.outputs), list(node.signature.dtypes)
        if result is not None:
            out = outputs[result]
            others = readers.get(id(out), [])
            if len(others) != 1 or id(out) in external:
                return
            [(back, _)] = others
            last = nodes[back]
            narrowed = last.outputs[0]
            kept = id(narrowed) in external or not _is_whole(out, last)
            if kept or not _is_cast(last, source.dtype):
                return
            outputs[result], dtypes[result] = narrowed, source.dtype
            # What it made has a maker, and what the other made no reader.
            changed[back] = _replaced(last, (source,), (out,))
        values = (source, *node.values[1:])
        changed[reader] = _replaced(node, values, tuple(outputs), tuple(dtypes))
    for at, node in changed.items():
        nodes[at] = node


def _replaced(
    node: Node,
    values: tuple[Value, ...],
    outputs: tuple[Value, ...],
    dtypes: tuple[DType, ...] | None = None,
) -> Node:
    """Return a node with other operands and results of the same layouts."""
    given = node.signature
    inputs = tuple(map(Operand, values, given.operands))
    signature = signature_of(
        given.op,
        given.params,
        inputs,
        given.layouts,
        dtypes or given.dtypes,
        given.numbers,
    )
    return node.with_operands(signature, values, outputs)
