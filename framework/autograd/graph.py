"""The tape as a graph: its nodes, and hooks on several tensors at once."""

from __future__ import annotations

import abc
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import GradError
from ..base.hooks import RemovableHandle
from ..base.public_names import public_names as _public_names
from ..eager.base_tensor import TensorCore
from .engine import BackwardPass
from .gradient_hooks import register_hook
from .running_pass import running_pass
from .saved_tensors_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .tape import (
    AccumulateGrad,
    Edge,
    GradientEdge,
    GradientLike,
    GradNode,
    edge_of,
    named,
)

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(abc.ABC):  # noqa: B024 - classes are nodes by the hook below
    """Node of the tape: what `grad_fn` and `next_functions` give.

    All nodes have `name()`, `next_functions`, `metadata`, a dict of the program's own,
    `register_hook` and `register_prehook`.
    """

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        """Return whether a class is one of nodes."""
        return cls is Node and issubclass(kind, GradNode | AccumulateGrad)


def get_gradient_edge(tensor: TensorCore) -> GradientEdge:
    """Return the edge that a tensor's gradient comes along.

    Parameters
    ----------
    tensor : Tensor
        A leaf that requires a gradient, or a result on the tape.

    Raises
    ------
    GradError
        If it does not require a gradient.
    """
    if not tensor.needs_grad:
        raise GradError(
            "get_gradient_edge: the tensor does not require a gradient; set"
            " requires_grad=True on what it is computed from"
        )
    like = GradientLike(tensor.spec, tensor.device, tensor.results)
    if tensor.grad_node is None:
        return GradientEdge(AccumulateGrad(tensor), 0, like)
    return GradientEdge(named(tensor.grad_node), tensor.grad_index, like)


def increment_version(tensor: TensorCore | Sequence[TensorCore]) -> None:
    """Count a change in place that was made past the library.

    Parameters
    ----------
    tensor : Tensor or sequence of Tensor
        Those that were changed.
    """
    for each in [tensor] if isinstance(tensor, TensorCore) else [*tensor]:
        each.array.version += 1


def register_multi_grad_hook(
    tensors: Sequence[TensorCore], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Call a function once for several gradients of a pass.

    Parameters
    ----------
    tensors : sequence of Tensor
        Each requires a gradient.
    fn : callable
        Called with the list of their gradients, with `mode` "any" with the first one.
    mode : {"all", "any"}
        Once all gradients of the pass are there, with None for tensors that it does not
        reach, or with the first gradient.

    Returns
    -------
    RemovableHandle

    Raises
    ------
    ValueError
        If the mode is another one.
    GradError
        If a tensor does not require a gradient.
    """
    if mode not in ("all", "any"):
        raise ValueError(
            f'register_multi_grad_hook: mode is {mode!r}; it must be "all" or "any"'
        )
    edges: list[Any] = [edge_of(each) for each in tensors]
    calls = _PassCalls()

    def hook_at(at: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            found = calls.of_pass(edges)
            found.grads[at] = grad
            found.arrived += 1
            if mode == "any" and found.arrived == 1:
                fn(grad)
            elif mode == "all" and found.arrived == found.expected:
                fn(found.grads)

        return hook

    own: OrderedDict[int, Any] = OrderedDict()
    handles = [register_hook(each, hook_at(at)) for at, each in enumerate(tensors)]

    def removed() -> None:
        for each in handles:
            each.remove()

    together = RemovableHandle(own, on_remove=removed)
    own[together.id] = handles
    # The handle holds what it refers to weakly.
    together.hooks = own  # type: ignore[attr-defined]
    return together


class _Arrived:
    """Gradients that have arrived in a pass, of those that will."""

    def __init__(self, running: BackwardPass | None, edges: list[Edge]) -> None:
        self.running = running
        self.grads: list[Any] = [None] * len(edges)
        self.arrived = 0
        self.expected = len(edges)
        if running is not None:
            self.expected = sum(map(running.reaches, edges))


class _PassCalls(threading.local):
    """Of each thread what has arrived in its pass."""

    def __init__(self) -> None:
        self.found: _Arrived | None = None

    def of_pass(self, edges: list[Edge]) -> _Arrived:
        """Return what has arrived in the pass that runs, at first nothing."""
        running = running_pass()
        found = self.found
        if found is None or found.running is not running:
            self.found = found = _Arrived(running, edges)
        return found


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
