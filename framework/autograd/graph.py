"""The tape as a graph: its nodes, and hooks on several tensors at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.errors import GradError
from ..base.hooks import RemovableHandle
from ..eager.base_tensor import TensorCore
from .engine import queue_callback
from .gradient_hooks import register_hook
from .saved_tensors_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .tape import AccumulateGrad
from .tape import GradNode as Node

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


class GradientEdge(NamedTuple):
    """Edge of the tape that a tensor's gradient comes along.

    Attributes
    ----------
    node : Node or AccumulateGrad
    output_nr : int
        Which output of the node it is.
    ownership_token : object
        None: the node keeps itself alive.
    """

    node: Node | AccumulateGrad
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: TensorCore) -> GradientEdge:
    """Return the edge that a tensor's gradient comes along.

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
    if tensor.grad_node is None:
        return GradientEdge(AccumulateGrad(tensor), 0)
    return GradientEdge(tensor.grad_node, tensor.grad_index)


def increment_version(tensor: TensorCore | Sequence[TensorCore]) -> None:
    """Count a change in place that was made past the library."""
    for each in [tensor] if isinstance(tensor, TensorCore) else tensor:
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
        At the end of the pass, with None for tensors that it does not reach, or with
        the first gradient.

    Returns
    -------
    RemovableHandle

    Raises
    ------
    ValueError
        If the mode is another one.
    """
    if mode not in ("all", "any"):
        raise ValueError(
            f'register_multi_grad_hook: mode is {mode!r}; it must be "all" or "any"'
        )
    local = threading.local()

    def hook_at(at: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            if queue_callback(ended):
                local.found = {}
                if mode == "any":
                    fn(grad)
            local.found[at] = grad

        return hook

    def ended() -> None:
        found, local.found = local.found, {}
        if mode == "all":
            fn([found.get(at) for at in range(len(tensors))])

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
