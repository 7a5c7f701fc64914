"""Compute graph: tensor ops in a graph built by hand, run as often as needed.

Nodes are added in execution order, are checked when they are added, and run one
dispatch each: nothing is fused, so that a node's time and result are its own. The first
run schedules and compiles; later ones only change the content of leaves and parameters.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from .. import ops
from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import GpuDevice
from ..base.errors import GraphError
from ..eager.base_tensor import evaluate
from ..scheduler.scheduler import unfused
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor

Shape4 = tuple[int, int, int, int]
Attention = Callable[[Tensor, Tensor, Tensor, int], Tensor]


class TensorOp(enum.Enum):
    """Op of a node, with its reading of the node's shape [n, k, m, 1].

    Values are arrays of m rows. `MUL_MAT`: rows of k elements times a weight (n, k).
    `ADD`, `MUL`, `SILU`: rows of n. `RMS_NORM`: rows of n, times `gamma`, with
    `scalar` as eps. `ROPE`: rows of k heads of n elements, rotated by the position
    `integer` + row, with `scalar` as theta (0 means 10000). `SOFT_MAX`: the whole of
    attention, of queries, keys and values; k heads of n elements; `integer` is the
    layer. `COPY`: k rows of n, from any shape. `NONE`: a leaf.
    """

    MUL_MAT = "MulMat"
    ADD = "Add"
    RMS_NORM = "RmsNorm"
    ROPE = "Rope"
    SOFT_MAX = "SoftMax"
    MUL = "Mul"
    SILU = "Silu"
    COPY = "Copy"
    NONE = "leaf"


_HEADS = (TensorOp.ROPE, TensorOp.SOFT_MAX)
_INPUTS = {
    TensorOp.MUL_MAT: 1,
    TensorOp.ADD: 2,
    TensorOp.RMS_NORM: 1,
    TensorOp.ROPE: 1,
    TensorOp.SOFT_MAX: 3,
    TensorOp.MUL: 2,
    TensorOp.SILU: 1,
    TensorOp.COPY: 1,
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Parameters of a node besides its inputs; see `TensorOp` for their readers.

    Parameters
    ----------
    weight, gamma : Tensor, optional
        Of `MUL_MAT`, shape (n, k), and of `RMS_NORM`, shape (n,).
    scalar : float, default 0
        Epsilon, or theta.
    integer : int, default 0
        Position of the first row, or layer.
    """

    weight: Tensor | None = None
    gamma: Tensor | None = None
    scalar: float = 0.0
    integer: int = 0


@dataclasses.dataclass
class Node:
    """Node of a compute graph.

    Attributes
    ----------
    op : TensorOp
        Its op.
    shape : tuple of int
        As `TensorOp` reads it.
    inputs : tuple of int
        Earlier nodes that it reads.
    params : Params
        Its other parameters.
    data : Tensor or None
        Content: the tensor of a leaf, otherwise the last run's result.
    seconds : float or None
        Time of the last run with `timing`.
    """

    op: TensorOp
    shape: Shape4
    inputs: tuple[int, ...] = ()
    params: Params = dataclasses.field(default_factory=Params)
    data: Tensor | None = None
    seconds: float | None = None

    @property
    def rows(self) -> int:
        """Rows of the value."""
        return self.shape[1] if self.op is TensorOp.COPY else self.shape[2]

    @property
    def width(self) -> int:
        """Elements per row."""
        heads = self.op in _HEADS or self.op is TensorOp.NONE
        return self.shape[0] * self.shape[1] if heads else self.shape[0]


