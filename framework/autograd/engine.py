"""Autograd engine: the tape, and the backward pass over it (reverse mode).

Every op on a tensor that requires a gradient records a `GradNode`: its gradient rule,
its saved tensors, and edges to the nodes of its inputs. `backward` sorts the reachable
nodes, seeds the outputs, applies each rule once and accumulates where paths join. The
pass is iterative, so depth is not limited.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import trace_hooks
from ..base.errors import DeviceMismatchError, DTypeError, GradError, ShapeError
from ..base.modes import autocast_disabled
from ..base.scoped_setting import ScopedSetting, ScopeFrame, SettingScope
from ..base.shape import TensorSpec
from ..eager.base_tensor import TensorCore, assembled
from .partial_grad import PartialGrad, dense

if TYPE_CHECKING:
    from ..base.device import Device
    from ..base.shape import Layout, Shape
    from ..ir.lazy_graph import Array

_sequence = itertools.count()

# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


grad_mode = ScopedSetting(True)
"""Whether ops are recorded; read where a call of `is_grad_enabled` costs too much."""


def is_grad_enabled() -> bool:
    """Return whether ops are recorded for `backward` in this thread."""
    enabled: bool = grad_mode.top.value
    return enabled


class set_grad_enabled(SettingScope):  # noqa: N801 - PyTorch's name
    """Record, or do not record, ops on the tape.

    In force within the block, or the function; or, called on its own, from then on:
    until the end of the enclosing block, or for good.

    Parameters
    ----------
    enabled : bool
        Whether they are recorded.

    Examples
    --------
    >>> before = set_grad_enabled(False)
    >>> is_grad_enabled()
    False
    >>> before = set_grad_enabled(True)
    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, enabled: bool) -> None:
        super().__init__(grad_mode, bool(enabled))
        scope_frame = grad_mode.top
        self._called: tuple[ScopeFrame, bool] | None = (scope_frame, scope_frame.value)
        scope_frame.value = bool(enabled)

    def _recreate_cm(self) -> Any:
        return SettingScope(grad_mode, self._value)

    def _take_back(self) -> None:
        """Restore the enclosing setting, as this is a block or a decorator."""
        if self._called is not None:
            scope_frame, before = self._called
            scope_frame.value = before
            self._called = None

    def __enter__(self) -> set_grad_enabled:
        self._take_back()
        return super().__enter__()

    def __call__(self, function: Any) -> Any:
        """Return the function with a block of its own in each call."""
        self._take_back()
        return super().__call__(function)


def no_grad() -> Any:
    """Return a context in which nothing is recorded; also works as a decorator.

    It ends at the latest when nothing refers to it any more, so `no_grad().__enter__()`
    on its own does nothing: `set_grad_enabled(False)` stays in force.

    Examples
    --------
    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """
    return SettingScope(grad_mode, False)


def enable_grad() -> Any:
    """Return a context in which ops are recorded, also inside `no_grad`."""
    return SettingScope(grad_mode, True)


class Saved(NamedTuple):
    """Saved tensor: held for the gradient rule, without its tape entry.

    An output's own tape entry would make a cycle, and device memory would then wait
    for the cycle collector instead of being freed by reference count.
    """

    array: Array
    layout: Layout
    device: Device
    kind: type[Any]
    version: int
    edge: int | None
    """Index of the input; None for the first output, -1 for another output."""

    def tensor(self) -> Any:
        """Return the saved tensor, off the tape."""
        return assembled(self.kind, self.array, self.layout, self.device)


class Edge(NamedTuple):
    """Edge of the tape: from an input to the node output, or leaf, that made it."""

    target: GradNode | TensorCore
    output: int


class GradNode:
    """Node of the tape: one recorded op.

    Attributes
    ----------
    name : str
        The op, for error messages.
    apply : callable
        Gradient rule: from the output's gradient and saved arguments to one gradient
        per input.
    edges : tuple of Edge or None
        One per tensor input; None where no gradient is required.
    specs : tuple of TensorSpec
        Of the inputs; gradients are summed back to them.
    saved : dict
        Saved arguments of the rule, by name.
    kind : object or None
        Call-cache entry, shared by calls that differ only in elements and scalars, if
        there is one; see `backward_cache`.
    """

    __slots__ = (
        "apply",
        "edges",
        "hooks",
        "kind",
        "name",
        "saved",
        "sequence",
        "specs",
    )

    def __init__(
        self,
        name: str,
        apply: Callable[..., Any],
        edges: tuple[Edge | None, ...],
        specs: tuple[TensorSpec, ...],
        saved: dict[str, Any],
        kind: object = None,
    ) -> None:
        self.name = name
        self.apply = apply
        self.edges = edges
        self.specs = specs
        self.kind = kind
        self.saved: dict[str, Any] | None = saved
        self.hooks: list[Callable[[Any], Any]] | None = None
        self.sequence = next(_sequence)


