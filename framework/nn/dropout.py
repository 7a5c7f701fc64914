"""Dropout layers."""

from __future__ import annotations

from .. import ops
from ..errors import ShapeError
from ..tensor import Tensor
from .module import Module


class Dropout(Module):
    """Zeroes random elements in training; returns its input otherwise.

    Parameters
    ----------
    p : float, default 0.5
        Probability of an element to become 0, in [0, 1); the others are scaled by
        1 / (1 - p).

    Raises
    ------
    ShapeError
        If `p` is out of range.
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p < 1.0:
            raise ShapeError(f"Dropout: p is {p}; it must be at least 0 and below 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with elements dropped."""
        return ops.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"p={self.p}"
