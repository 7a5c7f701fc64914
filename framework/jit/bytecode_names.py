"""What code looks up: variables, and attributes of them in a row."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

GLOBAL, CLOSURE, LOCAL, RESULT, IMPORT = range(5)
"""Where a row of attributes starts; `RESULT` is what code has computed."""

WHOLE = "*"
"""An attribute that stands for all of them: which one, code has computed."""

_STARTS = {
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
    "LOAD_DEREF": CLOSURE,
    "LOAD_CLASSDEREF": CLOSURE,
    "LOAD_FROM_DICT_OR_DEREF": CLOSURE,
    "IMPORT_NAME": IMPORT,
}
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"})

_ASKING = frozenset({"getattr", "hasattr", "setattr", "delattr", "vars", "dir"})
"""Functions that are given an object, and perhaps the name of an attribute."""

_BETWEEN = frozenset({"PUSH_NULL", "CACHE", "NOP", "EXTENDED_ARG", "COPY", "DUP_TOP"})
"""What may stand between a variable and its attribute."""

_SETS_ATTRIBUTE = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_SETS_GLOBAL = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_STORES = _SETS_ATTRIBUTE | _SETS_GLOBAL | {"STORE_DEREF", "DELETE_DEREF"}
_ELEMENTS = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})


class Use(NamedTuple):
    """A variable that is looked up, and attributes: `rate` of `inner` of `options`.

    Attributes
    ----------
    start : int
        One of `GLOBAL`, `CLOSURE`, `LOCAL`, `RESULT` and `IMPORT`.
    name : str
        Of the variable or module; empty for a result.
    attributes : tuple of str
        In order; the last may be `WHOLE`.
    """

    start: int
    name: str
    attributes: tuple[str, ...]


@lru_cache(4096)
def uses(code: CodeType) -> tuple[Use, ...]:
    """Return what code, and the functions that are defined in it, look up or set."""
    return tuple(_uses(code))


def _uses(code: CodeType) -> Iterator[Use]:
    start, name, attributes, asking = RESULT, "", list[str](), False
    for each in dis.get_instructions(code):
        kind = each.opname
        if kind in _BETWEEN:
            continue
        if kind in _ATTRIBUTES:
            attributes.append(each.argval)
            continue
        if kind in _SETS_ATTRIBUTE:
            # A replay does not set it again, so it matters like one that is read.
            yield Use(start, name, (*attributes, each.argval))
            start, name, attributes, asking = RESULT, "", [], False
            continue
        if asking and (name or attributes):
            asking = False
            named = kind == "LOAD_CONST" and isinstance(each.argval, str)
            attributes.append(each.argval if named else WHOLE)
        if name or attributes:
            yield Use(start, name, tuple(attributes))
            asking = start == GLOBAL and name in _ASKING and not attributes
        elif kind not in ("LOAD_CONST", "PRECALL") and not kind.startswith("LOAD_"):
            asking = False
        start, name, attributes = RESULT, "", []
        if kind in _SETS_GLOBAL:
            yield Use(GLOBAL, each.argval, ())
        elif kind in _STARTS:
            start, name = _STARTS[kind], each.argval
        elif kind.endswith("LOAD_FAST") or kind.startswith("LOAD_FAST"):
            # Some are of two variables, of which the second is asked next.
            names = each.argval
            if isinstance(names, str):
                start, name = LOCAL, names
            elif asking:
                asking = False
                yield Use(LOCAL, names[0], (WHOLE,))
                start, name = LOCAL, names[-1]
            else:
                start, name = LOCAL, names[-1]
        elif kind.startswith("LOAD_SUPER"):
            attributes.append(each.argval)
    if name or attributes:
        yield Use(start, name, tuple(attributes))
    for constant in inner_code(code):
        yield from uses(constant)


def inner_code(code: CodeType) -> list[CodeType]:
    """Return the code of the functions that are defined in a function."""
    return [each for each in code.co_consts if isinstance(each, CodeType)]


@lru_cache(4096)
def stores(code: CodeType) -> frozenset[str]:
    """Return the names that code assigns to; `WHOLE` if to elements of something."""
    found = set()
    for each in dis.get_instructions(code):
        if each.opname in _STORES:
            found.add(each.argval)
        elif each.opname in _ELEMENTS:
            found.add(WHOLE)
        elif each.opname in _ATTRIBUTES or each.opname in _STARTS:
            if each.argval in ("setattr", "delattr", "__setattr__", "__dict__", "vars"):
                found.add(WHOLE)
                found.update(texts(code))
    return frozenset(found.union(*map(stores, inner_code(code))))


@lru_cache(4096)
def wholes(code: CodeType) -> frozenset[str]:
    """Return the parameters of which code asks for attributes that it computes."""
    own = (each for each in uses(code) if each.start in (LOCAL, CLOSURE))
    asked = frozenset(each.name for each in own if each.attributes == (WHOLE,))
    return asked.intersection(_parameters(code))


def _parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


@lru_cache(4096)
def asks_anything(code: CodeType) -> bool:
    """Return whether code asks what it has computed for attributes that it computes."""
    known = {*_parameters(code), *code.co_freevars}
    return any(
        WHOLE in each.attributes
        and (each.start == RESULT or (each.start == LOCAL and each.name not in known))
        for each in uses(code)
    )


_ASKED_BY_NAME = frozenset(
    "attrgetter methodcaller getattr hasattr setattr delattr __getattribute__"
    " __getattr__ __setattr__ __delattr__ format import_module __import__"
    " modules".split()
)
_FIELD = re.compile(r"\{\w*((?:\.\w+)+)")


@lru_cache(4096)
def texts(code: CodeType) -> frozenset[str]:
    """Return texts in code that may name attributes or modules which it asks for."""
    found = set[str]()
    if _ASKED_BY_NAME.isdisjoint({*code.co_names, *code.co_freevars}):
        if not matches(code):
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
def matches(code: CodeType) -> bool:
    """Return whether code compares with patterns of classes."""
    return any(each.opname == "MATCH_CLASS" for each in dis.get_instructions(code))
