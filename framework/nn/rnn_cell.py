"""Recurrent cells: one step of RNN, LSTM and GRU."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..base.dtype import DTypeLike
from ..base.validation import as_int
from ..dispatch.replayable import replayable
from ..tensor.factories import DeviceLike, zeros
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter


def _products(
    x: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return what the gates are computed from: of the input, and of the state."""
    of_x = functional.linear(x, weight_ih, bias_ih)
    return of_x, functional.linear(h, weight_hh, bias_hh)


@replayable
def _elman_step(x: Tensor, h: Tensor, nonlinearity: str, *own: Any) -> Tensor:
    """Return the state after a step; `own` are the parameters."""
    of_x, of_h = _products(x, h, *own)
    total = of_x + of_h
    return ops.relu(total) if nonlinearity == "relu" else ops.tanh(total)


@replayable
def _lstm_step(x: Tensor, h: Tensor, c: Tensor, *own: Any) -> tuple[Tensor, Tensor]:
    """Return both states after a step; `own` are the parameters."""
    of_x, of_h = _products(x, h, *own)
    i, f, g, o = (of_x + of_h).chunk(4, -1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


@replayable
def _gru_step(x: Tensor, h: Tensor, *own: Any) -> Tensor:
    """Return the state after a step; `own` are the parameters."""
    of_x, of_h = _products(x, h, *own)
    (xr, xz, xn), (hr, hz, hn) = of_x.chunk(3, -1), of_h.chunk(3, -1)
    z = ops.sigmoid(xz + hz)
    n = ops.tanh(xn + ops.sigmoid(xr + hr) * hn)
    out: Tensor = n + z * (h - n)
    return out


class RNNCellBase(Module):
    """Base of recurrent cells, which compute one step.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    num_chunks : int
        Gates.
    device, dtype
        Of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.input_size = as_int(f"{name}: input_size", input_size)
        self.hidden_size = as_int(f"{name}: hidden_size", hidden_size)
        self.bias = bias
        rows = num_chunks * hidden_size
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(zeros((rows, input_size), **made))
        self.weight_hh = Parameter(zeros((rows, hidden_size), **made))
        for part in ("bias_ih", "bias_hh"):
            vector = Parameter(zeros(rows, **made)) if bias else None
            self.register_parameter(part, vector)
        self.reset_parameters()

    nonlinearity: str
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def _batched(self, input: Tensor, states: tuple[Tensor, ...] | None) -> Any:
        """Return input and states with a batch, and whether there was one."""
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(
                f"{name}: input is {tuple(input.shape)}; it must be (batch,"
                f" {self.input_size}) or ({self.input_size},)"
            )
        if states is not None and any(each.ndim not in (1, 2) for each in states):
            raise ValueError(f"{name}: hx must be 1-D or 2-D, as the input is")
        batched = input.ndim == 2
        x = input if batched else input.unsqueeze(0)
        shape = (x.shape[0], self.hidden_size)
        if states is None:
            empty = ops.fill_like(x.detach(), shape, 0, x.dtype)
            return x, (empty, empty), batched
        states = states if batched else tuple([each.unsqueeze(0) for each in states])
        wrong = [tuple(each.shape) for each in states if each.shape != shape]
        if x.shape[1] != self.input_size or wrong:
            raise RuntimeError(
                f"{name}: input is {tuple(input.shape)}, hx"
                f" {', '.join(map(str, wrong)) or 'right'}; they must be (batch,"
                f" {self.input_size}) and (batch, {self.hidden_size})"
            )
        return x, states, batched

    def _own(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return the parameters, of the input and of the state by turns."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class RNNCell(RNNCellBase):
    """One step of an Elman network; see `RNN`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    nonlinearity : str, default "tanh"
        Or "relu".
    device, dtype
        Of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the state (batch, hidden_size) after one step from `hx`, or zeros."""
        x, (h, *_), batched = self._batched(input, None if hx is None else (hx,))
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(
                f"RNNCell: nonlinearity is {self.nonlinearity!r}; it must be 'tanh' or"
                " 'relu'"
            )
        out = _elman_step(x, h, self.nonlinearity, *self._own())
        return out if batched else out.squeeze(0)


class LSTMCell(RNNCellBase):
    """One step of an LSTM; see `LSTM`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    device, dtype
        Of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return hidden and cell states (batch, hidden_size) after one step."""
        x, (h, c), batched = self._batched(input, hx)
        h, c = _lstm_step(x, h, c, *self._own())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU; see `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    device, dtype
        Of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the state (batch, hidden_size) after one step from `hx`, or zeros."""
        x, (h, *_), batched = self._batched(input, None if hx is None else (hx,))
        out = _gru_step(x, h, *self._own())
        return out if batched else out.squeeze(0)
