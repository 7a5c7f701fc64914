"""Guards of attributes, found without running code of the objects' classes."""

from __future__ import annotations

import builtins
import copyreg
import functools
import sys
import threading
from collections.abc import Hashable, Iterator, Mapping
from io import BytesIO, StringIO
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .bytecode_names import WILDCARD
from .extension_objects import describes
from .guard_sources import MISSING, GuardSources
from .pytree import NO_ATTRIBUTES, SIMPLE, attributes_of

_WITHOUT = (Tensor, np.ndarray, np.void, *SIMPLE)
"""Classes whose instances are compared as a whole."""


class AttributeSources(GuardSources):
    """Guard sources with attributes of objects, classes and Python modules.

    Attributes
    ----------
    guarded : set of (int, str)
        Guarded sources, by `id` and name; `WILDCARD` stands for elements.
    """

    def __init__(self) -> None:
        super().__init__()
        self.guarded: set[tuple[int, str]] = set()
        self._weak: set[int] = set()

    def _visit(self, value: Any, owner: object = None) -> None:
        raise NotImplementedError

    def _guard_container(self, container: Any) -> None:
        raise NotImplementedError

    def _guard_global(self, space: Mapping[str, Any], name: str) -> object:
        raise NotImplementedError

    def _visit_signature(self, function: FunctionType, name: str) -> object:
        raise NotImplementedError

    def _guard_attribute(self, owner: Any, name: str) -> object:
        """Guard an attribute of an object; return its value, if that is known."""
        if is_kind(owner, _WITHOUT) and not attributes_of(owner):
            if is_standard(type(owner).__module__):
                return MISSING
        if name in (WILDCARD, "__dict__"):
            self._guard_all_attributes(owner)
            return attributes_of(owner)
        if is_kind(owner, threading.local):
            # Its dictionary is another one in each thread.
            return self._guard_native(owner, name)
        if is_kind(owner, ModuleType):
            if not is_standard(vars(owner).get("__name__")):
                self._types[id(owner)] = owner, type(owner)
            if type(owner) is ModuleType:
                return self._guard_global(vars(owner), name)
        if is_kind(owner, FunctionType) and name.startswith("__"):
            return self._visit_signature(owner, name)
        space = attributes_of(owner)
        kind = owner if is_kind(owner, type) else type(owner)
        place, found = find_in_mro(kind, name)
        if owner is not kind:
            described: Any = type(found)
            if describes(described) and not is_kind(found, property):
                return self._guard_native(owner, name)
            if not is_kind(found, property) and (
                name in space or reports_changes(owner)
            ):
                rest = self._guard_own(owner, space, name)
                if rest is not MISSING:
                    return rest
        self._guard_mro(kind)
        if found is MISSING and owner is kind:
            # Classes have attributes of their metaclasses.
            kind = type(owner)
            place, found = find_in_mro(kind, name)
            self._guard_mro(kind)
        if found is MISSING:
            self._guard_absent(owner, space, name)
            return MISSING
        if owner is not kind:
            self._guard_type(owner)
        for each in kind.__mro__[: kind.__mro__.index(place)]:
            # Nor may a class earlier in the order get one.
            if not is_standard(each.__module__):
                self._add_entry(each, vars(each), name, MISSING)
        self._add_entry(place, vars(place), name, found)
        if owner is not place and not name.startswith("__"):
            self._guard_no_own(owner, name)
        if owner is not kind and name in ("__name__", "__qualname__"):
            self.probe(name, functools.partial(safe_getattr, owner, name))
        self._visit(found, owner)
        return MISSING if hasattr(type(found), "__get__") else found

    def _guard_mro(self, kind: type) -> None:
        """Guard the method resolution order of a class."""
        if not is_standard(kind.__module__):
            self._mros[id(kind)] = kind, kind.__mro__

    def _guard_type(self, value: Any) -> None:
        """Guard the class of an object, as that may be assigned to."""
        kind = type(value)
        if not is_standard(kind.__module__) and not is_kind(value, type):
            if id(value) not in self._weak:
                self._types[id(value)] = value, kind

    def _guard_attribute_count(self, value: Any) -> None:
        """Guard the number of attributes of an object and of its classes."""
        for kind in (value if is_kind(value, type) else type(value)).__mro__:
            if not is_standard(kind.__module__):
                _remember_slots(kind)
                self._attribute_counts[id(kind)] = vars(kind)
        space = attributes_of(value)
        ours = str(type(value).__module__).startswith("vkbackend")
        ours = ours or is_kind(value, threading.local)
        if type(space) is dict and not ours and not reports_changes(value):
            self._attribute_counts[id(space)] = space

    def _guard_own(self, owner: Any, space: Mapping[str, Any], name: str) -> object:
        found = space.get(name, MISSING)
        # Modules of a network report changes of their attributes.
        self._add_entry(owner, space, name, found, reported=reports_changes(owner))
        if found is not MISSING:
            self._visit(found)
        return found

    def _guard_native(self, owner: Any, name: str) -> object:
        """Guard an attribute that a descriptor in C computes: a slot, mostly."""
        if (id(owner), name) in self.guarded or name.startswith("__"):
            return safe_getattr(owner, name)
        if is_kind(owner, tuple):
            # Fields of a named tuple, which stay.
            found = safe_getattr(owner, name)
            self._visit(found)
            return found
        self.guarded.add((id(owner), name))
        found = self.probe(name, functools.partial(safe_getattr, owner, name))
        self._visit(found)
        return found

    def _guard_absent(self, owner: Any, space: Any, name: str) -> None:
        """Guard the absence of an attribute that a class may compute."""
        kind = type(owner)
        getter = find_in_mro(kind, "__getattribute__")[0]
        if getter not in (object, type, ModuleType) and not asks_python(getter):
            self._guard_native(owner, name)
        else:
            self._guard_no_own(owner, name)

    def _guard_no_own(self, owner: Any, name: str) -> None:
        """Guard that an object does not shadow an attribute of its class."""
        space = attributes_of(owner)
        # An object without attributes of its own has no `__dict__` either.
        if name not in space and space is not NO_ATTRIBUTES:
            self._add_entry(owner, space, name, MISSING)

    def _guard_all_attributes(self, owner: Any) -> None:
        """Guard every attribute of an object."""
        space = attributes_of(owner)
        if (id(owner), WILDCARD) in self.guarded:
            return
        self.guarded.add((id(owner), WILDCARD))
        if is_kind(owner, threading.local):
            probe = functools.partial(_items, owner)
            self._visit(self.probe(f"a {type(owner).__name__}", probe))
            return
        own = space is not NO_ATTRIBUTES
        if own and not is_kind(owner, type) and not reports_changes(owner):
            self._guard_container(space)
        else:
            for name in tuple(space):
                if not name.startswith("__"):
                    self._guard_attribute(owner, name)
        if is_kind(owner, type):
            self._visit(space.get("__annotations__"))
        for kind in type(owner).__mro__:
            for name, found in tuple(vars(kind).items()):
                if isinstance(found, MemberDescriptorType):
                    self._guard_native(owner, name)

    def _add_entry(
        self,
        place: Any,
        space: Mapping[str, Any],
        name: str,
        found: object,
        reported: bool = False,
    ) -> None:
        """Guard an entry of a mapping."""
        if (id(place), name) in self.guarded:
            return
        self.guarded.add((id(place), name))
        # Special methods of the library's classes stay what they are.
        if name.startswith("__") and callable(found):
            if is_kind(place, type) and is_standard(place.__module__):
                return
        (self._reported if reported else self._entries).append((space, name, found))


