"""Hooks on nodes that are shown in the place of several.

The gradients of what such a node leads to come from several nodes. They are gathered
there, and passed on once the hooks have had all of them.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import GradError
from ..eager.base_tensor import TensorCore
from .gradient_hooks import Hooks, checked_answers, hooks_of, put
from .running_pass import running_pass

if TYPE_CHECKING:
    from .tape import Edge, GradNode

Key = tuple[int, int]
"""What tells edges apart."""

MAX_NODES = 4096
"""Nodes that a function with one shown node may record."""


class ShownInput(NamedTuple):
    """Input of a shown node: an edge, and whether it is shown as transposed.

    Another shown node in the place of the edge is one that no gradient comes along.
    """

    edge: Any
    transposed: bool

    def turned(self, grad: Any) -> Any:
        """Return a gradient for what is shown from that along the edge, or back."""
        return grad.mT if self.transposed and grad is not None else grad


class _Gathered(threading.local):
    """What has arrived in the pass that runs in this thread."""

    def __init__(self) -> None:
        self.running: object = None
        self.grads: dict[int, Any] = {}
        self.outer: tuple[Any, ...] = ()


class ShownHooks:
    """Hooks of a shown node.

    Parameters
    ----------
    name : str
        The node, for messages.
    node : GradNode
        The last one of those that it stands for.
    inputs : list of ShownInput or None
        What it leads to; None for what needs no gradient.

    Raises
    ------
    GradError
        If what it stands for leads elsewhere: there the gradients are not those of just
        its inputs.
    """

    def __init__(
        self, name: str, node: GradNode, inputs: list[ShownInput | None]
    ) -> None:
        self.hooks: Hooks = OrderedDict()
        self._inputs = inputs
        self._places = {
            key_of(each.edge): place
            for place, each in enumerate(inputs)
            if each is not None
        }
        inner = nodes_between(node, self._places.keys())
        if inner is None or len(self._places) < sum(map(bool, inputs)):
            raise GradError(
                f"register_hook: {name} is computed with other operations, which have"
                " no gradients of just its inputs; register a prehook here, or hooks"
                " on the tensors that it is made of"
            )
        self._first = node.sequence
        self._sequences = {id(each): each.sequence for each in inner}
        self._gathered = _Gathered()
        for each in inner:
            after = functools.partial(self._after, each.sequence, each.edges)
            put(hooks_of(each).after, after)

    def _after(
        self,
        sequence: int,
        edges: tuple[Edge | None, ...],
        answers: tuple[Any, ...],
        grads: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Gather what a node passes to the inputs; after the last one, call hooks."""
        running, gathered = running_pass(), self._gathered
        assert running is not None
        if gathered.running is not running:
            gathered.running, gathered.grads = running, {}
        if sequence == self._first:
            gathered.outer = grads
        passed = [*answers]
        for at, (edge, grad) in enumerate(zip(edges, answers)):
            place = None if edge is None else self._places.get(key_of(edge))
            if place is not None and grad is not None:
                before = gathered.grads.get(place)
                gathered.grads[place] = grad if before is None else before + grad
                passed[at] = None
        sequences = self._sequences
        if sequence == min(sequences[at] for at in sequences if at in running.visited):
            results, gathered.running = self._called(gathered), None
            gathered.grads, gathered.outer = {}, ()
            for each, grad in zip(self._inputs, results):
                if each is not None and grad is not None:
                    running.add(each.edge, each.turned(grad))
        return tuple(passed)

    def _called(self, gathered: _Gathered) -> tuple[Any, ...]:
        """Return the inputs' gradients as shown, after the hooks."""
        grads = tuple(
            [
                None if each is None else each.turned(gathered.grads.get(place))
                for place, each in enumerate(self._inputs)
            ]
        )
        for hook in [*self.hooks.values()]:
            answer = hook(grads, gathered.outer)
            if answer is not None:
                grads = checked_answers(answer, grads)
        return grads


def nodes_between(first: GradNode, ends: Collection[Key]) -> list[GradNode] | None:
    """Return a node and those behind it, up to edges that end there.

    None is for nodes of which one leads to another leaf than those of the edges.
    """
    found, left = {first.sequence: first}, [first]
    while left:
        for edge in left.pop().edges:
            if edge is None or key_of(edge) in ends:
                continue
            if isinstance(edge[0], TensorCore) or len(found) > MAX_NODES:
                return None
            if edge[0].sequence not in found:
                found[edge[0].sequence] = edge[0]
                left.append(edge[0])
    return [*found.values()]


def key_of(edge: Any) -> Key:
    """Return what tells edges apart; a node that is shown in between has its own."""
    return (id(edge[0]), edge[1]) if isinstance(edge, tuple) else (id(edge), -1)
