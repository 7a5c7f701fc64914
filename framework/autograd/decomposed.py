"""Shown nodes that become nodes of the tape, once hooks are registered on them.

A function that is one node here may be several in PyTorch's graph, which only shows
them. As soon as a hook is to see the gradients between those, the function is recorded
again as PyTorch composes it, in the place of its node.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.errors import GradError
from ..base.modes import autocast_disabled
from ..base.scoped_setting import SettingScope
from ..eager.base_tensor import TensorCore, assembled
from .grad_mode import grad_mode
from .gradient_hooks import hooks_of
from .tape import (
    Edge,
    GradNode,
    Saved,
    ShownNode,
    UnvisitedNode,
    edge_of,
    named,
    next_sequence,
)

if TYPE_CHECKING:
    from .gradient_hooks import Hooks


class Operand:
    """Tensor that a function was given, of which the tape alone keeps the elements."""

    __slots__ = ("_array", "_edge", "_version", "device", "kind", "layout")

    def __init__(self, tensor: TensorCore) -> None:
        array = tensor.array
        self._array = weakref.ref(array)
        self._version = array.version
        self._edge = edge_of(tensor)
        self.layout, self.device, self.kind = (
            tensor.layout,
            tensor.device,
            tensor.results,
        )

    def tensor(self) -> Any:
        """Return the tensor, on the tape where it was.

        Raises
        ------
        GradError
            If the tape has freed it, or it was changed in place.
        """
        array = self._array()
        if array is None or array.version != self._version:
            raise _gone()
        tensor = assembled(self.kind, array, self.layout, self.device)
        return on_tape(tensor, self._edge)


def _gone() -> GradError:
    return GradError(
        "register_hook: a tensor that the function was given was freed by a backward"
        " pass, or changed in place; register the hook before"
    )


def saved_operand(node: GradNode, name: str, at: int) -> Any:
    """Return an input of a node that it saved, on the tape where it was.

    Raises
    ------
    GradError
        As `Operand.tensor`.
    """
    saved = None if node.saved is None else node.saved[name]
    if type(saved) is not Saved or saved.array.version != saved.version:
        raise _gone()
    return on_tape(saved.tensor(), node.edges[at])


def on_tape(tensor: Any, edge: Edge | None) -> Any:
    """Return a tensor, which is not on the tape, with an edge to where it was made."""
    if edge is None:
        return tensor
    if not isinstance(edge.target, GradNode):
        return edge.target
    tensor.needs_grad = True
    tensor.grad_node, tensor.grad_index = edge.target, edge.output
    return tensor


class ComposableNode(ShownNode):
    """Shown node whose hooks are those of the nodes that it shows, once composed."""

    __slots__ = ()

    def hooks_of(self, node: GradNode) -> Hooks:
        """Return the hooks after the rule of a node, which is composed for them."""
        try:
            found = self.compose(node)
        except GradError:
            found = False
        if not found:
            return super().hooks_of(node)
        shown = getattr(node, "shown", None)
        hooks: Hooks = hooks_of(node).after if shown is None else shown.hooks_of(node)
        return hooks

    def record(self, node: GradNode) -> TensorCore:
        """Return the function's result, recorded as PyTorch composes it."""
        raise NotImplementedError

    def compose(self, node: GradNode) -> bool:
        """Record the function again, in the place of a node that stands for it.

        Return whether it was: not where hooks have been gathered around the node.
        """
        if self._hooks is not None:
            return False
        start = next_sequence()
        with SettingScope(grad_mode, True), autocast_disabled():
            last = self.record(node).grad_node
        assert last is not None, "it requires a gradient, as the node's result does"
        made = sorted(_nodes_after(last, start), key=lambda each: each.sequence)
        places = {id(last): node}
        if not _pair(self, last, {id(each) for each in made}, places):
            return False
        for at, each in enumerate(made):
            # Between the node and those before it, which have whole numbers.
            between: Any = node.sequence - 1 + (at + 1) / (len(made) + 1)
            each.sequence = between
            each.edges = tuple([_moved(edge, places) for edge in each.edges])
            shown = getattr(each, "shown", None)
            if shown is not None:
                shown.edges = tuple([_moved(edge, places) for edge in shown.edges])
        for each in made:
            if id(each) in places:
                _replace(places[id(each)], each)
        return True


class DecomposedNode(ComposableNode):
    """Shown node, and how its function is recorded as PyTorch composes it.

    Attributes
    ----------
    function : callable
        Called with the node, returns the function's result on the tape.
    """

    __slots__ = ("function",)

    def __init__(
        self,
        name: str,
        edges: tuple[Any, ...],
        function: Callable[[GradNode], TensorCore],
    ) -> None:
        super().__init__(name, edges)
        self.function = function

    def record(self, node: GradNode) -> TensorCore:
        """Return what the function does."""
        return self.function(node)


def _nodes_after(last: GradNode, start: int) -> list[GradNode]:
    """Return the nodes behind one, with it, that were recorded after another."""
    found, left = {last.sequence: last}, [last]
    while left:
        for edge in left.pop().edges:
            target = None if edge is None else edge.target
            if isinstance(target, GradNode) and target.sequence > start:
                if target.sequence not in found:
                    found[target.sequence] = target
                    left.append(target)
    return [*found.values()]


def _pair(
    shown: ShownNode, node: GradNode, made: set[int], places: dict[int, GradNode]
) -> bool:
    """Note which nodes the program has been given in the place of those made now.

    Return whether all are there as they were shown.
    """
    if node.name() != shown.name:
        return False
    for edge, (behind, _) in zip(shown.edges, node.next_functions):
        if isinstance(edge, ShownNode):
            if id(behind) not in made:
                return False
            if edge.given is not None:
                places[id(behind)] = edge.given
            if not _pair(edge, behind, made, places):
                return False
    return True


def _moved(edge: Any, places: dict[int, GradNode]) -> Any:
    """Return an edge to the node that takes the place of its target."""
    if not isinstance(edge, Edge) or id(edge.target) not in places:
        return edge
    return Edge(places[id(edge.target)], edge.output)


def _replace(place: GradNode, node: GradNode) -> None:
    """Let a node do what another one does."""
    visited = not isinstance(place, UnvisitedNode)
    place.__class__ = GradNode
    for name in ("apply", "edges", "kind", "op_name", "saved", "specs"):
        setattr(place, name, getattr(node, name))
    if not visited:
        place.sequence = node.sequence
    if hasattr(place, "shown"):
        del place.shown
    if hasattr(node, "shown"):
        place.shown = node.shown
    named(place)
