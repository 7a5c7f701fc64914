"""What a function finds around it: if that changes, its trace no longer fits.

Looked at is what the code of a function reads, and that of all functions that it calls,
of users and of installed packages: variables of closures, globals, default values, and
of objects, classes and Python modules the attributes that this code names of them, or
of what it has computed; of lists, tuples and dictionaries all that they hold. Numbers,
texts, tensors of the host and arrays count by value, everything else by identity.

What ran in a trace is known exactly (`Calls`). Before the first, all functions of the
user's own that can be reached by name are thought to run.
"""

# Longer than most: each kind of thing that is looked at is compared here, too.

from __future__ import annotations

import builtins
import functools
import gc
import random
import sys
import weakref
from abc import get_cache_token
from array import array as number_array
from collections import defaultdict, deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from io import IOBase
from operator import attrgetter, methodcaller
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .attributes import (
    BUILTINS,
    AttributePlaces,
    answer,
    can_be_read,
    decimal_context,
    functions_of,
    in_classes,
    is_kind,
    is_standard,
    is_users,
    partial_parts,
    says,
)
from .bytecode_names import (
    CLOSURE,
    GLOBAL,
    IMPORT,
    LOCAL,
    WHOLE,
    asks_anything,
    inner_code,
    matches,
    stores,
    texts,
    uses,
)
from .callees import STANDARD, Calls, kind_of
from .extension_objects import hides_state, is_pointer
from .guard_sources import MAPPINGS, MISSING, MOST_BYTES, MOST_HELD, content, form_of
from .pytree import SIMPLE, attributes_of, has_attributes

_METHODS = ("__call__", "forward")
"""What calling an object names."""

_MAKERS = ("__init__", "__post_init__")
"""What calling a class runs."""

_TOLD = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")
"""What can be set of a function beside what it does."""

_HOLDERS = (*MAPPINGS, list, tuple, set, frozenset, deque, number_array, bytearray)
_VIEWS = (KeysView, ValuesView, ItemsView)

MOST_CACHED = 1000
"""Of the results that `functools.lru_cache` remembers, more are not looked at."""

_DRAWN = ("random.", "numpy.random.")
_DRAWING, _SEEDING = ("numpy.random", "numpy.random.mtrand"), ("seed", "set_state")
_DRAWS = (random.Random, np.random.Generator, np.random.RandomState)


