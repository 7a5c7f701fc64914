"""Gated activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.errors import ShapeError
from ..base.shape import broadcast_shapes, normalize_dim
from .activation import silu
from .elementwise.exponential import sigmoid
from .movement.slice import narrow

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def swiglu(gate: Tensor, x: Tensor) -> Tensor:
    """Return silu(gate) * x.

    Parameters
    ----------
    gate, x : Tensor
        Float, of shapes that broadcast: two linear maps of one input.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Notes
    -----
    Source: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.
    """
    broadcast_shapes("swiglu", gate.shape, x.shape)
    return silu(gate) * x


def glu(x: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of a dimension times the sigmoid of the second.

    Raises
    ------
    ShapeError
        If its size is odd.

    Notes
    -----
    Source: Dauphin et al., arXiv:1612.08083.
    """
    at = normalize_dim("glu", dim, x.ndim)
    if x.shape[at] % 2:
        raise ShapeError(
            f"glu: dimension {at} of shape {x.shape} has an odd size; it must be even"
        )
    size = x.shape[at] // 2
    return narrow(x, at, 0, size) * sigmoid(narrow(x, at, size, size))
