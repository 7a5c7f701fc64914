"""Recurrent layers: RNN, LSTM and GRU."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import ops
from ..base.dtype import DTypeLike, promote
from ..base.modes import autocast_state, is_autocast_enabled
from ..base.validation import as_int
from ..ops.recurrent import gru_steps, lstm_steps, rnn_steps
from ..tensor.factories import DeviceLike, zeros
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence, lengths_of, mask_of, padded

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Base of recurrent layers: parameters, stacking, directions, packed sequences.

    Parameters
    ----------
    mode : str
        "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
    input_size, hidden_size : int
        Sizes of the vectors of a step, and of the states.
    num_layers : int, default 1
        Each gets the outputs of the one below.
    bias : bool, default True
    batch_first : bool, default False
        Whether sequences are (batch, steps, size), not (steps, batch, size).
    dropout : float, default 0
        Probability of an output of a layer, but the last, to be dropped in training.
    bidirectional : bool, default False
        Whether each layer has another one beside it that goes backwards.
    proj_size : int, default 0
        Size of projected hidden states, of LSTM only; 0 means none.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, ... : Parameter
        As in PyTorch, by layer; `_reverse` ends the names of those that go backwards.
        Drawn from U(-k, k) with k = 1 / sqrt(hidden_size).
    """

    weight_ih_l0: Parameter

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        name = type(self).__name__
        self.input_size = as_int(f"{name}: input_size", input_size)
        self.hidden_size = as_int(f"{name}: hidden_size", hidden_size)
        self.num_layers = as_int(f"{name}: num_layers", num_layers)
        self.bias = _as_bool(f"{name}: bias", bias)
        self.batch_first = _as_bool(f"{name}: batch_first", batch_first)
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = as_int(f"{name}: proj_size", proj_size)
        self._check_options(dropout)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                for part, shape in self._shapes(layer).items():
                    parameter = Parameter(zeros(shape, **made))
                    setattr(self, f"{part}_{suffix}", parameter)
        self.reset_parameters()

    def _check_options(self, dropout: object) -> None:
        name = type(self).__name__
        if self.mode not in _GATES:
            raise ValueError(
                f"{name}: mode is {self.mode!r}; it must be one of {', '.join(_GATES)}"
            )
        is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
        if not is_number or not 0 <= self.dropout <= 1:
            raise ValueError(
                f"{name}: dropout is {dropout!r}; it must be a number from 0 to 1"
            )
        if min(self.input_size, self.hidden_size, self.num_layers) < 1:
            raise ValueError(
                f"{name}: input_size is {self.input_size}, hidden_size"
                f" {self.hidden_size}, num_layers {self.num_layers}; all must be at"
                " least 1"
            )
        if not 0 <= self.proj_size < self.hidden_size:
            raise ValueError(
                f"{name}: proj_size is {self.proj_size}; it must be from 0 to below"
                f" hidden_size, {self.hidden_size}"
            )
        if self.proj_size and self.mode != "LSTM":
            raise ValueError(
                f"{name}: proj_size is {self.proj_size}; only LSTM has projections"
            )
        if self.dropout and self.num_layers == 1:
            warnings.warn(
                f"{name}: dropout is {self.dropout}, but there is one layer, and the"
                " last one drops nothing",
                stacklevel=3,
            )

    def _suffixes(self, layer: int) -> list[str]:
        """Return the ends of the names of a layer's parameters, by direction."""
        ends = ["", "_reverse"] if self.bidirectional else [""]
        return [f"l{layer}{end}" for end in ends]

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a layer's parameters, in PyTorch's order."""
        rows = _GATES[self.mode] * self.hidden_size
        size = self.input_size
        if layer:
            size = self._output_size * (2 if self.bidirectional else 1)
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, size),
            "weight_hh": (rows, self._output_size),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, by layer and direction."""
        return [
            [getattr(self, f"{part}_{suffix}") for part in self._shapes(layer)]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [
            f"{part}_{suffix}"
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
            for part in self._shapes(layer)
        ]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [each for weights in self.all_weights for each in weights]

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: parameters need not lie in one piece of memory."""

    # The forward pass

    def _run(self, input: Any, hx: Any) -> tuple[Any, tuple[Tensor, ...]]:
        """Return outputs, and the last states of all layers: one tensor or two."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        self._check_input(input)
        batched = input.ndim == 3
        x = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            x = x.transpose(0, 1)
        first = self._first_states(x, hx, batched)
        out, last = self._layers(x, first, None)
        if not batched:
            return out.squeeze(1), tuple([each.squeeze(1) for each in last])
        return (out.transpose(0, 1) if self.batch_first else out), last

    def _run_packed(
        self, input: PackedSequence, hx: Any
    ) -> tuple[PackedSequence, tuple[Tensor, ...]]:
        lengths = lengths_of(input.batch_sizes)
        x = padded(input.data, input.batch_sizes, int(lengths[0]), 0.0)
        self._check_input(x)
        first = self._first_states(x, hx, True)
        order, back = input.sorted_indices, input.unsorted_indices
        if order is not None and hx is not None:
            first = tuple([ops.index_select(each, 1, order) for each in first])
        out, last = self._layers(x, first, lengths)
        rows = out.reshape(out.shape[0] * out.shape[1], out.shape[2])
        places = np.flatnonzero(mask_of(lengths, out.shape[0]).reshape(-1))
        data = ops.index_select(rows, 0, tensor(places, device=x.device))
        if back is not None:
            last = tuple([ops.index_select(each, 1, back) for each in last])
        return input._with_data(data), last

    def _check_input(self, x: Tensor) -> None:
        name = type(self).__name__
        weight = self.weight_ih_l0
        if x.dtype is not weight.dtype and not is_autocast_enabled():
            raise ValueError(
                f"{name}: input is {x.dtype.name}, the weights are"
                f" {weight.dtype.name}; they must be the same"
            )
        if x.ndim not in (2, 3):
            raise ValueError(
                f"{name}: input is {tuple(x.shape)}; it must be a sequence of vectors,"
                " with a batch or without: 2-D or 3-D"
            )
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input is {tuple(x.shape)}; its last size must be input_size,"
                f" {self.input_size}"
            )
        if x.ndim == 3 and x.shape[1 if self.batch_first else 0] == 0:
            raise RuntimeError(f"{name}: input is {tuple(x.shape)}; it has no steps")

    def _first_states(self, x: Tensor, hx: Any, batched: bool) -> tuple[Tensor, ...]:
        """Return the states before the first step, as (layers, batch, size)."""
        name = type(self).__name__
        sizes = [self._output_size]
        if self.mode == "LSTM":
            sizes.append(self.hidden_size)
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(count, x.shape[1], size) for size in sizes]
        if hx is None:
            made = x.detach()
            return tuple([ops.fill_like(made, each, 0, x.dtype) for each in shapes])
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        if len(given) != len(sizes):
            raise RuntimeError(
                f"{name}: hx has {len(given)} parts; it must be a tuple of the hidden"
                " states and the cell states"
            )
        if any(each.ndim != (3 if batched else 2) for each in given):
            raise RuntimeError(
                f"{name}: hx is of {given[0].ndim} dimensions; it must be of"
                f" {3 if batched else 2}, as the input is"
            )
        states = given if batched else tuple([each.unsqueeze(1) for each in given])
        for each, shape in zip(states, shapes):
            if each.shape != shape:
                raise RuntimeError(
                    f"{name}: hx is {tuple(each.shape)}; it must be {shape}"
                )
        return states

    def _layers(
        self, x: Tensor, first: tuple[Tensor, ...], lengths: np.ndarray | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the outputs of the last layer, and the last states of all."""
        mask = None
        if lengths is not None and lengths[-1] < x.shape[0]:
            mask = tensor(mask_of(lengths, x.shape[0])[..., None], device=x.device)
        lasts: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            outputs = []
            for backwards, suffix in enumerate(self._suffixes(layer)):
                states = tuple([each[len(lasts)] for each in first])
                given = _reversed(x, lengths) if backwards else x
                out, last = self._direction(given, states, suffix, mask)
                outputs.append(_reversed(out, lengths) if backwards else out)
                lasts.append(last)
            x = outputs[0] if len(outputs) == 1 else ops.cat(outputs, -1)
            if self.dropout and layer + 1 < self.num_layers:
                x = ops.dropout(x, self.dropout, self.training)
        return x, tuple([ops.stack(list(each)) for each in zip(*lasts)])

    def _direction(
        self, x: Tensor, states: tuple[Tensor, ...], suffix: str, mask: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return outputs and last states of one layer in one direction."""
        weight_ih: Tensor = getattr(self, f"weight_ih_{suffix}")
        weight_hh: Tensor = getattr(self, f"weight_hh_{suffix}")
        bias: Tensor | None = None
        bias_hh: Tensor | None = None
        if self.bias:
            bias = getattr(self, f"bias_ih_{suffix}")
            bias_hh = getattr(self, f"bias_hh_{suffix}")
            if self.mode != "GRU":
                bias, bias_hh = bias + bias_hh, None
        gates = functional.linear(x, weight_ih, bias)
        if self.mode == "GRU" and autocast_state.top.value.host:
            # As in PyTorch, whose steps there are made of ops that promote.
            gates = gates.to(promote(gates.dtype, states[0].dtype))
        # Under autocast the products are narrower than the parameters.
        weight_hh = weight_hh.to(gates.dtype)
        states = tuple([each.to(gates.dtype) for each in states])
        if self.mode == "LSTM":
            projection = None
            if self.proj_size:
                projection = getattr(self, f"weight_hr_{suffix}").to(gates.dtype)
            h0, c0 = states
            out = lstm_steps(gates, h0, c0, weight_hh, projection, mask)
            size = self._output_size
            last = out[-1]
            return out[..., :size], (last[..., :size], last[..., size:])
        (h0,) = states
        if self.mode == "GRU":
            if bias_hh is not None:
                bias_hh = bias_hh.to(gates.dtype)
            out = gru_steps(gates, h0, weight_hh, bias_hh, mask)
        else:
            rectified = self.mode == "RNN_RELU"
            out = rnn_steps(gates, h0, weight_hh, mask, rectified)
        return out, (out[-1],)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size:
            parts.append(f"proj_size={self.proj_size}")
        if self.num_layers != 1:
            parts.append(f"num_layers={self.num_layers}")
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if self.batch_first is not False:
            parts.append(f"batch_first={self.batch_first}")
        if self.dropout != 0:
            parts.append(f"dropout={self.dropout}")
        if self.bidirectional is not False:
            parts.append(f"bidirectional={self.bidirectional}")
        return ", ".join(parts)


def _as_bool(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{where} is {value!r}; it must be a bool")
    return value


def _reversed(x: Tensor, lengths: np.ndarray | None) -> Tensor:
    """Return (steps, batch, size) backwards, each sequence within its own length."""
    steps, batch = x.shape[:2]
    if lengths is None or lengths[-1] == steps:
        return x.flip(0)
    at = np.arange(steps)[:, None]
    rows = np.where(at < lengths, lengths - 1 - at, at) * batch + np.arange(batch)
    flat = x.reshape(steps * batch, x.shape[2])
    places = tensor(rows.reshape(-1), device=x.device)
    return ops.index_select(flat, 0, places).reshape(x.shape)


class RNN(RNNBase):
    """Elman network: h = tanh(W_ih x + b_ih + W_hh h + b_hh), or with ReLU.

    Parameters
    ----------
    *args, **kwargs
        `input_size`, `hidden_size`, `num_layers`, `nonlinearity` ("tanh" or "relu"),
        `bias`, `batch_first`, `dropout`, `bidirectional`, `device`, `dtype`: see
        `RNNBase`.

    Examples
    --------
    >>> out, h = nn.RNN(3, 5)(fw.zeros((7, 2, 3)))
    >>> out.shape, h.shape
    (torch.Size([7, 2, 5]), torch.Size([1, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("RNN: proj_size is given; only LSTM has projections")
        given = list(args)
        kind = given.pop(3) if len(given) > 3 else kwargs.pop("nonlinearity", "tanh")
        if kind not in ("tanh", "relu"):
            raise ValueError(
                f"RNN: nonlinearity is {kind!r}; it must be 'tanh' or 'relu'"
            )
        self.nonlinearity = kind
        super().__init__(f"RNN_{kind.upper()}", *given, **kwargs)

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Any, Tensor]:
        """Return the states of the last layer, and the last ones of all layers.

        Parameters
        ----------
        input : Tensor, shape (steps, batch, input_size), or PackedSequence
            Or as `batch_first` says, or without a batch.
        hx : Tensor, shape (layers * directions, batch, hidden_size), optional
            States before the first step; None means zeros.

        Returns
        -------
        tuple
            (steps, batch, directions * hidden_size), and states as `hx`.
        """
        out, (last,) = self._run(input, hx)
        return out, last


class LSTM(RNNBase):
    """Long short-term memory.

    Parameters
    ----------
    *args, **kwargs
        `input_size`, `hidden_size`, `num_layers`, `bias`, `batch_first`, `dropout`,
        `bidirectional`, `proj_size`, `device`, `dtype`: see `RNNBase`.

    Examples
    --------
    >>> out, (h, c) = nn.LSTM(3, 5, num_layers=2)(fw.zeros((7, 2, 3)))
    >>> out.shape, c.shape
    (torch.Size([7, 2, 5]), torch.Size([2, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Return the outputs of the last layer, and the last states of all layers.

        Parameters
        ----------
        input : Tensor, shape (steps, batch, input_size), or PackedSequence
            Or as `batch_first` says, or without a batch.
        hx : tuple of Tensor, optional
            Hidden states (layers * directions, batch, proj_size or hidden_size) and
            cell states (..., hidden_size) before the first step; None means zeros.

        Returns
        -------
        tuple
            (steps, batch, directions * size), and states as `hx`.
        """
        out, (h, c) = self._run(input, hx)
        return out, (h, c)


class GRU(RNNBase):
    """Gated recurrent unit; the reset gate is applied after the product.

    Parameters
    ----------
    *args, **kwargs
        `input_size`, `hidden_size`, `num_layers`, `bias`, `batch_first`, `dropout`,
        `bidirectional`, `device`, `dtype`: see `RNNBase`.

    Examples
    --------
    >>> out, h = nn.GRU(3, 5, bidirectional=True)(fw.zeros((7, 2, 3)))
    >>> out.shape, h.shape
    (torch.Size([7, 2, 10]), torch.Size([2, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("GRU: proj_size is given; only LSTM has projections")
        super().__init__("GRU", *args, **kwargs)

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Any, Tensor]:
        """Return the states of the last layer, and the last ones of all layers.

        Parameters and results are those of `RNN.forward`.
        """
        out, (last,) = self._run(input, hx)
        return out, last
