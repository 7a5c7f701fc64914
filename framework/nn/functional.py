"""The functions behind the layers, under PyTorch's names."""

from __future__ import annotations

from ..ops import (
    batch_norm,
    conv2d,
    cross_entropy,
    dropout,
    leaky_relu,
    max_pool2d,
    relu,
    sigmoid,
    tanh,
)
from ..tensor import Tensor

__all__ = [
    "batch_norm",
    "conv2d",
    "cross_entropy",
    "dropout",
    "leaky_relu",
    "linear",
    "max_pool2d",
    "relu",
    "sigmoid",
    "tanh",
]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x @ weight.mT + bias.

    Parameters
    ----------
    x : Tensor, shape (..., in_features)
    weight : Tensor, shape (out_features, in_features)
    bias : Tensor, shape (out_features,), or None

    Returns
    -------
    Tensor, shape (..., out_features)

    Raises
    ------
    ShapeError
        If sizes do not fit.
    """
    out = x @ weight.mT
    return out if bias is None else out + bias
