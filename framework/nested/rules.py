"""What ops make of nested tensors, by the name of the op.

Element-wise ops and those of the last dimension work on all elements at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..base.errors import DomainError
from ..dispatch.op import REGISTRY
from ..tensor.tensor import Tensor
from .nested_tensor import NestedTensor, same_lengths


def elementwise(op: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """Return an element-wise op of nested tensors and of what broadcasts to them."""
    nested = [each for each in arguments if isinstance(each, NestedTensor)]
    like = nested[0]
    for each in nested[1:]:
        same_lengths(name, like, each)
        if each.ndim != like.ndim:
            return NotImplemented
    taken = [_elements(name, each, like) for each in arguments]
    return like.with_elements(op(*taken))


def _elements(name: str, argument: Any, like: NestedTensor) -> Any:
    """Return an argument for all elements at once."""
    if isinstance(argument, NestedTensor):
        return argument.elements
    if not isinstance(argument, Tensor) or not argument.ndim:
        return argument
    if like.ragged_dim == 1 and argument.ndim < like.ndim - 1:
        return argument
    if like.ragged_dim == 1 and argument.ndim == like.ndim:
        if argument.shape[1] == 1:
            flat = argument.reshape((argument.shape[0], *argument.shape[2:]))
            if flat.shape[0] == 1:
                return flat
            return ops.index_select(flat, 0, like.ragged.owners(flat))
    raise DomainError(
        f"{name}: a dense tensor of shape {tuple(argument.shape)} does not broadcast to"
        f" a nested one of shape {tuple(like.shape)}; its ragged size must be 1"
    )


def _rule(name: str) -> Callable[..., Any]:
    op = REGISTRY[name]
    return lambda *arguments: elementwise(op, name, *arguments)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    if not isinstance(x, NestedTensor) or isinstance(weight, NestedTensor):
        return NotImplemented
    if x.ragged_dim >= x.ndim - 1:
        return NotImplemented
    return x.with_elements(ops.linear(x.elements, weight, bias))


NestedTensor.rules = {
    **{name: _rule(name) for name, op in REGISTRY.items() if op.is_elementwise},
    "linear": _linear,
}
