"""Dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtype import FLOAT, float32
from ...base.errors import ShapeError
from ...base.philox import Stream
from ...dispatch.declare import composite
from ...eager.base_tensor import TensorCore
from ..elementwise.compare import where
from ..source import stream_for, uniform_like

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def _keep(x: Tensor, p: float, stream: Stream, drawn: int | None) -> Tensor:
    """Return `x` under a dropout mask: scaled by 1 / (1 - p) where kept, otherwise 0.

    There is a draw for each place in the first `drawn` dimensions; None means all.
    """
    most = len(x.layout.shape) if drawn is None else drawn
    shape = (*x.layout.shape[:most], *(1,) * (len(x.layout.shape) - most))
    kept = uniform_like(x, stream, shape, float32) >= p
    return where(kept, x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0.0)


@composite(dtypes=FLOAT)
def _dropout(x: Tensor, p: float, stream: Stream, drawn: int | None = None) -> Tensor:
    """Drop elements, or all that lie in a place, as `stream` draws them."""
    return _keep(x, p, stream, drawn)


@_dropout.vjp
def _dropout_vjp(grad: Tensor, p: float, stream: Stream, drawn: int | None) -> Tensor:
    # As a call of its own, which is replayed, and is differentiated.
    dropped: Tensor = _dropout(grad, p, stream, drawn)
    return dropped


def _dropped(
    name: str, x: Tensor, p: float, training: bool, drawn: int | None
) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ShapeError(f"{name}: p is {p}; it must be from 0 to 1")
    if not isinstance(x, TensorCore):
        raise TypeError(f"{name}: x is {x!r}; it must be a tensor")
    if not training or p == 0.0:
        return x
    return _dropout(x, p, stream_for(x), drawn)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Set each element to 0 with probability `p` and scale the others by 1 / (1 - p).

    The mask is drawn again in the backward pass, so it takes no memory. When not
    training, or with `p` = 0, returns `x` itself.

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1].

    Notes
    -----
    Source: Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from
    Overfitting, 2014.
    """
    return _dropped("dropout", x, p, training, None)


def _channels_dropped(
    name: str, x: Tensor, p: float, training: bool, ndim: int
) -> Tensor:
    if len(x.layout.shape) not in (ndim - 1, ndim):
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}; it must have {ndim} dimensions, (batch,"
            " channels,"
            f" ...), or {ndim - 1} without the batch"
        )
    return _dropped(name, x, p, training, len(x.layout.shape) - ndim + 2)


def dropout1d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, length); see `dropout`.

    Raises
    ------
    ShapeError
        If `x` has another number of dimensions, or `p` is not in [0, 1].

    Notes
    -----
    Source: Tompson et al., arXiv:1411.4280.
    """
    return _channels_dropped("dropout1d", x, p, training, 3)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, height, width); see `dropout1d`."""
    return _channels_dropped("dropout2d", x, p, training, 4)


def dropout3d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, depth, height, width).

    See `dropout1d`.
    """
    return _channels_dropped("dropout3d", x, p, training, 5)
