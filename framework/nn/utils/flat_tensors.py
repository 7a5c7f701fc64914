"""Tensors as one vector, and back; at PyTorch's private address `_utils`."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops import cat
from ...tensor.tensor import Tensor

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors as one vector."""
    return cat([each.reshape(-1) for each in tensors], 0)


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the parts of a vector in the shapes of tensors."""
    parts = flat.split([each.numel() for each in tensors])
    return [part.reshape(each.shape) for part, each in zip(parts, tensors)]
