"""What a function finds around it: if that changes, its trace no longer fits.

Looked at are the variables of its closure, the globals that it names and, of both, what
functions of the user's own name in turn. Numbers and texts count by value, everything
else by identity; of plain objects the attributes that are numbers, texts or tensors
count too. What containers hold is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..tensor import Tensor
from .arguments import SIMPLE

_MISSING = object()


class Surroundings:
    """The places that a function looks at, and what was there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._cells: list[tuple[CellType, object]] = []
        self._entries: list[tuple[MutableMapping[str, Any], str, object]] = []
        self._seen: set[int] = set()
        self._look(function)

    def changed(self) -> bool:
        """Return whether any place holds something else by now."""
        # Mostly it is the same object; that is found out before anything is called.
        for cell, value in self._cells:
            try:
                if cell.cell_contents is value:
                    continue
            except ValueError:
                pass
            if not _same(_content(cell), value):
                return True
        for mapping, name, value in self._entries:
            found = mapping.get(name, _MISSING)
            if found is not value and not _same(found, value):
                return True
        return False

    def add(self, mapping: MutableMapping[str, Any], name: str) -> None:
        """Look at one more place."""
        self._entries.append((mapping, name, mapping.get(name, _MISSING)))

    def _look(self, value: Any) -> None:
        """Take note of what `value` is made of, if it is a function or plain object."""
        if id(value) in self._seen or isinstance(value, SIMPLE):
            return
        self._seen.add(id(value))
        if isinstance(value, partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._look(part)
        elif isinstance(value, MethodType):
            self._look(value.__func__)
            self._look(value.__self__)
        elif isinstance(value, FunctionType):
            if not value.__module__.startswith("vkbackend."):
                self._look_in_function(value)
        elif hasattr(value, "__wrapped__"):
            self._look(value.__wrapped__)
        elif _is_plain(value):
            self._look_in_object(value)

    def _look_in_function(self, function: FunctionType) -> None:
        for cell in function.__closure__ or ():
            content = _content(cell)
            self._cells.append((cell, content))
            self._look(content)
        for name in _names(function.__code__):
            found = function.__globals__.get(name, _MISSING)
            if found is not _MISSING and not isinstance(found, ModuleType):
                self._entries.append((function.__globals__, name, found))
                self._look(found)
        for default in function.__defaults__ or ():
            self._look(default)

    def _look_in_object(self, value: Any) -> None:
        attributes = vars(value)
        for name, found in attributes.items():
            if isinstance(found, (*SIMPLE, Tensor)) or hasattr(found, "_fingerprint"):
                self._entries.append((attributes, name, found))


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code and the functions defined in it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_plain(value: object) -> bool:
    """Whether an object's attributes are looked at: it does not speak for itself."""
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, type | ModuleType | Tensor)
        and not hasattr(value, "_fingerprint")
        and not type(value).__module__.startswith("vkbackend.")
    )


def _same(found: object, expected: object) -> bool:
    """Whether two objects are one, or the same number or text."""
    return found is expected or (
        type(found) is type(expected)
        and isinstance(found, SIMPLE)
        and found == expected
    )
