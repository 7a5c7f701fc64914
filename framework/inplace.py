"""Changes in place: the storage gets a new value, and every view of it sees that.

Values are never written again once they are computed; a change in place computes a new
one and rebinds the storage to it. So what autograd saved, and what is still pending,
keeps the elements it was made with, and two storages may share one value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import ops
from .autograd import is_grad_enabled, no_grad
from .core import TensorCore
from .errors import GradError, ShapeError
from .shape import Layout, broadcast_shapes

if TYPE_CHECKING:
    from .tensor import Tensor


def off_tape(x: Tensor) -> Tensor:
    """Return the tensor for a computation whose result will replace it.

    Raises
    ------
    GradError
        If gradients are being recorded and the tensor requires one.
    """
    if is_grad_enabled() and x.requires_grad:
        raise GradError(
            "in place: the tensor requires a gradient, and a change in place is not"
            " recorded; change it under no_grad(), or write x = x + y"
        )
    return x.detach()


def assign(x: Tensor, source: Tensor | float) -> Tensor:
    """Replace the elements of `x`, which may be a view, and return it.

    Parameters
    ----------
    x : Tensor
        What to change.
    source : Tensor or number
        New elements; broadcast, moved and cast to `x`.

    Raises
    ------
    GradError
        If gradients are being recorded and either tensor requires one.
    ShapeError
        If `source` does not broadcast to the shape of `x`, or elements of `x` share
        memory with each other.
    """
    off_tape(x)
    if isinstance(source, TensorCore) and is_grad_enabled() and source.requires_grad:
        raise GradError(
            "in place: the new elements require a gradient, and a change in place is"
            " not recorded; detach them, or write x = x + y"
        )
    with no_grad():
        if isinstance(source, TensorCore):
            new = source.to(x.device).to(x.dtype)
        else:
            new = ops.fill_like(x, x.shape, source, x.dtype)
        if broadcast_shapes("in place", x.shape, new.shape) != x.shape:
            raise ShapeError(
                f"in place: the result has shape {new.shape};"
                f" it does not fit into {x.shape}"
            )
        x.array.rebind(_storage(x, ops.expand(new, x.shape)).array.value)
    return x


def _storage(x: Tensor, new: Tensor) -> Tensor:
    """Return the whole storage of `x` with its elements replaced by `new`."""
    numel = x.array.value.numel
    if x.numel() != numel or not x.layout.is_contiguous:
        flat: Tensor = ops.place(x.view_of(Layout.contiguous((numel,))), new, x.layout)
        return flat
    new = new.contiguous()
    return new if new.array.value.numel == numel else new.clone()
