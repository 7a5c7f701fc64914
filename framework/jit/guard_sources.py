"""Places that a traced function looked at, and whether they hold what they held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, eq, is_
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from ..ir.lazy_graph import Array, Value
from ..tensor.tensor import Tensor
from .pytree import alike

MISSING = object()
"""What a place holds where there is no such name."""

MOST_HELD = 100_000
"""Of a container with more, not everything can be compared before each replay."""

MOST_BYTES = 64 << 20
"""The same of an array."""

_content = attrgetter("cell_contents")
_code = attrgetter("__code__")
_defaults = attrgetter("__defaults__")
_order = attrgetter("__mro__")

MAPPINGS = (dict, MappingProxyType)

_Keys = tuple[object, ...] | None


class Places:
    """Rows of places and what was there; made by `Surroundings`.

    Attributes
    ----------
    reason : str
        Why no call can be told from the next by looking; empty if they can.
    """

    def __init__(self) -> None:
        self.reason = ""
        # Rows are told apart by what is the cheapest way to compare them.
        self._said: list[tuple[Mapping[str, Any], str, object]] = []
        self._arrays: list[tuple[np.ndarray, object, bytes]] = []
        self._on_host: list[tuple[Array, Value]] = []
        self._cells: list[tuple[str, CellType, object]] = []
        self._entries: list[tuple[Mapping[str, Any], str, object]] = []
        self._holders: list[tuple[Any, _Keys, tuple[object, ...]]] = []
        self._answers: list[tuple[str, Callable[[], object], object]] = []
        self._tensors: list[tuple[Tensor, bool, object, object]] = []
        self._plain: list[tuple[Tensor, bool, object, object]] = []
        self._functions: list[FunctionType] = []
        self._keyword_defaults: list[tuple[FunctionType, object]] = []
        self._kinds: dict[int, tuple[object, type]] = {}
        self._orders: dict[int, tuple[type, tuple[type, ...]]] = {}
        self._sizes: dict[int, Mapping[str, Any]] = {}

    def settle(self) -> None:
        """Put in rows what is compared the fastest so; call it once all is there."""
        self._contents = (
            [cell for _, cell, _ in self._cells],
            [value for _, _, value in self._cells],
        )
        self._bodies = (
            [_code(each) for each in self._functions],
            [_defaults(each) for each in self._functions],
        )
        self._keyword_defaults = [
            (each, each.__kwdefaults__)
            for each in self._functions
            if each.__code__.co_kwonlyargcount
        ]
        kinds, orders = self._kinds.values(), self._orders.values()
        self._objects = [each for each, _ in kinds], [kind for _, kind in kinds]
        self._bases = [each for each, _ in orders], [order for _, order in orders]
        spaces = list(self._sizes.values())
        self._lengths = spaces, [*map(len, spaces)]
        # Parameters say it when they no longer require a gradient; see `switched`.
        self._plain = [row for row in self._tensors if type(row[0]) is Tensor]

    def changed(self) -> bool:
        """Return whether any place holds something else by now."""
        # Mostly it is the same object; that is found out before anything is called.
        if not self._same_cells() and self._changed_cell():
            return True
        for mapping, name, value in self._entries:
            found = mapping.get(name, MISSING)
            if found is not value and not alike(found, value):
                return True
        spaces, lengths = self._lengths
        if spaces and not all(map(eq, map(len, spaces), lengths)):
            return True
        for holder, keys, held in self._holders:
            if not _holds(holder, keys, held):
                return True
        codes, defaults = self._bodies
        if not all(map(is_, map(_code, self._functions), codes)):
            return True
        if not all(map(is_, map(_defaults, self._functions), defaults)):
            return True
        for function, default in self._keyword_defaults:
            if function.__kwdefaults__ is not default:
                return True
        objects, kinds = self._objects
        if objects and not all(map(is_, map(type, objects), kinds)):
            return True
        classes, orders = self._bases
        if classes and not all(map(is_, map(_order, classes), orders)):
            return True
        if (self._arrays or self._on_host or self._answers) and self._changed_content():
            return True
        return any([leaf.requires_grad is not flag for leaf, flag, _, _ in self._plain])

    def found(self) -> str:
        """Return the name of a place that holds something else; empty if none does."""
        if found := self._changed_cell():
            return found
        for mapping, name, value in (*self._entries, *self._said):
            if not _unchanged(mapping.get(name, MISSING), value):
                return f"`{name}`"
        for holder, keys, held in self._holders:
            if not _holds(holder, keys, held):
                return f"what a {type(holder).__name__} holds"
        for function, code, default in zip(self._functions, *self._bodies):
            if _code(function) is not code or _defaults(function) is not default:
                return f"`{function.__name__}`"
        for function, keyword_default in self._keyword_defaults:
            if function.__kwdefaults__ is not keyword_default:
                return f"`{function.__name__}`"
        for value, kind in self._kinds.values():
            if type(value) is not kind:
                return f"the class of a {kind.__name__}"
        for kind, order in self._orders.values():
            if _order(kind) is not order:
                return f"the bases of {kind.__name__}"
        return self._changed_content() or self._changed_size()

    def _changed_size(self) -> str:
        for space, length in zip(*self._lengths):
            if len(space) != length:
                return f"which attributes there are beside {_some(space)}"
        return ""

    def _same_cells(self) -> bool:
        """Return whether variables of closures hold the very same objects."""
        cells, values = self._contents
        try:
            return all(map(is_, map(_content, cells), values))
        except ValueError:
            return False

    def _changed_cell(self) -> str:
        for name, cell, value in self._cells:
            if not _unchanged(content(cell), value):
                return f"`{name}`"
        return ""

    def _changed_content(self) -> str:
        """Return what is not the same, of what is more than an entry."""
        for array, form, held in self._arrays:
            if form_of(array) != form or array.tobytes() != held:
                return "what an array holds"
        for storage, value in self._on_host:
            if storage.value is not value:
                return "what a tensor on the host holds"
        for name, ask, answer in self._answers:
            if not _equal(ask(), answer):
                return f"`{name}`"
        return ""

    def switched(self) -> bool:
        """Return whether a tensor has another flag, other hooks or another storage.

        Or a module another attribute: both count as a change of the structure.
        """
        for mapping, name, value in self._said:
            if not _unchanged(mapping.get(name, MISSING), value):
                return True
        return any(
            leaf.requires_grad is not flag
            or leaf.hooks is not hooks
            or leaf.array is not array
            for leaf, flag, hooks, array in self._tensors
        )

    def add(self, mapping: Mapping[str, Any], name: str) -> None:
        """Look at one more place."""
        self._entries.append((mapping, name, mapping.get(name, MISSING)))

    def hold(self, holder: list[Any]) -> None:
        """Look at what one more list holds."""
        self._holders.append((holder, None, tuple(holder)))

    def knows(self, value: object) -> bool:
        """Return whether an array or container was there, and is looked at."""
        if isinstance(value, Tensor):
            return any(row[0] is value.array for row in self._on_host)
        if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
            return self.knows(value.base)
        return any(row[0] is value for row in (*self._arrays, *self._holders))

    def ask(self, name: str, ask: Callable[[], object]) -> object:
        """Look at what a function answers, and return that."""
        answer = ask()
        if not _equal(ask(), answer):
            self.reason = f"`{name}` is another object whenever it is asked for"
        self._answers.append((name, ask, answer))
        return answer


def form_of(array: np.ndarray) -> tuple[object, ...]:
    """Return what can be set of an array beside its elements."""
    return array.shape, array.strides, array.dtype, array.flags.writeable


def content(cell: CellType) -> object:
    """Return what a variable of a closure holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _some(space: Mapping[str, Any]) -> str:
    """Return the name of an attribute."""
    return next((f"`{name}`" for name in space if name[:2] != "__"), "none")


def _holds(holder: Any, keys: _Keys, held: tuple[object, ...]) -> bool:
    """Whether a container holds what it held."""
    if len(holder) != len(held):
        return False
    if keys is not None and not all(map(is_, holder, keys)):
        # 1 and True are equal, and so may be objects of which one has changed.
        if not all(map(_equal, holder, keys)):
            return False
    found = holder if keys is None else holder.values()
    return all(map(is_, found, held)) or all(map(_unchanged, found, held))


def _unchanged(found: object, expected: object) -> bool:
    return found is expected or alike(found, expected)


def _equal(found: object, expected: object) -> bool:
    """Whether two answers are the same object, number or text, or tuples of such."""
    if issubclass(type(found), tuple) and issubclass(type(expected), tuple):
        assert isinstance(found, tuple)
        assert isinstance(expected, tuple)
        return len(found) == len(expected) and all(map(_equal, found, expected))
    return _unchanged(found, expected)
