"""Whole steps traced once and replayed: `jit`."""

from .jitted import Jitted, jit

__all__ = ["Jitted", "jit"]
