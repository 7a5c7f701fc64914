"""Modules that are made from the table of addresses when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..base.absent import absent
from ..base.late_modules import ROOT, register, resolved
from .table import ABSENT, ADDRESSES, LAZY, LAZY_NAMES, OWN, Entry


class Address(ModuleType):
    """Module whose names are those of other modules.

    A name is looked for among the table's own, then among the modules that the table
    names, in that order.
    """

    def __init__(self, name: str) -> None:
        self._address = name.removeprefix(f"{ROOT}.")
        self._why, names = ABSENT.get(self._address, ("", ""))
        self._absent = {*names.split()}
        nothing: Entry = ((), {})
        self._sources, own = ADDRESSES.get(self._address, nothing)
        self._own = own | OWN.get(self._address, {})
        super().__init__(name, f"PyTorch's address `{self._address}`. {self._why}")

    def __getattr__(self, name: str) -> Any:
        """Return what the address offers, and keep it."""
        value = self._found(name)
        setattr(self, name, value)
        return value

    def _found(self, name: str) -> Any:
        if name == "__all__":
            return self._names()
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in self._own:
            return resolved(self._own[name])
        if name in self._absent:
            return absent(self._address, name, self._why)
        if is_known(f"{self._address}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        for source in self._sources:
            found = getattr(resolved(source), name, _NOTHING)
            if found is not _NOTHING:
                return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _names(self) -> list[str]:
        names = {*self._own, *self._absent}
        for source in self._sources:
            names |= {*getattr(resolved(source), "__all__", ())}
        return sorted(names)

    def __dir__(self) -> list[str]:
        return self._names()


_NOTHING: Any = object()


def is_known(address: str) -> bool:
    """Return whether the tables have an address."""
    return address in ADDRESSES or address in ABSENT


class Finder:
    """Finds the modules of the tables; others are left to the next finder.

    A finder and a loader by its methods: with the classes of `importlib.abc` come
    `tempfile` and `shutil`.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how to make a module of the tables, or None."""
        if not fullname.startswith(ROOT) or not is_known(fullname[len(ROOT) + 1 :]):
            return None
        loader: Any = self
        # As a package, since there may be addresses below it.
        return ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of an address."""
        return Address(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the names are found when they are asked for."""


def install() -> None:
    """Let Python find the addresses, by import and as attributes of their parents."""
    if any(isinstance(each, Finder) for each in sys.meta_path):
        return
    sys.meta_path.append(Finder())
    below: dict[str, set[str]] = {}
    for address in (*ADDRESSES, *ABSENT, *LAZY):
        parent, _, name = address.rpartition(".")
        below.setdefault(f"{ROOT}.{parent}" if parent else ROOT, set()).add(name)
    for parent, children in below.items():
        register(parent, children, LAZY_NAMES if parent == ROOT else {})
    register(f"{ROOT}.ops", (), {"aten": "aten:aten"})