def edge_of(tensor: TensorCore) -> Edge | None:
    """Return the edge of an input, or None if it requires no gradient."""
    if not tensor.requires_grad:
        return None
    node = tensor.grad_node
    where = (tensor, 0) if node is None else (node, tensor.grad_index)
    edge: Edge = _tuple(Edge, where)
    return edge


def save(tensor: TensorCore, edge: int | None) -> Saved:
    """Return the saved form of a tensor."""
    array = tensor.array
    kept = array, tensor.layout, tensor.device, tensor.results, array.version, edge
    saved: Saved = _tuple(Saved, kept)
    return saved


def backward(
    outputs: Sequence[TensorCore],
    grads: Sequence[TensorCore],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Sequence[TensorCore] | None = None,
) -> list[Any]:
    """Accumulate gradients from `outputs` into the leaves, or return those of `inputs`.

    Parameters
    ----------
    outputs : sequence of Tensor
        Roots of the backward pass.
    grads : sequence of Tensor
        Gradient of each output, of its shape, dtype and device.
    retain_graph : bool, default False
        Keep the saved tensors, so that another backward pass is possible.
    create_graph : bool, default False
        Record the backward pass itself, so that gradients can be differentiated.
    inputs : sequence of Tensor or None
        Return these gradients (None where there is no path) and leave `.grad` alone.

    Raises
    ------
    GradError
        If an output is not on the tape, its saved tensors were freed by a pass without
        `retain_graph`, or a saved tensor was changed in place.
    ShapeError, DTypeError, DeviceMismatchError
        If a gradient does not go with its output.
    """
    backward_pass = _BackwardPass(create_graph, retain_graph or create_graph, inputs)
    for output, grad in zip(outputs, grads):
        edge = edge_of(output)
        if edge is None:
            raise GradError(
                "backward: the tensor does not require a gradient;"
                " set requires_grad=True on something it is computed from"
            )
        _check_seed(output, grad)
        backward_pass.add(edge, grad)
    with SettingScope(grad_mode, create_graph), autocast_disabled():
        for node in _sorted_nodes(outputs):
            backward_pass.visit(node)
        return backward_pass.results()


def _check_seed(output: TensorCore, grad: TensorCore) -> None:
    """Refuse a gradient that is not of its output's shape, dtype and device."""
    if grad.shape != output.shape:
        raise ShapeError(
            f"backward: grad has shape {tuple(grad.shape)};"
            f" it must have the tensor's shape {tuple(output.shape)}"
        )
    if grad.dtype is not output.dtype:
        raise DTypeError(
            f"backward: grad is {grad.dtype.name};"
            f" it must have the tensor's dtype {output.dtype.name}"
        )
    if grad.device is not output.device:
        raise DeviceMismatchError(
            f"backward: grad is on {grad.device}, the tensor on {output.device};"
            " move one with .to()"
        )


def _sorted_nodes(outputs: Sequence[TensorCore]) -> list[GradNode]:
    """Return every reachable node, last first: recorded order is topological."""
    found: dict[int, GradNode] = {}
    stack = [output.grad_node for output in outputs if output.grad_node is not None]
    while stack:
        node = stack.pop()
        if node.sequence in found:
            continue
        found[node.sequence] = node
        for edge in node.edges:
            if edge is not None and isinstance(edge.target, GradNode):
                stack.append(edge.target)
    return [found[key] for key in sorted(found, reverse=True)]


class _Overwritten:
    """Placeholder of a saved tensor that was changed in place; any use is an error.

    A rule may save more than it uses for the gradients that are required: `x * 2` does
    not use `x`.
    """

    __slots__ = ("_message",)

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> Any:
        raise GradError(self._message)

    def _refuse(self, *_: object) -> Any:
        raise GradError(self._message)

    # What `isinstance` asks, and operators, which Python looks up in the class.
    __class__ = property(_refuse)
    __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __matmul__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __getitem__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = None  # type: ignore[assignment]  # nothing keeps it


