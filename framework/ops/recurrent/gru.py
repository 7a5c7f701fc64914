"""Steps of a GRU layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE, bool_
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.recurrent import forward_dispatches
from ..elementwise.compare import where
from ..elementwise.exponential import sigmoid
from ..elementwise.trigonometric import tanh
from ..movement.concat import stack
from ..reduce.sum import sum
from ..view import reshape, unsqueeze
from .common import (
    logistic_in_place,
    made,
    on_host,
    product_of_steps,
    shifted,
    states_before,
    sum_of_products,
    views,
)
from .kernel_steps import _state_gradients, as_numbers, by_kernel, last_gradient

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_GRU_DTYPES = {
    "gates": FLOAT,
    "h0": FLOAT,
    "weight": FLOAT,
    "bias": FLOAT,
    "mask": (bool_,),
}


@composite(dtypes=_GRU_DTYPES)
def gru_steps(
    gates: Tensor,
    h0: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Return hidden states of a GRU layer after each step.

    Parameters
    ----------
    gates : Tensor, shape (steps, batch, 3 * size)
        What the inputs give to reset gate, update gate and candidate.
    h0 : Tensor, shape (batch, size)
        States before the first step.
    weight : Tensor, shape (3 * size, size)
        From the states to the gates.
    bias : Tensor, shape (3 * size,), or None
        Added to that.
    mask : Tensor of bool, shape (steps, batch, 1), or None
        Where it is false, a sequence has ended and its state stays.

    Returns
    -------
    Tensor, shape (steps, batch, size)

    Notes
    -----
    The reset gate is applied after the product, as in PyTorch. Source: Cho et al.,
    arXiv:1406.1078.
    """
    if on_host(gates):
        return made(_host_steps(*views(gates, h0, weight, bias, mask)), gates)
    if by_kernel(gates, h0):
        return _gru_states(gates, h0, weight, bias, as_numbers(mask, gates))
    h, hidden = h0, []
    for step in range(gates.layout.shape[0]):
        _, z, n, _ = _gru_gates(gates[step], h, weight, bias)
        new = n + z * (h - n)
        h = new if mask is None else where(mask[step], new, h)
        hidden.append(h)
    return stack(hidden)


@primitive(dtypes=SINGLE, typed="gates")
def _gru_states(
    gates: Tensor, h0: Tensor, weight: Tensor, bias: Tensor | None, on: Tensor | None
) -> Tensor:
    """Return what `gru_steps` does; the mask is of the dtype of the gates."""


@_gru_states.spec
def _gru_states_spec(gates: TensorSpec, h0: TensorSpec, **_: object) -> TensorSpec:
    return TensorSpec((gates.shape[0], *h0.shape), gates.dtype)


@_gru_states.kernel
def _gru_states_kernel(
    gpu: DeviceInfo,
    gates: StridedSpec,
    h0: StridedSpec,
    weight: StridedSpec,
    bias: StridedSpec | None,
    on: StridedSpec | None,
) -> list[Dispatch]:
    given = on is not None, bias is not None
    return forward_dispatches(gpu, "GRU", gates, h0, *given)


@_gru_states.reference
def _gru_states_reference(
    gates: np.ndarray,
    h0: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    on: np.ndarray | None,
) -> np.ndarray:
    return _host_steps(gates, h0, weight, bias, None if on is None else on != 0)


def _host_steps(
    gates: np.ndarray,
    h: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    mask: np.ndarray | None,
) -> np.ndarray:
    """Return what `gru_steps` does."""
    out = np.empty((*gates.shape[:2], h.shape[-1]), gates.dtype)
    with np.errstate(all="ignore"):
        for step, given in enumerate(gates):
            of_h = h @ weight.T
            if bias is not None:
                of_h += bias
            _, z, n, _ = _host_gates(given, of_h)
            new = np.subtract(h, n, out=out[step])
            new *= z
            new += n
            if mask is not None:
                np.copyto(new, h, where=~mask[step])
            h = new
    return out


