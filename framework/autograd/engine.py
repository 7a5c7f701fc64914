"""Autograd engine: the tape, and the backward pass over it (reverse mode).

Every op on a tensor that requires a gradient records a `GradNode`: its gradient rule,
its saved tensors, and edges to the nodes of its inputs. `backward` sorts the reachable
nodes, seeds the outputs, applies each rule once and accumulates where paths join. The
pass is iterative, so depth is not limited.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vkbackend.collector import defer_collections, resume_after_backward

from ..base import trace_hooks
from ..base.errors import DeviceMismatchError, DTypeError, GradError, ShapeError
from ..base.modes import autocast_disabled
from ..base.scoped_setting import SettingScope
from ..base.shape import TensorSpec
from ..eager.base_tensor import TensorCore
from .backward_cache import visit_all
from .grad_mode import (
    grad_mode as grad_mode,
)
from .grad_mode import (
    is_grad_enabled as is_grad_enabled,
)
from .grad_mode import (
    no_grad as no_grad,
)
from .gradient_hooks import (
    after_accumulation,
    hooked,
    hooked_after,
    hooked_before,
)
from .partial_grad import PartialGrad, dense
from .running_pass import check_gradients, running
from .tape import (
    Edge as Edge,
)
from .tape import (
    GradNode as GradNode,
)
from .tape import (
    Saved as Saved,
)
from .tape import (
    edge_of as edge_of,
)
from .tape import (
    release,
)
from .tape import (
    save as save,
)

if TYPE_CHECKING:
    from ..base.shape import Shape


def backward(
    outputs: Sequence[TensorCore | Edge],
    grads: Sequence[TensorCore],
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[TensorCore | Edge] | None = None,
) -> list[Any]:
    """Accumulate gradients from `outputs` into the leaves, or return those of `inputs`.

    Parameters
    ----------
    outputs : sequence of Tensor or Edge
        Roots of the backward pass.
    grads : sequence of Tensor
        Gradient of each output, of its shape and device; it is cast to its dtype.
    retain_graph : bool or None
        Keep the saved tensors, so that another backward pass is possible; None does as
        `create_graph` says.
    create_graph : bool, default False
        Record the backward pass itself, so that gradients can be differentiated.
    inputs : sequence of Tensor or Edge, or None
        Return these gradients (None where there is no path) and leave `.grad` alone.

    Raises
    ------
    GradError
        If an output is not on the tape, its saved tensors were freed by a pass without
        `retain_graph`, or a saved tensor was changed in place.
    ShapeError, DTypeError, DeviceMismatchError
        If a gradient does not go with its output.
    """
    retain = create_graph if retain_graph is None else retain_graph
    backward_pass = BackwardPass(create_graph, retain, inputs)
    roots: list[Edge] = []
    for output, grad in zip(outputs, grads):
        edge = output if isinstance(output, Edge) else edge_of(output)
        if edge is None:
            raise GradError(
                "backward: the tensor does not require a gradient;"
                " set requires_grad=True on something it is computed from"
            )
        if not isinstance(output, Edge):
            grad = _seed(output, grad)
        roots.append(edge)
        backward_pass.add(edge, grad)
    passes = running.passes
    passes.append(backward_pass)
    deferred = defer_collections()
    try:
        with SettingScope(grad_mode, create_graph), autocast_disabled():
            nodes = backward_pass.needed(_sorted_nodes(roots))
            if _has_hooks(nodes):
                backward_pass.count_uses(nodes)
            visit_all(backward_pass, nodes)
            found = backward_pass.results()
            for at_end in backward_pass.at_end:
                at_end()
            return found
    finally:
        if deferred:
            resume_after_backward()
        passes.pop()


def _seed(output: TensorCore, grad: Any) -> Any:
    """Return an output's gradient in its dtype; its shape and device must agree."""
    if grad.shape != output.shape:
        raise ShapeError(
            f"backward: grad has shape {tuple(grad.shape)};"
            f" it must have the tensor's shape {tuple(output.shape)}"
        )
    if grad.dtype.is_complex is not output.dtype.is_complex:
        raise DTypeError(
            f"backward: grad is {grad.dtype.name}, the tensor {output.dtype.name};"
            " both must be complex, or neither"
        )
    if grad.device is not output.device:
        raise DeviceMismatchError(
            f"backward: grad is on {grad.device}, the tensor on {output.device};"
            " move one with .to()"
        )
    return grad if grad.dtype is output.dtype else grad.to(output.dtype)


def _sorted_nodes(roots: Sequence[Edge]) -> list[GradNode]:
    """Return every reachable node, last first: recorded order is topological."""
    found: dict[int, GradNode] = {}
    stack = [edge[0] for edge in roots if isinstance(edge[0], GradNode)]
    while stack:
        node = stack.pop()
        if node.sequence in found:
            continue
        found[node.sequence] = node
        for edge in node.edges:
            if edge is not None and isinstance(edge.target, GradNode):
                stack.append(edge.target)
    return [found[key] for key in sorted(found, reverse=True)]


