"""Attention: the layer, and attention under masks and scores of a program's own."""

from ...base.public_names import public_names as _public_names
from .backend import SDPBackend as SDPBackend
from .backend import sdpa_kernel as sdpa_kernel
from .multihead import MultiheadAttention as MultiheadAttention

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