class Surroundings(AttributePlaces):
    """The places that a function looks at, and what was there.

    Parameters
    ----------
    function : callable
        The function.
    *others : object
        What else it is given.
    calls : Calls, optional
        What ran when it was called.
    guess : bool, optional
        Whether functions of the user's own count that may not have run; by default if
        it is not known what ran.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *others: object,
        calls: Calls | None = None,
        guess: bool | None = None,
    ) -> None:
        super().__init__()
        self._calls = calls or Calls()
        self._guess = calls is None if guess is None else guess
        self._seen: dict[tuple[int, int], object] = {}
        self._todo: list[tuple[Any, object]] = []
        self._named: set[str] = set()
        self._owners: list[Any] = []
        self._imported: list[ModuleType] = []
        self.entered: set[CodeType] = set()
        self._ran_in: dict[type, list[Any]] = {}
        self._wild = self._matching = False
        self._named.update(self._calls.named)
        for path in self._calls.imported:
            module = sys.modules.get(path, MISSING)
            self._entries.append((sys.modules, path, module))
            self._look(module)
        if self._calls.checked:
            self.ask("the register of abstract classes", get_cache_token)
        for each in (function, *others, *self._calls.asked):
            self._look(each)
        self._go_on()
        while self._look_at_named() or self._look_at_unreached():
            self._go_on()
        self._look_at_unnamed()
        self.settle()
        del self._named, self._owners, self._imported, self._ran_in

    def doubtful(self, before: Surroundings) -> str:
        """Return what may have changed while `before` did not look, or nothing."""
        changed, stored = self._calls.changed, set[str]()
        stored = stored.union(*map(stores, self._calls.codes))
        found = self.taken - before.taken
        if self._calls.codes.keys() <= before.entered:
            # As it knew of all that ran, it looked at everything that was there.
            met = {key for key, _ in before._seen}
            found = {(key, name) for key, name in found if key in met}
            changed, stored = set(), stored - {WHOLE}
        else:
            there = before.held()
            for key, kind in self.held().items():
                if key not in there:
                    # It may have changed in a way that nobody hears of.
                    return f"what a {kind} holds"
        for key, name in found:
            if name in stored or key in changed:
                return "what a container holds" if name == WHOLE else f"`{name}`"
        return ""

    def held(self) -> dict[int, str]:
        """Return what may change and is looked at, by number: the names of classes."""
        found: list[Any] = [array for array, _, _ in self._arrays]
        found += [each for each, _, _ in self._holders if each is not sys.modules]
        found += self._calls.asked
        return {id(each): type(each).__name__ for each in found}

    def release(self) -> None:
        """Hold no longer what only had to be told apart."""
        self._seen.clear()
        self.taken.clear()
        self._calls = Calls()

    # Values

    def _look(self, value: Any, owner: object = None) -> None:
        """Take note of what `value`, perhaps a method of `owner`, is made of."""
        key = id(value), id(owner)
        if key in self._seen or (is_kind(value, SIMPLE) and _is_bare(value)):
            return
        # Held, as another object could get the same number.
        self._seen[key] = value, owner
        self._todo.append((value, owner))

    def _go_on(self) -> None:
        while self._todo:
            self._look_now(*self._todo.pop())

    def _look_now(self, value: Any, owner: object) -> None:
        if is_kind(value, Tensor):
            row = value, value.requires_grad, value.hooks, value.array
            self._tensors.append(row)
            if not value.is_gpu:
                self._on_host.append((value.array, value.array.value))
            if attributes_of(value):
                self._owners.append(value)
        elif is_kind(value, np.ndarray):
            self._look_in_array(value)
        elif is_kind(value, np.void):
            # An element of a structured array, which it may change with.
            whole = value.item if value.dtype.hasobject else value.tobytes
            self._look(self.ask("an array", whole))
        elif is_kind(value, _DRAWS):
            self.reason = "it draws numbers on the host, which a replay would not"
        elif is_kind(value, IOBase):
            if can_be_read(value):
                self.reason = "it reads from a file, which a replay would not"
        elif is_kind(value, Iterator):
            self.reason = "it takes from an iterator, which a replay would not"
        elif not self._look_in_callable(value, owner):
            if is_kind(value, _HOLDERS):
                self._look_in_holder(value)
            elif is_kind(value, _VIEWS) and not is_kind(value, Mapping):
                self.ask(f"a {type(value).__name__}", lambda: tuple(value))
            if type(value) not in _HOLDERS:
                self._look_in_object(value, owner)

    def _look_in_array(self, array: np.ndarray) -> None:
        if type(array) is not np.ndarray:
            self._owners.append(array)
            array = np.asarray(array)
        if array.dtype.hasobject:
            self._look(self.ask("an array", lambda: tuple(array.ravel())))
        elif array.nbytes > MOST_BYTES:
            self.reason = (
                f"it looks at an array of {array.nbytes >> 20} MiB, of which no replay"
                " can tell whether it has changed"
            )
        else:
            self._arrays.append((array, form_of(array), array.tobytes()))

    def _look_in_callable(self, value: Any, owner: object) -> bool:
        """Look at what runs when `value` is called; return whether that is all."""
        if is_kind(value, BuiltinMethodType):
            if not isinstance(value.__self__, ModuleType):
                self._look(value.__self__)
        elif is_kind(value, functools.partial):
            ask = functools.partial(partial_parts, value)
            self._look(self.ask(f"a {type(value).__name__}", ask))
        elif is_kind(value, MethodType):
            self._look(value.__func__, value.__self__)
            self._look(value.__self__)
        elif is_kind(value, FunctionType):
            if self._runs(value):
                self._look_in_function(value, owner)
            elif id(value) in self._calls.wholes:
                self._look_in_signature(value)
            if value.__dict__:
                self._owners.append(value)
        elif is_kind(value, staticmethod | classmethod):
            self._look(value.__func__)
        elif is_kind(value, property):
            self._look(value.fget, owner)
        elif type(value).__name__ == "cython_function_or_method":
            if value.__module__ in _DRAWING and value.__name__ in _SEEDING:
                self.reason = "it seeds numbers of the host, which a replay would not"
        elif is_kind(value, attrgetter | methodcaller):
            for each in value.__reduce__()[1]:
                self._named.update(str(each).split("."))
        elif type(value).__name__ == "_lru_cache_wrapper":
            self._look_in_cache(value)
            self._look(attributes_of(value).get("__wrapped__"), owner)
        elif is_kind(value, weakref.ref):
            self._look_through(value)
        elif type(value).__name__ == "ContextVar":
            found = self.ask(value.name, functools.partial(value.get, MISSING))
            self._look(found)
        else:
            return False
        return True

    def _look_through(self, reference: Any) -> None:
        """Look at what a weak reference is to, which it must not keep alive."""
        found = reference()
        self.ask("a weak reference", lambda: reference() is not None)
        if found is not None:
            self._weak.add(id(found))
            self._look(found)

    def _look_in_cache(self, cached: Any) -> None:
        """Look at the results that a function remembers."""
        for held in gc.get_referents(cached):
            if type(held) is dict and held is not attributes_of(cached):
                for key, link in tuple(held.items())[:MOST_CACHED]:
                    self._entries.append((held, key, link))
                    is_link = type(link).__name__ == "_lru_list_elem"
                    for each in gc.get_referents(link) if is_link else (link,):
                        self._look(each)

    def _look_in_holder(self, holder: Any) -> None:
        if holder is sys.modules:
            return
        if len(holder) > MOST_HELD:
            self.reason = (
                f"it looks at a {type(holder).__name__} of {len(holder)}, of which no"
                " replay can tell whether it has changed"
            )
            return
        named = isinstance(holder, MAPPINGS)
        held = tuple(holder.values() if named else holder)
        if not isinstance(holder, tuple | frozenset):
            self.taken.add((id(holder), WHOLE))
            self._holders.append((holder, tuple(holder) if named else None, held))
        for each in (*holder, *held) if named else held:
            self._look(each)

    def _look_in_object(self, value: Any, owner: object) -> None:
        own = attributes_of(value)
        if "__wrapped__" in own:
            self._look(own["__wrapped__"], owner)
        if is_kind(value, ModuleType):
            self._imported.append(value)
            return
        self._owners.append(value)
        self._look_at_sizes(value)
        if is_kind(value, defaultdict):
            self._look_at(value, "default_factory")
        if not says(value):
            self._look_at_class(value)
        if is_pointer(value):
            self.reason = (
                f"it looks at a {type(value).__name__}, of which no replay can tell"
                " what it points to"
            )
        elif type(value) is memoryview or (
            not is_kind(value, type) and hides_state(value)
        ):
            try:
                size = memoryview(value).nbytes
            except TypeError:
                size = MOST_BYTES + 1
            if size <= MOST_BYTES:
                self.ask(f"a {type(value).__name__}", lambda: bytes(memoryview(value)))
            else:
                self.reason = (
                    f"it looks at a {type(value).__name__}, which does not say what it"
                    " holds"
                )
        if says(value):
            for each in tuple(own.values()):
                if says(each):
                    self._look(each)
        if "decimal" in (type(value).__module__, own.get("__module__")):
            self.ask("the context of decimals", decimal_context)
        for name in _METHODS:
            if in_classes(type(value), name)[1] is not MISSING:
                self._look_at(value, name)
        if self._guess and is_kind(value, type) and is_users(value.__module__):
            for name in _MAKERS:
                if in_classes(value, name)[0] not in (None, object):
                    self._look_at(value, name)
        for function in self._methods(value):
            self._look(function, value)

    # Code

    def _runs(self, function: FunctionType) -> bool:
        known = function.__code__ in self._calls.codes
        return known or (self._guess and is_users(function.__module__))

    def _methods(self, value: Any) -> Iterator[Any]:
        """Yield what ran of the functions that the classes of an object define."""
        kinds = type(value).__mro__
        for kind in (*value.__mro__, *kinds) if is_kind(value, type) else kinds:
            if kind not in self._ran_in:
                self._ran_in[kind] = self._methods_of(kind)
            yield from self._ran_in[kind]

    def _methods_of(self, kind: type) -> list[FunctionType]:
        """Return what ran of the functions in a class, and note where they are."""
        ran = []
        for name, found in tuple(vars(kind).items()):
            for each in functions_of(found):
                if each.__code__ in self._calls.codes:
                    ran.append(each)
                    self._note(kind, vars(kind), name, found)
        return ran

    def _look_in_function(self, function: FunctionType, owner: object) -> None:
        code = function.__code__
        self._functions.append(function)
        closure = dict(zip(code.co_freevars, function.__closure__ or ()))
        for name, cell in closure.items():
            found = content(cell)
            self._cells.append((name, cell, found))
            self.taken.add((id(cell), name))
            self._look(found)
        given = {}
        if owner is not None and code.co_argcount:
            given[code.co_varnames[0]] = owner
        known = {name: content(cell) for name, cell in closure.items()}
        self._look_in_code(code, function.__globals__, known, given)
        self._look_in_defaults(function)

    def _look_in_defaults(self, function: FunctionType) -> None:
        for default in function.__defaults__ or ():
            self._look(default)
        if function.__kwdefaults__:
            self._look(function.__kwdefaults__)

    def _look_in_signature(self, function: FunctionType, name: str = "") -> object:
        """Look at what can be asked of a function that is not called."""
        self._functions.append(function)
        self._look_in_defaults(function)
        self._look(function.__annotations__)
        if name == "__globals__":
            self._look(function.__globals__)
        elif name == "__closure__":
            for free, cell in zip(
                function.__code__.co_freevars, function.__closure__ or ()
            ):
                self._cells.append((free, cell, content(cell)))
                self._look(content(cell))
        elif name in function.__dict__:
            return self._look_at_own(function, function.__dict__, name)
        elif name in _TOLD:
            self.ask(name, functools.partial(answer, function, name))
        return MISSING

    def _look_in_code(
        self,
        code: CodeType,
        space: Mapping[str, Any],
        closure: Mapping[str, object],
        given: Mapping[str, object],
    ) -> None:
        self._enter(code)
        self._named.update(texts(code))
        for path in texts(code) & sys.modules.keys():
            self._look(sys.modules[path])
        if "modules" in code.co_names and is_users(space.get("__name__")):
            self._look_at_modules()
        self._matching = self._matching or matches(code)
        standard = kind_of(code.co_filename) == STANDARD
        self._wild = self._wild or (asks_anything(code) and not standard)
        for start, name, attributes in uses(code):
            if start == GLOBAL:
                found = self._look_at_global(space, name)
            elif start == IMPORT:
                found = self._look_at_import(space, name, attributes)
            elif start in (CLOSURE, LOCAL):
                found = closure.get(name, given.get(name, MISSING))
            else:
                found = MISSING
            self._follow(found, attributes)

    def _look_at_modules(self) -> None:
        """Look at which modules there are, of which any may be asked for."""
        modules = sys.modules
        if (id(modules), WHOLE) not in self.taken:
            self.taken.add((id(modules), WHOLE))
            self._holders.append((modules, tuple(modules), tuple(modules.values())))

    def _enter(self, code: CodeType) -> None:
        self.entered.add(code)
        for each in inner_code(code):
            self._enter(each)

    def _look_at_global(self, space: Mapping[str, Any], name: str) -> object:
        """Look at a variable of a Python module; return what it is."""
        found = space.get(name, MISSING)
        if found is MISSING:
            if name in ("globals", "eval", "exec"):
                self._look(space)
            self._note(space, space, name, MISSING)
            if "__getattr__" in space:
                self._look_at_global(space, "__getattr__")
            found = getattr(builtins, name, MISSING)
            if name not in BUILTINS and found is not MISSING:
                self._note(builtins, vars(builtins), name, found)
                self._look(found)
                return found
            return MISSING
        self._note(space, space, name, found)
        self._look(found)
        return found

    def _look_at_import(
        self, space: Mapping[str, Any], name: str, attributes: tuple[str, ...]
    ) -> object:
        """Look at a module that a function imports; return it."""
        inside = f"{space.get('__package__') or ''}.{name}".rstrip(".")
        for path in (name, inside):
            module = sys.modules.get(path)
            if module is not None:
                if not is_standard(space.get("__name__")):
                    self._note(sys.modules, sys.modules, path, module)
                top = sys.modules.get(path.partition(".")[0], module)
                self._imported += [module, top]
                return module
        return MISSING

    def _follow(self, value: object, attributes: tuple[str, ...]) -> None:
        """Look at an attribute of an object, at one of that, and so on."""
        if is_kind(value, ModuleType) and attributes:
            path = ".".join((vars(value)["__name__"], *attributes))
            if path.startswith(_DRAWN):
                drawn: object = value
                for name in attributes:
                    drawn = getattr(drawn, name, None)
                self._look(drawn)
        for at, name in enumerate(attributes):
            if value is MISSING:
                self._named.update(attributes[at:])
                return
            value = self._look_at(value, name)

    # What is left

    def _look_at_named(self) -> bool:
        """Look at attributes that are named of objects that code has computed.

        Returns
        -------
        bool
            Whether there was a new one.
        """
        before = len(self.taken), len(self._todo), len(self._named)
        for owner in tuple(self._owners):
            if self._matching and is_kind(owner, type):
                self._named.update(getattr(owner, "__match_args__", ()))
            wild = self._wild or self._calls.anything
            plain = wild and not is_kind(owner, type) and not says(owner)
            if id(owner) in self._calls.wholes or (
                plain and not is_standard(type(owner).__module__)
            ):
                self._look_at_whole(owner)
            kinds = (owner if is_kind(owner, type) else type(owner)).__mro__
            for space in (attributes_of(owner), *map(vars, kinds)):
                for name in self._named & space.keys():
                    self._look_at(owner, name)
        for module in self._imported:
            for name in self._named & vars(module).keys():
                self._look_at(module, name)
        return (len(self.taken), len(self._todo), len(self._named)) != before

    def _look_at_unnamed(self) -> None:
        """Look at all of a namespace that is only compared, or printed."""
        asked = {key for key, _ in self.taken}
        for owner in tuple(self._owners):
            if type(owner) is SimpleNamespace and id(owner) not in asked:
                self._look_at_whole(owner)
        self._go_on()

    def _look_at_unreached(self) -> bool:
        """Look at functions that ran and that no name leads to."""
        unreached = self._calls.codes.keys() - self.entered
        if not unreached:
            return False
        for each in gc.get_referrers(*unreached):
            if type(each) is FunctionType and each.__code__ in unreached:
                self._look(each)
        for code in unreached:
            self._look_in_code(code, self._calls.codes[code], {}, {})
        return True


def _is_bare(value: Any) -> bool:
    """Whether a number or text has no attributes, nor a class of a user's."""
    return is_standard(type(value).__module__) and not has_attributes(value)
