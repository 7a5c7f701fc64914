"""Partial gradients: sums of slice cotangents, kept sparse until they are needed.

The gradient of a slice of a tensor is zero elsewhere. Where a tensor was split, the
slices arrive one by one at the node that made it, and are concatenated there at once,
without zero-filling and adding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..base.shape import Shape, TensorSpec


class GradSlice(NamedTuple):
    """Gradient of a slice (a box) of a tensor, and its start indices."""

    grad: Any
    starts: Shape


Rule = TypeVar("Rule", bound=Callable[..., Any])

Concatenate = Callable[[TensorSpec, Sequence[GradSlice]], Any]
"""Concatenates slices to a dense gradient."""


class PartialGrad:
    """Partial gradient: a sum of slices and of dense tensors.

    Parameters
    ----------
    spec : TensorSpec
        Of the whole tensor.
    slices : sequence of GradSlice
    concatenate : callable
        Makes the dense gradient.
    """

    def __init__(
        self, spec: TensorSpec, slices: Sequence[GradSlice], concatenate: Concatenate
    ) -> None:
        self.spec = spec
        self._slices = list(slices)
        self._concatenate = concatenate
        self._dense: Any = None

    def plus(self, other: Any) -> PartialGrad:
        """Return the sum with another gradient, partial or dense."""
        slices, dense = self._slices, other
        if isinstance(other, PartialGrad):
            slices, dense = [*slices, *other._slices], other._dense
        total = PartialGrad(self.spec, slices, self._concatenate)
        total._dense = self._dense
        if dense is not None:
            total._dense = dense if self._dense is None else self._dense + dense
        return total

    def permuted(self, dims: tuple[int, ...]) -> PartialGrad:
        """Return the partial gradient with permuted dimensions."""
        shape = tuple(self.spec.shape[dim] for dim in dims)
        slices = [
            GradSlice(each.grad.permute(dims), tuple(each.starts[dim] for dim in dims))
            for each in self._slices
        ]
        turned = PartialGrad(
            TensorSpec(shape, self.spec.dtype), slices, self._concatenate
        )
        if self._dense is not None:
            turned._dense = self._dense.permute(dims)
        return turned

    def dense(self) -> Any:
        """Return the dense gradient."""
        found = self._concatenate(self.spec, self._slices)
        return found if self._dense is None else self._dense + found


def accepts_partial(rule: Rule) -> Rule:
    """Declare that a gradient rule accepts `PartialGrad` as well as dense tensors."""
    rule.accepts_partial = True  # type: ignore[attr-defined]  # functions have attributes
    return rule


def dense(grad: Any) -> Any:
    """Return a gradient as a dense tensor."""
    return grad.dense() if isinstance(grad, PartialGrad) else grad