def _host_gates(
    given: np.ndarray, of_h: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what `_gru_gates` does, mostly as parts of `of_h`."""
    size = of_h.shape[-1] // 3
    both = of_h[..., : 2 * size]
    both += given[..., : 2 * size]
    logistic_in_place(both)
    r, z, hn = both[..., :size], both[..., size:], of_h[..., 2 * size :]
    n = r * hn
    n += given[..., 2 * size :]
    return r, z, np.tanh(n, out=n), hn


def _gru_gates(
    gates: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gates, the candidate, and what the reset gate multiplies."""
    of_h = h @ weight.mT
    if bias is not None:
        of_h = of_h + bias
    (xr, xz, xn), (hr, hz, hn) = gates.chunk(3, -1), of_h.chunk(3, -1)
    r = sigmoid(xr + hr)
    return r, sigmoid(xz + hz), tanh(xn + r * hn), hn


@gru_steps.vjp
def gru_steps_vjp(
    grad: Tensor,
    out: Tensor,
    gates: Tensor,
    h0: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor | None, ...]:
    if on_host(grad):
        answers = _host_gradients(*views(grad, out, gates, h0, weight, bias, mask))
        return *[None if each is None else made(each, grad) for each in answers], None
    before = shifted(h0, out)
    r, z, n, hn = _gru_gates(gates, before, weight, bias)
    of_n = (1 - z) * (1 - n * n)
    of_r = of_n * hn * r * (1 - r)
    of_z = (before - n) * z * (1 - z)
    by_input, by_state = stack([of_r, of_z, of_n], 2), stack([of_r, of_z, of_n * r], 2)
    if mask is not None:
        on = unsqueeze(mask, 2)
        by_input, by_state = where(on, by_input, 0.0), where(on, by_state, 0.0)
        z = where(mask, z, 1.0)
    if by_kernel(gates, h0):
        of_gates, states = _state_gradients(grad, weight.mT, by_state, z)
        dh = last_gradient(of_gates, states, weight, z)
        all_dh = unsqueeze(states, 2)
    else:
        dh, hidden = h0 * 0, []
        for step in reversed(range(gates.layout.shape[0])):
            dh = grad[step] + dh
            hidden.append(dh)
            of_gate = reshape(unsqueeze(dh, 1) * by_state[step], gates.layout.shape[1:])
            dh = of_gate @ weight + dh * z[step]
        all_dh = unsqueeze(stack(hidden[::-1]), 2)
        of_gates = reshape(all_dh * by_state, gates.layout.shape)
    grad_bias = None if bias is None else sum(of_gates, (0, 1))
    grad_weight = product_of_steps(of_gates, before)
    return (
        reshape(all_dh * by_input, gates.layout.shape),
        dh,
        grad_weight,
        grad_bias,
        None,
    )


def _host_gradients(
    grad: np.ndarray,
    out: np.ndarray,
    gates: np.ndarray,
    h0: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    mask: np.ndarray | None,
) -> tuple[np.ndarray | None, ...]:
    """Return what `gru_steps_vjp` does, without the mask's None."""
    size = h0.shape[-1]
    before = states_before(h0, out)
    dh, by_input = np.zeros_like(h0), np.empty(gates.shape, gates.dtype)
    with np.errstate(all="ignore"):
        by_state = before @ weight.T
        if bias is not None:
            by_state += bias
        for step in reversed(range(len(gates))):
            r, z, n, hn = _host_gates(gates[step], by_state[step])
            dh = grad[step] + dh
            of_n = (1 - z) * (1 - n * n) * dh
            of_r = of_n * hn * r * (1 - r)
            of_z = (before[step] - n) * z * (1 - z) * dh
            kept_h = dh * z
            parts = by_state[step], by_input[step]
            for row, last in zip(parts, (of_n * r, of_n)):
                row[:, :size], row[:, size : 2 * size] = of_r, of_z
                row[:, 2 * size :] = last
                if mask is not None:
                    np.copyto(row, 0, where=~mask[step])
            if mask is not None:
                np.copyto(kept_h, dh, where=~mask[step])
            dh = by_state[step] @ weight
            dh += kept_h
        by_bias = None if bias is None else by_state.sum((0, 1))
        return by_input, dh, sum_of_products(by_state, before), by_bias
