"""What objects are made of, found without asking them: they may answer anything."""

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
from .bytecode_names import WHOLE
from .extension_objects import describes
from .guard_sources import MISSING, Places
from .pytree import NO_ATTRIBUTES, SIMPLE, attributes_of

_WITHOUT = (Tensor, np.ndarray, np.void, *SIMPLE)
"""What is compared as a whole, whatever is asked of it."""


class AttributePlaces(Places):
    """Places of which some are attributes of objects, classes and Python modules.

    Attributes
    ----------
    taken : set of (int, str)
        Which places there are, by the numbers of objects, and names; `WHOLE` stands for
        elements.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[tuple[int, str]] = set()
        self._weak: set[int] = set()

    def _look(self, value: Any, owner: object = None) -> None:
        raise NotImplementedError

    def _look_in_holder(self, holder: Any) -> None:
        raise NotImplementedError

    def _look_at_global(self, space: Mapping[str, Any], name: str) -> object:
        raise NotImplementedError

    def _look_in_signature(self, function: FunctionType, name: str) -> object:
        raise NotImplementedError

    def _look_at(self, owner: Any, name: str) -> object:
        """Look at an attribute of an object; return what it is, if that is known."""
        if is_kind(owner, _WITHOUT) and not attributes_of(owner):
            if is_standard(type(owner).__module__):
                return MISSING
        if name in (WHOLE, "__dict__"):
            self._look_at_whole(owner)
            return attributes_of(owner)
        if is_kind(owner, threading.local):
            # Its dictionary is another one in each thread.
            return self._look_at_native(owner, name)
        if is_kind(owner, ModuleType):
            if not is_standard(vars(owner).get("__name__")):
                self._kinds[id(owner)] = owner, type(owner)
            if type(owner) is ModuleType:
                return self._look_at_global(vars(owner), name)
        if is_kind(owner, FunctionType) and name.startswith("__"):
            return self._look_in_signature(owner, name)
        space = attributes_of(owner)
        kind = owner if is_kind(owner, type) else type(owner)
        place, found = in_classes(kind, name)
        if owner is not kind:
            described: Any = type(found)
            if describes(described) and not is_kind(found, property):
                return self._look_at_native(owner, name)
            if not is_kind(found, property) and (name in space or says(owner)):
                rest = self._look_at_own(owner, space, name)
                if rest is not MISSING:
                    return rest
        self._look_at_order(kind)
        if found is MISSING and owner is kind:
            # Classes have attributes of the classes that they are instances of.
            kind = type(owner)
            place, found = in_classes(kind, name)
            self._look_at_order(kind)
        if found is MISSING:
            self._look_at_absent(owner, space, name)
            return MISSING
        if owner is not kind:
            self._look_at_class(owner)
        for each in kind.__mro__[: kind.__mro__.index(place)]:
            # Nor may a class before it get one.
            if not is_standard(each.__module__):
                self._note(each, vars(each), name, MISSING)
        self._note(place, vars(place), name, found)
        if owner is not place and not name.startswith("__"):
            self._look_for_own(owner, name)
        if owner is not kind and name in ("__name__", "__qualname__"):
            self.ask(name, functools.partial(answer, owner, name))
        self._look(found, owner)
        return MISSING if hasattr(type(found), "__get__") else found

    def _look_at_order(self, kind: type) -> None:
        """Note in which order a class and its bases are asked for attributes."""
        if not is_standard(kind.__module__):
            self._orders[id(kind)] = kind, kind.__mro__

    def _look_at_class(self, value: Any) -> None:
        """Note of which class an object is, as that may be assigned to."""
        kind = type(value)
        if not is_standard(kind.__module__) and not is_kind(value, type):
            if id(value) not in self._weak:
                self._kinds[id(value)] = value, kind

    def _look_at_sizes(self, value: Any) -> None:
        """Note how many attributes an object has, and its classes: not one more."""
        for kind in (value if is_kind(value, type) else type(value)).__mro__:
            if not is_standard(kind.__module__):
                _remember_slots(kind)
                self._sizes[id(kind)] = vars(kind)
        space = attributes_of(value)
        ours = str(type(value).__module__).startswith("vkbackend")
        ours = ours or is_kind(value, threading.local)
        if type(space) is dict and not ours and not says(value):
            self._sizes[id(space)] = space

    def _look_at_own(self, owner: Any, space: Mapping[str, Any], name: str) -> object:
        found = space.get(name, MISSING)
        # Modules of a network say when an attribute is another one.
        self._note(owner, space, name, found, said=says(owner))
        if found is not MISSING:
            self._look(found)
        return found

    def _look_at_native(self, owner: Any, name: str) -> object:
        """Look at an attribute that a function in C answers with: a slot, mostly."""
        if (id(owner), name) in self.taken or name.startswith("__"):
            return answer(owner, name)
        if is_kind(owner, tuple):
            # Fields of a named tuple, which stay.
            found = answer(owner, name)
            self._look(found)
            return found
        self.taken.add((id(owner), name))
        found = self.ask(name, functools.partial(answer, owner, name))
        self._look(found)
        return found

    def _look_at_absent(self, owner: Any, space: Any, name: str) -> None:
        """Note that there is no such attribute, where a class answers for it."""
        kind = type(owner)
        getter = in_classes(kind, "__getattribute__")[0]
        if getter not in (object, type, ModuleType) and not asks_python(getter):
            self._look_at_native(owner, name)
        else:
            self._look_for_own(owner, name)

    def _look_for_own(self, owner: Any, name: str) -> None:
        """Note that an object has no such attribute of its own, as its class has."""
        space = attributes_of(owner)
        # An object without attributes of its own has no space for them either.
        if name not in space and space is not NO_ATTRIBUTES:
            self._note(owner, space, name, MISSING)

    def _look_at_whole(self, owner: Any) -> None:
        """Look at every attribute of an object."""
        space = attributes_of(owner)
        if (id(owner), WHOLE) in self.taken:
            return
        self.taken.add((id(owner), WHOLE))
        if is_kind(owner, threading.local):
            ask = functools.partial(_items, owner)
            self._look(self.ask(f"a {type(owner).__name__}", ask))
            return
        own = space is not NO_ATTRIBUTES
        if own and not is_kind(owner, type) and not says(owner):
            self._look_in_holder(space)
        else:
            for name in tuple(space):
                if not name.startswith("__"):
                    self._look_at(owner, name)
        if is_kind(owner, type):
            self._look(space.get("__annotations__"))
        for kind in type(owner).__mro__:
            for name, found in tuple(vars(kind).items()):
                if isinstance(found, MemberDescriptorType):
                    self._look_at_native(owner, name)

    def _note(
        self,
        place: Any,
        space: Mapping[str, Any],
        name: str,
        found: object,
        said: bool = False,
    ) -> None:
        """Compare an entry before each replay."""
        if (id(place), name) in self.taken:
            return
        self.taken.add((id(place), name))
        # Special methods of the library's classes stay what they are.
        if name.startswith("__") and callable(found):
            if is_kind(place, type) and is_standard(place.__module__):
                return
        (self._said if said else self._entries).append((space, name, found))


def _remember_slots(kind: Any) -> None:
    """Let a class have the attribute that `copy` and `pickle` would give it later."""
    try:
        vars(copyreg)["_slotnames"](kind)
    except Exception:  # A metaclass may answer as it likes.
        return


def is_kind(value: object, kinds: Any) -> bool:
    """As `isinstance`, but never by what an object says of its class."""
    return issubclass(type(value), kinds)


def functions_of(found: Any) -> Iterator[FunctionType]:
    """Yield the functions that an attribute of a class runs."""
    if is_kind(found, FunctionType):
        yield found
    elif is_kind(found, staticmethod | classmethod):
        yield from functions_of(found.__func__)
    elif is_kind(found, property):
        for each in (found.fget, found.fset):
            yield from functions_of(each)
    elif is_kind(found, functools.cached_property):
        yield from functions_of(found.func)


def in_classes(kind: type, name: str) -> tuple[Any, Any]:
    """Return the class that defines an attribute, and what it is there."""
    for each in kind.__mro__:
        space = vars(each)
        if name in space:
            return each, space[name]
    return None, MISSING


def asks_python(kind: Any) -> bool:
    """Whether a class asks functions in Python for its attributes."""
    return isinstance(vars(kind).get("__getattribute__"), FunctionType)


@functools.cache
def _class_says(kind: Hashable) -> bool:
    """Whether objects say when an attribute is another one: modules of a network."""
    assert isinstance(kind, type)
    names = set().union(*map(vars, kind.__mro__))
    return names.issuperset({"_fingerprint", "forward"})


def says(owner: Any) -> bool:
    """Whether an object says when an attribute is another one: a network's module."""
    kind: Any = type(owner)
    return _class_says(kind)


