"""The tape: nodes of recorded ops, edges to what made their inputs, saved tensors."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ..base.errors import GradError
from ..base.parameters import parameter_stars
from ..base.shape import TensorSpec, size_of
from ..eager.base_tensor import TensorCore, assembled
from .gradient_hooks import (
    Hooks,
    NodeHooks,
    checked_answers,
    hooks_of,
    put,
    register_on_leaf,
)
from .node_names import NUMBERS, SAVED_NAMES, name_of_node
from .output_metadata import OutputMetadata, spec_along
from .shown_hooks import ShownHooks, ShownInput

if TYPE_CHECKING:
    from ..base.device import Device
    from ..base.hooks import RemovableHandle
    from ..base.shape import Layout
    from ..ir.lazy_graph import Array


F = TypeVar("F", bound="Callable[..., Any]")

_sequence: Iterator[int] = itertools.count()

# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


def next_sequence() -> int:
    """Return a number above those of all nodes so far, and below all later ones."""
    return next(_sequence)


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


class ShownNode:
    """What the graph shows in the place of nodes of the ops that a function calls.

    Attributes
    ----------
    name : str
        PyTorch's name of the node.
    edges : tuple
        Those of the function's tensors, None where they need no gradient, and further
        `ShownNode`s.
    given : GradNode or None
        The node that the program was given for it, between others.
    """

    __slots__ = ("_hooks", "edges", "given", "name")

    def __init__(self, name: str, edges: tuple[Any, ...]) -> None:
        self.name = name
        self.edges = edges
        self.given: GradNode | None = None
        self._hooks: ShownHooks | None = None

    def finish(self) -> None:
        """Set name and edges where that was put off until they are asked for."""

    def hooks_of(self, node: GradNode) -> Hooks:
        """Return the hooks after the rules of what is shown in the place of a node."""
        if self._hooks is None:
            self._hooks = ShownHooks(self.name, node, [*map(_shown_input, self.edges)])
        return self._hooks.hooks

    def compose(self, node: GradNode) -> bool:
        """Record what is shown in the place of a node; return whether that is known."""
        return False

    def node(self, leads_here: GradNode) -> GradNode:
        """Return the node that the program is given, which no backward pass visits."""
        if self.given is None:
            before = {"before": leads_here}
            self.given = UnvisitedNode(self.name, _unpassed, (), (), before)
            self.given.shown = self
        return self.given


class Edge(NamedTuple):
    """Edge of the tape: from an input to the node output, or leaf, that made it."""

    target: GradNode | TensorCore
    output: int


SAME = "same tensor"
"""Nodes of tensors that a function is given again, which the graph does not show."""

SHOWN: dict[str, Callable[[GradNode], ShownNode]] = {}
"""What the graph shows for nodes of an op, made when a program looks: by op."""


class GradNode:
    """Node of the tape: one recorded op.

    Attributes
    ----------
    op_name : str
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
        "noted",
        "op_name",
        "outputs",
        "saved",
        "sequence",
        "shown",
        "specs",
    )

    shown: ShownNode
    outputs: dict[int, OutputMetadata]

    has_rule = True
    """Whether `apply` takes the gradient of its one output; or else `run` does."""

    def __init__(
        self,
        name: str,
        apply: Callable[..., Any],
        edges: tuple[Edge | None, ...],
        specs: tuple[TensorSpec, ...],
        saved: dict[str, Any],
        kind: object = None,
    ) -> None:
        self.op_name = name
        self.apply = apply
        self.edges = edges
        self.specs = specs
        self.kind = kind
        self.saved: dict[str, Any] | None = saved
        self.hooks: NodeHooks | None = None
        self.sequence = next(_sequence)

    @property
    def output_count(self) -> int:
        """Number of outputs that gradients may arrive for."""
        return 1

    def run(self, grads: tuple[Any, ...], *, selective: bool) -> tuple[Any, ...]:
        """Return the gradients of the inputs; for nodes of several outputs.

        `selective` says whether the pass is for the gradients of some tensors only.
        """
        raise NotImplementedError

    def name(self) -> str:
        """Return the name as PyTorch forms it, as "AddBackward0"."""
        shown = self._shown()
        if shown is not None:
            return shown.name
        return name_of_node(self.op_name, self.apply)

    def _shown(self) -> ShownNode | None:
        try:
            shown = self.shown
        except AttributeError:
            rule = SHOWN.get(self.op_name)
            if rule is None:
                return None
            shown = self.shown = rule(self)
        shown.finish()
        return shown

    def __repr__(self) -> str:
        return f"<{self.name().rpartition(':')[2]} object at {id(self):#x}>"

    def __getattr__(self, name: str) -> Any:
        """Return a saved argument by PyTorch's name, as `_saved_self`, off the tape.

        Raises
        ------
        AttributeError
            For another name, and where the op's rule saves no such argument.
        GradError
            If a backward pass has freed it.
        """
        if not name.startswith("_saved_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        if self.saved is None:
            raise GradError(
                f"{name}: what {self.op_name} saved was freed by an earlier backward;"
                " pass retain_graph=True to that one"
            )
        saved = dict(self.saved.items())
        wanted = name.removeprefix("_saved_")
        wanted = SAVED_NAMES.get(wanted, wanted)
        if wanted == "self":
            found = [e for e in saved.values() if type(e) is Saved and e.edge == 0]
        else:
            found = [saved[wanted]] if wanted in saved else []
        if not found:
            raise AttributeError(
                f"{name}: {self.op_name} saves {', '.join(saved) or 'nothing'}"
            )
        return found[0].tensor() if type(found[0]) is Saved else found[0]

    @property
    def metadata(self) -> dict[Any, Any]:
        """What a program notes on the node."""
        try:
            return self.noted
        except AttributeError:
            self.noted: dict[Any, Any] = {}
            return self.noted

    @property
    def _input_metadata(self) -> list[OutputMetadata | None]:
        """What the gradients that it takes are like; None where nothing led there."""
        found = getattr(self, "outputs", {})
        count = max(self.output_count, *found, 1)
        return [found.get(at) for at in range(count)]

    def note_output(self, at: int, like: OutputMetadata) -> None:
        """Note what an output is like, by which the program came to the node."""
        try:
            self.outputs[at] = like
        except AttributeError:
            self.outputs = {at: like}

    def _device(self) -> Device | None:
        """Return the device of an output by which the program came here."""
        for like in getattr(self, "outputs", {}).values():
            return cast("OutputMetadata", like).device
        return None

    def _sequence_nr(self) -> int:
        return int(self.sequence)

    def _places(self) -> tuple[int, ...] | None:
        """Return which edges are inputs of PyTorch's node, -1 for a number there.

        None is for all edges in their order.
        """
        present = getattr(self.apply, "present", None)
        if self._shown() is not None:
            return None
        if self.op_name == "dropout":
            # PyTorch's multiplies by a mask.
            return (0, -1)
        if self.op_name == "where":
            return (1, 2) if present is None else present[1:]
        if present is None or -1 not in present:
            return None
        wrapped = self.op_name in (NUMBERS if present[0] == 0 else NUMBERS[:2])
        return (0, -1) if wrapped else None

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Nodes of the inputs, each with the index of its output; None for constants.

        A leaf's is an `AccumulateGrad`.
        """
        found: list[tuple[Any, int]] = []
        shown = self._shown()
        for edge in self.edges if shown is None else shown.edges:
            if isinstance(edge, Edge) and getattr(edge.target, "op_name", "") == SAME:
                (edge,) = edge.target.edges  # type: ignore[union-attr]  # a node
            if edge is None:
                found.append((None, 0))
            elif isinstance(edge, ShownNode):
                found.append((named(edge.node(self)), 0))
            elif isinstance(edge.target, GradNode):
                spec = spec_along(self, edge)
                if spec is not None:
                    like = OutputMetadata(
                        size_of(spec.shape), spec.dtype, self._device()
                    )
                    edge.target.note_output(edge.output, like)
                found.append((named(edge.target), edge.output))
            else:
                found.append((AccumulateGrad(edge.target), 0))
        places = self._places()
        if places is not None:
            found = [(None, 0) if at < 0 else found[at] for at in places]
        return tuple(found)

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn` with the gradients of the inputs and of the outputs, two tuples.

        It runs after the node's rule, and may return other gradients of the inputs.

        Raises
        ------
        GradError
            If the node stands for several that compute the gradient together, none of
            which has the gradients of just these inputs.
        """
        shown = self._shown()
        own = hooks_of(self).after if shown is None else shown.hooks_of(self)
        places = self._places()
        if places is not None:
            fn = functools.partial(_hooked_at, fn, places)
        handle: RemovableHandle = put(own, fn)
        return handle

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn` with the tuple of the outputs' gradients before the node's rule.

        It may return another tuple.
        """
        handle: RemovableHandle = put(hooks_of(self).before, fn)
        return handle


def _hooked_at(
    hook: Callable[..., Any],
    places: tuple[int, ...],
    grads: tuple[Any, ...],
    outer: tuple[Any, ...],
) -> tuple[Any, ...] | None:
    """Call a hook with the gradients of PyTorch's inputs, None for those of numbers."""
    given = tuple([None if at < 0 else grads[at] for at in places])
    answer = hook(given, outer)
    if answer is None:
        return None
    found = [*grads]
    for at, each in zip(places, checked_answers(answer, given)):
        if at >= 0:
            found[at] = each
    return tuple(found)


@functools.cache
def _class_named(name: str, base: type[GradNode]) -> type[GradNode]:
    """Return the class of nodes of this name, which is as its base."""
    return type(name, (base,), {"__slots__": (), "__module__": base.__module__})


def named(node: GradNode | None) -> GradNode | None:
    """Return a node, whose class then has its name, as a program may ask for.

    Nodes get such a class when they are shown, so that recording one costs nothing.
    """
    kind = type(node)
    if node is not None and kind.__module__ == __name__:
        base = UnvisitedNode if issubclass(kind, UnvisitedNode) else GradNode
        node.__class__ = _class_named(node.name().rpartition(":")[2], base)
    return node


class UnvisitedNode(GradNode):
    """Node that stands for a part of what several nodes compute together."""

    __slots__ = ()

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn` as another node does, if it can be recorded; see `GradNode`."""
        return self._recorded("register_hook").register_hook(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn` as another node does, if it can be recorded; see `GradNode`."""
        return self._recorded("register_prehook").register_prehook(fn)

    def _recorded(self, where: str) -> GradNode:
        """Return the node itself, once a backward pass visits it."""
        first: GradNode = self
        while isinstance(first, UnvisitedNode) and first.saved is not None:
            first = first.saved["before"]
        shown = first._shown()
        if shown is None or not shown.compose(first):
            raise GradError(
                f"{where}: {self.name()} is shown as in PyTorch, but its gradient is"
                " computed together with the node's that leads to it, so that the hook"
                " would not be called; register it on that node, or on a tensor"
            )
        return self


class AccumulateGrad:
    """Node of a leaf: where a backward pass ends, and adds to `.grad`.

    Attributes
    ----------
    variable : Tensor
        The leaf.
    """

    next_functions = ()

    variable: TensorCore

    def __new__(cls, variable: TensorCore) -> AccumulateGrad:
        """Return the leaf's node, the same one as long as the program has it."""
        found = _accumulators.get(id(variable))
        if found is None:
            found = super().__new__(cls)
            found.variable = variable
            found = _accumulators.setdefault(id(variable), found)
        return found

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def name(self) -> str:
        """Return the node's name."""
        return "torch::autograd::AccumulateGrad"

    @property
    def _input_metadata(self) -> list[OutputMetadata | None]:
        """What the gradient that it takes is like, in a list."""
        leaf = self.variable
        return [OutputMetadata(leaf.shape, leaf.dtype, leaf.device)]

    @property
    def metadata(self) -> dict[Any, Any]:
        """What a program notes on the leaf's node."""
        found: dict[Any, Any] = vars(self.variable).setdefault("_node_metadata", {})
        return found

    def _sequence_nr(self) -> int:
        # Above those of all nodes: a leaf accumulates as soon as it can.
        return 2**64 - 1

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn` with () and the tuple of the gradient, once it is accumulated."""
        return register_on_leaf(self.variable, fn, "after")

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn` with the tuple of the gradient; it may return another one."""
        return register_on_leaf(self.variable, fn, "before")


# By the `id` of their leaves, which they keep alive.
_accumulators: weakref.WeakValueDictionary[int, AccumulateGrad] = (
    weakref.WeakValueDictionary()
)


class GradientLike(NamedTuple):
    """What a gradient along an edge is like."""

    spec: TensorSpec
    device: Device
    kind: type[Any]


class GradientEdge(NamedTuple):
    """Edge of the tape that a tensor's gradient comes along.

    Attributes
    ----------
    node : Node or AccumulateGrad
    output_nr : int
        Which output of the node it is.
    ownership_token : object
        What a gradient along it is like, where that is known.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None

    @property
    def edge(self) -> Edge:
        """The edge as the engine has it."""
        if isinstance(self.node, AccumulateGrad):
            return Edge(self.node.variable, 0)
        return Edge(self.node, self.output_nr)


def edge_of(tensor: TensorCore) -> Edge | None:
    """Return the edge of an input, or None if it requires no gradient."""
    if not tensor.needs_grad:
        return None
    node = tensor.grad_node
    where = (tensor, 0) if node is None else (node, tensor.grad_index)
    edge: Edge = _tuple(Edge, where)
    return edge


def _unpassed(*_: Any, **__: Any) -> Any:
    raise GradError("backward: a node that only shows what a function does is passed")


def show_as(result: TensorCore, name: str, *inputs: Any) -> None:
    """Let the graph show the node of a function's result as PyTorch's.

    Backward passes go through the nodes of the ops that the function calls.

    Parameters
    ----------
    result : TensorCore
        Made by the function; nothing happens where it was not recorded.
    name : str
        PyTorch's name of the node.
    *inputs : TensorCore, ShownNode or None
        What the node leads to.
    """
    node = result.grad_node
    if node is not None:
        # Inlines `edge_of`, as it runs once per call of many functions.
        edges: list[Any] = []
        for each in inputs:
            if each is None or type(each) is ShownNode:
                edges.append(each)
            elif each.needs_grad:
                target = each.grad_node
                if target is node:
                    # An input that is returned as it is keeps its node.
                    return
                where = (each, 0) if target is None else (target, each.grad_index)
                edges.append(_tuple(Edge, where))
            else:
                edges.append(None)
        node.shown = ShownNode(name, tuple(edges))


def shown_as(name: str | Callable[..., str], *parameters: str) -> Callable[[F], F]:
    """Decorate a function whose results the graph shows as PyTorch's; see `show_as`.

    Parameters
    ----------
    name : str or callable
        PyTorch's name of the node, or a function that returns it for the arguments of
        a call; "" leaves the results as they are.
    *parameters : str
        Parameters, taken by place, of the tensors that the node leads to.
    """

    def decorate(function: F) -> F:
        places = [*parameter_stars(function)]
        wanted = [(places.index(each), each) for each in parameters]
        last = max([place for place, _ in wanted], default=-1)
        # Of one alone none is given twice: it is looked at where there is a gradient.
        among = itemgetter(*[place for place, _ in wanted]) if len(wanted) > 1 else None

        def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
            return [
                args[place] if place < len(args) else kwargs.get(each)
                for place, each in wanted
            ]

        @functools.wraps(function)
        def shown(*args: Any, **kwargs: Any) -> Any:
            given: Sequence[Any] = ()
            if among is not None:
                given = among(args) if last < len(args) else named(args, kwargs)
                if len({*map(id, given)}) < len(given):
                    given = distinct(given)
                    own = {each: x for (_, each), x in zip(wanted, given)}
                    args = tuple([own.get(each, x) for each, x in zip(places, args)])
                    kwargs |= {each: x for each, x in own.items() if each in kwargs}
            results = function(*args, **kwargs)
            outs = results if isinstance(results, tuple) else (results,)
            for out in outs:
                if out.grad_node is not None:
                    break
            else:
                return results
            given = given or named(args, kwargs)
            # A number is no input of PyTorch's overloads that take one.
            inputs = [
                each if isinstance(each, TensorCore) else None
                for each in given
                if not isinstance(each, int | float | complex)
            ]
            before = [each.grad_node for each in inputs if each is not None]
            said = name if isinstance(name, str) else name(*args, **kwargs)
            for out in outs:
                # An input that is returned as it is keeps its node.
                if said and out.grad_node is not None and out.grad_node not in before:
                    show_as(out, said, *inputs)
            return results

        return cast(F, shown)

    return decorate


def distinct(tensors: Sequence[Any]) -> list[Any]:
    """Return what a function is given, each on an edge of its own.

    Gradients of a tensor that is given twice are then told apart, as hooks on the
    function's node see them.
    """
    found: list[Any] = []
    for each in tensors:
        again = any(each is other for other in found)
        if again and isinstance(each, TensorCore) and not each.is_wrapper:
            edge = edge_of(each)
            if edge is not None:
                node = GradNode(SAME, _unchanged, (edge,), (each.spec,), {})
                each = assembled(each.results, each.array, each.layout, each.device)
                each.needs_grad, each.grad_node = True, node
        found.append(each)
    return found


def _unchanged(grad: Any) -> Any:
    return grad


def _shown_input(edge: Edge | ShownNode | None) -> ShownInput | None:
    transposed = isinstance(edge, ShownNode) and edge.name == "TBackward0"
    wanted = edge.edges[0] if isinstance(edge, ShownNode) and transposed else edge
    return None if wanted is None else ShownInput(wanted, transposed)


def shown_node(name: str, *inputs: Any) -> ShownNode:
    """Return a node that is shown between others; see `show_as`."""
    return ShownNode(name, tuple(map(_shown_edge, inputs)))


def _shown_edge(value: Any) -> Any:
    return value if value is None or type(value) is ShownNode else edge_of(value)


def release(node: GradNode) -> None:
    """Free the tensors that a node saved; without any, it can be passed again."""
    saved = node.saved
    if type(saved) is dict:
        for each in saved.values():
            kind = type(each)
            # A `Function` has a list of them.
            if kind is Saved or kind is list:
                break
        else:
            return
    node.saved = None


def save(tensor: TensorCore, edge: int | None) -> Saved:
    """Return the saved form of a tensor."""
    array = tensor.array
    kept = array, tensor.layout, tensor.device, tensor.results, array.version, edge
    saved: Saved = _tuple(Saved, kept)
    return saved
