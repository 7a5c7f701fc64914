"""Gradients of which only parts are there yet.

The gradient of a part of a tensor is zero elsewhere. Where a tensor was cut up, the
parts arrive one by one at the place where it was made, and are joined there at once:
nothing is filled with zeros and added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..base.shape import Shape, TensorSpec


class Part(NamedTuple):
    """The gradient of a box of a tensor: its elements, and where it starts."""

    grad: Any
    starts: Shape


Rule = TypeVar("Rule", bound=Callable[..., Any])

Put = Callable[[TensorSpec, Sequence[Part]], Any]
"""Makes a whole gradient of parts."""


class Parts:
    """A gradient as a sum of parts and of whole tensors.

    Parameters
    ----------
    spec : TensorSpec
        Of the whole.
    parts : sequence of Part
    put : callable
        Makes a tensor of parts.
    """

    def __init__(self, spec: TensorSpec, parts: Sequence[Part], put: Put) -> None:
        self.spec = spec
        self._parts = list(parts)
        self._put = put
        self._rest: Any = None

    def plus(self, other: Any) -> Parts:
        """Return the sum with another gradient of the whole, in parts or not."""
        parts, rest = self._parts, other
        if isinstance(other, Parts):
            parts, rest = [*parts, *other._parts], other._rest
        total = Parts(self.spec, parts, self._put)
        total._rest = self._rest
        if rest is not None:
            total._rest = rest if self._rest is None else self._rest + rest
        return total

    def permuted(self, dims: tuple[int, ...]) -> Parts:
        """Return it with the dimensions in another order."""
        shape = tuple(self.spec.shape[dim] for dim in dims)
        parts = [
            Part(each.grad.permute(dims), tuple(each.starts[dim] for dim in dims))
            for each in self._parts
        ]
        turned = Parts(TensorSpec(shape, self.spec.dtype), parts, self._put)
        if self._rest is not None:
            turned._rest = self._rest.permute(dims)
        return turned

    def whole(self) -> Any:
        """Return it as one tensor."""
        found = self._put(self.spec, self._parts)
        return found if self._rest is None else self._rest + found


def takes_parts(rule: Rule) -> Rule:
    """Say of a gradient rule that it takes `Parts` as well as whole tensors."""
    rule.takes_parts = True  # type: ignore[attr-defined]  # functions have attributes
    return rule


def whole(grad: Any) -> Any:
    """Return a gradient as one tensor."""
    return grad.whole() if isinstance(grad, Parts) else grad
