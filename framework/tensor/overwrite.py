"""Tape of in-place changes: what the tensors that share a storage depend on after one.

A change through one tensor gives all its storage's views other elements, so their tape
entries change too: a view's elements are what they were before, but for those that the
change replaced. Each view gets an entry with two edges, to what it was and to the new
elements; nothing is computed for it until the backward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from .. import ops
from ..autograd import function
from ..autograd.engine import Edge, GradNode, edge_of
from ..autograd.gradient_hooks import Hooks, hooks_of, move_kept_gradient
from ..autograd.tape import ShownNode
from ..autograd.views import sharing_tensors
from ..base.shape import Layout
from ..ir.derived_storage import DerivedArray, source_of
from ..ops.elementwise.complex_numbers import numbers_of, pairs_of
from ..ops.elementwise.complex_views import pair_layout
from ..ops.movement.slice import as_strided

if TYPE_CHECKING:
    from ..eager.base_tensor import TensorCore
    from .tensor import Tensor

    Rule = Callable[[Tensor], tuple[Tensor, Tensor]]


def record_overwrite(tensor: Tensor, new: Tensor, *, made: bool) -> None:
    """Record that `new` has replaced the elements of a tensor.

    Parameters
    ----------
    tensor : Tensor
        The tensor, whose storage holds the new elements.
    new : Tensor
        The new elements, of the same shape and dtype.
    made : bool
        Whether the change itself made `new`, so that its tape entry can be the
        tensor's own.
    """
    edge = edge_of(new)
    # First all entries, then all assignments, as each entry refers to what was before.
    entries: list[tuple[TensorCore, GradNode, int]] = []
    for each in sharing_tensors(tensor):
        if edge is None and not each.needs_grad:
            continue
        if each is tensor and made and new.grad_node is not None:
            entries.append((each, new.grad_node, new.grad_index))
            continue
        rule = _rule_of(each, tensor)
        edges: tuple[Edge | None, ...] = (edge_of(each), edge)
        node = GradNode("in place", rule, edges, (each.spec, new.spec), {}, rule)
        entries.append((each, node, 0))
    for each, node, index in entries:
        if each.grad_node is not None and each.grad_node.hooks is not None:
            move_kept_gradient(each, node, index)
        each.needs_grad = True
        each.grad_node, each.grad_index = node, index
    base = sharing_tensors(tensor)[0]
    for each, node, _ in entries:
        if each is not base:
            node.shown = ShownView(ref(base))


function.record_overwrite.append(record_overwrite)


class ShownView(ShownNode):
    """What the graph shows for a view after a change of its base, as PyTorch does.

    A view of what its base is now. It has no reference to the node of the base, which
    leads to this one where the change was made through the view.
    """

    __slots__ = ("_base",)

    def __init__(self, base: ref[TensorCore]) -> None:
        super().__init__("AsStridedBackward0", ())
        self._base = base

    @property
    def edges(self) -> tuple[Edge | None]:
        """The base's, if that is still there."""
        base = self._base()
        return (None if base is None else edge_of(base),)

    @edges.setter
    def edges(self, edges: tuple[()]) -> None:
        """Keep none."""

    def hooks_of(self, node: GradNode) -> Hooks:
        """Return the hooks after the rules of the node itself."""
        return hooks_of(node).after


def _rule_of(view: TensorCore, changed: TensorCore) -> Rule:
    """Return the rule of a view of a tensor that was overwritten, or of its parts."""
    if view.array is changed.array:
        numel = changed.array.value.numel
        return overwrite_rule(view.layout, changed.layout, numel)
    value = source_of(changed.array).value
    return ComponentOverwriteRule(
        overwrite_rule(
            _numbers(view),
            _numbers(changed),
            value.numel * (1 + value.dtype.is_complex),
        ),
        (view.dtype.is_complex, changed.dtype.is_complex),
    )


def _numbers(tensor: TensorCore) -> Layout:
    """Return which real numbers of its storage a tensor consists of."""
    array = tensor.array
    if type(array) is DerivedArray:
        return array.derivation.numbers(tensor.layout)
    return pair_layout(tensor.layout) if tensor.dtype.is_complex else tensor.layout


@functools.lru_cache(maxsize=4096)
def overwrite_rule(view: Layout, changed: Layout, numel: int) -> OverwriteRule:
    """Return the rule of these layouts; the same one each time while it is cached."""
    return OverwriteRule(view, changed, numel)


class OverwriteRule:
    """Gradient rule of a view after another one of its storage was overwritten.

    Parameters
    ----------
    view, changed : Layout
        Of the view, and of the tensor that was overwritten.
    numel : int
        Elements of the storage.
    """

    def __init__(self, view: Layout, changed: Layout, numel: int) -> None:
        self._view, self._changed, self._numel = view, changed, numel
        self.whole = view == changed

    def __call__(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the view before the change, and of what replaced it.

        Where the view had an element that was replaced, the first is zero.
        """
        if self.whole:
            return grad.new_zeros(grad.shape), grad
        if self._view.numel == self._numel and self._view.is_contiguous:
            flat = grad.reshape(self._numel)
        else:
            flat = grad.new_zeros(self._numel)
            flat = ops.strided_scatter(flat, grad, self._view)
        zeros = grad.new_zeros(self._changed.shape)
        kept = ops.strided_scatter(flat, zeros, self._changed)
        return as_strided(kept, self._view), as_strided(flat, self._changed)


class ComponentOverwriteRule:
    """Gradient rule where a view and what was overwritten are of different dtypes.

    Parameters
    ----------
    rule : callable
        The rule over real numbers.
    complexes : (bool, bool)
        Whether the view, and what was overwritten, are complex.
    """

    def __init__(self, rule: Rule, complexes: tuple[bool, bool]) -> None:
        self._rule, self._complexes = rule, complexes

    def __call__(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the view as it was, and of what replaced it."""
        view, changed = self._complexes
        if view:
            grad = pairs_of(grad.to(grad.dtype.to_complex()))
        before, new = self._rule(grad)
        return (
            numbers_of(before) if view else before,
            numbers_of(new) if changed else new,
        )
