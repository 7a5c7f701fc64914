"""Clipping gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..autograd.engine import no_grad
from ..base.dtype import DType, promote
from ..base.shape import Layout, interned
from ..nn.divided import group_of, is_divided, norm_of_all
from ..ops import clamp_max, mul, view_as_real
from ..ops.reduce.multi_tensor_norm import square_sum
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from .clip_plan import cached_clip
from .foreach import assign_each

if TYPE_CHECKING:
    from ..communication.group import Group


def clip_grad_norm_(parameters: Iterable[Tensor] | Tensor, max_norm: float) -> Tensor:
    """Scale gradients in place so that their common Euclidean norm has a bound.

    Reads nothing back: the norm stays on the device, and a step waits for nothing. Up
    to 128 gradients are measured in one dispatch and scaled in another.

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
        Those without a gradient are left out; the others share one device. Where some
        are parts of divided layers, the norm is that of the whole model, and all ranks
        call it.
    max_norm : float
        The bound.

    Returns
    -------
    Tensor
        The norm before; a scalar, 0 where there are no gradients.
    """
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [grad for each in listed if (grad := each.grad) is not None]
    group = group_of("clip_grad_norm_", listed)
    if not grads and group is None:
        return zeros(())

    def clip(grads: Sequence[Tensor]) -> Tensor:
        with no_grad():
            norm = common_norm(grads) if group is None else _norm(listed, group)
            scale_each(grads, clamp_max(max_norm / (norm + 1e-6), 1.0))
        return norm

    if group is not None or any(grad.dtype.is_complex for grad in grads):
        return clip(grads)
    return cached_clip(grads, (type(max_norm), max_norm), clip)


def _norm(parameters: Sequence[Tensor], group: Group) -> Tensor:
    """Return the norm of the gradients of parameters, of which some are parts."""
    kinds: tuple[list[Tensor], list[Tensor]] = ([], [])
    for each in parameters:
        if each.grad is not None:
            kinds[is_divided(each)].append(each.grad)
    whole, parts = [common_norm(each) if each else None for each in kinds]
    if parts is None:
        # Other ranks may have parts with gradients.
        device = next(each.device for each in parameters if is_divided(each))
        parts = zeros((), device=device)
    return norm_of_all(group, whole, parts, 2.0)


def scale_each(grads: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply tensors in place by a number on their device."""
    for dtype, group in _by_dtype(grads).items():
        scale = factor.to(dtype)
        assign_each(mul, [(grad, scale) for grad in group], ())


def _by_dtype(grads: Sequence[Tensor]) -> dict[DType, list[Tensor]]:
    kinds: dict[DType, list[Tensor]] = {}
    for grad in grads:
        real = view_as_real(grad) if grad.dtype.is_complex else grad
        kinds.setdefault(real.dtype, []).append(_flat(real))
    return kinds


def _flat(x: Tensor) -> Tensor:
    """Return all elements in the order of memory, as a view where there is one."""
    # Mostly it is the one object of its kind, which is quicker to see.
    if x.layout is Layout.contiguous(x.layout.shape) or x.layout.is_contiguous:
        return x
    strides = x.layout.strides
    order = sorted(range(x.ndim), key=strides.__getitem__, reverse=True)
    if not x.layout.permute(tuple(order)).is_contiguous:
        return x
    return x.view_of(interned(Layout((x.numel(),), (1,), x.layout.offset)))


def common_norm(grads: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all tensors in the dtype that theirs promote to."""
    dtype: DType | None = None
    total: Tensor | None = None
    for kind, group in _by_dtype(grads).items():
        part = square_sum(group)
        total = part if total is None else total + part
        dtype = kind if dtype is None else promote(dtype, kind)
    assert total is not None
    assert dtype is not None
    return total.sqrt().to(dtype)
