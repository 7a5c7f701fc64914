"""Clipping gradients."""

from __future__ import annotations

from collections.abc import Iterable

from ..autograd import no_grad
from ..creation import zeros
from ..ops import minimum
from ..tensor import Tensor


def clip_grad_norm_(parameters: Iterable[Tensor] | Tensor, max_norm: float) -> Tensor:
    """Scale gradients in place so that their common Euclidean norm has a bound.

    Reads nothing back: the norm stays on the device, and a step waits for nothing.

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
        Those without a gradient are left out; the others share one device.
    max_norm : float
        The bound.

    Returns
    -------
    Tensor
        The norm before; a scalar, 0 where there are no gradients.
    """
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads: list[Tensor] = [each.grad for each in listed if each.grad is not None]
    if not grads:
        return zeros(())
    with no_grad():
        total = (grads[0] * grads[0]).sum()
        for grad in grads[1:]:
            total = total + (grad * grad).sum()
        norm = total.sqrt()
        factor = minimum(max_norm / (norm + 1e-6), 1.0)
        for grad in grads:
            grad.mul_(factor)
    return norm
