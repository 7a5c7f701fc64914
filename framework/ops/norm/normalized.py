"""Arithmetic of normalisation and softmax, each formula one node of the graph.

Statistics broadcast to what they normalise; they have no gradient, as the layers' own
gradients are made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(
    glsl="variance + eps == 0 ? divided(1, variance + eps)"
    " : inversesqrt(variance + eps)",
    reference=lambda variance, eps: np.reciprocal(np.sqrt(variance + eps)),
    dtypes=FLOAT,
)
def inverse_deviation(variance: Tensor, eps: float) -> Tensor:
    """Return one over the standard deviation of a variance, to which eps is added."""


@elementwise(
    glsl="(x - mean) * (inverse_std * weight) + bias",
    reference=lambda x, mean, inverse_std, weight, bias: (
        (x - mean) * (inverse_std * weight) + bias
    ),
    dtypes=FLOAT,
)
def normalized(
    x: Tensor, mean: Tensor, inverse_std: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Return `x` at mean 0 and variance 1, scaled and shifted."""


def _vjp(
    scaled: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    inverse_std: np.ndarray,
    sum_grad: np.ndarray,
    sum_product: np.ndarray,
    share: float,
) -> np.ndarray:
    y = (x - mean) * inverse_std
    return (scaled - sum_grad * share - y * (sum_product * share)) * inverse_std


@elementwise(
    glsl="(scaled - sum_grad * share"
    " - (x - mean) * inverse_std * (sum_product * share)) * inverse_std",
    reference=_vjp,
    dtypes=FLOAT,
)
def normalized_vjp(
    scaled: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    sum_grad: Tensor,
    sum_product: Tensor,
    share: float,
) -> Tensor:
    """Return the gradient of `x` in what is normalised, from that of the result.

    `sum_grad` and `sum_product` are the sums of that gradient, and of it times the
    result; `share` is one over the number of elements of a sum.
    """


@elementwise(
    glsl="divided(precise_exp(x - greatest), total)",
    reference=lambda x, greatest, total: np.exp(x - greatest) / total,
    dtypes=FLOAT,
)
def softmax_element(x: Tensor, greatest: Tensor, total: Tensor) -> Tensor:
    """Return a softmax by the greatest of a row and its sum of exponentials."""


@elementwise(
    glsl="x - greatest - log_total",
    reference=lambda x, greatest, log_total: x - greatest - log_total,
    dtypes=FLOAT,
)
def log_softmax_element(x: Tensor, greatest: Tensor, log_total: Tensor) -> Tensor:
    """Return the logarithm of `softmax_element`, by that of the sum."""


@elementwise(
    glsl="y * (grad - row_sum)",
    reference=lambda grad, y, row_sum: y * (grad - row_sum),
    dtypes=FLOAT,
)
def softmax_element_vjp(grad: Tensor, y: Tensor, row_sum: Tensor) -> Tensor:
    """Return the gradient of softmax `y`; `row_sum` is the row's sum of grad * y."""


@elementwise(
    glsl="grad - precise_exp(y) * row_sum",
    reference=lambda grad, y, row_sum: grad - np.exp(y) * row_sum,
    dtypes=FLOAT,
)
def log_softmax_element_vjp(grad: Tensor, y: Tensor, row_sum: Tensor) -> Tensor:
    """Return the gradient of log-softmax `y`; `row_sum` is the row's sum of grad."""
