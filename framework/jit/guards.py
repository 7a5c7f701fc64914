"""Guards: captured closure, global and attribute state that invalidates a trace.

Guarded is the state that the code of a function reads, and the code of all its callees,
of users and of installed packages: closure variables, globals, default values, of
objects, classes and Python modules the attributes that this code names of them or of
computed values, and all elements of lists, tuples and dictionaries. Numbers, strings,
host tensors and arrays are compared by value, everything else by identity.

The callees of a trace are known exactly (`CalleeTracker`). Before the first trace, all
functions of the user's own that can be reached by name are assumed to run.
"""

# Longer than most: every kind of guarded value is handled here.

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
    AttributeSources,
    can_be_read,
    decimal_context,
    find_in_mro,
    functions_of,
    is_kind,
    is_standard,
    is_users,
    partial_parts,
    reports_changes,
    safe_getattr,
)
from .bytecode_names import (
    CLOSURE,
    GLOBAL,
    IMPORT,
    LOCAL,
    WILDCARD,
    has_dynamic_lookup,
    inner_code,
    lookups,
    matches_classes,
    name_constants,
    stored_names,
)
from .callees import STANDARD, CalleeTracker, source_kind
from .extension_objects import hides_state, is_pointer
from .guard_sources import (
    MAPPINGS,
    MAX_ARRAY_BYTES,
    MAX_CONTAINER_ELEMENTS,
    MISSING,
    array_header,
    read_cell,
)
from .pytree import SIMPLE, attributes_of, has_attributes

_CALL_METHODS = ("__call__", "forward")
"""Methods that a call of an object runs."""

_CONSTRUCTORS = ("__init__", "__post_init__")
"""Methods that a call of a class runs."""

_FUNCTION_METADATA = (
    "__name__",
    "__qualname__",
    "__doc__",
    "__module__",
    "__annotations__",
)
"""Assignable attributes of a function beside its code and defaults."""

_CONTAINERS = (*MAPPINGS, list, tuple, set, frozenset, deque, number_array, bytearray)
_VIEWS = (KeysView, ValuesView, ItemsView)

MAX_CACHED_RESULTS = 1000
"""Results of a `functools.lru_cache` that are guarded, at most."""

_HOST_RANDOM = ("random.", "numpy.random.")
_NUMPY_RANDOM, _SEEDING = ("numpy.random", "numpy.random.mtrand"), ("seed", "set_state")


@functools.cache
def _host_generators() -> tuple[type, ...]:
    """Return what draws numbers on the host; NumPy's takes long to import."""
    return random.Random, np.random.Generator, np.random.RandomState


