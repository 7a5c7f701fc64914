"""What a function finds around it: if that changes, its trace no longer fits.

Looked at are the variables of its closure, the globals that it names and, of both, what
functions, methods and modules of the user's own, not those of libraries, name in turn.
Of objects, classes and Python modules the attributes count that this code names of
them, or of what it has computed; of short lists, tuples and dictionaries all that they
hold. Numbers, texts, tensors of the host and arrays that are not large count by value,
everything else by identity.
"""

from __future__ import annotations

import functools
import random
import sys
from array import array as number_array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import IOBase
from operator import is_
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from ..pending import Array, Value
from ..tensor import Tensor
from .arguments import SIMPLE, alike
from .names import GLOBAL, uses

_MISSING = object()

_METHODS = frozenset({"__call__", "forward"})
"""What calling an object names."""

MOST_HELD = 100
"""Of containers with more, only the number counts."""

MOST_BYTES = 1 << 20
"""Arrays with more count by identity."""

_HOLDERS = (dict, list, tuple, set, frozenset, deque, number_array, bytearray)

_DRAWN = ("random.", "numpy.random.")
_DRAWS = (random.Random, np.random.Generator, np.random.RandomState)


class Surroundings:
    """The places that a function looks at, and what was there.

    Parameters
    ----------
    function : callable
        The function.
    *others : object
        What else it is given.

    Attributes
    ----------
    reason : str
        Why no call can be told from the next by looking; empty if they can.
    """

    def __init__(self, function: Callable[..., Any], *others: object) -> None:
        self.reason = ""
        self._said: list[tuple[Mapping[str, Any], str, object]] = []
        self._arrays: list[tuple[np.ndarray, bytes]] = []
        self._on_host: list[tuple[Array, Value]] = []
        self._cells: list[tuple[str, CellType, object]] = []
        self._entries: list[tuple[Mapping[str, Any], str, object]] = []
        self._holders: list[tuple[Any, object, tuple[object, ...]]] = []
        self._tensors: list[tuple[Tensor, bool, object, object]] = []
        self._seen: dict[tuple[int, int], object] = {}
        self._named: set[str] = set()
        self._owners: list[Any] = []
        self._taken: set[tuple[int, str]] = set()
        for each in (function, *others):
            self._look(each)
        while self._look_at_named():
            pass
        # Parameters say it when they no longer require a gradient; see `switched`.
        self._plain = [row for row in self._tensors if type(row[0]) is Tensor]
        del self._seen, self._named, self._owners, self._taken

    def changed(self) -> bool:
        """Return whether any place holds something else by now."""
        # Mostly it is the same object; that is found out before anything is called.
        for _, cell, value in self._cells:
            try:
                if cell.cell_contents is value:
                    continue
            except ValueError:
                pass
            if not _unchanged(_content(cell), value):
                return True
        for mapping, name, value in self._entries:
            found = mapping.get(name, _MISSING)
            if found is not value and not alike(found, value):
                return True
        for holder, keys, held in self._holders:
            if not _holds(holder, keys, held):
                return True
        if self._changed_array():
            return True
        return any([leaf.requires_grad is not flag for leaf, flag, _, _ in self._plain])

    def found(self) -> str:
        """Return the name of a place that holds something else; empty if none does."""
        for name, cell, value in self._cells:
            if not _unchanged(_content(cell), value):
                return f"`{name}`"
        for mapping, name, value in (*self._entries, *self._said):
            if not _unchanged(mapping.get(name, _MISSING), value):
                return f"`{name}`"
        for holder, keys, held in self._holders:
            if not _holds(holder, keys, held):
                return f"what a {type(holder).__name__} holds"
        return self._changed_array()

    def _changed_array(self) -> str:
        """Return what an array or tensor of the host holds, if it is something else."""
        for array, held in self._arrays:
            if array.tobytes() != held:
                return "what an array holds"
        for storage, value in self._on_host:
            if storage.value is not value:
                return "what a tensor on the host holds"
        return ""

    def switched(self) -> bool:
        """Return whether a tensor has another flag, other hooks or another storage.

        Or a module another attribute: both count as a change of the structure.
        """
        for mapping, name, value in self._said:
            if not _unchanged(mapping.get(name, _MISSING), value):
                return True
        return any(
            leaf.requires_grad is not flag
            or leaf.hooks is not hooks
            or leaf.array is not array
            for leaf, flag, hooks, array in self._tensors
        )

    def add(self, mapping: Mapping[str, Any], name: str) -> None:
        """Look at one more place."""
        self._entries.append((mapping, name, mapping.get(name, _MISSING)))

    def _look(self, value: Any, owner: object = None) -> None:
        """Take note of what `value`, perhaps a method of `owner`, is made of."""
        key = id(value), id(owner)
        if isinstance(value, SIMPLE) or key in self._seen:
            return
        # Held, as another object could get the same number.
        self._seen[key] = value, owner
        if isinstance(value, Tensor):
            row = value, value.requires_grad, value.hooks, value.array
            self._tensors.append(row)
            if not value.is_gpu:
                self._on_host.append((value.array, value.array.value))
        elif isinstance(value, np.ndarray):
            if value.nbytes <= MOST_BYTES and not value.dtype.hasobject:
                self._arrays.append((value, value.tobytes()))
        elif isinstance(value, _HOLDERS):
            self._look_in_holder(value)
        elif isinstance(value, BuiltinMethodType):
            self._look(value.__self__)
        elif isinstance(value, _DRAWS):
            self.reason = "it draws numbers on the host, which a replay would not"
        elif isinstance(value, Iterator) and not isinstance(value, IOBase):
            self.reason = "it takes from an iterator, which a replay would not"
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._look(part)
        elif isinstance(value, MethodType):
            self._look(value.__func__, value.__self__)
            self._look(value.__self__)
        elif isinstance(value, FunctionType):
            if _is_users(value.__module__):
                self._look_in_function(value, owner)
        elif isinstance(value, staticmethod | classmethod):
            self._look(value.__func__)
        elif isinstance(value, property):
            self._look(value.fget, owner)
        elif "__wrapped__" in _attributes(value):
            self._look(value.__wrapped__, owner)
        else:
            self._owners.append(value)
            for name in _METHODS:
                self._look_at(value, name)

    def _look_in_holder(self, holder: Any) -> None:
        held = tuple(holder.values() if isinstance(holder, dict) else holder)
        if len(held) > MOST_HELD:
            held = (len(held),)
        if not isinstance(holder, tuple | frozenset):
            keys = tuple(holder) if isinstance(holder, dict) else None
            self._holders.append((holder, keys, held))
        for each in held:
            self._look(each)

    def _look_in_function(self, function: FunctionType, owner: object) -> None:
        code = function.__code__
        closure = dict(zip(code.co_freevars, function.__closure__ or ()))
        for name, cell in closure.items():
            content = _content(cell)
            self._cells.append((name, cell, content))
            self._look(content)
        given = {code.co_varnames[0]: owner} if owner and code.co_argcount else {}
        for start, name, attributes in uses(code):
            if start == GLOBAL:
                found = self._look_at_global(function.__globals__, name)
                if name == "getattr":
                    texts = [each for each in code.co_consts if isinstance(each, str)]
                    self._named.update(texts)
            elif name in closure:
                found = _content(closure[name])
            else:
                found = given.get(name, _MISSING)
            self._follow(found, attributes)
        for default in function.__defaults__ or ():
            self._look(default)
        for default in (function.__kwdefaults__ or {}).values():
            self._look(default)

    def _look_at_global(self, space: Mapping[str, Any], name: str) -> object:
        """Look at a variable of a Python module; return what it is."""
        found = space.get(name, _MISSING)
        if found is not _MISSING and (id(space), name) not in self._taken:
            self._taken.add((id(space), name))
            if not isinstance(found, ModuleType):
                self._entries.append((space, name, found))
            self._look(found)
        return found

    def _follow(self, value: object, attributes: Sequence[str]) -> None:
        """Look at an attribute of an object, at one of that, and so on."""
        if isinstance(value, ModuleType) and attributes:
            path = ".".join((value.__name__, *attributes))
            if path.startswith(_DRAWN):
                drawn: object = value
                for name in attributes:
                    drawn = getattr(drawn, name, None)
                self._look(drawn)
        for at, name in enumerate(attributes):
            if value is _MISSING:
                self._named.update(attributes[at:])
                return
            value = self._look_at(value, name)

    def _look_at(self, owner: Any, name: str) -> object:
        """Look at an attribute, if the object is the user's; return what it is."""
        known = False
        for place in _places(owner):
            known = True
            space = _attributes(place)
            # Modules of a network say when an attribute is another one.
            says = place is owner and _has(place, "_fingerprint", "forward")
            if name not in space and not says:
                continue
            found = space.get(name, _MISSING)
            if (id(place), name) not in self._taken:
                self._taken.add((id(place), name))
                if not isinstance(found, ModuleType):
                    rows = self._said if says else self._entries
                    rows.append((space, name, found))
            if found is _MISSING:
                continue
            if place is not owner and not callable(found):
                self._look_for_own(owner, name)
            self._look(found, None if place is owner else owner)
            return _MISSING if isinstance(found, property) else found
        return _MISSING if known else None

    def _look_for_own(self, owner: Any, name: str) -> None:
        """Note that an object has no such attribute of its own, as its class has."""
        space = _attributes(owner)
        if name not in space and (id(owner), name) not in self._taken:
            self._taken.add((id(owner), name))
            self._entries.append((space, name, _MISSING))

    def _look_at_named(self) -> bool:
        """Look at attributes that are named of objects that code has computed.

        Returns
        -------
        bool
            Whether there was a new one.
        """
        before = len(self._taken)
        for owner in tuple(self._owners):
            for place in _places(owner):
                for name in self._named & _attributes(place).keys():
                    self._look_at(owner, name)
        return len(self._taken) > before


