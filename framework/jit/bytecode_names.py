"""Names in bytecode: variables that code looks up, and chains of attributes."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

GLOBAL, CLOSURE, LOCAL, RESULT, IMPORT = range(5)
"""Root of a chain of attributes; `RESULT` is a computed value."""

WILDCARD = "*"
"""An attribute with a computed name, which may be any."""

_ROOTS = {
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
    "LOAD_DEREF": CLOSURE,
    "LOAD_CLASSDEREF": CLOSURE,
    "LOAD_FROM_DICT_OR_DEREF": CLOSURE,
    "IMPORT_NAME": IMPORT,
}
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"})

_ATTRIBUTE_FUNCTIONS = frozenset(
    {"getattr", "hasattr", "setattr", "delattr", "vars", "dir"}
)
"""Functions that take an object, and perhaps the name of an attribute."""

_BETWEEN = frozenset({"PUSH_NULL", "CACHE", "NOP", "EXTENDED_ARG", "COPY", "DUP_TOP"})
"""Instructions between a variable and its attribute that do not matter."""

_SETS_ATTRIBUTE = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_SETS_GLOBAL = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_STORES = _SETS_ATTRIBUTE | _SETS_GLOBAL | {"STORE_DEREF", "DELETE_DEREF"}
_ELEMENTS = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})


class Lookup(NamedTuple):
    """Lookup of a variable and a chain of attributes: `options.inner.rate`.

    Attributes
    ----------
    root : int
        One of `GLOBAL`, `CLOSURE`, `LOCAL`, `RESULT` and `IMPORT`.
    name : str
        Of the variable or module; empty for a result.
    attributes : tuple of str
        In order; the last may be `WILDCARD`.
    """

    root: int
    name: str
    attributes: tuple[str, ...]


@lru_cache(4096)
def lookups(code: CodeType) -> tuple[Lookup, ...]:
    """Return the lookups and stores of code and of the functions defined in it."""
    return tuple(_lookups(code))


def _lookups(code: CodeType) -> Iterator[Lookup]:
    root, name, attributes, names_attribute = RESULT, "", list[str](), False
    for each in dis.get_instructions(code):
        kind = each.opname
        if kind in _BETWEEN:
            continue
        if kind in _ATTRIBUTES:
            attributes.append(each.argval)
            continue
        if kind in _SETS_ATTRIBUTE:
            # A replay does not set it again, so it matters like one that is read.
            yield Lookup(root, name, (*attributes, each.argval))
            root, name, attributes, names_attribute = RESULT, "", [], False
            continue
        if names_attribute and (name or attributes):
            names_attribute = False
            named = kind == "LOAD_CONST" and isinstance(each.argval, str)
            attributes.append(each.argval if named else WILDCARD)
        if name or attributes:
            yield Lookup(root, name, tuple(attributes))
            names_attribute = (
                root == GLOBAL and name in _ATTRIBUTE_FUNCTIONS and not attributes
            )
        elif kind not in ("LOAD_CONST", "PRECALL") and not kind.startswith("LOAD_"):
            names_attribute = False
        root, name, attributes = RESULT, "", []
        if kind in _SETS_GLOBAL:
            yield Lookup(GLOBAL, each.argval, ())
        elif kind in _ROOTS:
            root, name = _ROOTS[kind], each.argval
        elif kind.endswith("LOAD_FAST") or kind.startswith("LOAD_FAST"):
            # Some load two variables, of which the second is the root.
            names = each.argval
            if isinstance(names, str):
                root, name = LOCAL, names
            elif names_attribute:
                names_attribute = False
                yield Lookup(LOCAL, names[0], (WILDCARD,))
                root, name = LOCAL, names[-1]
            else:
                root, name = LOCAL, names[-1]
        elif kind.startswith("LOAD_SUPER"):
            attributes.append(each.argval)
    if name or attributes:
        yield Lookup(root, name, tuple(attributes))
    for constant in inner_code(code):
        yield from lookups(constant)


def inner_code(code: CodeType) -> list[CodeType]:
    """Return the code of the functions that are defined in a function."""
    return [each for each in code.co_consts if isinstance(each, CodeType)]


@lru_cache(4096)
def stored_names(code: CodeType) -> frozenset[str]:
    """Return the names that code assigns to; `WILDCARD` if to elements of something."""
    found = set()
    for each in dis.get_instructions(code):
        if each.opname in _STORES:
            found.add(each.argval)
        elif each.opname in _ELEMENTS:
            found.add(WILDCARD)
        elif each.opname in _ATTRIBUTES or each.opname in _ROOTS:
            if each.argval in ("setattr", "delattr", "__setattr__", "__dict__", "vars"):
                found.add(WILDCARD)
                found.update(name_constants(code))
    return frozenset(found.union(*map(stored_names, inner_code(code))))


@lru_cache(4096)
def dynamic_attributes(code: CodeType) -> frozenset[str]:
    """Return the parameters of which code reads attributes with computed names."""
    own = (each for each in lookups(code) if each.root in (LOCAL, CLOSURE))
    asked = frozenset(each.name for each in own if each.attributes == (WILDCARD,))
    return asked.intersection(_parameters(code))


def _parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


@lru_cache(4096)
def has_dynamic_lookup(code: CodeType) -> bool:
    """Return whether code reads attributes with computed names of computed values."""
    known = {*_parameters(code), *code.co_freevars}
    return any(
        WILDCARD in each.attributes
        and (each.root == RESULT or (each.root == LOCAL and each.name not in known))
        for each in lookups(code)
    )


_ASKED_BY_NAME = frozenset(
    "attrgetter methodcaller getattr hasattr setattr delattr __getattribute__"
    " __getattr__ __setattr__ __delattr__ format import_module __import__"
    " modules".split()
)
_FIELD = re.compile(r"\{\w*((?:\.\w+)+)")


@lru_cache(4096)
def name_constants(code: CodeType) -> frozenset[str]:
    """Return string constants that may name attributes or modules to look up."""
    found = set[str]()
    if _ASKED_BY_NAME.isdisjoint({*code.co_names, *code.co_freevars}):
        if not matches_classes(code):
            return frozenset()
    for constant in code.co_consts:
        for each in constant if isinstance(constant, tuple) else (constant,):
            if isinstance(each, str):
                found.add(each)
                found.update(each.split("."))
                for fields in _FIELD.findall(each):
                    found.update(fields.split("."))
    return frozenset(found - {""})


@lru_cache(4096)
def matches_classes(code: CodeType) -> bool:
    """Return whether code has class patterns (`match`)."""
    return any(each.opname == "MATCH_CLASS" for each in dis.get_instructions(code))
