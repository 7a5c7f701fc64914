"""Gated activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .activation import silu

if TYPE_CHECKING:
    from ..tensor import Tensor


def swiglu(gate: Tensor, x: Tensor) -> Tensor:
    """Return silu(gate) * x.

    Parameters
    ----------
    gate, x : Tensor
        Float, of shapes that broadcast: two linear maps of one input.

    Notes
    -----
    Source: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.
    """
    return silu(gate) * x