BUILTINS = frozenset(dir(builtins))

_OTHERS = frozenset({"vkbackend", "numpy", *sys.stdlib_module_names}) - {"__main__"}

_INSTALLED = ("site-packages", "dist-packages")


def is_standard(module: object) -> bool:
    """Whether a Python module belongs to the library, or to what it stands on."""
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


def answer(owner: Any, name: str) -> object:
    """Return an attribute of an object that answers in C."""
    try:
        return getattr(owner, name, MISSING)
    except Exception:  # As an object that is no longer there may raise.
        return MISSING


def _items(owner: Any) -> object:
    """Return the attributes that an object has in this thread."""
    return tuple(attributes_of(owner).items())


def decimal_context() -> object:
    """Return how decimal numbers are rounded in this thread, and what is an error."""
    context = sys.modules["decimal"].getcontext()
    traps = tuple([bool(each) for each in context.traps.values()])
    rounded = context.prec, context.rounding, context.Emin, context.Emax
    return *rounded, context.capitals, context.clamp, traps


def partial_parts(value: Any) -> object:
    """Return what a call of a partial function calls, and with what."""
    return value.func, value.args, value.keywords


def can_be_read(file: Any) -> bool:
    """Whether a file is open to be read, and not only written."""
    if isinstance(file, StringIO | BytesIO):
        return not file.closed and file.tell() < len(file.getvalue())
    return str(getattr(file, "mode", "")).startswith("r")
