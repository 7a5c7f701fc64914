"""Pytrees: nested containers and data classes, and mapping over their leaves."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Mapping
from operator import is_
from types import FunctionType, MappingProxyType, MemberDescriptorType
from typing import Any

import numpy as np

PLAIN = frozenset(
    (bool, int, float, complex, str, bytes, type(None), tuple, list, dict)
)
"""Classes of which instances have no attributes of their own."""

SIMPLE = (bool, int, float, complex, str, bytes, type(None))
SIMPLE += (np.number, np.bool_, np.character, np.datetime64)  # type: ignore[assignment]
"""Classes of which instances are the same when they are equal.

Not so `numpy.void`: it may be an element of an array, and changes with that.
"""

NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


def value_key(value: object) -> object:
    """Return the cache key of a number or string."""
    if isinstance(value, float | complex | np.generic):
        return type(value), repr(value)
    return type(value), value


def alike(one: object, other: object) -> bool:
    """Whether two objects are the same number or string; nan is nan, -0.0 not 0.0."""
    return (
        type(one) is type(other)
        # An object may override `__class__`, or raise there.
        and issubclass(type(one), SIMPLE)
        and value_key(one) == value_key(other)
    )


def same(found: list[Any], expected: list[Any]) -> bool:
    """Whether two fingerprints are alike: numbers by value, the rest by identity."""
    return len(found) == len(expected) and all(
        one is other or alike(one, other) for one, other in zip(found, expected)
    )


def attributes_of(value: object) -> Mapping[str, Any]:
    """Return an object's own attributes, bypassing its class."""
    try:
        if isinstance(type(value).__getattribute__, FunctionType):
            own: Mapping[str, Any] = object.__getattribute__(value, "__dict__")
            return own
        return vars(value)
    except Exception:  # A class may override `__dict__`.
        return NO_ATTRIBUTES


def has_attributes(value: object) -> bool:
    """Whether a number or string has attributes of its own, as enum members have."""
    return type(value) not in PLAIN and bool(attributes_of(value))


def own_attributes(value: object) -> dict[str, Any]:
    """Return an object's attributes, those of slots too."""
    if type(value) in PLAIN:
        return {}
    space = attributes_of(value)
    # Some mappings have their elements for attributes.
    found = {} if space is value else dict(space)
    for name, slot in _slots_of(value).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:
            continue
    return found


def set_attribute(value: Any, name: str, now: object) -> None:
    """Set an attribute of an object, bypassing its class."""
    slot = _slots_of(value).get(name)
    if slot is not None:
        slot.__set__(value, now)
    else:
        vars(value)[name] = now


def drop_attribute(value: Any, name: str) -> None:
    """Delete an attribute of an object, bypassing its class."""
    slot = _slots_of(value).get(name)
    if slot is not None:
        slot.__delete__(value)
    else:
        del vars(value)[name]


def _slots_of(value: Any) -> dict[str, Any]:
    """Return the descriptors of an object's attributes that are in slots."""
    kind: Any = type(value)
    return _slots(kind)


@functools.cache
def _slots(kind: Hashable) -> dict[str, Any]:
    assert isinstance(kind, type)
    found: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        for name, member in vars(each).items():
            if type(member) is MemberDescriptorType:
                found[name] = member
    return found


def is_record(value: object) -> bool:
    """Whether a value is an instance of a data class, and no module."""
    return (
        hasattr(value, "__dataclass_fields__")
        and not isinstance(value, type)
        and not hasattr(value, "_fingerprint")
    )


def elements_of(value: Any) -> list[Any]:
    """Return the elements of a sequence, set or mapping; none of anything else."""
    if isinstance(value, Mapping):
        return [value[key] for key in value]
    return list(value) if isinstance(value, tuple | list | set | frozenset) else []


def tree_map(value: Any, swap: Callable[[Any], Any]) -> Any:
    """Return a pytree with its leaves mapped by `swap`."""
    if isinstance(value, tuple | list | set | frozenset | Mapping) or is_record(value):
        return rebuild(value, lambda each: tree_map(each, swap))
    return swap(value)


def rebuild(value: Any, swap: Callable[[Any], Any], always: bool = True) -> Any:
    """Return a container or record of the same class with its children mapped.

    Parameters
    ----------
    value : object
        The container or record.
    swap : callable
        Takes an element or attribute, and returns its replacement.
    always : bool, default True
        Whether to make another one if everything would stay.
    """
    own = own_attributes(value)
    attributes = {name: swap(each) for name, each in own.items()}
    elements = elements_of(value)
    swapped = [swap(each) for each in elements]
    if not always and all(map(is_, elements, swapped)):
        if all(each is own[name] for name, each in attributes.items()):
            return value
    made = _rebuild_like(value, swapped, bool(own))
    if attributes_of(value) is value:
        made.__dict__ = made
    for name, each in attributes.items():
        if each is not own[name] or name not in own_attributes(made):
            set_attribute(made, name, each)
    return made


def _rebuild_like(value: Any, elements: list[Any], has_attributes: bool) -> Any:
    """Return a container or record of the same class with other elements."""
    kind = type(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple.__new__(kind, elements)
    if isinstance(value, dict):
        # As it is made like, a defaultdict keeps its default.
        made: Any = {} if kind is dict else copy.copy(value)
        dict.update(made, zip(value, elements))
        return made
    if isinstance(value, list) and kind is not list:
        made = copy.copy(value)
        list.__setitem__(made, slice(None), elements)
        return made
    if isinstance(value, Mapping) and not has_attributes:
        return kind(dict(zip(value, elements)))
    if isinstance(value, tuple | list | set | frozenset):
        return kind(elements)
    return copy.copy(value)