class _BackwardPass:
    """State of a backward pass: accumulated gradients by node output."""

    def __init__(
        self, create_graph: bool, retain: bool, inputs: Sequence[TensorCore] | None
    ) -> None:
        self.create_graph = create_graph
        self.retain = retain
        self.pending: dict[tuple[int, int], Any] = {}
        self.leaves: dict[int, TensorCore] = {}
        self.wanted = None
        if inputs is not None:
            self.wanted = [edge_of(tensor) for tensor in inputs]

    def add(self, edge: Edge, grad: Any) -> None:
        """Accumulate a gradient along an edge."""
        target = edge[0]
        key = id(target), edge[1]
        if type(target) is not GradNode:
            self.leaves[key[0]] = target  # type: ignore[assignment]  # a leaf
        before = self.pending.get(key)
        if before is not None:
            if isinstance(before, PartialGrad):
                grad = before.plus(grad)
            elif isinstance(grad, PartialGrad):
                grad = grad.plus(before)
            else:
                grad = before + grad
        self.pending[key] = grad

    def visit(self, node: GradNode) -> None:
        """Apply a node's rule to the gradient of its output."""
        key = (id(node), 0)
        grad = self.pending.get(key)
        if grad is None:
            return
        if type(grad) is PartialGrad:
            if node.hooks or not getattr(node.apply, "accepts_partial", False):
                self.pending[key] = grad = grad.dense()
        for hook in node.hooks or ():
            answer = hook(grad)
            self.pending[key] = grad = grad if answer is None else answer
        answers = node.apply(grad=grad, **self._arguments(node))
        if not isinstance(answers, tuple):
            answers = (answers,)
        for edge, spec, answer in zip(node.edges, node.specs, answers):
            if edge is not None and answer is not None:
                self.add(edge, sum_to(answer, spec))
        if self.wanted is None:
            del self.pending[key]
        if not self.retain:
            node.saved = None

    def _arguments(self, node: GradNode) -> dict[str, Any]:
        if node.saved is None:
            raise GradError(
                f"backward: what {node.name} saved was freed by an earlier backward;"
                " pass retain_graph=True to that one"
            )
        found = {}
        for name, value in node.saved.items():
            kept = type(value) is Saved
            found[name] = self._restore(node, name, value) if kept else value
        return found

    def _restore(self, node: GradNode, name: str, saved: Saved) -> TensorCore:
        """Return a saved tensor, back on the tape when the pass is recorded."""
        if saved.array.version != saved.version:
            overwritten: Any = _Overwritten(
                f"backward: `{name}`, which {node.name} saved, was changed in place:"
                f" version {saved.array.version}, saved at {saved.version};"
                " change a copy instead"
            )
            return overwritten  # type: ignore[no-any-return]  # in its place
        tensor: TensorCore = saved.tensor()
        if not self.create_graph or saved.edge == -1:
            return tensor
        edge = Edge(node, 0) if saved.edge is None else node.edges[saved.edge]
        if edge is None:
            return tensor
        if not isinstance(edge.target, GradNode):
            return edge.target
        tensor.requires_grad = True
        tensor.grad_node, tensor.grad_index = edge.target, edge.output
        return tensor

    def results(self) -> list[Any]:
        """Return the gradients of the requested inputs, or accumulate into leaves."""
        if self.wanted is None:
            for leaf in self.leaves.values():
                _accumulate_leaf(leaf, dense(self.pending[(id(leaf), 0)]))
        return [
            None
            if edge is None
            else dense(self.pending.get((id(edge.target), edge.output)))
            for edge in self.wanted or []
        ]


def _accumulate_leaf(leaf: TensorCore, grad: Any) -> None:
    for hook in leaf.hooks or ():
        answer = hook(grad)
        grad = grad if answer is None else answer
    trace = trace_hooks.listener()
    if trace is not None:
        trace.on_grad_write(leaf, cleared=False)
    # A rule may send one tensor along two edges; each leaf gets a handle of its own.
    if leaf.own_grad is None:
        # Elements that share memory cannot be changed in place, as clipping does.
        shape, strides, _ = grad.layout
        repeated = 0 in strides and any(
            step == 0 and size > 1 for size, step in zip(shape, strides)
        )
        leaf.own_grad = grad.clone() if repeated else grad.alias()
    elif trace is None or grad.requires_grad or leaf.own_grad.requires_grad:
        leaf.own_grad = leaf.own_grad + grad
    else:
        # Into the same storage, so that a replay finds it.
        leaf.own_grad.add_(grad)


def sum_to(grad: Any, spec: TensorSpec) -> Any:
    """Return a gradient summed over broadcast dimensions and cast to the input's dtype.

    The one place where broadcasting is undone; gradient rules may return gradients in
    the broadcast shape.
    """
    if isinstance(grad, PartialGrad):
        return grad
    shape = grad.layout.shape
    if shape != spec.shape:
        grad = grad.sum(dim=_repeated(shape, spec.shape), keepdim=True)
        grad = grad.reshape(spec.shape)
    return grad if grad.dtype is spec.dtype else grad.to(spec.dtype)


@functools.lru_cache(maxsize=1024)
def _repeated(shape: Shape, wanted: Shape) -> tuple[int, ...]:
    """Return the dimensions of a broadcast shape along which elements are repeated."""
    added = len(shape) - len(wanted)
    repeated = [
        dim + added
        for dim, size in enumerate(wanted)
        if size == 1 and shape[dim + added] != 1
    ]
    return (*range(added), *repeated)
