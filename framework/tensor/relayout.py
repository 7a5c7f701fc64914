"""Changes of a tensor's own shape: squeeze_, transpose_, resize_, set_ and the like.

The tensor becomes the view that the op without `_` would return; its elements stay
where they are, and other views of them are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import ops
from ..autograd.grad_mode import is_grad_enabled
from ..autograd.views import register_view
from ..base import trace_hooks
from ..base.errors import DTypeError, GradError, ShapeError
from ..base.shape import Layout, contiguous_strides, interned
from ..base.validation import as_shape, sizes_of
from ..eager.base_tensor import TensorCore

if TYPE_CHECKING:
    from .tensor import Tensor


def relayout(
    x: Tensor, op: Callable[..., Tensor], *given: Any, **options: Any
) -> Tensor:
    """Make of a tensor the view of it that an op returns, and return it.

    Raises
    ------
    GradError
        If gradients are being recorded and the tensor is a leaf that requires one.
    ShapeError
        As the op, or if it makes no view.
    TraceError
        If a function that `jit` traces does it.
    """
    name = getattr(op, "__name__", "in place")
    if is_grad_enabled() and x.needs_grad and x.grad_node is None:
        raise GradError(
            f"{name}_: the tensor is a leaf that requires a gradient, and of shape"
            f" {x.shape}; change it under no_grad(), or write x = x.{name}(...)"
        )
    # A tensor of its own, so that the tape does not lead to itself.
    view = op(x.view_of(x.layout) if not x.needs_grad else _twin(x), *given, **options)
    if view.array is not x.array:
        raise ShapeError(f"{name}_: shape {x.shape} has no such view; see {name}")
    return take_over(x, view)


def _twin(x: Tensor) -> Tensor:
    twin = x.view_of(x.layout)
    twin.needs_grad, twin.grad_node, twin.grad_index = True, x.grad_node, x.grad_index
    register_view(x, twin)
    return twin


def take_over(x: Tensor, other: Tensor) -> Tensor:
    """Give a tensor the storage, layout and tape entry of another one; return it."""
    trace_hooks.refuse(
        "a tensor's own shape or storage is changed, which a replay does not repeat;"
        " use the function without `_`"
    )
    trace_hooks.structure_changed()
    if other.array is not x.array:
        x.views = None
    x.array, x.layout, x.device = other.array, interned(other.layout), other.device
    x.needs_grad, x.grad_node = other.needs_grad, other.grad_node
    x.grad_index = other.grad_index
    return x


def resize(x: Tensor, *size: Any) -> Tensor:
    """Give a tensor another shape, in row-major order, and return it.

    Where the storage is too small it gets a larger one, whose further elements are 0.

    Raises
    ------
    GradError
        If the tensor requires a gradient.
    ShapeError
        If a size is below 0.
    """
    shape = sizes_of("resize_", as_shape(size))
    if x.needs_grad:
        raise GradError(
            f"resize_: the tensor of shape {x.shape} requires a gradient; resize"
            " x.detach()"
        )
    if shape == x.shape:
        return x
    layout = Layout(shape, contiguous_strides(shape), x.layout.offset)
    missing = layout.offset + layout.numel - x.array.value.numel
    if missing <= 0:
        return take_over(x, x.view_of(layout))
    whole = x.view_of(Layout.contiguous((x.array.value.numel,)))
    more = ops.fill_like(x, (missing,), 0, x.dtype)
    return take_over(x, ops.cat([whole, more]).view_of(layout))


def set_storage(
    x: Tensor,
    source: Tensor | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Give a tensor the storage of another one, and its layout or the one given.

    Without `source` the tensor becomes empty.

    Raises
    ------
    TypeError
        If `source` is not a tensor.
    GradError
        If the tensor requires a gradient.
    ShapeError
        If the layout leaves the storage, or there is an offset without a size.
    DTypeError
        If `source` is of another dtype.
    """
    if storage_offset and size is None:
        raise ShapeError(
            f"set_: storage_offset is {storage_offset} without a size; give a size, too"
        )
    if source is None:
        source = ops.fill_like(x.detach(), (0,), 0, x.dtype)
    if not isinstance(source, TensorCore):
        raise TypeError(
            f"set_: source is a {type(source).__name__}; it must be a tensor"
        )
    if x.needs_grad:
        raise GradError(
            f"set_: the tensor of shape {x.shape} requires a gradient; set x.data"
        )
    if source.dtype is not x.dtype:
        raise DTypeError(
            f"set_: source is {source.dtype.name}, the tensor {x.dtype.name}; they must"
            " be equal"
        )
    source = source.detach()
    if size is not None:
        sizes = sizes_of("set_", size)
        steps = contiguous_strides(sizes) if stride is None else stride
        source = ops.as_strided(source, sizes, steps, storage_offset)
    return take_over(x, source)
