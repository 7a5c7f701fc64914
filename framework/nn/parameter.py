"""Parameters: the tensors that a module learns."""

from __future__ import annotations

from typing import Any

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..eager.base_tensor import TensorCore
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
        self.grad_index = 0
        self.requires_grad_(requires_grad)

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` computes a gradient for it."""
        flag: bool = _flag.__get__(self)
        return flag

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if getattr(self, "requires_grad", None) is not flag:
            trace_hooks.structure_changed()
        _flag.__set__(self, flag)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


_flag: Any = TensorCore.__dict__["requires_grad"]


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