def _has_hooks(nodes: list[GradNode]) -> bool:
    """Return whether a node, or a leaf that it has an edge to, has hooks."""
    for node in nodes:
        if node.hooks is not None or not node.has_rule:
            return True
        for edge in node.edges:
            if edge is not None and getattr(edge[0], "hooks", None) is not None:
                return True
    return False


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


class BackwardPass:
    """State of a backward pass: accumulated gradients by node output.

    Attributes
    ----------
    pending : dict of (int, int) to Tensor
        Gradients so far, by node or leaf and output.
    leaves : dict of int to Tensor
        Leaves that gradients have arrived at and that have not accumulated them.
    hooked : set of (int, int)
        Outputs whose hooks have run.
    uses : dict of int to int, or None
        For each leaf the edges to it that have not been passed, where hooks can tell
        when it accumulates; without hooks all leaves do at the end.
    at_end : list of callable
        Called without arguments once all gradients are there; hooks may add to it.
    """

    def __init__(
        self,
        create_graph: bool,
        retain: bool,
        inputs: Sequence[TensorCore | Edge] | None,
    ) -> None:
        self.create_graph = create_graph
        self.retain = retain
        self.pending: dict[tuple[int, int], Any] = {}
        self.leaves: dict[int, TensorCore] = {}
        self.hooked: set[tuple[int, int]] = set()
        self.captured: dict[tuple[int, int], Any] = {}
        self.uses: dict[int, int] | None = None
        self.visited: set[int] = set()
        self.at_end: list[Callable[[], object]] = []
        self.wanted: list[Edge | None] | None = None
        if inputs is not None:
            self.wanted = [
                each if isinstance(each, Edge) else edge_of(each) for each in inputs
            ]

    def needed(self, nodes: list[GradNode]) -> list[GradNode]:
        """Return the nodes, last first, whose rules the wanted gradients need."""
        if self.wanted is None:
            return nodes
        wanted = {(id(edge[0]), edge[1]) for edge in self.wanted if edge is not None}
        needed: set[int] = set()
        for node in reversed(nodes):
            for edge in node.edges:
                if edge is not None and (
                    (id(edge[0]), edge[1]) in wanted or id(edge[0]) in needed
                ):
                    needed.add(id(node))
                    break
        return [node for node in nodes if id(node) in needed]

    def count_uses(self, nodes: list[GradNode]) -> None:
        """Note which nodes the pass visits, and how many edges lead to each leaf."""
        uses: dict[int, int] = {}
        self.uses = uses
        self.visited = {id(node) for node in nodes}
        for node in nodes:
            for edge in node.edges:
                if edge is not None and not isinstance(edge[0], GradNode):
                    uses[id(edge[0])] = uses.get(id(edge[0]), 0) + 1

    def reaches(self, edge: Edge) -> bool:
        """Return whether a gradient along an edge, if there is one, is passed on."""
        at = id(edge[0])
        if at in self.visited:
            return True
        if self.wanted is None:
            return at in (self.uses or ()) or at in self.leaves
        return any(each is not None and each[0] is edge[0] for each in self.wanted)

    def accumulate_after(self, node: GradNode) -> None:
        """Accumulate into the leaves that no other node leads to any more."""
        for edge in node.edges:
            if edge is not None and not isinstance(edge[0], GradNode):
                self.count_passed(edge[0], 1)

    def count_passed(self, target: Any, count: int) -> None:
        """Count edges to a leaf as passed; after the last one it accumulates."""
        uses, at = self.uses, id(target)
        assert uses is not None
        uses[at] -= count
        if not uses[at] and self.wanted is None and at in self.leaves:
            leaf = self.leaves.pop(at)
            accumulate_leaf(leaf, dense(self.pending.pop((at, 0))))

    def add(self, edge: Edge, grad: Any) -> None:
        """Accumulate a gradient along an edge."""
        target = edge[0]
        key = id(target), edge[1]
        if not isinstance(target, GradNode):
            self.leaves[key[0]] = target
        before = self.pending.get(key)
        if before is not None:
            if isinstance(before, PartialGrad):
                grad = before.plus(grad)
            elif isinstance(grad, PartialGrad):
                grad = grad.plus(before)
            elif before.is_wrapper:
                # A dense gradient first, which a sparse one can be added to.
                grad = sum_of(before, grad)
            else:
                grad = before + grad
        self.pending[key] = grad

    def visit(self, node: GradNode) -> None:
        """Apply a node's rule to the gradient of its output."""
        if not node.has_rule or node.hooks is not None:
            self._visit_with_hooks(node)
            return
        key = (id(node), 0)
        grad = self.pending.get(key)
        if grad is None:
            return
        if type(grad) is PartialGrad and not getattr(
            node.apply, "accepts_partial", False
        ):
            self.pending[key] = grad = grad.dense()
        self._spread(node, self._apply(node, grad))
        if self.wanted is None:
            del self.pending[key]
        if not self.retain:
            release(node)

    def _apply(self, node: GradNode, grad: Any) -> tuple[Any, ...]:
        """Return the gradients of a node's inputs, by its rule."""
        answers = node.apply(grad=grad, **self._arguments(node))
        return answers if isinstance(answers, tuple) else (answers,)

    def _spread(self, node: GradNode, answers: tuple[Any, ...]) -> None:
        """Accumulate the gradients of a node's inputs along its edges."""
        if check_gradients:
            check_gradients[0](node, answers)
        for edge, spec, answer in zip(node.edges, node.specs, answers):
            if edge is not None and answer is not None:
                self.add(edge, sum_to(answer, spec))

    def _visit_with_hooks(self, node: GradNode) -> None:
        """Apply the rule of a node that has hooks or several outputs."""
        hooks = node.hooks
        keys = [(id(node), at) for at in range(node.output_count)]
        if not any(key in self.pending for key in keys):
            return
        for key in keys:
            self._at_output(node, key)
        grads = tuple([self.pending.get(key) for key in keys])
        if hooks is not None and hooks.before:
            grads = hooked_before(hooks.before, grads)
        if node.has_rule:
            answers = self._apply(node, grads[0])
        else:
            answers = node.run(grads, selective=self.wanted is not None)
        if hooks is not None and hooks.after:
            answers = tuple(
                [
                    None if edge is None or answer is None else sum_to(answer, spec)
                    for edge, spec, answer in zip(node.edges, node.specs, answers)
                ]
            )
            answers = hooked_after(hooks.after, tuple(map(dense, answers)), grads)
        self._spread(node, answers)
        if self.wanted is None:
            for key in keys:
                self.pending.pop(key, None)
        if not self.retain:
            release(node)

    def _at_output(self, node: GradNode, key: tuple[int, int]) -> None:
        """Run the hooks of a tensor, the output of a node, on its gradient."""
        grad = self.pending.get(key)
        if grad is not None:
            grad = dense(grad)
            if self.wanted is not None and id(node) in self.visited:
                # What is asked for at a node on the way is what arrives there.
                self.captured[key] = grad
            if node.hooks is not None:
                grad = node.hooks.at_output(key[1], grad)
            self.pending[key] = grad
        self.hooked.add(key)

    def _arguments(self, node: GradNode) -> dict[str, Any]:
        if node.saved is None:
            raise GradError(
                f"backward: what {node.op_name} saved was freed by an earlier backward;"
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
                f"backward: `{name}`, which {node.op_name} saved, was changed in place:"
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
        tensor.needs_grad = True
        tensor.grad_node, tensor.grad_index = edge.target, edge.output
        return tensor

    def results(self) -> list[Any]:
        """Return the gradients of the requested inputs, or accumulate into leaves."""
        if self.wanted is None:
            for leaf in self.leaves.values():
                accumulate_leaf(leaf, dense(self.pending[(id(leaf), 0)]))
            return []
        for edge in self.wanted:
            if edge is not None:
                self._at_input(edge)
        found = []
        for edge in self.wanted:
            key = None if edge is None else (id(edge.target), edge.output)
            own = None if key is None else self.pending.get(key)
            found.append(dense(self.captured.get(key, own) if key else own))
        return found

    def _at_input(self, edge: Edge) -> None:
        """Run the hooks of a requested input that have not run."""
        key = id(edge.target), edge.output
        if key in self.hooked or key not in self.pending:
            return
        target = edge.target
        if isinstance(target, GradNode):
            if target.hooks is not None:
                self._at_output(target, key)
        elif target.hooks is not None:
            grad = dense(self.pending[key])
            self.pending[key] = hooked(target.hooks.gradient, grad)
            self.hooked.add(key)


def accumulate_leaf(leaf: TensorCore, grad: Any, *, hook: bool = True) -> None:
    """Add a gradient to that of a leaf, with the leaf's hooks around.

    `hook` False means that those on the gradient have run.
    """
    hooks = leaf.hooks
    if hooks is not None:
        if hook:
            grad = hooked(hooks.gradient, grad)
        (grad,) = hooked_before(hooks.before, (grad,))
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
    elif is_grad_enabled() or grad.is_wrapper or leaf.own_grad.is_wrapper:
        leaf.own_grad = sum_of(leaf.own_grad, grad)
    else:
        _add_in_place(leaf.own_grad, grad)
    if hooks is not None:
        after_accumulation(hooks, leaf, grad)


def sum_of(before: Any, grad: Any) -> Any:
    """Return the sum of two gradients, of which either may be sparse."""
    if before.is_wrapper and not grad.is_wrapper:
        return grad + before
    return before + grad


def _add_in_place(total: Any, grad: Any) -> None:
    """Add a gradient to one of a leaf, in its storage, as PyTorch does.

    It may be a part of another tensor, and a replay has to find it.
    """
    new = total + grad
    array, made = total.array, new.array
    if new.layout is not total.layout or array.value.numel != made.value.numel:
        total.copy_(new)
        return
    with total.device.lock:
        value = made.value
        array.rebind(value)
        # Another thread's flush may have failed, and rolled it back.
        while value is not made.value:
            value = made.value
            array.rebind(value)


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
