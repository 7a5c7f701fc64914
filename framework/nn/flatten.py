"""Flatten and unflatten layers."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.validation import as_ints
from ..tensor.tensor import Tensor
from .functional_module import FunctionalModule
from .module import Module


class Flatten(FunctionalModule, function=ops.flatten):
    """Flattens a range of dimensions into one.

    Parameters
    ----------
    start_dim, end_dim : int, default 1, -1
        First and last of them; the default keeps the batch.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim


class Unflatten(Module):
    """Unflattens one dimension into several.

    Parameters
    ----------
    dim : int
        Which one.
    unflattened_size : sequence of int
        Their sizes; one may be -1.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        size = as_ints("Unflatten: unflattened_size", unflattened_size)
        self.unflattened_size = size

    def forward(self, input: Tensor) -> Tensor:
        """Return the elements of `input` in the other shape."""
        return ops.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
