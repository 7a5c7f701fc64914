"""`Variable`, the former class of tensors on the tape."""

from __future__ import annotations

from typing import Any

from ..eager.base_tensor import TensorCore


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TensorCore)


class Variable(metaclass=_VariableMeta):
    """Former name of tensors on the tape: a call gives a tensor, and all are instances.

    Parameters
    ----------
    data : Tensor
        The elements, which are shared.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it.

    Examples
    --------
    >>> x = fw.autograd.Variable(fw.ones(2), requires_grad=True)
    >>> isinstance(x, fw.Tensor), isinstance(x, fw.autograd.Variable), x.is_leaf
    (True, True, True)
    """

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        """Return a tensor of the same elements."""
        made = data.detach()
        made.requires_grad = requires_grad
        return made
