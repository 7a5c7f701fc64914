"""NVIDIA's cuDNN: there is none; its switches are kept, and have no effect.

Results are deterministic in any case; `fw.autotune` measures kernels.
"""

from __future__ import annotations

__all__ = [
    "allow_tf32",
    "benchmark",
    "deterministic",
    "enabled",
    "is_available",
    "version",
]

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: there is no such library."""
    return False


def version() -> int | None:
    """Return None: there is no version of it."""
    return None
