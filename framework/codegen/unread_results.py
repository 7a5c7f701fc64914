"""Unread results: ops that make more than is read make way for shorter ones; pure.

A loss comes with its gradient, as one pass over the logits makes both. Where another
kernel makes the gradient, or nothing differentiates the loss, that result is unread:
dead-code elimination keeps it, as it drops whole nodes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.lazy_graph import Node, Operand, signature_of


def drop_unread_results(
    nodes: Sequence[Node], external: Collection[int]
) -> Sequence[Node]:
    """Return the nodes with `Op.shorter_form` where only its results are read.

    Parameters
    ----------
    nodes : sequence of Node
        In recorded order.
    external : collection of int
        The `id` of values with external references.
    """
    longer = [at for at, node in enumerate(nodes) if node.op.shorter_form is not None]
    if not longer:
        return nodes
    read = {id(value) for node in nodes for value in node.values}
    found = list(nodes)
    for at in longer:
        node = nodes[at]
        form = node.op.shorter_form
        assert form is not None
        unread = node.outputs[len(form.output_names) :]
        if not any([id(value) in read or id(value) in external for value in unread]):
            found[at] = _shorter(node)
    return found


def _shorter(node: Node) -> Node:
    """Return the node of the shorter form, of the first operands and results."""
    given, form = node.signature, node.op.shorter_form
    assert form is not None
    count, results = len(form.tensors), len(form.output_names)
    params = {**dict(given.params), "tensors": form.tensors}
    inputs = tuple(map(Operand, node.values[:count], given.operands))
    signature = signature_of(
        form,
        tuple(params.items()),
        inputs,
        given.layouts[:results],
        given.dtypes[:results],
        given.numbers,
    )
    return node.with_operands(signature, node.values[:count], node.outputs[:results])