class ComputeGraph:
    """Graph of tensor ops.

    Parameters
    ----------
    attention : callable, optional
        Replaces the attention of `SOFT_MAX`: from queries, keys and values, each
        (heads, rows, size), where keys and values may have fewer heads, and the layer,
        to (heads, rows, size); the place for a KV cache. None is causal attention.

    Examples
    --------
    >>> graph = ComputeGraph()
    >>> x = graph.add_leaf(tensor([[3.0, 4.0]]), (2, 1, 1, 1))
    >>> y = graph.add_op(TensorOp.ADD, (2, 1, 1, 1), (x, x))
    >>> graph.run(), graph[y].data.tolist()
    (1, [[6.0, 8.0]])
    """

    def __init__(self, attention: Attention | None = None) -> None:
        self._nodes: list[Node] = []
        self._attention = attention or causal_attention

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._nodes)

    def __getitem__(self, index: int) -> Node:
        return self._nodes[self._checked(index, "graph")]

    @property
    def n_leafs(self) -> int:
        """Number of leaves."""
        return sum(node.op is TensorOp.NONE for node in self._nodes)

    @property
    def n_ops(self) -> int:
        """Number of nodes that compute."""
        return len(self._nodes) - self.n_leafs

    def __str__(self) -> str:
        lines = [f"ComputeGraph: {len(self)} nodes, {self.n_leafs} leafs"]
        for index, node in enumerate(self._nodes):
            call = node.op.value
            if node.inputs:
                call += f"({', '.join(f'%{at}' for at in node.inputs)})"
            given = {
                name: tuple(value.shape) if isinstance(value, Tensor) else value
                for name, value in vars(node.params).items()
                if isinstance(value, Tensor) or value
            }
            said = "".join(f" {name}={value}" for name, value in given.items())
            lines.append(f"%{index} = {call} {list(node.shape)}{said}")
        return "\n".join(lines)

    def add_leaf(self, data: Tensor, shape: Sequence[int]) -> int:
        """Add a value from outside, of shape[2] rows of shape[0] * shape[1] elements.

        Returns
        -------
        int
            The node's index.

        Raises
        ------
        GraphError
            If the tensor has another number of elements.
        """
        node = Node(TensorOp.NONE, self._shape(shape))
        self._check_leaf(len(self), node, data)
        node.data = data
        self._nodes.append(node)
        return len(self) - 1

    def add_op(
        self,
        op: TensorOp,
        shape: Sequence[int],
        inputs: Sequence[int],
        params: Params | None = None,
    ) -> int:
        """Add an op on nodes that are there already.

        Parameters
        ----------
        op : TensorOp
            The op; not `NONE`.
        shape : sequence of 4 int
            As `TensorOp` reads it.
        inputs : sequence of int
            Indices of nodes; there can be no cycle, as they must exist.
        params : Params, optional
            Its other parameters.

        Returns
        -------
        int
            The node's index.

        Raises
        ------
        GraphError
            If an index does not exist, or numbers of inputs or sizes do not fit.
        """
        index = len(self)
        wanted = _INPUTS.get(op)
        if wanted is None or len(inputs) != wanted:
            raise GraphError(
                f"add_op: node {index}: {op.value} takes {wanted or 'no'} inputs;"
                f" {len(inputs)} are given",
                index,
            )
        known = tuple(self._checked(at, f"add_op: node {index}") for at in inputs)
        node = Node(op, self._shape(shape), known, params or Params())
        self._check_op(index, node)
        self._nodes.append(node)
        return index

    def set_leaf(self, index: int, data: Tensor) -> None:
        """Replace the content of a leaf; the number of elements stays."""
        node = self[index]
        if node.op is not TensorOp.NONE:
            raise GraphError(
                f"set_leaf: node {index} is {node.op.value}; it must be a leaf", index
            )
        self._check_leaf(index, node, data)
        node.data = data

    def set_params(self, index: int, **changes: Any) -> None:
        """Replace parameters of a node by name, as `integer=position`."""
        node, old = self[index], self[index].params
        node.params = dataclasses.replace(old, **changes)
        try:
            self._check_op(index, node)
        except GraphError:
            node.params = old
            raise

    def run(self, *, timing: bool = False) -> int:
        """Run every op once, in order, with one submission.

        Under `jit` it runs untraced, with a warning, as nodes keep their results.

        Parameters
        ----------
        timing : bool, default False
            Wait for each node and note its `seconds`; then each is one submission.

        Returns
        -------
        int
            Ops dispatched: `n_ops`.

        Raises
        ------
        GraphError
            If an op fails; `node` is its index, and nothing after it ran.
        """
        trace_hooks.once(
            "ComputeGraph.run leaves results in nodes, which a replay would not"
        )
        devices = {node.data.device for node in self._nodes if node.data is not None}
        device = next((one for one in devices if isinstance(one, GpuDevice)), None)
        count = 0
        with no_grad(), unfused(device) if device else nullcontext():
            for index, node in enumerate(self._nodes):
                if node.op is TensorOp.NONE:
                    continue
                start = time.perf_counter()
                try:
                    node.data = self._compute(node)
                    if timing:
                        _finish(node.data)
                except Exception as error:
                    where = f"ComputeGraph: node {index} ({node.op.value})"
                    raise GraphError(f"{where}: {error}", index) from error
                node.seconds = time.perf_counter() - start if timing else None
                count += 1
        return count

    def _compute(self, node: Node) -> Tensor:
        x, *others = (self._value(self._nodes[at]) for at in node.inputs)
        params, (n, k, _, _) = node.params, node.shape
        if node.op is TensorOp.MUL_MAT:
            assert params.weight is not None
            return ops.linear(x, params.weight)
        if node.op is TensorOp.RMS_NORM:
            return ops.rms_norm(x, n, params.gamma, params.scalar)
        if node.op is TensorOp.ADD:
            return ops.add(x, others[0])
        if node.op is TensorOp.MUL:
            return ops.mul(x, others[0])
        if node.op is TensorOp.SILU:
            return ops.silu(x)
        if node.op is TensorOp.COPY:
            return ops.reshape(ops.copy(x), (node.rows, node.width))
        if node.op is TensorOp.ROPE:
            return _rotated(x, k, params)
        q, keys, values = (
            ops.transpose(ops.reshape(value, (value.shape[0], -1, n)), 0, 1)
            for value in (x, *others)
        )
        out = self._attention(q, keys, values, params.integer)
        return ops.reshape(ops.transpose(out, 0, 1), (node.rows, node.width))

    def _value(self, node: Node) -> Tensor:
        """Return the content of a node as (rows, width)."""
        assert node.data is not None
        return ops.reshape(node.data, (node.rows, node.width))

    def _checked(self, index: int, where: str) -> int:
        if not isinstance(index, int) or not 0 <= index < len(self):
            raise GraphError(
                f"{where}: there is no node {index!r} yet; there are {len(self)}", index
            )
        return index

    def _shape(self, shape: Sequence[int]) -> Shape4:
        """Return a shape of four sizes, checked."""
        whole = all(isinstance(size, int) for size in shape)
        if len(shape) != 4 or not whole or min(shape) < 1:
            raise GraphError(
                f"add: node {len(self)}: the shape is {list(shape)}; it must be four"
                f" sizes of at least 1",
                len(self),
            )
        n, k, m, last = shape
        return n, k, m, last

    def _check_leaf(self, index: int, node: Node, data: Tensor) -> None:
        if data.numel() != node.rows * node.width:
            raise GraphError(
                f"leaf: node {index}: the tensor is {tuple(data.shape)}, which does not"
                f" fit {list(node.shape)}: {node.rows} rows of {node.width}",
                index,
            )

    def _check_op(self, index: int, node: Node) -> None:
        """Raise `GraphError` unless the inputs fit the shape."""
        n, k, m, _ = node.shape
        given = [self._nodes[at] for at in node.inputs]
        rows_widths = [(value.rows, value.width) for value in given]
        wanted = {TensorOp.MUL_MAT: (m, k)}.get(node.op, (m, node.width))
        fits = all(pair == wanted for pair in rows_widths)
        if node.op is TensorOp.COPY:
            fits = math.prod(rows_widths[0]) == n * k
        if node.op is TensorOp.SOFT_MAX:
            query, keys, values = rows_widths
            fits = query == wanted and keys == values and keys[1] % n == 0
            fits = fits and keys[1] > 0 and k % (keys[1] // n) == 0
        if not fits:
            raise GraphError(
                f"node {index}: {node.op.value} of shape {list(node.shape)} does not"
                f" fit inputs of (rows, width) {rows_widths}",
                index,
            )
        self._check_params(index, node)

    def _check_params(self, index: int, node: Node) -> None:
        n, k, _, _ = node.shape
        rows = [
            ("weight", TensorOp.MUL_MAT, (n, k)),
            ("gamma", TensorOp.RMS_NORM, (n,)),
        ]
        for name, op, shape in rows:
            value: Tensor | None = getattr(node.params, name)
            found = None if value is None else tuple(value.shape)
            optional = node.op is not TensorOp.MUL_MAT and value is None
            if node.op is op and not optional and found != shape:
                raise GraphError(
                    f"node {index}: {op.value}: {name} is {found}; it must be {shape}",
                    index,
                )


def causal_attention(q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
    """Return causal attention: row i attends to rows 0 to i; ignores the layer.

    Keys and values may have fewer heads than queries.
    """
    return ops.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _rotated(x: Tensor, heads: int, params: Params) -> Tensor:
    """Return rows of heads rotated by their positions."""
    rows, width = x.shape
    apart = ops.reshape(x, (rows, heads, 1, width // heads))
    first = params.integer
    places = ops.reshape(
        arange(first, first + rows, dtype="float32", device=x.device), (rows, 1)
    )
    return ops.reshape(
        ops.rope(apart, places, theta=params.scalar or 10000.0), (rows, width)
    )


def _finish(value: Tensor) -> None:
    """Wait until a value is computed."""
    evaluate(value)
    if isinstance(value.device, GpuDevice):
        value.device.gpu.synchronize()
