"""Steps of optimizers: each is one expression, so that many parameters are one kernel.

They are for results that replace an operand, and have no gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.primitive import elementwise

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@elementwise(
    glsl="x - grad_of_x * size",
    reference=lambda x, grad_of_x, size: x - grad_of_x * size,
    dtypes=FLOAT,
)
def descend(x: Tensor, grad_of_x: Tensor, size: float) -> Tensor:
    """Return `x` after a step of `size` against its gradient."""


@elementwise(
    glsl="x * kept + y * share",
    reference=lambda x, y, kept, share: x * kept + y * share,
    dtypes=FLOAT,
)
def blend(x: Tensor, y: Tensor, kept: float, share: float) -> Tensor:
    """Return `kept` of `x` and `share` of `y`: a running direction."""


@elementwise(
    glsl="x + (y - x) * share",
    reference=lambda x, y, share: x + (y - x) * share,
    dtypes=FLOAT,
)
def approach(x: Tensor, y: Tensor, share: float) -> Tensor:
    """Return `x` moved by `share` of the way to `y`: a running mean."""


@elementwise(
    glsl="x * kept + y * y * share",
    reference=lambda x, y, kept, share: x * kept + y * y * share,
    dtypes=FLOAT,
)
def blend_square(x: Tensor, y: Tensor, kept: float, share: float) -> Tensor:
    """Return `kept` of `x` and `share` of the square of `y`: a second moment."""


def _adam_step(
    x: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    kept: float,
    root_scale: float,
    eps: float,
    size: float,
) -> np.ndarray:
    return x * kept - first / (np.sqrt(second) * root_scale + eps) * size


_ADAM = "x * kept - divided(first, sqrt(second) * root_scale + eps) * size"


@elementwise(
    glsl=_ADAM,
    reference=_adam_step,
    dtypes=FLOAT,
)
def adam_step(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    kept: float,
    root_scale: float,
    eps: float,
    size: float,
) -> Tensor:
    """Return `kept` of `x` after a step along its moments, as Adam makes it.

    Parameters
    ----------
    x, first, second : Tensor
        A parameter, and the running first and second moment of its gradient.
    kept : float
        What decay leaves of the parameter.
    root_scale : float
        Times the root of the second moment: the correction of its start at zero.
    eps : float
        Added to the root.
    size : float
        Learning rate, with the correction of the first moment.

    Notes
    -----
    Source: Kingma and Ba, arXiv:1412.6980, algorithm 1.
    """


@elementwise(
    glsl=_ADAM,
    reference=lambda x, first, second, root_scale, size, kept, eps: _adam_step(
        x, first, second, kept, root_scale, eps, size
    ),
    dtypes=FLOAT,
)
def adam_step_by(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    root_scale: Tensor,
    size: Tensor,
    kept: float,
    eps: float,
) -> Tensor:
    """Return `adam_step` where the device alone knows how many steps were made.

    Parameters
    ----------
    x, first, second, kept, eps
        See `adam_step`.
    root_scale, size : Tensor, shape ()
        Its numbers of these names.
    """
