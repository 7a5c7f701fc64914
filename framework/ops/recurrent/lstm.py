"""Steps of an LSTM layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE, bool_
from ...base.shape import TensorSpec
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.recurrent import forward_dispatches
from ..elementwise.cast import cast
from ..elementwise.compare import where
from ..elementwise.exponential import sigmoid
from ..elementwise.trigonometric import tanh
from ..movement.concat import cat, stack
from ..view import reshape, unsqueeze
from .common import (
    kept,
    logistic_in_place,
    made,
    on_host,
    product_of_steps,
    shifted,
    states_before,
    sum_of_products,
    views,
)
from .kernel_steps import (
    _cell_gradients,
    as_numbers,
    by_kernel,
    last_gradient,
    left_by,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_LSTM_DTYPES = {
    "gates": FLOAT,
    "h0": FLOAT,
    "c0": FLOAT,
    "weight": FLOAT,
    "projection": FLOAT,
    "mask": (bool_,),
}


@composite(dtypes=_LSTM_DTYPES)
def lstm_steps(
    gates: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Return hidden and cell states of an LSTM layer after each step.

    Parameters
    ----------
    gates : Tensor, shape (steps, batch, 4 * cells)
        What inputs and biases give to input gate, forget gate, cell, output gate.
    h0 : Tensor, shape (batch, size)
        Hidden states before the first step.
    c0 : Tensor, shape (batch, cells)
        Cell states before it.
    weight : Tensor, shape (4 * cells, size)
        From the hidden states to the gates.
    projection : Tensor, shape (size, cells), or None
        From the cells' outputs to the hidden states, if their sizes differ.
    mask : Tensor of bool, shape (steps, batch, 1), or None
        Where it is false, a sequence has ended and its states stay.

    Returns
    -------
    Tensor, shape (steps, batch, size + cells)
        Hidden states, then cell states.

    Notes
    -----
    Source: Hochreiter and Schmidhuber, Neural Computation 9 (1997); the projection is
    of Sak et al., arXiv:1402.1128.
    """
    if on_host(gates):
        return made(_host_steps(*views(gates, h0, c0, weight, projection, mask)), gates)
    if projection is None and by_kernel(gates, h0):
        return _lstm_states(gates, h0, c0, weight, as_numbers(mask, gates))
    h, c, hidden, cells = h0, c0, [], []
    for step in range(gates.layout.shape[0]):
        i, f, g, o = _lstm_gates(gates[step] + h @ weight.mT)
        new_c = f * c + i * g
        new_h = o * tanh(new_c)
        if projection is not None:
            new_h = new_h @ projection.mT
        if mask is not None:
            new_h, new_c = where(mask[step], new_h, h), where(mask[step], new_c, c)
        h, c = new_h, new_c
        hidden.append(h)
        cells.append(c)
    return cat([stack(hidden), stack(cells)], -1)


@primitive(dtypes=SINGLE, typed="gates")
def _lstm_states(
    gates: Tensor, h0: Tensor, c0: Tensor, weight: Tensor, on: Tensor | None
) -> Tensor:
    """Return what `lstm_steps` does; the mask is of the dtype of the gates."""


@_lstm_states.spec
def _lstm_states_spec(gates: TensorSpec, h0: TensorSpec, **_: object) -> TensorSpec:
    batch, units = h0.shape
    return TensorSpec((gates.shape[0], batch, 2 * units), gates.dtype)


@_lstm_states.kernel
def _lstm_states_kernel(
    gpu: DeviceInfo,
    gates: StridedSpec,
    h0: StridedSpec,
    c0: StridedSpec,
    weight: StridedSpec,
    on: StridedSpec | None,
) -> list[Dispatch]:
    return forward_dispatches(gpu, "LSTM", gates, h0, on is not None)


@_lstm_states.reference
def _lstm_states_reference(
    gates: np.ndarray,
    h0: np.ndarray,
    c0: np.ndarray,
    weight: np.ndarray,
    on: np.ndarray | None,
) -> np.ndarray:
    return _host_steps(gates, h0, c0, weight, None, None if on is None else on != 0)


def _host_steps(
    gates: np.ndarray,
    h: np.ndarray,
    c: np.ndarray,
    weight: np.ndarray,
    projection: np.ndarray | None,
    mask: np.ndarray | None,
) -> np.ndarray:
    """Return what `lstm_steps` does."""
    size = h.shape[-1]
    out = np.empty((*gates.shape[:2], size + c.shape[-1]), gates.dtype)
    with np.errstate(all="ignore"):
        for step, given in enumerate(gates):
            total = h @ weight.T
            total += given
            i, f, g, o = _host_gates(total)
            new_h, new_c = out[step, :, :size], out[step, :, size:]
            np.multiply(f, c, out=new_c)
            g *= i
            new_c += g
            o *= np.tanh(new_c)
            new_h[:] = o if projection is None else o @ projection.T
            if mask is not None:
                np.copyto(new_h, h, where=~mask[step])
                np.copyto(new_c, c, where=~mask[step])
            h, c = new_h, new_c
    return out


def _host_gates(total: np.ndarray) -> list[np.ndarray]:
    """Return the gates as parts of one array, which is overwritten."""
    cells = total.shape[-1] // 4
    logistic_in_place(total[:, : 2 * cells])
    i, f, g, o = [total[:, k * cells : (k + 1) * cells] for k in range(4)]
    np.tanh(g, out=g)
    logistic_in_place(o)
    return [i, f, g, o]


