"""Guard sources: the locations that a traced function read, with their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, eq, is_
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from ..ir.derived_storage import source_of
from ..ir.lazy_graph import Array, Value
from ..tensor.tensor import Tensor
from .pytree import alike

MISSING = object()
"""Value of a source whose name is absent."""

MAX_CONTAINER_ELEMENTS = 100_000
"""Elements of a container that can be compared before each replay, at most."""

MAX_ARRAY_BYTES = 64 << 20
"""Bytes of an array that can be compared before each replay, at most."""

_content = attrgetter("cell_contents")
_code = attrgetter("__code__")
_defaults = attrgetter("__defaults__")
_order = attrgetter("__mro__")

MAPPINGS = (dict, MappingProxyType)

_Keys = tuple[object, ...] | None


class GuardSources:
    """Table of guard sources and their expected values; filled by `Guards`.

    Attributes
    ----------
    reason : str
        Why the state cannot be guarded; empty if it can.
    """

    def __init__(self) -> None:
        self.reason = ""
        # Grouped by the cheapest way to compare them.
        self._reported: list[tuple[Mapping[str, Any], str, object]] = []
        self._arrays: list[tuple[np.ndarray, object, bytes]] = []
        self._on_host: list[tuple[Array, Value]] = []
        self._cells: list[tuple[str, CellType, object]] = []
        self._entries: list[tuple[Mapping[str, Any], str, object]] = []
        self._containers: list[tuple[Any, _Keys, tuple[object, ...]]] = []
        self._probes: list[tuple[str, Callable[[], object], object]] = []
        self._tensors: list[tuple[Tensor, bool, object, Array]] = []
        self._plain_tensors: list[tuple[Tensor, bool, object, Array]] = []
        self._functions: list[FunctionType] = []
        self._keyword_defaults: list[tuple[FunctionType, object]] = []
        self._types: dict[int, tuple[object, type]] = {}
        self._mros: dict[int, tuple[type, tuple[type, ...]]] = {}
        self._attribute_counts: dict[int, Mapping[str, Any]] = {}

    def freeze(self) -> None:
        """Build the columns that are compared the fastest; call it once complete."""
        self._contents = (
            [cell for _, cell, _ in self._cells],
            [value for _, _, value in self._cells],
        )
        self._code_and_defaults = (
            [_code(each) for each in self._functions],
            [_defaults(each) for each in self._functions],
        )
        self._keyword_defaults = [
            (each, each.__kwdefaults__)
            for each in self._functions
            if each.__code__.co_kwonlyargcount
        ]
        kinds, orders = self._types.values(), self._mros.values()
        self._objects = [each for each, _ in kinds], [kind for _, kind in kinds]
        self._bases = [each for each, _ in orders], [order for _, order in orders]
        spaces = list(self._attribute_counts.values())
        self._lengths = spaces, [*map(len, spaces)]
        # Parameters report a change of `requires_grad`; see `structure_differs`.
        self._plain_tensors = [row for row in self._tensors if type(row[0]) is Tensor]

    def changed(self) -> bool:
        """Return whether any guard fails."""
        # Mostly it is the same object: compare identities before calling anything.
        if not self._same_cells() and self._changed_cell():
            return True
        for mapping, name, value in self._entries:
            found = mapping.get(name, MISSING)
            if found is not value and not alike(found, value):
                return True
        spaces, lengths = self._lengths
        if spaces and not all(map(eq, map(len, spaces), lengths)):
            return True
        for container, keys, held in self._containers:
            if not _container_matches(container, keys, held):
                return True
        codes, defaults = self._code_and_defaults
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
        if (self._arrays or self._on_host or self._probes) and self._changed_content():
            return True
        return any(
            [leaf.needs_grad is not flag for leaf, flag, _, _ in self._plain_tensors]
        )

    def failed_guard(self) -> str:
        """Return the name of a source whose guard fails; empty if none."""
        if found := self._changed_cell():
            return found
        for mapping, name, value in (*self._entries, *self._reported):
            if not _unchanged(mapping.get(name, MISSING), value):
                return f"`{name}`"
        for container, keys, held in self._containers:
            if not _container_matches(container, keys, held):
                return f"what a {type(container).__name__} holds"
        for function, code, default in zip(self._functions, *self._code_and_defaults):
            if _code(function) is not code or _defaults(function) is not default:
                return f"`{function.__name__}`"
        for function, keyword_default in self._keyword_defaults:
            if function.__kwdefaults__ is not keyword_default:
                return f"`{function.__name__}`"
        for value, kind in self._types.values():
            if type(value) is not kind:
                return f"the class of a {kind.__name__}"
        for kind, order in self._mros.values():
            if _order(kind) is not order:
                return f"the bases of {kind.__name__}"
        return self._changed_content() or self._changed_size()

    def _changed_size(self) -> str:
        for space, length in zip(*self._lengths):
            if len(space) != length:
                return f"which attributes there are beside {_first_name(space)}"
        return ""

    def _same_cells(self) -> bool:
        """Return whether closure variables hold the very same objects."""
        cells, values = self._contents
        try:
            return all(map(is_, map(_content, cells), values))
        except ValueError:
            return False

    def _changed_cell(self) -> str:
        for name, cell, value in self._cells:
            if not _unchanged(read_cell(cell), value):
                return f"`{name}`"
        return ""

    def _changed_content(self) -> str:
        """Return the failing guard among arrays, host tensors and probes."""
        for array, form, held in self._arrays:
            if array_header(array) != form or array.tobytes() != held:
                return "what an array holds"
        for storage, value in self._on_host:
            if storage.value is not value:
                return "what a tensor on the host holds"
        for name, probe, answer in self._probes:
            if not _equal(probe(), answer):
                return f"`{name}`"
        return ""

    def structure_differs(self) -> bool:
        """Return whether a structure guard fails.

        Those are of tensors' `requires_grad`, hooks and storage, and of modules'
        attributes.
        """
        for mapping, name, value in self._reported:
            if not _unchanged(mapping.get(name, MISSING), value):
                return True
        return any(
            leaf.needs_grad is not flag
            or leaf.hooks is not hooks
            or leaf.array is not array
            for leaf, flag, hooks, array in self._tensors
        )

    def storages(self) -> list[Array]:
        """Return the storages of the guarded tensors."""
        return [source_of(array) for _, _, _, array in self._tensors]

    def add(self, mapping: Mapping[str, Any], name: str) -> None:
        """Guard one more mapping entry."""
        self._entries.append((mapping, name, mapping.get(name, MISSING)))

    def guard_list(self, container: list[Any]) -> None:
        """Guard the elements of one more list."""
        self._containers.append((container, None, tuple(container)))

    def is_guarded(self, value: object) -> bool:
        """Return whether an array or container is guarded."""
        if isinstance(value, Tensor):
            return any(row[0] is value.array for row in self._on_host)
        if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
            return self.is_guarded(value.base)
        return any(row[0] is value for row in (*self._arrays, *self._containers))

    def probe(self, name: str, probe: Callable[[], object]) -> object:
        """Guard the result of a function, and return that."""
        answer = probe()
        if not _equal(probe(), answer):
            self.reason = f"`{name}` is another object whenever it is asked for"
        self._probes.append((name, probe, answer))
        return answer


def array_header(array: np.ndarray) -> tuple[object, ...]:
    """Return an array's shape, strides, dtype and writeable flag."""
    return array.shape, array.strides, array.dtype, array.flags.writeable


def read_cell(cell: CellType) -> object:
    """Return the value of a closure variable, `MISSING` if it is unset."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _first_name(space: Mapping[str, Any]) -> str:
    """Return the name of the first attribute that is not special."""
    return next((f"`{name}`" for name in space if name[:2] != "__"), "none")


def _container_matches(container: Any, keys: _Keys, held: tuple[object, ...]) -> bool:
    """Whether a container has the expected elements."""
    if len(container) != len(held):
        return False
    if keys is not None and not all(map(is_, container, keys)):
        # 1 and True are equal, and so may be objects of which one has changed.
        if not all(map(_equal, container, keys)):
            return False
    found = container if keys is None else container.values()
    return all(map(is_, found, held)) or all(map(_unchanged, found, held))


def _unchanged(found: object, expected: object) -> bool:
    return found is expected or alike(found, expected)


def _equal(found: object, expected: object) -> bool:
    """Whether two values are the same object, number or string, or tuples of such."""
    if issubclass(type(found), tuple) and issubclass(type(expected), tuple):
        assert isinstance(found, tuple)
        assert isinstance(expected, tuple)
        return len(found) == len(expected) and all(map(_equal, found, expected))
    return _unchanged(found, expected)
