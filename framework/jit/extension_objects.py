"""Extension objects: which objects of C extensions have opaque state."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

_NATIVE = (
    MethodDescriptorType,
    WrapperDescriptorType,
    ClassMethodDescriptorType,
    BuiltinFunctionType,
)
_OF_INSTANCES = frozenset({"__dict__", "__weakref__"})

_CALM = frozenset(
    "builtins types functools operator re _sre _struct struct _thread _threading_local"
    " _abc _weakref weakref typing _typing enum numpy zoneinfo"
    " _zoneinfo _functools _operator _collections collections _io io"
    " array _json _random"
    " vkbackend logging".split()
)
"""Packages whose objects are immutable, or guarded by attribute."""


def hides_state(value: Any) -> bool:
    """Whether an object has state that Python cannot observe.

    Hashable objects that compare by value are taken for constants, as dates and
    decimals are.
    """
    kind: Any = type(value)
    if kind is memoryview:
        return True
    if not _has_native_class(kind):
        return False
    try:
        # Some return their `id` itself.
        alone = object.__hash__(value), id(value)
        return kind.__hash__ is None or hash(value) in alone
    except Exception:  # A hash written in Python may raise anything.
        return True


def is_pointer(value: Any) -> bool:
    """Whether an object is a pointer of C, to memory that may hold anything."""
    return any(
        each.__name__ == "_Pointer" and each.__module__ == "_ctypes"
        for each in type(value).__mro__
    )


@functools.cache
def _has_native_class(kind: Hashable) -> bool:
    """Whether a class, or a base of it, is written in C, and not in `_CALM`."""
    assert isinstance(kind, type)
    for each in kind.__mro__:
        module = each.__module__
        if isinstance(module, str) and module.partition(".")[0] in _CALM:
            continue
        for name, found in vars(each).items():
            if isinstance(found, (*_NATIVE, GetSetDescriptorType)):
                # A class in Python may name one of another class.
                of = getattr(found, "__objclass__", getattr(found, "__self__", None))
                if of is each and name not in _OF_INSTANCES:
                    return True
            elif type(found).__name__ == "cython_function_or_method":
                return True
    return False


@functools.cache
def describes(kind: Hashable) -> bool:
    """Whether objects of a class are data descriptors in C."""
    assert isinstance(kind, type)
    own = {"__get__", "__set__"}
    return any(
        own <= vars(each).keys() and isinstance(vars(each)["__get__"], _NATIVE)
        for each in kind.__mro__
        if each is not property
    )
