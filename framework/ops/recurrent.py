"""Recurrent networks: all steps of a layer as one op.

The products with the inputs are the caller's, for all steps at once; what depends on
the step before is here. The forward pass keeps the states alone. The gradient computes
the gates of all steps again from them, in one product, and goes back through the steps
with one product and one fused expression each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import FLOAT, bool_
from ..dispatch.declare import composite
from .activation import relu
from .elementwise.compare import where
from .elementwise.exponential import sigmoid
from .elementwise.trigonometric import tanh
from .movement.concat import cat, stack
from .reduce.sum import sum
from .view import reshape, unsqueeze

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

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
    size = h0.layout.shape[-1]
    h_before = _shifted(h0, out[..., :size])
    c_before = _shifted(c0, out[..., size:])
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
        dh = of_gate @ weight + _kept(dh, mask, step)
    grad_gates = stack(of_gates[::-1])
    grad_projection = None
    if projection is not None:
        rows = stack(of_hidden[::-1])
        rows = rows if mask is None else where(mask, rows, 0.0)
        grad_projection = _product_of_steps(rows, o * tanh_c)
    grad_weight = _product_of_steps(grad_gates, h_before)
    return grad_gates, dh, dc, grad_weight, grad_projection, None


def _shifted(first: Tensor, states: Tensor) -> Tensor:
    """Return the states before each step."""
    return cat([unsqueeze(first, 0), states[:-1]])


def _kept(grad: Tensor, mask: Tensor | None, step: int) -> Tensor | float:
    """Return the gradient of states that a step leaves as they were."""
    return 0.0 if mask is None else where(mask[step], 0.0, grad)


def _product_of_steps(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over steps and batch of the products of two vectors."""
    left = reshape(left, (-1, left.layout.shape[-1]))
    return left.mT @ reshape(right, (-1, right.layout.shape[-1]))


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
    h, hidden = h0, []
    for step in range(gates.layout.shape[0]):
        _, z, n, _ = _gru_gates(gates[step], h, weight, bias)
        new = n + z * (h - n)
        h = new if mask is None else where(mask[step], new, h)
        hidden.append(h)
    return stack(hidden)


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
    before = _shifted(h0, out)
    r, z, n, hn = _gru_gates(gates, before, weight, bias)
    of_n = (1 - z) * (1 - n * n)
    of_r = of_n * hn * r * (1 - r)
    of_z = (before - n) * z * (1 - z)
    by_input, by_state = stack([of_r, of_z, of_n], 2), stack([of_r, of_z, of_n * r], 2)
    if mask is not None:
        on = unsqueeze(mask, 2)
        by_input, by_state = where(on, by_input, 0.0), where(on, by_state, 0.0)
        z = where(mask, z, 1.0)
    dh, hidden = h0 * 0, []
    for step in reversed(range(gates.layout.shape[0])):
        dh = grad[step] + dh
        hidden.append(dh)
        of_gate = reshape(unsqueeze(dh, 1) * by_state[step], gates.layout.shape[1:])
        dh = of_gate @ weight + dh * z[step]
    all_dh = unsqueeze(stack(hidden[::-1]), 2)
    of_gates = reshape(all_dh * by_state, gates.layout.shape)
    grad_bias = None if bias is None else sum(of_gates, (0, 1))
    grad_weight = _product_of_steps(of_gates, before)
    return (
        reshape(all_dh * by_input, gates.layout.shape),
        dh,
        grad_weight,
        grad_bias,
        None,
    )


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
    h, hidden = h0, []
    for step in range(gates.layout.shape[0]):
        total = gates[step] + h @ weight.mT
        new = relu(total) if rectified else tanh(total)
        h = new if mask is None else where(mask[step], new, h)
        hidden.append(h)
    return stack(hidden)


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
    before = _shifted(h0, out)
    total = gates + before @ weight.mT
    if rectified:
        slope = where(total > 0, gates * 0 + 1, 0.0)
    else:
        slope = 1 - tanh(total) * tanh(total)
    if mask is not None:
        slope = where(mask, slope, 0.0)
    dh, of_gates = h0 * 0, []
    for step in reversed(range(gates.layout.shape[0])):
        dh = grad[step] + dh
        of_gates.append(dh * slope[step])
        dh = of_gates[-1] @ weight + _kept(dh, mask, step)
    grad_gates = stack(of_gates[::-1])
    return grad_gates, dh, _product_of_steps(grad_gates, before), None
