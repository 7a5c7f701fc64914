"""Clipping gradients by their norm, or by value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import ops
from ...autograd.grad_mode import no_grad
from ...base.docstring import shares_parameters
from ...tensor.factories import zeros
from ...tensor.tensor import Tensor
from ..divided import group_of, is_divided, norm_of_all, refuse_divided

if TYPE_CHECKING:
    from ...communication.group import Group


def _listed(parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _grads(parameters: Iterable[Tensor] | Tensor) -> list[Any]:
    return [grad for each in _listed(parameters) if (grad := each.grad) is not None]


def get_total_norm(
    tensors: Iterable[Tensor] | Tensor,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of the elements of all tensors together.

    Parameters
    ----------
    tensors : iterable of Tensor, or Tensor
        On one device.
    norm_type : float, default 2
        Power of the norm; `math.inf` means the largest absolute value.
    error_if_nonfinite : bool, default False
        Whether a norm that is infinite or NaN is an error; it is read then.
    foreach : bool, optional
        Accepted without an effect.

    Returns
    -------
    Tensor
        A scalar, 0 where there are no tensors; it stays on the device.

    Raises
    ------
    RuntimeError
        If `error_if_nonfinite` and the norm is not finite.
    """
    listed = _listed(tensors)
    if not listed:
        return zeros(())
    power = float(norm_type)
    norms = [_norm(each.detach(), power) for each in listed]
    total = norms[0]
    if len(norms) > 1:
        first = norms[0].device
        total = _norm(ops.stack([each.to(first) for each in norms]), power)
    if error_if_nonfinite:
        _check_finite(total, power)
    return total


def _check_finite(total: Tensor, power: float) -> None:
    if not math.isfinite(float(total)):
        raise RuntimeError(
            f"get_total_norm: the norm of order {power} is {float(total)}; it must be"
            " finite, or pass error_if_nonfinite=False"
        )


def _norm_among(parameters: list[Tensor], group: Group, power: float) -> Tensor:
    """Return the norm of the gradients of parameters, of which some are parts."""
    whole = _grads([each for each in parameters if not is_divided(each)])
    parts = _grads([each for each in parameters if is_divided(each)])
    known = get_total_norm(whole, power) if whole else None
    if parts:
        own = get_total_norm(parts, power)
    else:
        # Other ranks may have parts with gradients, and ask for this one's norm.
        like = next(each for each in parameters if is_divided(each))
        own = like.detach().new_full((), math.inf if power == -math.inf else 0.0)
    return norm_of_all(group, known, own, power)


def _norm(x: Tensor, power: float) -> Tensor:
    """Return the norm of all elements."""
    if not x.numel():
        return x.new_zeros((), dtype=x.dtype.to_real())
    result: Tensor = ops.norm(x, power)
    return result


def clip_grads_with_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients in place by `max_norm / (total_norm + 1e-6)`, if below 1.

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
    max_norm : float
    total_norm : Tensor
        As `get_total_norm` returns it.
    foreach : bool, optional
        Accepted without an effect.

    Raises
    ------
    NotImplementedError
        If a parameter is divided among ranks, as `get_total_norm` gets gradients alone.
    """
    listed = _listed(parameters)
    refuse_divided("clip_grads_with_norm_", listed, "clip_grad_norm_")
    _scale(listed, max_norm, total_norm)


def _scale(parameters: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    grads = _grads(parameters)
    if not grads:
        return
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor.to(grad.device).to(grad.dtype))


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their common norm has a bound.

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
        Those without a gradient are left out.
    max_norm : float
        The bound.
    norm_type : float, default 2
        See `get_total_norm`.
    error_if_nonfinite : bool, default False
        See `get_total_norm`; nothing has been changed then.
    foreach : bool, optional
        Accepted without an effect.

    Returns
    -------
    Tensor
        The norm before.

    Raises
    ------
    RuntimeError
        If `error_if_nonfinite` and the norm is not finite.
    """
    listed = _listed(parameters)
    group = group_of("clip_grad_norm_", listed)
    if group is None:
        total = get_total_norm(_grads(listed), norm_type, error_if_nonfinite)
    else:
        total = _norm_among(listed, group, float(norm_type))
        if error_if_nonfinite:
            _check_finite(total, float(norm_type))
    _scale(listed, max_norm, total)
    return total


@shares_parameters(clip_grad_norm_)
def clip_grad_norm(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Do what `clip_grad_norm_` does, under its old name."""
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Iterable[Tensor] | Tensor,
    clip_value: float,
    foreach: bool | None = None,
) -> None:
    """Clamp the elements of gradients in place to [-clip_value, clip_value].

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
        Those without a gradient are left out.
    clip_value : float
    foreach : bool, optional
        Accepted without an effect.
    """
    bound = float(clip_value)
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-bound, bound)
