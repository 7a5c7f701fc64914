"""Fusion analyzer: the kernels that fusion makes of a graph, without running it.

It asks the partitioner that the scheduler asks, `vkbackend.framework.codegen`, for a
GPU that can write every precision. `interpreter` runs graph and result in NumPy, and
`vkbackend.framework.graph.run` on a device.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..base.dtype import DTYPES, DType
from ..base.errors import GraphError
from ..base.shape import Layout, Shape, broadcast_shapes
from ..codegen.ir.reductions import RowSpace, fits_one_kernel, split_of
from ..codegen.partitioner import FusionNode, group

UNARY = (
    "relu", "sigmoid", "tanh", "gelu", "sqrt", "rsqrt", "exp", "log", "neg", "abs",
    "cast",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "max", "min", "pow")
REDUCE = ("sum", "reduce_max", "reduce_min", "mean")
MEMORY = ("load", "store", "copy")
ARITY = dict.fromkeys((*UNARY, *REDUCE, *MEMORY), 1) | dict.fromkeys(BINARY, 2)

PRECISIONS = {
    "fp16": DTYPES["float16"],
    "bf16": DTYPES["bfloat16"],
    "fp32": DTYPES["float32"],
    "fp64": DTYPES["float64"],
    "int8": DTYPES["int8"],
    "int32": DTYPES["int32"],
}
_FLOAT_ONLY = ("sigmoid", "tanh", "gelu", "sqrt", "rsqrt", "exp", "log", "mean")
_KILOBYTE = 1024


@dataclass(frozen=True)
class Node:
    """Node of a graph, or with a negative `id` a value from outside.

    Attributes
    ----------
    id : int
        Nodes count from 0, values from outside from -1 down.
    op : str
        One of `ARITY`, or "input".
    shape : Shape
        Of its result.
    inputs : tuple of int
        Values that it reads.
    precision : str
        One of `PRECISIONS`.
    """

    id: int
    op: str
    shape: Shape
    inputs: tuple[int, ...]
    precision: str

    @property
    def dtype(self) -> DType:
        """Element type of its result."""
        return PRECISIONS[self.precision]

    @property
    def nbytes(self) -> int:
        """Bytes of its result."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class FusedKernel:
    """Fused kernel of the result.

    Attributes
    ----------
    nodes : tuple of int
        Nodes that it computes, in order.
    inputs : tuple of int
        Values that it loads from memory, each once, in the order of their first use.
    outputs : tuple of int
        Values that it stores to memory.
    """

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def buffers_eliminated(self) -> int:
        """Number of results that never reach memory."""
        return len(self.nodes) - len(self.outputs)


@dataclass(frozen=True)
class FusionResult:
    """Fusion result: the kernels of a graph.

    Attributes
    ----------
    kernels : tuple of FusedKernel
        In an execution order.
    original_kernels : int
        Nodes: kernels without fusion.
    memory_saved : int
        Bytes of the results that never reach memory: (n - 1) * elements * element size
        for a chain of n nodes.
    """

    kernels: tuple[FusedKernel, ...]
    original_kernels: int
    memory_saved: int

    @property
    def fused_kernels(self) -> int:
        """Number of kernels."""
        return len(self.kernels)

    @property
    def kernel_reduction(self) -> float:
        """Relative reduction, 1 - kernels / nodes; 0 for an empty graph."""
        if not self.original_kernels:
            return 0.0
        return 1 - self.fused_kernels / self.original_kernels

    @property
    def buffers_eliminated(self) -> int:
        """Number of results that never reach memory."""
        return sum(kernel.buffers_eliminated for kernel in self.kernels)

    def summary(self) -> str:
        """Return one line, as `3 -> 1 kernels (66.7 % reduction), 8.0 KB saved`."""
        return (
            f"{self.original_kernels} -> {self.fused_kernels} kernels"
            f" ({100 * self.kernel_reduction:.1f} % reduction),"
            f" {self.memory_saved / _KILOBYTE:.1f} KB saved"
        )