def _remember_slots(kind: Any) -> None:
    """Cache `__slotnames__` of a class, as `copy` and `pickle` would later."""
    try:
        vars(copyreg)["_slotnames"](kind)
    except Exception:  # A metaclass may answer as it likes.
        return


def is_kind(value: object, kinds: Any) -> bool:
    """As `isinstance`, but ignores an overridden `__class__`."""
    return issubclass(type(value), kinds)


def functions_of(found: Any) -> Iterator[FunctionType]:
    """Yield the functions behind an attribute of a class."""
    if is_kind(found, FunctionType):
        yield found
    elif is_kind(found, staticmethod | classmethod):
        yield from functions_of(found.__func__)
    elif is_kind(found, property):
        for each in (found.fget, found.fset):
            yield from functions_of(each)
    elif is_kind(found, functools.cached_property):
        yield from functions_of(found.func)


def find_in_mro(kind: type, name: str) -> tuple[Any, Any]:
    """Return the class that defines an attribute, and its value there."""
    for each in kind.__mro__:
        space = vars(each)
        if name in space:
            return each, space[name]
    return None, MISSING


def asks_python(kind: Any) -> bool:
    """Whether a class overrides `__getattribute__` in Python."""
    return isinstance(vars(kind).get("__getattribute__"), FunctionType)


@functools.cache
def _class_reports_changes(kind: Hashable) -> bool:
    """Whether objects report changes of their attributes: modules of a network."""
    assert isinstance(kind, type)
    names = set().union(*map(vars, kind.__mro__))
    return names.issuperset({"_fingerprint", "forward"})


def reports_changes(owner: Any) -> bool:
    """Whether an object reports changes of its attributes: a network's module."""
    kind: Any = type(owner)
    return _class_reports_changes(kind)


BUILTINS = frozenset(dir(builtins))

_OTHERS = frozenset({"vkbackend", "numpy", *sys.stdlib_module_names}) - {"__main__"}

_INSTALLED = ("site-packages", "dist-packages")


def is_standard(module: object) -> bool:
    """Whether a Python module belongs to the library or to its dependencies."""
    # Classes of compiled modules may have something else for a name.
    return not isinstance(module, str) or module.partition(".")[0] in _OTHERS


@functools.cache
def is_users(module: object) -> bool:
    """Whether what a Python module defines is the user's own."""
    if not isinstance(module, str) or is_standard(module):
        return False
    top = module.partition(".")[0]
    file = vars(sys.modules[top]).get("__file__") if top in sys.modules else None
    return file is None or not any(each in file for each in _INSTALLED)


def safe_getattr(owner: Any, name: str) -> object:
    """Return an attribute of an object, `MISSING` on any error."""
    try:
        return getattr(owner, name, MISSING)
    except Exception:  # As a dead weak proxy may raise.
        return MISSING


def _items(owner: Any) -> object:
    """Return the attributes that an object has in this thread."""
    return tuple(attributes_of(owner).items())


def decimal_context() -> object:
    """Return precision, rounding and traps of this thread's decimal context."""
    context = sys.modules["decimal"].getcontext()
    traps = tuple([bool(each) for each in context.traps.values()])
    rounded = context.prec, context.rounding, context.Emin, context.Emax
    return *rounded, context.capitals, context.clamp, traps


def partial_parts(value: Any) -> object:
    """Return function and arguments of a `functools.partial`."""
    return value.func, value.args, value.keywords


def can_be_read(file: Any) -> bool:
    """Whether a file is open to be read, and not only written."""
    if isinstance(file, StringIO | BytesIO):
        return not file.closed and file.tell() < len(file.getvalue())
    return str(getattr(file, "mode", "")).startswith("r")
