"""Traced arguments: stand-ins for a call's arguments, and their mutations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..tensor.tensor import Tensor
from .pytree import (
    PLAIN,
    SIMPLE,
    drop_attribute,
    elements_of,
    is_record,
    own_attributes,
    rebuild,
    same,
    set_attribute,
)


class _TracedArgument(NamedTuple):
    """An argument or part of one.

    Attributes
    ----------
    place : str
        Name of its argument.
    value : object
        The caller's object.
    stand_in : object
        The function's object; the same unless it holds a graph input.
    content : list
        Its children before the call.
    """

    place: str
    value: Any
    stand_in: Any
    content: list[Any]


class TracedArguments:
    """Arguments with stand-ins for graph inputs.

    Objects without such a tensor are passed as they are, and so are those that count by
    identity.

    Parameters
    ----------
    swap : callable
        Returns the stand-in of a tensor, or the tensor.
    """

    def __init__(self, swap: Callable[[Tensor], Tensor]) -> None:
        self._swap = swap
        self._place = ""
        self._arguments: dict[int, _TracedArgument] = {}
        self._caller_values: dict[int, Any] = {}

    def substitute(self, value: Any, place: str) -> Any:
        """Return an argument for the function."""
        self._place = place
        return self._substitute(value)

    def _substitute(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            wrapper: Any = value
            made = wrapper.mapped(self._swap) if value.is_wrapper else self._swap(value)
            return self._register(value, made)
        if type(value) in PLAIN and isinstance(value, SIMPLE):
            return value
        known = self._arguments.get(id(value))
        if known is not None:
            return known.stand_in
        if not _is_structural(value):
            return value
        made = self._register(value, rebuild(value, self._substitute, always=False))
        given = _TracedArgument(self._place, value, made, _content(made))
        self._arguments[id(value)] = given
        return made

    def _register(self, value: Any, made: Any) -> Any:
        self._caller_values[id(made)] = value
        return made

    def changed(self) -> str:
        """Return the name of a mutated argument; empty if none."""
        for each in self._arguments.values():
            if not same(_content(each.stand_in), each.content):
                return f"argument {each.place}"
        return ""

    def write_back(self) -> None:
        """Write mutations of stand-ins back to the caller's objects."""
        for _, value, made, content in tuple(self._arguments.values()):
            if value is made or same(_content(made), content):
                continue
            elements = [self.caller_value(each) for each in elements_of(made)]
            if isinstance(value, list):
                list.__setitem__(value, slice(None), elements)
            elif isinstance(value, dict):
                # An OrderedDict keeps its order apart from dict's.
                kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
                kind.clear(value)
                kind.update(value, zip(made, elements))
            attributes = own_attributes(made)
            for name in own_attributes(value).keys() - attributes.keys():
                drop_attribute(value, name)
            for name, each in attributes.items():
                set_attribute(value, name, self.caller_value(each))

    def caller_value(self, value: Any) -> Any:
        """Return a value of the function with the caller's objects for stand-ins."""
        if id(value) in self._caller_values:
            return self._caller_values[id(value)]
        if isinstance(value, Tensor) or not _is_structural(value):
            return value
        return rebuild(value, self.caller_value, always=False)


def _is_structural(value: object) -> bool:
    """Whether a value is compared by structure."""
    if isinstance(value, tuple | list | Mapping | np.void):
        return True
    return not isinstance(value, SIMPLE) and is_record(value)


def _content(value: Any) -> list[Any]:
    """Return the children of a container or record, to be compared."""
    if isinstance(value, np.void):
        return [value.tobytes()]
    found = [*value, None] if isinstance(value, Mapping) else []
    found += elements_of(value)
    for name, each in own_attributes(value).items():
        found += name, each
    return found
