"""Layers that change the shape."""

from __future__ import annotations

from .. import ops
from ..tensor import Tensor
from .module import Module


class Flatten(Module):
    """Makes neighbouring dimensions one.

    Parameters
    ----------
    start_dim, end_dim : int, default 1, -1
        First and last of them; the default keeps the batch.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        """Return the elements of `x` in the flatter shape."""
        return ops.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
