"""Whole steps traced once and replayed: `jit`."""

from .trace_cache import Jitted, jit

__all__ = ["Jitted", "jit"]
