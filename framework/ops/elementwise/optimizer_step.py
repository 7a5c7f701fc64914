"""Optimizer steps as element-wise ops, so that many parameters fuse into one kernel.

The result replaces an operand; they have no gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(
    glsl="x - grad_of_x * size",
    reference=lambda x, grad_of_x, size: x - grad_of_x * size,
    dtypes=FLOAT,
)
def sgd_step(x: Tensor, grad_of_x: Tensor, size: float) -> Tensor:
    """Return `x` after an SGD step of `size`: x - size * grad."""


@elementwise(
    glsl="x * decay + y * weight",
    reference=lambda x, y, decay, weight: x * decay + y * weight,
    dtypes=FLOAT,
)
def weighted_sum(x: Tensor, y: Tensor, decay: float, weight: float) -> Tensor:
    """Return decay * x + weight * y: a momentum buffer."""


@elementwise(
    glsl="x + (y - x) * weight",
    reference=lambda x, y, weight: x + (y - x) * weight,
    dtypes=FLOAT,
)
def ema(x: Tensor, y: Tensor, weight: float) -> Tensor:
    """Return lerp(x, y, weight): an exponential moving average."""


@elementwise(
    glsl="x * decay + y * y * weight",
    reference=lambda x, y, decay, weight: x * decay + y * y * weight,
    dtypes=FLOAT,
)
def weighted_sum_square(x: Tensor, y: Tensor, decay: float, weight: float) -> Tensor:
    """Return decay * x + weight * y^2: a second moment."""


def _adam_step(
    x: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    decay: float,
    root_scale: float,
    eps: float,
    size: float,
) -> np.ndarray:
    return x * decay - first / (np.sqrt(second) * root_scale + eps) * size


_ADAM = "x * decay - divided(first, sqrt(second) * root_scale + eps) * size"


@elementwise(
    glsl=_ADAM,
    reference=_adam_step,
    dtypes=FLOAT,
)
def adam_step(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    decay: float,
    root_scale: float,
    eps: float,
    size: float,
) -> Tensor:
    """Return `x` after an Adam step along its moments, with decoupled weight decay.

    Parameters
    ----------
    x, first, second : Tensor
        A parameter, and the running first and second moment of its gradient.
    decay : float
        Factor of the parameter: weight decay.
    root_scale : float
        Factor of the root of the second moment: its bias correction.
    eps : float
        Added to the root.
    size : float
        Learning rate, with the bias correction of the first moment.

    Notes
    -----
    Source: Kingma and Ba, arXiv:1412.6980, algorithm 1.
    """


@elementwise(
    glsl=_ADAM,
    reference=lambda x, first, second, root_scale, size, decay, eps: _adam_step(
        x, first, second, decay, root_scale, eps, size
    ),
    dtypes=FLOAT,
)
def adam_step_capturable(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    root_scale: Tensor,
    size: Tensor,
    decay: float,
    eps: float,
) -> Tensor:
    """Return `adam_step` with bias corrections on the device (capturable).

    Parameters
    ----------
    x, first, second, kept, eps
        See `adam_step`.
    root_scale, size : Tensor, shape ()
        The scalars of these names.
    """


@elementwise(
    glsl="x - divided(y, sqrt(second) + eps) * size",
    reference=lambda x, y, second, eps, size: x - y / (np.sqrt(second) + eps) * size,
    dtypes=FLOAT,
)
def root_scaled_step(
    x: Tensor, y: Tensor, second: Tensor, eps: float, size: float
) -> Tensor:
    """Return x - size * y / (sqrt(second) + eps): a step of RMSprop or Adagrad."""


@elementwise(
    glsl="x * decay + divided(y, sqrt(second) + eps)",
    reference=lambda x, y, second, decay, eps: x * decay + y / (np.sqrt(second) + eps),
    dtypes=FLOAT,
)
def root_scaled_sum(
    x: Tensor, y: Tensor, second: Tensor, decay: float, eps: float
) -> Tensor:
    """Return decay * x + y / (sqrt(second) + eps): a momentum buffer of RMSprop."""