class FusionAnalyzer:
    """Analyzer of a graph of element-wise ops, reductions and copies.

    Examples
    --------
    >>> graph = FusionAnalyzer()
    >>> x = graph.add_input((1024,))
    >>> y = graph.add_node("relu", (1024,), (x,))
    >>> z = graph.add_node("exp", (1024,), (graph.add_node("sigmoid", (1024,), (y,)),))
    >>> graph.fuse().summary()
    '3 -> 1 kernels (66.7 % reduction), 8.0 KB saved'
    """

    def __init__(self) -> None:
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []

    def node(self, number: int) -> Node:
        """Return a node, or with a negative number a value from outside."""
        rows = self.nodes if number >= 0 else self.inputs
        at = number if number >= 0 else -1 - number
        if at >= len(rows):
            raise GraphError(
                f"FusionAnalyzer: there is no node {number}; there are"
                f" {len(self.nodes)} and {len(self.inputs)} inputs",
                number,
            )
        return rows[at]

    def add_input(self, shape: Sequence[int], precision: str = "fp32") -> int:
        """Add a value from outside; return its number, which is negative."""
        number = -1 - len(self.inputs)
        _check_precision(number, precision)
        self.inputs.append(Node(number, "input", tuple(shape), (), precision))
        return number

    def add_node(
        self, op: str, shape: Sequence[int], inputs: Sequence[int] = (), *, to: str = ""
    ) -> int:
        """Add an op on values that are there already.

        Parameters
        ----------
        op : str
            One of `UNARY`, `BINARY`, `REDUCE` or `MEMORY`. The last are kernels of
            their own that pass on what they read; `store` keeps it.
        shape : sequence of int
            Of the result. A reduction goes over everything, to (1,), or over the last
            dimension, which is then 1.
        inputs : sequence of int
            Values that it reads; where there are too few, values from outside of the
            same shape are added.
        to : str, optional
            The precision that "cast" rounds to.

        Returns
        -------
        int
            The node's number.

        Raises
        ------
        GraphError
            If the op is unknown, or its inputs do not exist or fit.
        """
        number, wanted = len(self.nodes), tuple(shape)
        if op not in ARITY or len(inputs) > ARITY[op]:
            raise GraphError(
                f"add_node: node {number}: {op!r} with {len(inputs)} inputs is unknown;"
                f" accepted: {', '.join(f'{name} ({n})' for name, n in ARITY.items())}",
                number,
            )
        reads = [self.node(at) for at in inputs]
        precision = reads[0].precision if reads else "fp32"
        while len(reads) < ARITY[op]:
            reads.append(self.node(self.add_input(wanted, precision)))
        _check_shape(number, op, wanted, reads)
        _check_operands(number, op, reads)
        if op == "cast":
            _check_precision(number, to)
            precision = to
        numbers = tuple(read.id for read in reads)
        self.nodes.append(Node(number, op, wanted, numbers, precision))
        return number

    def fuse(
        self,
        outputs: Collection[int] = (),
        *,
        reductions: bool = True,
        siblings: bool = True,
    ) -> FusionResult:
        """Return the kernels that fusion would run.

        Parameters
        ----------
        outputs : collection of int
            Nodes that are live-out, besides those without readers and those of `store`.
        reductions, siblings : bool, default True
            Whether reductions join their producers and broadcast consumers, and
            whether kernels that read a common value run side by side. The scheduler
            makes the kernels of `siblings=False`; launches of one program alone run
            side by side there, in one dispatch.
        """
        kept = {self.node(at).id for at in outputs}
        kept |= {node.id for node in self.nodes if node.op == "store"}
        read = {source for node in self.nodes for source in node.inputs}
        live_out = kept | {node.id for node in self.nodes if node.id not in read}
        fusion_nodes = [self._fusion_node(node, live_out) for node in self.nodes]
        groups = group(fusion_nodes, reductions=reductions, siblings=siblings)
        kernels = tuple(self._kernel(members, kept) for members in groups)
        written = {number for kernel in kernels for number in kernel.outputs}
        saved = sum(node.nbytes for node in self.nodes if node.id not in written)
        return FusionResult(kernels, len(self.nodes), saved)

    def unfused(self) -> FusionResult:
        """Return the kernels without fusion: one for each node."""
        kernels = (
            FusedKernel((node.id,), tuple(dict.fromkeys(node.inputs)), (node.id,))
            for node in self.nodes
        )
        return FusionResult(tuple(kernels), len(self.nodes), 0)

    def _fusion_node(self, node: Node, live_out: Collection[int]) -> FusionNode:
        """Return a node as the partitioner sees it."""
        shape: Shape | None = node.shape
        split = None
        if node.op in MEMORY:
            shape = None
        elif node.op in REDUCE:
            shape, split = self._row_space(node)
        sources = [self.node(number) for number in node.inputs]
        reads = tuple(
            (source.id, Layout.contiguous(source.shape).expand(shape or source.shape))
            for source in sources
            if source.id >= 0
        )
        external = tuple(source.id for source in sources if source.id < 0)
        memory_operands = len(external) + (node.id in live_out)
        return FusionNode(shape, reads, memory_operands, split, external_reads=external)

    def _row_space(self, node: Node) -> tuple[Shape | None, int | None]:
        """Return what a reduction walks, and its split; None twice if not rows."""
        shape = self.node(node.inputs[0]).shape
        last = len(shape) - 1
        dims = tuple(range(len(shape))) if node.shape == (1,) else (last,)
        split = split_of(shape, dims)
        if split is None or not fits_one_kernel(RowSpace(shape, split)):
            return None, None
        return shape, split

    def _kernel(self, members: list[int], kept: set[int]) -> FusedKernel:
        reads = (read for at in members for read in self.nodes[at].inputs)
        inputs = dict.fromkeys(read for read in reads if read not in members)
        outputs = []
        for number in members:
            readers = [node.id for node in self.nodes if number in node.inputs]
            inside = readers and all(reader in members for reader in readers)
            if number in kept or not inside:
                outputs.append(number)
        return FusedKernel(tuple(members), tuple(inputs), tuple(outputs))


def _check_precision(number: int, precision: str) -> None:
    if precision not in PRECISIONS:
        raise GraphError(
            f"FusionAnalyzer: node {number}: the precision {precision!r} is unknown;"
            f" accepted: {', '.join(PRECISIONS)}",
            number,
        )


def _check_shape(number: int, op: str, wanted: Shape, reads: Sequence[Node]) -> None:
    shapes = [read.shape for read in reads]
    if op in REDUCE:
        fits = wanted in ((1,), (*shapes[0][:-1], 1))
    elif op in BINARY:
        fits = broadcast_shapes(op, *shapes) == wanted
    else:
        fits = shapes == [wanted]
    if not fits:
        raise GraphError(
            f"add_node: node {number}: {op} of {' and '.join(map(str, shapes))} is not"
            f" of shape {wanted}",
            number,
        )


def _check_operands(number: int, op: str, reads: Sequence[Node]) -> None:
    names = {read.precision for read in reads}
    if len(names) > 1:
        raise GraphError(
            f"add_node: node {number}: {op} takes operands of one precision, not"
            f" {' and '.join(sorted(names))}; cast one of them",
            number,
        )
    if op in _FLOAT_ONLY and not reads[0].dtype.is_float:
        raise GraphError(
            f"add_node: node {number}: {op} takes floats, not {reads[0].precision};"
            f" cast it first",
            number,
        )