def _lstm_gates(total: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    i, f, g, o = total.chunk(4, -1)
    return sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)


@lstm_steps.vjp
def lstm_steps_vjp(
    grad: Tensor,
    out: Tensor,
    gates: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor | None, ...]:
    if on_host(grad):
        given = views(grad, out, gates, h0, c0, weight, projection, mask)
        answers = _host_gradients(*given)
        return *[None if each is None else made(each, grad) for each in answers], None
    size = h0.layout.shape[-1]
    h_before = shifted(h0, out[..., :size])
    c_before = shifted(c0, out[..., size:])
    i, f, g, o = _lstm_gates(gates + h_before @ weight.mT)
    tanh_c = tanh(f * c_before + i * g)
    # Gradients of the four gates by that of the cell; `through` leads to it from the
    # output.
    through = o * (1 - tanh_c * tanh_c)
    by_cell = [g * i * (1 - i), c_before * f * (1 - f), i * (1 - g * g)]
    by_output = stack([*(through * each for each in by_cell), tanh_c * o * (1 - o)], 2)
    of_cell = stack([*by_cell, by_cell[0] * 0], 2)
    if mask is not None:
        on = unsqueeze(mask, 2)
        by_output, of_cell = where(on, by_output, 0.0), where(on, of_cell, 0.0)
        through, f = where(mask, through, 0.0), where(mask, f, 1.0)
    if projection is None and by_kernel(gates, h0):
        kept_states = left_by(mask, gates)
        factors = by_output, of_cell, through, f
        found = _cell_gradients(grad, weight.mT, *factors, kept_states)
        of_all, states, cells = found
        dh = last_gradient(of_all, states, weight, kept_states)
        by_weight = product_of_steps(of_all, h_before)
        return of_all, dh, cast(cells, c0.dtype), by_weight, None, None
    grad_h, grad_c = grad[..., :size], grad[..., size:]
    dh, dc = h0 * 0, c0 * 0
    of_gates, of_hidden = [], []
    for step in reversed(range(gates.layout.shape[0])):
        dh, dc = grad_h[step] + dh, grad_c[step] + dc
        of_hidden.append(dh)
        dy = dh if projection is None else dh @ projection
        both = unsqueeze(dy, 1) * by_output[step] + unsqueeze(dc, 1) * of_cell[step]
        of_gate = reshape(both, gates.layout.shape[1:])
        of_gates.append(of_gate)
        dc = (dy * through[step] + dc) * f[step]
        dh = of_gate @ weight + kept(dh, mask, step)
    grad_gates = stack(of_gates[::-1])
    grad_projection = None
    if projection is not None:
        rows = stack(of_hidden[::-1])
        rows = rows if mask is None else where(mask, rows, 0.0)
        grad_projection = product_of_steps(rows, o * tanh_c)
    grad_weight = product_of_steps(grad_gates, h_before)
    return grad_gates, dh, dc, grad_weight, grad_projection, None


def _host_gradients(
    grad: np.ndarray,
    out: np.ndarray,
    gates: np.ndarray,
    h0: np.ndarray,
    c0: np.ndarray,
    weight: np.ndarray,
    projection: np.ndarray | None,
    mask: np.ndarray | None,
) -> tuple[np.ndarray | None, ...]:
    """Return what `lstm_steps_vjp` does, without the mask's None."""
    size = h0.shape[-1]
    h_before = states_before(h0, out[..., :size])
    c_before = states_before(c0, out[..., size:])
    outputs = None if projection is None else np.empty_like(c_before)
    of_hidden = np.empty_like(h_before)
    dh, dc = np.zeros_like(h0), np.zeros_like(c0)
    with np.errstate(all="ignore"):
        of_gates = h_before @ weight.T
        of_gates += gates
        for step in reversed(range(len(gates))):
            i, f, g, o = parts = _host_gates(of_gates[step])
            tanh_c = np.tanh(f * c_before[step] + i * g)
            if outputs is not None:
                np.multiply(o, tanh_c, out=outputs[step])
            dh = np.add(grad[step, :, :size], dh, out=of_hidden[step])
            dc = grad[step, :, size:] + dc
            dy = dh if projection is None else dh @ projection
            by_cell = dc + dy * o * (1 - tanh_c * tanh_c)
            off = None if mask is None else ~mask[step]
            kept_c = by_cell * f
            if off is not None:
                np.copyto(kept_c, dc, where=off)
            _to_gradients(parts, by_cell, c_before[step], dy * tanh_c)
            if off is not None:
                np.copyto(of_gates[step], 0, where=off)
            kept_h = of_gates[step] @ weight
            if off is not None:
                kept_h += np.where(off, dh, 0)
                np.copyto(dh, 0, where=off)  # What the projection gets of it.
            dh, dc = kept_h, kept_c
        by_projection = None if outputs is None else sum_of_products(of_hidden, outputs)
        return of_gates, dh, dc, sum_of_products(of_gates, h_before), by_projection


def _to_gradients(
    gates: list[np.ndarray], by_cell: np.ndarray, c: np.ndarray, by_o: np.ndarray
) -> None:
    """Replace the gates of a step by the gradients of what they are functions of."""
    i, f, g, o = gates
    of_i, of_g = by_cell * g, by_cell * i
    of_g *= 1 - g * g
    g[:] = of_g
    for gate, by_gate in ((i, of_i), (f, by_cell * c), (o, by_o)):
        by_gate *= gate
        by_gate *= 1 - gate
        gate[:] = by_gate
