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


def defined_names(namespace: Mapping[str, Any]) -> list[str]:
    """Return what a module without `__all__` defines itself, and its special names.

    Parameters
    ----------
    namespace : mapping
        The module's `globals()`.
    """
    found = []
    for name, value in namespace.items():
        home = getattr(value, "__module__", None) or type(value).__module__
        variable = type(value).__module__ == "typing"
        ours = home == namespace["__name__"] and name[:1] != "_" and not variable
        if ours or name[:2] == "__":
            found.append(name)
    return sorted(found)
