"""Whole steps traced once and replayed: `jit`."""

from .jit import Jitted, jit

__all__ = ["Jitted", "jit"]
