"""Causal masks of two alignments, for `scaled_dot_product_attention`."""

from __future__ import annotations

from enum import IntEnum

from ...base.errors import ShapeError
from ...base.validation import sizes_of
from ...ops import tril
from ...tensor.factories import DeviceLike, ones
from ...tensor.tensor import Tensor

__all__ = ["CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Corner of the scores in which the diagonal of a causal mask begins or ends."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


def causal_upper_left(*size: int, device: DeviceLike = None) -> Tensor:
    """Return a mask by which query `i` sees keys 0 to `i`.

    Parameters
    ----------
    *size : int
        Number of queries, and of keys.
    device : Device, str or None

    Returns
    -------
    Tensor of bool, shape (queries, keys)
        To be given as `attn_mask`. PyTorch's is an object that only that takes.

    Raises
    ------
    ShapeError
        If there are not two sizes.
    """
    return _causal("causal_upper_left", size, device, False)


def causal_lower_right(*size: int, device: DeviceLike = None) -> Tensor:
    """Return a mask by which the last query sees all keys; see `causal_upper_left`."""
    return _causal("causal_lower_right", size, device, True)


def _causal(
    name: str, size: tuple[int, ...], device: DeviceLike, lower: bool
) -> Tensor:
    sizes = sizes_of(name, size)
    if len(sizes) != 2:
        raise ShapeError(
            f"{name}: sizes are {sizes}; they must be those of queries and of keys"
        )
    queries, keys = sizes
    return tril(ones(queries, keys, device=device), keys - queries if lower else 0) > 0
