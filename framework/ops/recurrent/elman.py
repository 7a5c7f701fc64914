"""Steps of an Elman layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE, bool_
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.recurrent import forward_dispatches
from ..activation import relu
from ..elementwise.compare import where
from ..elementwise.trigonometric import tanh
from ..movement.concat import stack
from ..view import unsqueeze
from .common import (
    kept,
    made,
    on_host,
    product_of_steps,
    shifted,
    states_before,
    sum_of_products,
    views,
)
from .kernel_steps import (
    _state_gradients,
    as_numbers,
    by_kernel,
    last_gradient,
    left_by,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@composite(dtypes={"gates": FLOAT, "h0": FLOAT, "weight": FLOAT, "mask": (bool_,)})
def rnn_steps(
    gates: Tensor, h0: Tensor, weight: Tensor, mask: Tensor | None, rectified: bool
) -> Tensor:
    """Return states of an Elman layer after each step.

    Parameters
    ----------
    gates : Tensor, shape (steps, batch, size)
        What the inputs and biases give.
    h0 : Tensor, shape (batch, size)
        States before the first step.
    weight : Tensor, shape (size, size)
        From one state to the next.
    mask : Tensor of bool, shape (steps, batch, 1), or None
        Where it is false, a sequence has ended and its state stays.
    rectified : bool
        Whether the activation is ReLU, not tanh.

    Returns
    -------
    Tensor, shape (steps, batch, size)
    """
    if on_host(gates):
        given = views(gates, h0, weight, mask)
        return made(_host_steps(rectified, *given), gates)
    if by_kernel(gates, h0):
        return _elman_states(gates, h0, weight, as_numbers(mask, gates), rectified)
    h, hidden = h0, []
    for step in range(gates.layout.shape[0]):
        total = gates[step] + h @ weight.mT
        new = relu(total) if rectified else tanh(total)
        h = new if mask is None else where(mask[step], new, h)
        hidden.append(h)
    return stack(hidden)


@primitive(dtypes=SINGLE, typed="gates")
def _elman_states(
    gates: Tensor, h0: Tensor, weight: Tensor, on: Tensor | None, rectified: bool
) -> Tensor:
    """Return what `rnn_steps` does; the mask is of the dtype of the gates."""


@_elman_states.spec
def _elman_states_spec(gates: TensorSpec, **_: object) -> TensorSpec:
    return gates


@_elman_states.kernel
def _elman_states_kernel(
    gpu: DeviceInfo,
    gates: StridedSpec,
    h0: StridedSpec,
    weight: StridedSpec,
    on: StridedSpec | None,
    rectified: bool,
) -> list[Dispatch]:
    cell = "RELU" if rectified else "TANH"
    return forward_dispatches(gpu, cell, gates, h0, on is not None)


@_elman_states.reference
def _elman_states_reference(
    gates: np.ndarray,
    h0: np.ndarray,
    weight: np.ndarray,
    on: np.ndarray | None,
    rectified: bool,
) -> np.ndarray:
    return _host_steps(rectified, gates, h0, weight, None if on is None else on != 0)


def _host_steps(
    rectified: bool,
    gates: np.ndarray,
    h: np.ndarray,
    weight: np.ndarray,
    mask: np.ndarray | None,
) -> np.ndarray:
    """Return what `rnn_steps` does."""
    out = np.empty((*gates.shape[:2], h.shape[-1]), gates.dtype)
    with np.errstate(all="ignore"):
        for step, given in enumerate(gates):
            new = np.matmul(h, weight.T, out=out[step])
            new += given
            np.maximum(new, 0, out=new) if rectified else np.tanh(new, out=new)
            if mask is not None:
                np.copyto(new, h, where=~mask[step])
            h = new
    return out


@rnn_steps.vjp
def rnn_steps_vjp(
    grad: Tensor,
    out: Tensor,
    gates: Tensor,
    h0: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    rectified: bool,
) -> tuple[Tensor | None, ...]:
    if on_host(grad):
        arrays = views(grad, out, gates, h0, weight, mask)
        answers = _host_gradients(rectified, *arrays)
        return *[made(each, grad) for each in answers], None
    before = shifted(h0, out)
    total = gates + before @ weight.mT
    if rectified:
        slope = where(total > 0, gates * 0 + 1, 0.0)
    else:
        slope = 1 - tanh(total) * tanh(total)
    if mask is not None:
        slope = where(mask, slope, 0.0)
    if by_kernel(gates, h0):
        left = left_by(mask, gates)
        by_all, hidden = _state_gradients(grad, weight.mT, unsqueeze(slope, 2), left)
        dh = last_gradient(by_all, hidden, weight, left)
        return by_all, dh, product_of_steps(by_all, before), None
    dh, of_gates = h0 * 0, []
    for step in reversed(range(gates.layout.shape[0])):
        dh = grad[step] + dh
        of_gates.append(dh * slope[step])
        dh = of_gates[-1] @ weight + kept(dh, mask, step)
    grad_gates = stack(of_gates[::-1])
    return grad_gates, dh, product_of_steps(grad_gates, before), None


def _host_gradients(
    rectified: bool,
    grad: np.ndarray,
    out: np.ndarray,
    gates: np.ndarray,
    h0: np.ndarray,
    weight: np.ndarray,
    mask: np.ndarray | None,
) -> tuple[np.ndarray, ...]:
    """Return what `rnn_steps_vjp` does, without the mask's None."""
    before, dh = states_before(h0, out), np.zeros_like(h0)
    with np.errstate(all="ignore"):
        of_gates = before @ weight.T
        of_gates += gates
        for step in reversed(range(len(gates))):
            slope = of_gates[step]
            if rectified:
                np.greater(slope, 0, out=slope, casting="unsafe")
            else:
                np.tanh(slope, out=slope)
                np.subtract(1, slope * slope, out=slope)
            dh = grad[step] + dh
            slope *= dh
            if mask is not None:
                np.copyto(slope, 0, where=~mask[step])
                np.copyto(dh, 0, where=mask[step])
            after = slope @ weight
            dh = after if mask is None else after + dh
        return of_gates, dh, sum_of_products(of_gates, before)
