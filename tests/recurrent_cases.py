"""Rows of the op table for recurrent layers."""

from typing import Any

import torch

from tests.case import Case, Draw, Sample, sample
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
}
