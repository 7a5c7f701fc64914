"""Gradient of slices: a partial cotangent, accumulated with those of other slices.

It stands apart from `slice`, where slices are declared, because it joins tensors, and
joining needs slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...autograd.partial_grad import GradSlice, PartialGrad
from ...base.dtype import int32
from ...base.shape import Layout, Shape, TensorSpec
from ..indexing.scatter import scatter_add
from ..source import arange_like, fill_like
from ..view import reshape
from .concat import cat
from .slice import _slice, _slice_layout, as_strided, strided_scatter

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@_slice.vjp
def _slice_vjp(
    grad: Tensor, x_spec: TensorSpec, starts: Shape, steps: Shape
) -> Tensor | PartialGrad:
    if all(step == 1 for step in steps):
        return PartialGrad(x_spec, [GradSlice(grad, starts)], _concatenate)
    return _zero_padded(x_spec, grad, starts, steps)


def _zero_padded(spec: TensorSpec, grad: Tensor, starts: Shape, steps: Shape) -> Tensor:
    """Return zeros with a gradient in its place."""
    zeros = fill_like(grad, spec.shape, 0, spec.dtype)
    chosen = _slice_layout(
        Layout.contiguous(spec.shape), starts, steps, grad.layout.shape
    )
    return strided_scatter(zeros, grad, chosen)


def _concatenate(spec: TensorSpec, parts: Sequence[GradSlice]) -> Tensor:
    """Return the sum of parts: concatenated, where they are adjacent without a gap."""
    for dim in range(len(spec.shape)):
        ordered = sorted(parts, key=lambda part: part.starts[dim])
        if _tiles(spec.shape, ordered, dim):
            return cat([part.grad for part in ordered], dim)
    ones = (1,) * len(spec.shape)
    total, *others = (
        _zero_padded(spec, each.grad, each.starts, ones) for each in parts
    )
    for other in others:
        total = total + other
    return total


def _tiles(shape: Shape, parts: Sequence[GradSlice], dim: int) -> bool:
    """Return whether parts, in order, follow one another along a dimension."""
    end = 0
    for part in parts:
        sizes = part.grad.shape
        across = (*shape[:dim], sizes[dim], *shape[dim + 1 :])
        if sizes != across or part.starts[dim] != end:
            return False
        end += sizes[dim]
    return end == shape[dim]


@as_strided.vjp
def _as_strided_vjp(grad: Tensor, x_spec: TensorSpec, layout: Layout) -> Tensor:
    zeros: Tensor = fill_like(grad, x_spec.shape, 0, x_spec.dtype)
    if not layout.numel or not _overlaps(layout):
        return strided_scatter(zeros, grad, layout)
    places = arange_like(grad, (x_spec.numel,), 0, 1, int32)
    at = reshape(as_strided(places, layout), (layout.numel,))
    flat = reshape(grad, (layout.numel,))
    zeros = fill_like(grad, (x_spec.numel,), 0, x_spec.dtype)
    return reshape(scatter_add(zeros, 0, at, flat), x_spec.shape)


def _overlaps(layout: Layout) -> bool:
    """Return whether an element may be in a layout twice."""
    reach = 0
    for stride, size in sorted(zip(layout.strides, layout.shape)):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False
