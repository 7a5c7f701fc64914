"""Outputs of a traced function: a template with slots for replayed tensors."""

from __future__ import annotations

import copy
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
from functools import partial
from operator import itemgetter
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


def slot_filler(result: Any) -> Callable[[list[Tensor]], Any]:
    """Return a function from tensors to a result with its slots filled by them.

    Lists, tuples and dictionaries, the results of most steps, are filled directly. No
    closure calls itself: such a cycle would hold the tensors, and with them the memory
    that replays recycle, until the garbage collector runs.
    """
    kind = type(result)
    if kind is Slot:
        return itemgetter(result.number)
    if kind in (list, tuple) and all(type(each) is Slot for each in result):
        numbers = [each.number for each in result]
        if kind is list:
            return lambda tensors: [tensors[number] for number in numbers]
        return lambda tensors: tuple([tensors[number] for number in numbers])
    if kind in (list, tuple, dict):
        parts = [slot_filler(each) for each in elements_of(result)]
        if kind is dict:
            keys = list(result)
            return lambda tensors: {
                key: fill(tensors) for key, fill in zip(keys, parts)
            }
        return lambda tensors: kind([fill(tensors) for fill in parts])
    return lambda tensors: tree_map(result, partial(_filled, tensors))


def fill_slots(result: Any, tensors: list[Tensor]) -> Any:
    """Return a result with its slots filled by tensors, once; see `slot_filler`."""
    return slot_filler(result)(tensors)


def _filled(tensors: list[Tensor], part: Any) -> Any:
    """Return what stands for a leaf of a result."""
    if type(part) is Slot:
        return tensors[part.number]
    if type(part) is WrapperSlot:
        return part.made(partial(_filled, tensors))
    return part.made() if type(part) in (Copied, NumberSlot) else part


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
    elif isinstance(value, partial):
        parts += [value.func, value.args, value.keywords]
    elif isinstance(value, BaseException):
        parts += value.args
    return parts
