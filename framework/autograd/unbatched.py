"""Functions that PyTorch computes with one dimension more, in the graph and for hooks.

Of signals without a batch, say, PyTorch adds a dimension, calls a function of batches
and drops the dimension again, which are three nodes. Here one function takes both; its
graph shows the three, and has them once a hook is to see the gradients between.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ..base.shape import TensorSpec
from ..eager.base_tensor import TensorCore
from .decomposed import ComposableNode
from .shown_hooks import key_of, nodes_between
from .tape import Edge, GradNode, ShownNode, named, show_as, shown_as

F = TypeVar("F", bound=Callable[..., Any])

GOLDEN = (math.sqrt(5) - 1) / 2

COPIED = ("apply", "edges", "kind", "op_name", "saved", "specs")
"""What a node does, without its place in the graph."""


def unbatched_as(
    name: str, *parameters: str, dims: Sequence[int], dim: int
) -> Callable[[F], F]:
    """Decorate a function, which the graph shows as `shown_as` does, or as unbatched.

    Parameters
    ----------
    name : str
        PyTorch's name of the function's node.
    *parameters : str
        Parameters, taken by place, of the tensors that the node leads to.
    dims : sequence of int
        With how many dimensions of the result PyTorch adds one to the first tensor.
    dim : int
        Where.
    """

    def decorate(function: F) -> F:
        plain = shown_as(name, *parameters)(function)

        @functools.wraps(function)
        def shown(*args: Any, **kwargs: Any) -> Any:
            results = plain(*args, **kwargs)
            out = results[0] if isinstance(results, tuple) else results
            if out.grad_node is not None and out.ndim in dims:
                _with_dimension(out, name, dim)
            return results

        return cast(F, shown)

    return decorate


def show_unbatched(
    result: TensorCore, name: str, dim: int, first: Any, *others: Any
) -> None:
    """Show a result as `show_as`, of a first input with a dimension that it drops."""
    show_as(result, name, first, *others)
    _with_dimension(result, name, dim)


def _with_dimension(out: TensorCore, name: str, dim: int) -> None:
    node = out.grad_node
    shown = getattr(node, "shown", None)
    # An input that is returned as it is has a node of its own.
    if node is not None and type(shown) is ShownNode and shown.name == name:
        node.shown = UnbatchedNode(shown, out.spec, dim)


class UnbatchedNode(ComposableNode):
    """Shown node that drops a dimension, before that of a function of batches.

    Parameters
    ----------
    function : ShownNode
        The function's, with the edges of its inputs.
    spec : TensorSpec
        Of the result, without the dimension.
    dim : int
        Where the dimension is, in the function's first input and its result.
    """

    __slots__ = ("dim", "spec")

    def __init__(self, function: ShownNode, spec: TensorSpec, dim: int) -> None:
        first, *others = function.edges
        wider = None if first is None else ShownNode("UnsqueezeBackward0", (first,))
        super().__init__(
            "SqueezeBackward1", (ShownNode(function.name, (wider, *others)),)
        )
        self.spec, self.dim = spec, dim

    def compose(self, node: GradNode) -> bool:
        """Put nodes that add and drop the dimension around those of the function.

        Return whether that was done: not where hooks have been gathered around the
        node, or its nodes lead elsewhere.
        """
        (function,) = self.edges
        wider, *others = function.edges
        first = None if wider is None else wider.edges[0]
        ends = {key_of(edge) for edge in (first, *others) if edge is not None}
        inner = nodes_between(node, ends)
        if self._hooks is not None or inner is None or not node.has_rule:
            return False
        first_at, second_at = _two_below(node.sequence, [*map(_sequence, node.edges)])
        moved = GradNode("", _unset, (), (), {})
        _set(moved, first_at, **{at: getattr(node, at) for at in COPIED})
        batched = _place(function)
        self._drops(batched, Edge(moved, 0), self.spec, second_at)
        edge = None
        if first is not None:
            inner[inner.index(node)] = moved
            edge = Edge(self._widen(wider, first, inner), 0)
        batched.shown = ShownNode(function.name, (edge, *others))
        named(batched)
        wide = self._wide(self.spec)
        _set(node, node.sequence, "squeeze", self._adds, (Edge(batched, 0),), (wide,))
        node.shown = ShownNode("SqueezeBackward1", node.edges)
        return True

    def _widen(self, wider: ShownNode, first: Edge, inner: list[GradNode]) -> GradNode:
        """Put a dimension that is added and dropped before the first input."""
        leading = [
            (each, at)
            for each in inner
            for at, edge in enumerate(each.edges)
            if edge is not None and key_of(edge) == key_of(first)
        ]
        behind = min((each.sequence for each, _ in leading), default=inner[0].sequence)
        first_at, second_at = _two_below(behind, [_sequence(first)])
        added, dropped = _place(wider), GradNode("", _unset, (), (), {})
        for each, at in leading:
            spec = each.specs[at]
            each.edges = (*each.edges[:at], Edge(dropped, 0), *each.edges[at + 1 :])
        if leading:
            self._drops(added, first, spec, first_at)
            edges, wide = (Edge(added, 0),), (self._wide(spec),)
            _set(dropped, second_at, "squeeze", self._adds, edges, wide)
        named(added)
        return added

    def _drops(
        self, node: GradNode, edge: Edge, spec: TensorSpec, sequence: float
    ) -> None:
        """Make a node that of `unsqueeze`."""
        dim = self.dim

        def narrowed(grad: Any) -> Any:
            return grad.squeeze(dim)

        _set(node, sequence, "unsqueeze", narrowed, (edge,), (spec,))

    def _adds(self, grad: Any) -> Any:
        return grad.unsqueeze(self.dim)

    def _wide(self, spec: TensorSpec) -> TensorSpec:
        shape = [*spec.shape]
        at = self.dim if self.dim >= 0 else len(shape) + 1 + self.dim
        return TensorSpec((*shape[:at], 1, *shape[at:]), spec.dtype)


def _place(shown: ShownNode) -> GradNode:
    """Return the node that the program was given for a shown one, or a new one."""
    node = shown.given
    if node is None:
        return GradNode("", _unset, (), (), {})
    node.__class__ = GradNode
    if hasattr(node, "shown"):
        del node.shown
    return node


def _sequence(edge: Edge | None) -> float:
    """Return the sequence number of the node that an edge leads to."""
    target = None if edge is None else edge.target
    return target.sequence if isinstance(target, GradNode) else -math.inf


def _two_below(high: float, behind: list[float]) -> tuple[float, float]:
    """Return two sequence numbers below one and above others, which no node has.

    Recorded nodes have whole numbers, and composed ones fractions of small
    denominators between them.
    """
    low = max([*behind, math.ceil(high) - 1])
    return low + (high - low) * GOLDEN**2, low + (high - low) * GOLDEN


def _set(
    node: GradNode,
    sequence: Any,
    op_name: str,
    apply: Callable[..., Any],
    edges: tuple[Edge | None, ...],
    specs: tuple[TensorSpec, ...],
    saved: dict[str, Any] | None = None,
    kind: object = None,
) -> None:
    """Let a node do something else, in another place."""
    node.sequence, node.op_name, node.apply = sequence, op_name, apply
    node.edges, node.specs, node.kind = edges, specs, kind
    node.saved = {} if saved is None else saved


def _unset(*_: Any, **__: Any) -> Any:
    raise NotImplementedError
