"""The functions behind the layers, under PyTorch's names."""

from __future__ import annotations

from ..ops import (
    batch_norm,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    conv2d,
    cross_entropy,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    embedding,
    gelu,
    group_norm,
    hinge_embedding_loss,
    huber_loss,
    instance_norm,
    kl_div,
    l1_loss,
    layer_norm,
    leaky_relu,
    margin_ranking_loss,
    max_pool2d,
    mse_loss,
    nll_loss,
    normalize,
    relu,
    rms_norm,
    scaled_dot_product_attention,
    sigmoid,
    silu,
    smooth_l1_loss,
    tanh,
)
from ..tensor import Tensor

__all__ = [
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "embedding",
    "gelu",
    "group_norm",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "margin_ranking_loss",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "normalize",
    "relu",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
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
