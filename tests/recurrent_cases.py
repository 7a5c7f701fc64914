"""Rows of the op table for recurrent layers."""

from typing import Any

import torch

from tests.case import Case, Draw, Sample, sample
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.recurrent import gru_steps, lstm_steps, rnn_steps


def torch_lstm(
    gates: Any, h: Any, c: Any, weight: Any, projection: Any = None, mask: Any = None
) -> Any:
    """Return the states of an LSTM, step after step."""
    rows = []
    for step, given in enumerate(gates):
        i, f, g, o = (given + h @ weight.mT).chunk(4, -1)
        after = f.sigmoid() * c + i.sigmoid() * g.tanh()
        out = o.sigmoid() * after.tanh()
        if projection is not None:
            out = out @ projection.mT
        on = True if mask is None else mask[step]
        h = torch.where(torch.as_tensor(on), out, h)
        c = torch.where(torch.as_tensor(on), after, c)
        rows.append(torch.cat([h, c], -1))
    return torch.stack(rows)


def torch_gru(gates: Any, h: Any, weight: Any, bias: Any, mask: Any = None) -> Any:
    """Return the states of a GRU, step after step."""
    rows = []
    for step, given in enumerate(gates):
        (xr, xz, xn), (hr, hz, hn) = (
            each.chunk(3, -1) for each in (given, h @ weight.mT + bias)
        )
        z = (xz + hz).sigmoid()
        after = (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h
        on = True if mask is None else mask[step]
        h = torch.where(torch.as_tensor(on), after, h)
        rows.append(h)
    return torch.stack(rows)


def torch_rnn(
    gates: Any, h: Any, weight: Any, mask: Any = None, rectified: bool = False
) -> Any:
    """Return the states of an Elman network, step after step."""
    rows = []
    for step, given in enumerate(gates):
        total = given + h @ weight.mT
        after = total.relu() if rectified else total.tanh()
        on = True if mask is None else mask[step]
        h = torch.where(torch.as_tensor(on), after, h)
        rows.append(h)
    return torch.stack(rows)


def torch_state_gradients(grad: Any, weight: Any, by_state: Any, kept: Any) -> Any:
    """Return gradients of gates and of states, from the last step to the first."""
    gates, states, after = [], [], 0 * grad[0]
    for step in reversed(range(len(grad))):
        states.append(grad[step] + after)
        gates.append((states[-1][:, None] * by_state[step]).flatten(1))
        after = gates[-1] @ weight.mT + kept[step] * states[-1]
    return torch.stack(gates[::-1]), torch.stack(states[::-1])


def torch_cell_gradients(
    grad: Any, weight: Any, by_state: Any, by_cell: Any, through: Any, forget: Any
) -> Any:
    """Return gradients of gates, of states, and of the cells before the first step."""
    gates, states, units = [], [], forget.shape[-1]
    after = cells = 0 * forget[0]
    for step in reversed(range(len(grad))):
        states.append(grad[step, :, :units] + after)
        cells = cells + grad[step, :, units:]
        of_gate = states[-1][:, None] * by_state[step] + cells[:, None] * by_cell[step]
        gates.append(of_gate.flatten(1))
        cells = (states[-1] * through[step] + cells) * forget[step]
        after = gates[-1] @ weight.mT
    return torch.stack(gates[::-1]), torch.stack(states[::-1]), cells


def numbers(mask: Any) -> Any:
    """Return 1 where a number is above 0, otherwise 0."""
    return (mask > 0).to(mask.dtype)


def cell_gradients(*given: Any) -> Any:
    """Return what the op does, in one dtype."""
    of_gates, states, cells = REGISTRY["cell_gradients"](*given, None)
    return of_gates, states, cells.to(states.dtype)


MASK = Draw((3, 2, 1), 0, 2, "bool")

RECURRENT: dict[str, Case] = {
    "lstm_steps": Case(
        lambda gates, h, c, weight, *rest: lstm_steps(
            gates, h, c, weight, *(*rest, None, None)[:2]
        ),
        (
            sample((3, 2, 20), (2, 5), (2, 5), (20, 5)),
            sample((3, 0, 20), (0, 5), (0, 5), (20, 5)),
            Sample(
                (
                    *map(Draw, ((3, 2, 20), (2, 3), (2, 5), (20, 3), (3, 5))),
                    MASK,
                )
            ),
        ),
        torch=torch_lstm,
        device_dtypes=("float16", "bfloat16", "float32"),
        scale=50,  # products of states that are themselves products
    ),
    "gru_steps": Case(
        lambda gates, h, weight, bias, mask=None: gru_steps(
            gates, h, weight, bias, mask
        ),
        (
            sample((3, 2, 15), (2, 5), (15, 5), (15,)),
            sample((3, 0, 15), (0, 5), (15, 5), (15,)),
            Sample((Draw((3, 2, 15)), Draw((2, 5)), Draw((15, 5)), Draw((15,)), MASK)),
        ),
        torch=torch_gru,
        device_dtypes=("float16", "bfloat16", "float32"),
        scale=50,  # products of states that are themselves products
    ),
    "rnn_steps": Case(
        lambda gates, h, weight, mask=None, rectified=False: rnn_steps(
            gates, h, weight, mask, rectified
        ),
        (
            sample((3, 2, 5), (2, 5), (5, 5)),
            sample((3, 0, 5), (0, 5), (5, 5)),
            sample((1, 1, 1), (1, 1), (1, 1)),
            Sample((Draw((3, 2, 5)), Draw((2, 5)), Draw((5, 5)), MASK)),
        ),
        torch=torch_rnn,
        device_dtypes=("float16", "bfloat16", "float32"),
        scale=50,  # products of states that are themselves products
    ),
    "elman_states": Case(
        lambda gates, h, weight, on: REGISTRY["elman_states"](
            gates, h, weight, numbers(on), False
        ),
        (
            sample((3, 2, 5), (2, 5), (5, 5), (3, 2, 1)),
            sample((3, 0, 5), (0, 5), (5, 5), (3, 0, 1)),
            sample((1, 1, 1), (1, 1), (1, 1), (1, 1, 1)),
            sample((2, 19, 36), (19, 36), (36, 36), (2, 19, 1)),
        ),
        torch=lambda gates, h, weight, on: torch_rnn(gates, h, weight, on > 0),
        scale=50,  # products of states that are themselves products
        gradient=False,
    ),
    "gru_states": Case(
        lambda gates, h, weight, bias, on: REGISTRY["gru_states"](
            gates, h, weight, bias, numbers(on)
        ),
        (
            sample((3, 2, 15), (2, 5), (15, 5), (15,), (3, 2, 1)),
            sample((3, 0, 15), (0, 5), (15, 5), (15,), (3, 0, 1)),
            sample((2, 19, 108), (19, 36), (108, 36), (108,), (2, 19, 1)),
        ),
        torch=lambda gates, h, weight, bias, on: torch_gru(
            gates, h, weight, bias, on > 0
        ),
        scale=50,  # products of states that are themselves products
        gradient=False,
    ),
    "lstm_states": Case(
        lambda gates, h, c, weight, on: REGISTRY["lstm_states"](
            gates, h, c, weight, numbers(on)
        ),
        (
            sample((3, 2, 20), (2, 5), (2, 5), (20, 5), (3, 2, 1)),
            sample((3, 0, 20), (0, 5), (0, 5), (20, 5), (3, 0, 1)),
            sample((2, 19, 144), (19, 36), (19, 36), (144, 36), (2, 19, 1)),
        ),
        torch=lambda gates, h, c, weight, on: torch_lstm(
            gates, h, c, weight, None, on > 0
        ),
        scale=50,  # products of states that are themselves products
        gradient=False,
    ),
    "state_gradients": Case(
        REGISTRY["state_gradients"],
        (
            sample((3, 2, 5), (5, 15), (3, 2, 3, 5), (3, 2, 5)),
            sample((3, 2, 5), (5, 5), (3, 2, 1, 5), (3, 2, 1)),
            sample((3, 0, 5), (5, 15), (3, 0, 3, 5), (3, 0, 5)),
            sample((1, 1, 1), (1, 1), (1, 1, 1, 1), (1, 1, 1)),
            sample((2, 19, 36), (36, 36), (2, 19, 1, 36), (2, 19, 1)),
        ),
        torch=torch_state_gradients,
        scale=50,  # products of states that are themselves products
        gradient=False,
    ),
    "cell_gradients": Case(
        cell_gradients,
        (
            sample(
                *((3, 2, 10), (5, 20), (3, 2, 4, 5), (3, 2, 4, 5)),
                *((3, 2, 5), (3, 2, 5)),
            ),
            sample(
                *((3, 0, 10), (5, 20), (3, 0, 4, 5), (3, 0, 4, 5)),
                *((3, 0, 5), (3, 0, 5)),
            ),
            sample(
                *((1, 1, 2), (1, 4), (1, 1, 4, 1), (1, 1, 4, 1)),
                *((1, 1, 1), (1, 1, 1)),
            ),
            sample(
                *((2, 19, 72), (36, 144), (2, 19, 4, 36), (2, 19, 4, 36)),
                *((2, 19, 36), (2, 19, 36)),
            ),
        ),
        torch=torch_cell_gradients,
        scale=50,  # products of states that are themselves products
        gradient=False,
    ),
}
