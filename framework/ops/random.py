"""What is built on random draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtype import FLOAT
from ..errors import ShapeError
from ..primitive import composite
from ..rng import Stream, default_generator
from .creation import random_uniform
from .elementwise import where

if TYPE_CHECKING:
    from ..tensor import Tensor


def _keep(x: Tensor, p: float, stream: Stream) -> Tensor:
    """Return `x` scaled by 1 / (1 - p) where the draw says so, otherwise 0."""
    return where(random_uniform(x, stream) >= p, x * (1.0 / (1.0 - p)), 0.0)


@composite(dtypes=FLOAT)
def _dropout(x: Tensor, p: float, stream: Stream) -> Tensor:
    """Drop elements as `stream` draws them."""
    return _keep(x, p, stream)


@_dropout.vjp
def _dropout_vjp(grad: Tensor, p: float, stream: Stream) -> Tensor:
    return _keep(grad, p, stream)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Set each element to 0 with probability `p` and scale the others by 1 / (1 - p).

    The mask is drawn again in the backward pass, so it takes no memory. When not
    training, or with `p` = 0, returns `x` itself.

    Raises
    ------
    ShapeError
        If `p` is not in [0, 1).
    """
    if not 0.0 <= p < 1.0:
        raise ShapeError(f"dropout: p is {p}; it must be at least 0 and below 1")
    if not training or p == 0.0:
        return x
    return _dropout(x, p, default_generator.stream())
