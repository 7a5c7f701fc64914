"""Parameters: the tensors that a module learns."""

from __future__ import annotations

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..tensor.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module lists as its own and that requires a gradient.

    Results of operations on it are plain tensors.

    Parameters
    ----------
    data : Tensor
        The initial elements; the storage is shared, not copied.
    requires_grad : bool, default True
        Whether `backward` computes a gradient for it.

    Examples
    --------
    >>> weight = nn.Parameter(fw.zeros((2, 3)))
    >>> weight.requires_grad, type(weight * 2).__name__
    (True, 'Tensor')
    """

    __slots__ = ()

    results = Tensor

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        self.array, self.layout, self.device = data.array, data.layout, data.device
        self.own_grad = self.grad_node = self.hooks = self.views = None
        self.grad_index, self.needs_grad = 0, False
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def zero_gradient(tensor: Tensor, set_to_none: bool) -> None:
    """Drop a tensor's gradient, or set it to zero."""
    trace = trace_hooks.listener()
    if trace is not None:
        trace.on_grad_write(tensor, cleared=set_to_none)
    if set_to_none or tensor.grad is None:
        tensor.grad = None
        return
    with no_grad():
        tensor.grad.zero_()
