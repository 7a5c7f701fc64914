"""Gated activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..shape import broadcast_shapes
from .activation import silu

if TYPE_CHECKING:
    from ..tensor import Tensor


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
