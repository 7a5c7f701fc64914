"""Modules that are imported when a program first asks for them, by attribute.

`import vkbackend.framework` loads what most programs use. The rest is found by the
`__getattr__` of the module above it (PEP 562), and is an ordinary attribute from then
on. What there is below a module is told by `register`, as by the tables of
`addresses`, which may happen before or after the module itself is imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

ROOT = "vkbackend.framework"

_modules: dict[str, set[str]] = {}
_names: dict[str, dict[str, str]] = {}


def resolved(path: str) -> Any:
    """Return a module of the library, of Python, or with a colon a name in it."""
    module, _, name = path.partition(":")
    if module.startswith("python."):
        found = importlib.import_module(module.removeprefix("python."))
    else:
        found = importlib.import_module(f"{ROOT}.{module}" if module else ROOT)
    return getattr(found, name) if name else found


def late_function(path: str) -> Callable[..., Any]:
    """Return a function that imports another one when it is called.

    Parameters
    ----------
    path : str
        As `resolved` takes it.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return resolved(path)(*args, **kwargs)

    return call


def register(parent: str, modules: Iterable[str], names: Mapping[str, str]) -> None:
    """Say what a module has below it.

    Parameters
    ----------
    parent : str
        The module's full name.
    modules : iterable of str
        Modules directly below.
    names : mapping of str to str
        Where other attributes are, as `resolved` takes it.
    """
    _modules.setdefault(parent, set()).update(modules)
    _names.setdefault(parent, {}).update(names)
    if parent in sys.modules:
        give_attributes(parent)


def give_attributes(parent: str) -> None:
    """Let a module that is being imported find what is below it."""

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the module's
        if name in _modules.get(parent, ()):
            return importlib.import_module(f"{parent}.{name}")
        path = _names.get(parent, {}).get(name)
        if path is None:
            raise AttributeError(f"module {parent!r} has no attribute {name!r}")
        value = resolved(path)
        setattr(sys.modules[parent], name, value)
        return value

    sys.modules[parent].__dict__["__getattr__"] = __getattr__