def _places(owner: Any) -> Iterator[Any]:
    """Yield an object and its classes, where its attributes lie, if a user's own."""
    if isinstance(owner, ModuleType):
        if _is_users(owner.__name__):
            yield owner
        return
    kind = owner if isinstance(owner, type) else type(owner)
    if owner is not kind and (
        _is_users(kind.__module__) or kind in _PLAIN or _has(owner, "_fingerprint")
    ):
        yield owner
    for each in kind.__mro__:
        if _is_users(each.__module__):
            yield each


def _has(value: object, *names: str) -> bool:
    """Whether the classes of an object have all of these, without asking them."""
    return set().union(*map(vars, type(value).__mro__)).issuperset(names)


_PLAIN = (SimpleNamespace,)
"""Classes of the standard library that are for a user's own attributes."""

_OTHERS = frozenset({"vkbackend", *sys.stdlib_module_names}) - {"__main__"}

_INSTALLED = ("site-packages", "dist-packages")


@functools.cache
def _is_users(module: object) -> bool:
    """Whether what a Python module defines is looked into: no library's is."""
    # Classes of compiled modules may have something else for a name.
    if not isinstance(module, str) or (top := module.partition(".")[0]) in _OTHERS:
        return False
    file = vars(sys.modules[top]).get("__file__") if top in sys.modules else None
    return file is None or not any(each in file for each in _INSTALLED)


def _attributes(value: object) -> Mapping[str, Any]:
    """Return an object's own attributes, without asking its class for them."""
    try:
        return vars(value)
    except TypeError:
        return {}


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _holds(holder: Any, keys: object, held: tuple[object, ...]) -> bool:
    """Whether a container holds what it held."""
    if len(holder) > MOST_HELD:
        return held == (len(holder),)
    if keys is not None and tuple(holder) != keys:
        return False
    found = holder if keys is None else holder.values()
    if len(holder) != len(held):
        return False
    return all(map(is_, found, held)) or all(map(_unchanged, found, held))


def _unchanged(found: object, expected: object) -> bool:
    return found is expected or alike(found, expected)
