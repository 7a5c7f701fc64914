"""Arguments as a traced function gets them, and what it changes of them."""

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
    remade,
    same,
    set_attribute,
)


class _Given(NamedTuple):
    """An argument or part of one.

    Attributes
    ----------
    place : str
        Which argument it belongs to.
    value : object
        The caller's.
    stand_in : object
        What the function gets; the same object unless it holds a tensor that is fed.
    content : list
        What it holds before the call.
    """

    place: str
    value: Any
    stand_in: Any
    content: list[Any]


class Passed:
    """Arguments with stand-ins for the tensors that are fed.

    What holds no such tensor is given as it is, and so is what counts by identity.

    Parameters
    ----------
    swap : callable
        Returns the stand-in of a tensor, or the tensor.
    """

    def __init__(self, swap: Callable[[Tensor], Tensor]) -> None:
        self._swap = swap
        self._place = ""
        self._given: dict[int, _Given] = {}
        self._callers: dict[int, Any] = {}

    def give(self, value: Any, place: str) -> Any:
        """Return an argument for the function."""
        self._place = place
        return self._give(value)

    def _give(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._noted(value, self._swap(value))
        if type(value) in PLAIN and isinstance(value, SIMPLE):
            return value
        known = self._given.get(id(value))
        if known is not None:
            return known.stand_in
        if not _is_open(value):
            return value
        made = self._noted(value, remade(value, self._give, always=False))
        given = _Given(self._place, value, made, _content(made))
        self._given[id(value)] = given
        return made

    def _noted(self, value: Any, made: Any) -> Any:
        self._callers[id(made)] = value
        return made

    def changed(self) -> str:
        """Return an argument that holds something else than before; empty if none."""
        for each in self._given.values():
            if not same(_content(each.stand_in), each.content):
                return f"argument {each.place}"
        return ""

    def hand_over(self) -> None:
        """Let the caller's objects hold what the function's stand-ins hold."""
        for _, value, made, content in tuple(self._given.values()):
            if value is made or same(_content(made), content):
                continue
            elements = [self.callers(each) for each in elements_of(made)]
            if isinstance(value, list):
                list.__setitem__(value, slice(None), elements)
            elif isinstance(value, dict):
                # The order of an OrderedDict is its own affair.
                kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
                kind.clear(value)
                kind.update(value, zip(made, elements))
            attributes = own_attributes(made)
            for name in own_attributes(value).keys() - attributes.keys():
                drop_attribute(value, name)
            for name, each in attributes.items():
                set_attribute(value, name, self.callers(each))

    def callers(self, value: Any) -> Any:
        """Return what the function holds with the caller's objects for stand-ins."""
        if id(value) in self._callers:
            return self._callers[id(value)]
        if isinstance(value, Tensor) or not _is_open(value):
            return value
        return remade(value, self.callers, always=False)


def _is_open(value: object) -> bool:
    """Whether a value counts by what it holds."""
    if isinstance(value, tuple | list | Mapping | np.void):
        return True
    return not isinstance(value, SIMPLE) and is_record(value)


def _content(value: Any) -> list[Any]:
    """Return what a container or record holds, to be compared."""
    if isinstance(value, np.void):
        return [value.tobytes()]
    found = [*value, None] if isinstance(value, Mapping) else []
    found += elements_of(value)
    for name, each in own_attributes(value).items():
        found += name, each
    return found
