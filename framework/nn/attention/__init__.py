"""Attention: the layer, and attention under masks and scores of a program's own."""

from .backend import SDPBackend as SDPBackend
from .backend import sdpa_kernel as sdpa_kernel
from .multihead import MultiheadAttention as MultiheadAttention

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]
