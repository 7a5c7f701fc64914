"""Norm prologue: RMS norms of few rows within the products that read them.

Each workgroup of such a product reads its rows whole. So it can as well take them as
they are before the norm: it multiplies them with the norm's weight, sums up their
squares beside the products, and scales its results. The normalised rows are never
stored, and no kernel waits for one that has a workgroup for each row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..base.dtype import SINGLE
from ..ir.kernel_call import Dispatch
from ..ir.lazy_graph import Node
from .epilogue_fusion import FusedEpilogue, push_size
from .glsl.epilogue import epilogue_size
from .ir.program import MAX_PUSH

KERNELS = ("quantized/gemv",)
"""Kernels that take norms, of their argument `x`.

`matmul/gemv` does not: its invocations read rows in step with a matrix, and to read the
norm's weight beside them takes longer than the norm's own kernel.
"""

ALIGNMENT = 16
"""Bytes of the vectors that these load."""

ARGUMENTS = 16
"""Bytes of their arguments: the weight's address, and a number, aligned."""


class NormPrologue(NamedTuple):
    """A norm that a product takes over.

    Attributes
    ----------
    norm : int
        Its node.
    rows : str
        The product's operand that it makes.
    eps : float
        What is added to the mean of squares.
    """

    norm: int
    rows: str
    eps: float

    def dispatch(self, product: Dispatch) -> Dispatch:
        """Return the product's dispatch, which reads the norm's operands."""
        return dataclasses.replace(
            product,
            push={**product.push, "gamma": "gamma", "eps": self.eps},
            defines={**product.defines, "NORMED": "1"},
        )


def fuse_norms(
    nodes: Sequence[Node],
    kernel_groups: Sequence[list[int]],
    fused: Mapping[int, FusedEpilogue],
    external: Collection[int],
    dispatches: Callable[[int], Sequence[Dispatch]],
) -> dict[int, NormPrologue]:
    """Return the norms that products take over, by the node of the product.

    Parameters
    ----------
    nodes : sequence of Node
    kernel_groups : sequence of list of int
        Nodes of each kernel.
    fused : mapping of int to FusedEpilogue
        By the first node of their kernel group.
    external : collection of int
        Values, by `id`, with external references.
    dispatches : callable
        Returns the dispatches of a product's node.
    """
    # Norms, and which result of one it is, by value.
    results = {
        id(value): (numbers[0], place)
        for numbers in kernel_groups
        if len(numbers) == 1 and _is_taken(nodes[numbers[0]], external)
        for place, value in enumerate(nodes[numbers[0]].outputs)
    }
    if not results:
        return {}
    epilogues = {row.product: row for row in fused.values()}
    found: dict[int, NormPrologue] = {}
    refused: set[int] = set()
    for number in [number for numbers in kernel_groups for number in numbers]:
        node = nodes[number]
        for norm, place in [results[id(v)] for v in node.values if id(v) in results]:
            eps = dict(nodes[norm].params)["eps"]
            # The other results are for gradients.
            if place or not node.op.epilogue_dims or not isinstance(eps, float):
                refused.add(norm)
                continue
            epilogue = epilogues.get(number)
            rows = _rows_of(node, nodes[norm], dispatches(number), epilogue)
            if rows is None or number in found:
                refused.add(norm)
            else:
                found[number] = NormPrologue(norm, rows, eps)
    return {
        number: prologue
        for number, prologue in found.items()
        if prologue.norm not in refused
    }


def _is_taken(node: Node, external: Collection[int]) -> bool:
    """Return whether a node is an RMS norm with a weight whose results are not kept."""
    if node.op.name != "layer_norm":
        return False
    params = dict(node.params)
    if params["centred"] or params["tensors"] != ("x", "weight"):
        return False
    if any(id(value) in external for value in node.outputs):
        return False
    return node.values[0].dtype in SINGLE and all(
        layout.is_contiguous and layout.offset * value.dtype.itemsize % ALIGNMENT == 0
        for value, layout in node.inputs
    )


def _rows_of(
    node: Node,
    norm: Node,
    dispatches: Sequence[Dispatch],
    epilogue: FusedEpilogue | None,
) -> str | None:
    """Return the operand of a product that is a norm's rows; None if it takes none."""
    (product, *others), size = dispatches, ARGUMENTS
    rows = product.push.get("x")
    if product.kernel not in KERNELS or others or not isinstance(rows, str):
        return None
    if product.push["out_"] != "out":
        return None
    names = node.op.tensor_names(node.params)
    value, layout = node.inputs[names.index(rows)]
    if not layout.is_contiguous or value is not norm.outputs[0]:
        return None
    if layout.numel != value.numel or layout.shape[-1] != norm.layouts[0].shape[-1]:
        return None
    if epilogue is not None:
        size += epilogue_size(epilogue.kernel.program)
    return rows if push_size(product) + size <= MAX_PUSH else None
