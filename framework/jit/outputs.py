"""Outputs of a traced function: a template with slots for replayed tensors."""

from __future__ import annotations

import copy
import functools
from array import array as number_array
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..base.errors import TraceError
from ..base.symbolic_number import SymbolicNumber, is_symbolic
from ..tensor.tensor import Tensor
from .guard_sources import read_cell
from .pytree import SIMPLE, elements_of, is_record, own_attributes, tree_map

MAX_SEARCHED_OBJECTS = 10_000
"""Objects below a result that are searched for tensors, at most."""

_COPIED = (np.ndarray, bytearray, deque, number_array)
_VIEWS = (KeysView, ValuesView, ItemsView)


class Slot:
    """Placeholder in a result for a tensor that each replay returns anew."""

    def __init__(self, number: int) -> None:
        self.number = number


class WrapperSlot:
    """Placeholder in a result for a tensor that is made of others, as a sparse one."""

    def __init__(self, wrapper: Any, parts: list[Any]) -> None:
        self._like, self._static, self._parts = wrapper.like, wrapper.static(), parts

    def made(self, fill: Callable[[Any], Any]) -> Any:
        """Return the tensor, of parts that a function makes of placeholders."""
        return self._like([fill(each) for each in self._parts], self._static)


class NumberSlot:
    """Placeholder in a result for a number that depends on those of the call."""

    def __init__(self, number: SymbolicNumber) -> None:
        self._read = number.reader()

    def made(self) -> Any:
        """Return the number of the current call."""
        return self._read()


class Copied:
    """Placeholder in a result for a host array, copied by each replay."""

    def __init__(self, value: Any) -> None:
        self._value = copied(value)

    def made(self) -> Any:
        """Return another copy."""
        return copied(self._value)


def copied(value: Any) -> Any:
    """Return a copy of an array, container or tensor of the host."""
    return value.detach().clone() if isinstance(value, Tensor) else copy.copy(value)


def can_be_copied(value: Any) -> bool:
    """Whether a part of a result is mutable by the caller."""
    return isinstance(value, (*_COPIED, Tensor))


def fill_slots(result: Any, tensors: list[Tensor]) -> Any:
    """Return a result with its slots filled by tensors."""

    def fill(each: Any) -> Any:
        if type(each) is Slot:
            return tensors[each.number]
        if type(each) is WrapperSlot:
            return each.made(fill)
        return each.made() if type(each) in (Copied, NumberSlot) else each

    return tree_map(result, fill)


def plain(result: Any) -> Any:
    """Return a result with the numbers of the current call for symbolic ones."""
    return tree_map(result, lambda each: each.now() if is_symbolic(each) else each)


def has_symbolic_keys(result: Any) -> bool:
    """Return whether mappings or sets in a result have symbolic numbers for keys."""
    return any(is_symbolic(each) for keys in _keys_of(result) for each in keys)


def need_grad(result: Any) -> bool:
    """Return whether a tensor in a result requires a gradient."""
    return any(each.requires_grad for each in _tensors_in(result))


def check(result: Any, made: Callable[[Tensor], bool]) -> None:
    """Raise `TraceError` for an object of which no replay can make another one.

    A replay would return the same object again.

    Parameters
    ----------
    result : object
        Result of the function.
    made : callable
        Returns whether each replay computes a tensor anew.
    """

    def look(part: Any) -> Any:
        if isinstance(part, (Tensor, *SIMPLE)):
            return part
        unknown = not hasattr(part, "_fingerprint") and (
            any(isinstance(each, Tensor) for each in own_attributes(part).values())
            or any(made(each) for each in _tensors_in(part))
        )
        if unknown or isinstance(part, Iterator | Awaitable | AsyncIterator):
            raise TraceError(
                f"jit: the result holds a {type(part).__name__}, of which a replay"
                " cannot make another one; return tensors, or sequences, mappings or"
                " data classes of them"
            )
        return part

    tree_map(result, look)
    for keys in _keys_of(result):
        if any(made(each) for each in _tensors_in(keys)):
            raise TraceError(
                "jit: the result holds a mapping with tensors for keys, of which a"
                " replay cannot make another one; let them be its values"
            )


def _keys_of(result: Any) -> Iterable[tuple[Any, ...]]:
    """Yield the keys of the mappings in a result."""
    if isinstance(result, Mapping):
        yield tuple(result)
    if isinstance(result, set | frozenset):
        yield tuple(result)
    if isinstance(result, tuple | list | set | frozenset | Mapping):
        for each in elements_of(result):
            yield from _keys_of(each)
    elif is_record(result):
        for each in own_attributes(result).values():
            yield from _keys_of(each)


def _tensors_in(part: Any) -> Iterable[Tensor]:
    """Yield the tensors that an object holds, at any depth."""
    todo, seen = [part], dict[int, Any]()
    while todo and len(seen) < MAX_SEARCHED_OBJECTS:
        each = todo.pop()
        if isinstance(each, Tensor):
            yield each
        elif id(each) not in seen and not isinstance(each, (*SIMPLE, ModuleType)):
            # Held, as another object could get the same `id`.
            seen[id(each)] = each
            todo += _parts_of(each)


def _parts_of(value: Any) -> list[Any]:
    """Return the children of an object, without calling its class."""
    parts = [*own_attributes(value).values()]
    if isinstance(value, np.ndarray):
        parts += list(value.ravel()) if value.dtype.hasobject else []
    elif isinstance(value, dict):
        parts += [*dict.keys(value), *dict.values(value)]
    elif isinstance(value, (tuple, list, set, frozenset, deque, *_VIEWS)):
        parts += list(value)
    elif isinstance(value, FunctionType):
        parts += map(read_cell, value.__closure__ or ())
        parts += [value.__defaults__, value.__kwdefaults__]
    elif isinstance(value, MethodType):
        parts += [value.__self__, value.__func__]
    elif isinstance(value, BuiltinMethodType):
        parts.append(value.__self__)
    elif isinstance(value, functools.partial):
        parts += [value.func, value.args, value.keywords]
    elif isinstance(value, BaseException):
        parts += value.args
    return parts
