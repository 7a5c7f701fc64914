"""Dropout layers."""

from __future__ import annotations

from .. import ops
from ..base.errors import ShapeError
from ..tensor.tensor import Tensor
from .module import Module


class _Dropout(Module):
    """Base of dropout layers; they differ in the elements dropped together."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            name = type(self).__name__
            raise ShapeError(f"{name}: p is {p}; it must be from 0 to 1")
        self.p = p

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"p={self.p}"


class Dropout(_Dropout):
    """Zeroes random elements in training; returns its input otherwise.

    Parameters
    ----------
    p : float, default 0.5
        Probability of an element to become 0, in [0, 1]; the others are scaled by
        1 / (1 - p).

    Raises
    ------
    ShapeError
        If `p` is out of range.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with elements dropped."""
        return ops.dropout(x, self.p, self.training)


class Dropout1d(_Dropout):
    """Zeroes random channels of sequences in training; see `Dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, length) with channels dropped."""
        return ops.dropout1d(x, self.p, self.training)


class Dropout2d(_Dropout):
    """Zeroes random channels of images in training; see `Dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height, width) with channels dropped."""
        return ops.dropout2d(x, self.p, self.training)


class Dropout3d(_Dropout):
    """Zeroes random channels of volumes in training; see `Dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, depth, height, width) with channels dropped."""
        return ops.dropout3d(x, self.p, self.training)
