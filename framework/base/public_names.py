"""What `dir()` of a namespace lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def public_names(namespace: Mapping[str, Any], modules: str = "") -> list[str]:
    """Return the names that a module exports, and its special ones.

    Parameters
    ----------
    namespace : mapping
        The module's `globals()`, with `__all__`.
    modules : str
        Names of modules below it that programs use, between spaces.
    """
    special = [name for name in namespace if name[:2] == "__"]
    return sorted({*namespace["__all__"], *special, *modules.split()})
