"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ... import ops
from ...autograd.grad_mode import no_grad
from ...base.errors import ShapeError
from ...tensor.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters as one vector, in their order; differentiable.

    Parameters
    ----------
    parameters : iterable of Tensor
        On one device.
    """
    return ops.cat([each.reshape(-1) for each in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector into parameters, in their order.

    Parameters
    ----------
    vec : Tensor, shape (all elements,)
    parameters : iterable of Tensor

    Raises
    ------
    TypeError
        If `vec` is no tensor.
    ShapeError
        If it has fewer elements than the parameters; nothing has been changed then.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(
            f"vector_to_parameters: vec is a {type(vec).__name__}; it must be a tensor"
        )
    listed = list(parameters)
    total = sum(each.numel() for each in listed)
    if vec.numel() < total:
        raise ShapeError(
            f"vector_to_parameters: vec has {vec.numel()} elements; the parameters have"
            f" {total}"
        )
    start = 0
    with no_grad():
        for each in listed:
            part = vec[start : start + each.numel()]
            each.copy_(part.reshape(each.shape))
            start += each.numel()
