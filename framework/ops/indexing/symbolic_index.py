"""Slices whose start is a symbolic number: rows that are copied, not views.

Used while a trace of `jit` runs; see `base.symbolic_number`. Each function answers None
where it cannot take the numbers as symbolic ones; their values are guarded then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base.dtype import int32
from ...base.shape import Shape
from ...base.symbolic_number import Key, SymbolTable, concrete, is_symbolic
from ...eager.base_tensor import TensorCore
from ..source import arange_like, fill_like
from ..view import reshape
from .gather import rows_of, take_rows

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


class SymbolicSlice(NamedTuple):
    """Slice of one dimension.

    Attributes
    ----------
    dim : int
        Of the view that the other indices choose.
    start : SymbolicInt
    length : int or None
        Number of neighbours; None for an index that drops the dimension.
    """

    dim: int
    start: Any
    length: int | None


class SymbolicIndex(NamedTuple):
    """Index in two steps.

    Attributes
    ----------
    static : tuple
        Index of a view, with all of each dimension that a symbolic slice is of.
    slices : list of SymbolicSlice
    place : Key
        Names what is chosen.
    """

    static: tuple[Any, ...]
    slices: list[SymbolicSlice]
    place: Key


def is_symbolic_index(index: object) -> bool:
    """Return whether an index has symbolic numbers."""
    entries = index if isinstance(index, tuple) else (index,)
    return any(
        is_symbolic(each)
        or (
            isinstance(each, slice)
            and (is_symbolic(each.start) or is_symbolic(each.stop))
        )
        for each in entries
    )


def symbolic_index(index: object, shape: Shape) -> SymbolicIndex | None:
    """Return an index with symbolic numbers in two steps."""
    entries = [
        each
        if each is None or each is Ellipsis or type(each) is int
        else _settled(each)
        for each in (index if isinstance(index, tuple) else (index,))
    ]
    if not all(_is_basic(each) for each in entries):
        return None
    consumed = sum(each is not None and each is not Ellipsis for each in entries)
    dots = sum(each is Ellipsis for each in entries)
    if consumed > len(shape) or dots > 1:
        return None
    if dots:
        at = [each is Ellipsis for each in entries].index(True)
        entries[at : at + 1] = [slice(None)] * (len(shape) - consumed)
    static: list[Any] = []
    slices: list[SymbolicSlice] = []
    source = dim = 0
    for entry in entries:
        found = None
        if is_symbolic(entry) or isinstance(entry, slice):
            found = _slice(entry, dim, shape[source])
            if found is None and is_symbolic_index(entry):
                return None
        static.append(slice(None) if found is not None else entry)
        if found is not None:
            slices.append(found)
        source += entry is not None
        dim += not isinstance(entry, int) or is_symbolic(entry)
    if not slices or not _table(slices).indexing:
        return None
    place = tuple(map(_name, entries))
    return SymbolicIndex(tuple(static), slices, place)


def index_with_arrays(index: object, x: Tensor) -> tuple[Any, ...] | None:
    """Return an index with arrays, and with tensors in place of its symbolic numbers.

    A tensor of one integer counts as an int; see `slice_`.
    """
    entries = [_settled(each) for each in (index if isinstance(index, tuple) else ())]
    arrays = [each for each in entries if isinstance(each, TensorCore | np.ndarray)]
    basic = all(
        is_symbolic(each) or not is_symbolic_index(each)
        for each in entries
        if not isinstance(each, list | TensorCore | np.ndarray)
    )
    if not arrays or not basic or any(isinstance(each, list) for each in entries):
        return None
    counts = [_consumed(each) for each in entries]
    rest, dim, made = x.ndim - sum(counts), 0, list[Any]()
    if rest < 0:
        return None
    for entry, count in zip(entries, counts):
        if is_symbolic(entry):
            found = _slice(entry, dim, x.layout.shape[dim])
            if found is None:
                return None
            entry = fill_like(x.detach(), (), found.start, int32)
        made.append(entry)
        dim += rest if entry is Ellipsis else count
    return tuple(made)


def _consumed(entry: Any) -> int:
    """Return the number of dimensions that an index consumes, but for Ellipsis."""
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, TensorCore | np.ndarray) and "bool" in str(entry.dtype):
        return entry.ndim
    return 1


def _settled(entry: Any) -> Any:
    """Return an index with symbolic numbers that are constants made plain."""
    if is_symbolic(entry):
        return entry.value if entry.plain else entry
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        return slice(*[_settled(each) if is_symbolic(each) else each for each in parts])
    return entry


def _is_basic(entry: Any) -> bool:
    kinds = (type(None), type(Ellipsis), slice)
    return is_symbolic(entry) or isinstance(entry, kinds) or type(entry) is int


def _slice(entry: Any, dim: int, size: int) -> SymbolicSlice | None:
    """Return the symbolic slice of an index, guarded to be within its dimension."""
    if is_symbolic(entry):
        if not isinstance(entry, int) or not (entry >= -size and entry < size):
            return None
        return SymbolicSlice(dim, entry + size if entry < 0 else entry, None)
    if not is_symbolic(entry.start) or entry.step not in (None, 1):
        return None
    if not isinstance(entry.start, int):
        return None
    count = (size if entry.stop is None else entry.stop) - entry.start
    if type(count) is not int or count < 0:
        return None
    if not (entry.start >= 0 and entry.start <= size - count):
        return None
    return SymbolicSlice(dim, entry.start, count)


def _name(entry: Any) -> Key:
    """Return the name of one index, equal for equal ones."""
    if is_symbolic(entry):
        return entry.key()
    if isinstance(entry, slice):
        return tuple(map(_name, (entry.start, entry.stop, entry.step)))
    return type(entry), entry


def _table(slices: list[SymbolicSlice]) -> SymbolTable:
    table: SymbolTable = slices[0].start.table
    return table


def symbolic_rows(x: Tensor, part: SymbolicSlice) -> Tensor:
    """Return a copy of what a symbolic slice chooses."""
    shape = x.layout.shape
    count = 1 if part.length is None else part.length
    index = arange_like(x.detach(), (count,), part.start, 1, int32)
    out = take_rows(rows_of(x, part.dim), index)
    kept = () if part.length is None else (count,)
    return reshape(out, (*shape[: part.dim], *kept, *shape[part.dim + 1 :]))


def taken_by_symbols(x: Tensor, view: Tensor, chosen: SymbolicIndex) -> Tensor:
    """Return what symbolic slices choose of the view by an index's other entries."""
    out = view
    for part in reversed(chosen.slices):
        out = symbolic_rows(out, part)
    _table(chosen.slices).copied(x.array, (x.layout, chosen.place), out.array)
    return out


def symbolic_narrow(x: Tensor, dim: int, start: Any, length: Any) -> Tensor | None:
    """Return a copy of neighbours along one dimension."""
    length = int(concrete(length))
    entries = (*[slice(None)] * dim, slice(start, start + length))
    chosen = symbolic_index(entries, x.layout.shape)
    return None if chosen is None else taken_by_symbols(x, x, chosen)


def written_places(
    x: Tensor, chosen: SymbolicIndex, value: object
) -> tuple[Any, ...] | None:
    """Return arrays that index the view, in place of the symbolic slices.

    None unless they are ints alone, or one slice alone. Reports that `value` is about
    to be written there.
    """
    slices = chosen.slices
    if len(slices) > 1 and any(each.length is not None for each in slices):
        return None
    entries: list[Any] = [slice(None)] * (max(each.dim for each in slices) + 1)
    like = x.detach()
    for part in slices:
        if part.length is None:
            entries[part.dim] = fill_like(like, (), part.start, int32)
        else:
            entries[part.dim] = arange_like(like, (part.length,), part.start, 1, int32)
    source = getattr(value, "array", None)
    place = x.layout, chosen.place
    _table(slices).written_back(x.array, place, source)
    return tuple(entries)
