"""Norm prologue: RMS norms of few rows within the kernels that read them.

Each workgroup of such a product, or of attention in a step of decoding, reads its rows
whole. So it can as well take them as they are before the norm: it multiplies them with
the norm's weight, sums up their squares beside the products, and scales its results.
The normalised rows are never stored, and no kernel waits for one that has a workgroup
for each row.
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

KERNELS = {
    "quantized/gemv": {"x": ("gamma", "eps", "NORMED")},
    "attention/flash_split": {
        "q": ("q_gamma", "q_eps", "Q_NORMED"),
        "new_k": ("k_gamma", "k_eps", "K_NORMED"),
    },
}
"""Kernels that take norms, of which arguments, and what these then have beside them:
weight, number and macro.

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
        The operand that it makes.
    argument : str
        What the kernel calls that.
    eps : float
        What is added to the mean of squares.
    """

    norm: int
    rows: str
    argument: str
    eps: float

    @property
    def weight(self) -> str:
        """What the weight is called among the operands of the kernel."""
        return f"norm of {self.rows}"

    def dispatch(self, product: Dispatch) -> Dispatch:
        """Return the kernel's dispatch, which reads the norm's operands."""
        gamma, eps, macro = KERNELS[product.kernel][self.argument]
        return dataclasses.replace(
            product,
            push={**product.push, gamma: self.weight, eps: self.eps},
            defines={**product.defines, macro: "1"},
        )


def fuse_norms(
    nodes: Sequence[Node],
    kernel_groups: Sequence[list[int]],
    fused: Mapping[int, FusedEpilogue],
    external: Collection[int],
    dispatches: Callable[[int], Sequence[Dispatch]],
) -> dict[int, list[NormPrologue]]:
    """Return the norms that kernels take over, by the node of the kernel.

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
        Returns the dispatches of a node; the last one takes the norms.
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
    found: dict[int, list[NormPrologue]] = {}
    refused: set[int] = set()
    for number in [number for numbers in kernel_groups for number in numbers]:
        node = nodes[number]
        for norm, place in [results[id(v)] for v in node.values if id(v) in results]:
            eps = dict(nodes[norm].params)["eps"]
            # The other results are for gradients.
            if place or not _may_take(node) or not isinstance(eps, float):
                refused.add(norm)
                continue
            taken = found.setdefault(number, [])
            *before, last = dispatches(number)
            if before and node.op.epilogue_dims:
                refused.add(norm)
                continue
            for each in taken:
                last = each.dispatch(last)
            epilogue = epilogues.get(number)
            rows = _rows_of(node, nodes[norm], last, epilogue)
            if rows is None or any(each.norm == norm for each in taken):
                refused.add(norm)
            else:
                taken.append(NormPrologue(norm, *rows, eps))
    kept = {
        number: [each for each in prologues if each.norm not in refused]
        for number, prologues in found.items()
    }
    return {number: prologues for number, prologues in kept.items() if prologues}


def _may_take(node: Node) -> bool:
    """Return whether a node's kernel may be one that takes norms."""
    return bool(node.op.epilogue_dims) or node.op.name == "decode_attention"


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
    node: Node, norm: Node, kernel: Dispatch, epilogue: FusedEpilogue | None
) -> tuple[str, str] | None:
    """Return the operand that is a norm's rows, and what the kernel calls it, or None.

    Each row is read from its beginning to its end.
    """
    arguments = KERNELS.get(kernel.kernel, {})
    names = node.op.tensor_names(node.params)
    for argument in arguments:
        rows = kernel.push.get(argument)
        if not isinstance(rows, str) or rows not in names:
            continue
        value, layout = node.inputs[names.index(rows)]
        if value is not norm.outputs[0]:
            continue
        width = norm.layouts[0].shape[-1]
        whole = layout.numel == value.numel and layout.shape[-1] == width
        if node.op.epilogue_dims:
            whole = whole and layout.is_contiguous and kernel.push["out_"] == "out"
        starts = (layout.offset, *layout.strides[:-1])
        along = layout.strides[-1] == 1 and not any(each % width for each in starts)
        # All others of its arguments are in memory.
        size = ARGUMENTS
        if epilogue is not None:
            size += epilogue_size(epilogue.kernel.program)
        fits = push_size(kernel) + size <= MAX_PUSH or not node.op.epilogue_dims
        others = [name for name in names if name != rows]
        again = any(node.inputs[names.index(n)].value is value for n in others)
        if whole and along and fits and not again:
            return rows, argument
    return None