class Guards(AttributeSources):
    """Guards of a function: the sources that it reads, with their values.

    Parameters
    ----------
    function : callable
        The function.
    *others : object
        Further roots, such as its arguments.
    callees : CalleeTracker, optional
        The functions that ran when it was called.
    assume_run : bool, optional
        Whether functions of the user's own are guarded that may not have run; by
        default if the callees are not known.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *others: object,
        callees: CalleeTracker | None = None,
        assume_run: bool | None = None,
    ) -> None:
        super().__init__()
        self._callees = callees or CalleeTracker()
        self._assume_run = callees is None if assume_run is None else assume_run
        self._seen: dict[tuple[int, int], object] = {}
        self._todo: list[tuple[Any, object]] = []
        self._named: set[str] = set()
        self._owners: list[Any] = []
        self._imported: list[ModuleType] = []
        self.visited_code: set[CodeType] = set()
        self._methods_run: dict[type, list[Any]] = {}
        self._dynamic_lookup = self._matches_classes = False
        self._named.update(self._callees.named)
        for path in self._callees.imported:
            module = sys.modules.get(path, MISSING)
            self._entries.append((sys.modules, path, module))
            self._visit(module)
        if self._callees.checked:
            self.probe("the register of abstract classes", get_cache_token)
        for each in (function, *others, *self._callees.context_vars):
            self._visit(each)
        self._drain()
        while self._guard_named_attributes() or self._visit_unreached():
            self._drain()
        self._guard_namespaces()
        self.freeze()
        del self._named, self._owners, self._imported, self._methods_run

    def untracked_change(self, before: Guards) -> str:
        """Return a source that may have changed unseen by `before`; empty if none."""
        changed, stored = self._callees.mutated, set[str]()
        stored = stored.union(*map(stored_names, self._callees.codes))
        found = self.guarded - before.guarded
        if self._callees.codes.keys() <= before.visited_code:
            # As it knew all callees, it guarded everything that existed.
            met = {key for key, _ in before._seen}
            found = {(key, name) for key, name in found if key in met}
            changed, stored = set(), stored - {WILDCARD}
        else:
            there = before.mutable_objects()
            for key, kind in self.mutable_objects().items():
                if key not in there:
                    # It may have been mutated unnoticed.
                    return f"what a {kind} holds"
        for key, name in found:
            if name in stored or key in changed:
                return "what a container holds" if name == WILDCARD else f"`{name}`"
        return ""

    def mutable_objects(self) -> dict[int, str]:
        """Return class names of the guarded mutable objects, by `id`."""
        found: list[Any] = [array for array, _, _ in self._arrays]
        found += [each for each, _, _ in self._containers if each is not sys.modules]
        found += self._callees.context_vars
        return {id(each): type(each).__name__ for each in found}

    def release(self) -> None:
        """Drop references that only collecting the guards needed."""
        self._seen.clear()
        self.guarded.clear()
        self._callees = CalleeTracker()

    # Values

    def _visit(self, value: Any, owner: object = None) -> None:
        """Queue `value`, perhaps a method of `owner`, to be guarded."""
        key = id(value), id(owner)
        if key in self._seen or (is_kind(value, SIMPLE) and _is_plain_value(value)):
            return
        # Held, as another object could get the same `id`.
        self._seen[key] = value, owner
        self._todo.append((value, owner))

    def _drain(self) -> None:
        while self._todo:
            self._visit_value(*self._todo.pop())

    def _visit_value(self, value: Any, owner: object) -> None:
        if is_kind(value, Tensor):
            row = value, value.needs_grad, value.hooks, value.array
            self._tensors.append(row)
            if not value.is_gpu:
                self._on_host.append((value.array, value.array.value))
            if attributes_of(value):
                self._owners.append(value)
        elif is_kind(value, np.ndarray):
            self._guard_array(value)
        elif is_kind(value, np.void):
            # An element of a structured array, which it may change with.
            whole = value.item if value.dtype.hasobject else value.tobytes
            self._visit(self.probe("an array", whole))
        elif is_kind(value, _host_generators()):
            self.reason = "it draws numbers on the host, which a replay would not"
        elif is_kind(value, IOBase):
            if can_be_read(value):
                self.reason = "it reads from a file, which a replay would not"
        elif is_kind(value, Iterator):
            self.reason = "it takes from an iterator, which a replay would not"
        elif not self._visit_callable(value, owner):
            if is_kind(value, _CONTAINERS):
                self._guard_container(value)
            elif is_kind(value, _VIEWS) and not is_kind(value, Mapping):
                self.probe(f"a {type(value).__name__}", lambda: tuple(value))
            if type(value) not in _CONTAINERS:
                self._visit_object(value, owner)

    def _guard_array(self, array: np.ndarray) -> None:
        if type(array) is not np.ndarray:
            self._owners.append(array)
            array = np.asarray(array)
        if array.dtype.hasobject:
            self._visit(self.probe("an array", lambda: tuple(array.ravel())))
        elif array.nbytes > MAX_ARRAY_BYTES:
            self.reason = (
                f"it looks at an array of {array.nbytes >> 20} MiB, of which no replay"
                " can tell whether it has changed"
            )
        else:
            self._arrays.append((array, array_header(array), array.tobytes()))

    def _visit_callable(self, value: Any, owner: object) -> bool:
        """Guard the code that calling `value` runs; return whether that is all."""
        if is_kind(value, BuiltinMethodType):
            if not isinstance(value.__self__, ModuleType):
                self._visit(value.__self__)
        elif is_kind(value, functools.partial):
            probe = functools.partial(partial_parts, value)
            self._visit(self.probe(f"a {type(value).__name__}", probe))
        elif is_kind(value, MethodType):
            self._visit(value.__func__, value.__self__)
            self._visit(value.__self__)
        elif is_kind(value, FunctionType):
            if self._runs(value):
                self._visit_function(value, owner)
            elif id(value) in self._callees.dynamic_attributes:
                self._visit_signature(value)
            if value.__dict__:
                self._owners.append(value)
        elif is_kind(value, staticmethod | classmethod):
            self._visit(value.__func__)
        elif is_kind(value, property):
            self._visit(value.fget, owner)
        elif type(value).__name__ == "cython_function_or_method":
            if value.__module__ in _NUMPY_RANDOM and value.__name__ in _SEEDING:
                self.reason = "it seeds numbers of the host, which a replay would not"
        elif is_kind(value, attrgetter | methodcaller):
            for each in value.__reduce__()[1]:
                self._named.update(str(each).split("."))
        elif type(value).__name__ == "_lru_cache_wrapper":
            self._visit_lru_cache(value)
            self._visit(attributes_of(value).get("__wrapped__"), owner)
        elif is_kind(value, weakref.ref):
            self._visit_weak_reference(value)
        elif type(value).__name__ == "ContextVar":
            found = self.probe(value.name, functools.partial(value.get, MISSING))
            self._visit(found)
        else:
            return False
        return True

    def _visit_weak_reference(self, reference: Any) -> None:
        """Guard the referent of a weak reference without keeping it alive."""
        found = reference()
        self.probe("a weak reference", lambda: reference() is not None)
        if found is not None:
            self._weak.add(id(found))
            self._visit(found)

    def _visit_lru_cache(self, cached: Any) -> None:
        """Guard the results cached by `functools.lru_cache`."""
        for held in gc.get_referents(cached):
            if type(held) is dict and held is not attributes_of(cached):
                for key, link in tuple(held.items())[:MAX_CACHED_RESULTS]:
                    self._entries.append((held, key, link))
                    is_link = type(link).__name__ == "_lru_list_elem"
                    for each in gc.get_referents(link) if is_link else (link,):
                        self._visit(each)

    def _guard_container(self, container: Any) -> None:
        if container is sys.modules:
            return
        if len(container) > MAX_CONTAINER_ELEMENTS:
            self.reason = (
                f"it looks at a {type(container).__name__} of {len(container)}, of"
                " which no replay can tell whether it has changed"
            )
            return
        named = isinstance(container, MAPPINGS)
        held = tuple(container.values() if named else container)
        if not isinstance(container, tuple | frozenset):
            self.guarded.add((id(container), WILDCARD))
            self._containers.append(
                (container, tuple(container) if named else None, held)
            )
        for each in (*container, *held) if named else held:
            self._visit(each)

    def _visit_object(self, value: Any, owner: object) -> None:
        own = attributes_of(value)
        if "__wrapped__" in own:
            self._visit(own["__wrapped__"], owner)
        if is_kind(value, ModuleType):
            self._imported.append(value)
            return
        self._owners.append(value)
        self._guard_attribute_count(value)
        if is_kind(value, defaultdict):
            self._guard_attribute(value, "default_factory")
        if not reports_changes(value):
            self._guard_type(value)
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
                size = MAX_ARRAY_BYTES + 1
            if size <= MAX_ARRAY_BYTES:
                self.probe(
                    f"a {type(value).__name__}", lambda: bytes(memoryview(value))
                )
            else:
                self.reason = (
                    f"it looks at a {type(value).__name__}, which does not say what it"
                    " holds"
                )
        if reports_changes(value):
            for each in tuple(own.values()):
                if reports_changes(each):
                    self._visit(each)
        if "decimal" in (type(value).__module__, own.get("__module__")):
            self.probe("the context of decimals", decimal_context)
        for name in _CALL_METHODS:
            if find_in_mro(type(value), name)[1] is not MISSING:
                self._guard_attribute(value, name)
        if self._assume_run and is_kind(value, type) and is_users(value.__module__):
            for name in _CONSTRUCTORS:
                if find_in_mro(value, name)[0] not in (None, object):
                    self._guard_attribute(value, name)
        for function in self._methods(value):
            self._visit(function, value)

    # Code

    def _runs(self, function: FunctionType) -> bool:
        known = function.__code__ in self._callees.codes
        return known or (self._assume_run and is_users(function.__module__))

    def _methods(self, value: Any) -> Iterator[Any]:
        """Yield the callees among the methods of an object's classes."""
        kinds = type(value).__mro__
        for kind in (*value.__mro__, *kinds) if is_kind(value, type) else kinds:
            if kind not in self._methods_run:
                self._methods_run[kind] = self._methods_of(kind)
            yield from self._methods_run[kind]

    def _methods_of(self, kind: type) -> list[FunctionType]:
        """Return the callees among a class's functions, and guard their entries."""
        ran = []
        for name, found in tuple(vars(kind).items()):
            for each in functions_of(found):
                if each.__code__ in self._callees.codes:
                    ran.append(each)
                    self._add_entry(kind, vars(kind), name, found)
        return ran

    def _visit_function(self, function: FunctionType, owner: object) -> None:
        code = function.__code__
        self._functions.append(function)
        closure = dict(zip(code.co_freevars, function.__closure__ or ()))
        for name, cell in closure.items():
            found = read_cell(cell)
            self._cells.append((name, cell, found))
            self.guarded.add((id(cell), name))
            self._visit(found)
        given = {}
        if owner is not None and code.co_argcount:
            given[code.co_varnames[0]] = owner
        known = {name: read_cell(cell) for name, cell in closure.items()}
        self._visit_code(code, function.__globals__, known, given)
        self._visit_defaults(function)

    def _visit_defaults(self, function: FunctionType) -> None:
        for default in function.__defaults__ or ():
            self._visit(default)
        if function.__kwdefaults__:
            self._visit(function.__kwdefaults__)

    def _visit_signature(self, function: FunctionType, name: str = "") -> object:
        """Guard the metadata of a function that is inspected, not called."""
        self._functions.append(function)
        self._visit_defaults(function)
        self._visit(function.__annotations__)
        if name == "__globals__":
            self._visit(function.__globals__)
        elif name == "__closure__":
            for free, cell in zip(
                function.__code__.co_freevars, function.__closure__ or ()
            ):
                self._cells.append((free, cell, read_cell(cell)))
                self._visit(read_cell(cell))
        elif name in function.__dict__:
            return self._guard_own(function, function.__dict__, name)
        elif name in _FUNCTION_METADATA:
            self.probe(name, functools.partial(safe_getattr, function, name))
        return MISSING

    def _visit_code(
        self,
        code: CodeType,
        space: Mapping[str, Any],
        closure: Mapping[str, object],
        given: Mapping[str, object],
    ) -> None:
        self._visit_nested_code(code)
        self._named.update(name_constants(code))
        for path in name_constants(code) & sys.modules.keys():
            self._visit(sys.modules[path])
        if "modules" in code.co_names and is_users(space.get("__name__")):
            self._guard_modules()
        self._matches_classes = self._matches_classes or matches_classes(code)
        standard = source_kind(code.co_filename) == STANDARD
        self._dynamic_lookup = self._dynamic_lookup or (
            has_dynamic_lookup(code) and not standard
        )
        for root, name, attributes in lookups(code):
            if root == GLOBAL:
                found = self._guard_global(space, name)
            elif root == IMPORT:
                found = self._guard_import(space, name, attributes)
            elif root in (CLOSURE, LOCAL):
                found = closure.get(name, given.get(name, MISSING))
            else:
                found = MISSING
            self._follow(found, attributes)

    def _guard_modules(self) -> None:
        """Guard all of `sys.modules`, for code that looks modules up."""
        modules = sys.modules
        if (id(modules), WILDCARD) not in self.guarded:
            self.guarded.add((id(modules), WILDCARD))
            self._containers.append((modules, tuple(modules), tuple(modules.values())))

    def _visit_nested_code(self, code: CodeType) -> None:
        self.visited_code.add(code)
        for each in inner_code(code):
            self._visit_nested_code(each)

    def _guard_global(self, space: Mapping[str, Any], name: str) -> object:
        """Guard a variable of a Python module, and return its value."""
        found = space.get(name, MISSING)
        if found is MISSING:
            if name in ("globals", "eval", "exec"):
                self._visit(space)
            self._add_entry(space, space, name, MISSING)
            if "__getattr__" in space:
                self._guard_global(space, "__getattr__")
            found = getattr(builtins, name, MISSING)
            if name not in BUILTINS and found is not MISSING:
                self._add_entry(builtins, vars(builtins), name, found)
                self._visit(found)
                return found
            return MISSING
        self._add_entry(space, space, name, found)
        self._visit(found)
        return found

    def _guard_import(
        self, space: Mapping[str, Any], name: str, attributes: tuple[str, ...]
    ) -> object:
        """Guard a module that a function imports, and return it."""
        inside = f"{space.get('__package__') or ''}.{name}".rstrip(".")
        for path in (name, inside):
            module = sys.modules.get(path)
            if module is not None:
                if not is_standard(space.get("__name__")):
                    self._add_entry(sys.modules, sys.modules, path, module)
                top = sys.modules.get(path.partition(".")[0], module)
                self._imported += [module, top]
                return module
        return MISSING

    def _follow(self, value: object, attributes: tuple[str, ...]) -> None:
        """Guard a chain of attributes."""
        if is_kind(value, ModuleType) and attributes:
            path = ".".join((vars(value)["__name__"], *attributes))
            if path.startswith(_HOST_RANDOM):
                drawn: object = value
                for name in attributes:
                    drawn = getattr(drawn, name, None)
                self._visit(drawn)
        for at, name in enumerate(attributes):
            if value is MISSING:
                self._named.update(attributes[at:])
                return
            value = self._guard_attribute(value, name)

    # Sources that no lookup in the code leads to

    def _guard_named_attributes(self) -> bool:
        """Guard attributes that code names of computed objects.

        Returns
        -------
        bool
            Whether there was a new one.
        """
        before = len(self.guarded), len(self._todo), len(self._named)
        for owner in tuple(self._owners):
            if self._matches_classes and is_kind(owner, type):
                self._named.update(getattr(owner, "__match_args__", ()))
            wild = self._dynamic_lookup or self._callees.dynamic_lookup
            plain = wild and not is_kind(owner, type) and not reports_changes(owner)
            if id(owner) in self._callees.dynamic_attributes or (
                plain and not is_standard(type(owner).__module__)
            ):
                self._guard_all_attributes(owner)
            kinds = (owner if is_kind(owner, type) else type(owner)).__mro__
            for space in (attributes_of(owner), *map(vars, kinds)):
                for name in self._named & space.keys():
                    self._guard_attribute(owner, name)
        for module in self._imported:
            for name in self._named & vars(module).keys():
                self._guard_attribute(module, name)
        return (len(self.guarded), len(self._todo), len(self._named)) != before

    def _guard_namespaces(self) -> None:
        """Guard all attributes of a namespace that is only compared or printed."""
        asked = {key for key, _ in self.guarded}
        for owner in tuple(self._owners):
            if type(owner) is SimpleNamespace and id(owner) not in asked:
                self._guard_all_attributes(owner)
        self._drain()

    def _visit_unreached(self) -> bool:
        """Guard callees that no name leads to."""
        unreached = self._callees.codes.keys() - self.visited_code
        if not unreached:
            return False
        for each in gc.get_referrers(*unreached):
            if type(each) is FunctionType and each.__code__ in unreached:
                self._visit(each)
        for code in unreached:
            self._visit_code(code, self._callees.codes[code], {}, {})
        return True


def _is_plain_value(value: Any) -> bool:
    """Whether a number or string has no attributes, nor a class of a user's."""
    return is_standard(type(value).__module__) and not has_attributes(value)
