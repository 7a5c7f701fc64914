"""Indexing, basic and advanced: ints, slices, None, Ellipsis, arrays, masks.

An index is located in two steps: a view by slices, whose dimensions are those of the
slices, the new ones, and those that arrays are about; then the arrays, as one index of
rows. `inplace.set_item` writes through the same two.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as, shown_as
from ...base.dtype import bool_
from ...base.errors import DTypeError, IndexDTypeError, IndexRangeError, ShapeError
from ...base.index_checks import UNCHECKED
from ...base.shape import Shape, broadcast_shapes
from ...base.symbolic_number import live
from ...dispatch.autocast_policy import autocast_promote
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import add, mul
from ..elementwise.compare import lt, minimum, ne, where
from ..movement.rearrange import flip
from ..movement.slice import normalize_index, slices
from ..view import expand, flatten, movedim, permute, reshape
from .gather import add_rows, put_rows, take_rows
from .masked import flatnonzero, masked_elements
from .row_index import NO_ROW, checked_rows, flat_offsets
from .shown_views import ShownViews
from .symbolic_index import (
    index_with_arrays,
    is_symbolic_index,
    symbolic_index,
    taken_by_symbols,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...tensor.tensor import Tensor


class Region(NamedTuple):
    """Normalised index: its slices, and the dimensions of its arrays.

    Attributes
    ----------
    starts, steps, sizes : Shape
        A slice of each dimension, with steps above 0.
    shape : Shape
        The same without dropped dimensions and with new ones.
    flips : tuple of int
        Dimensions of `shape` to reverse.
    arrays : tuple of (int, array or Tensor)
        Dimension of `shape`, and what indexes it: integers, or bools for as many
        dimensions as they have.
    dims : Shape
        Dimension of the tensor that each array indexes first.
    apart : bool
        Whether something other than an int stands between the arrays, so that their
        dimensions come first.
    """

    starts: Shape
    steps: Shape
    sizes: Shape
    shape: Shape
    flips: tuple[int, ...] = ()
    arrays: tuple[tuple[int, Any], ...] = ()
    dims: Shape = ()
    apart: bool = False


def region(index: object, shape: Shape) -> Region:
    """Return the normalised form of an index into a tensor.

    Raises
    ------
    ShapeError
        If there are more indices than dimensions, one is out of range, a slice has a
        step of 0, a mask has another shape, or an index is of another kind.
    """
    entries = [
        _entry(each) for each in (index if isinstance(index, tuple) else (index,))
    ]
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise ShapeError("index: only one Ellipsis is possible")
    consumed = sum(map(_consumed, entries))
    if consumed > len(shape):
        raise IndexRangeError(
            f"index: {consumed} indices for a tensor of shape {tuple(shape)}"
        )
    if not any(entry is Ellipsis for entry in entries):
        entries.append(Ellipsis)
    walk = _Walk(shape)
    for entry in entries:
        if entry is Ellipsis:
            walk.skip(len(shape) - consumed)
        else:
            walk.add(entry)
    return walk.region()


def _basic(index: Any) -> tuple[Any, ...] | None:
    """Return an index of ints, slices, None and Ellipsis, hashable; None for others."""
    key: list[Any] = []
    for each in index if type(index) is tuple else (index,):
        kind = type(each)
        if kind is int or each is None or each is Ellipsis:
            key.append(each)
            continue
        if kind is not slice:
            return None
        parts = each.start, each.stop, each.step
        if not _BOUNDS.issuperset(map(type, parts)):
            return None
        key.append(parts)
    return tuple(key)


_BOUNDS = frozenset({int, type(None)})


@functools.lru_cache(maxsize=4096)
def _basic_region(basic: tuple[Any, ...], shape: Shape) -> Region:
    """Return the region of an index, from what `_basic` makes of it."""
    index = [slice(*each) if type(each) is tuple else each for each in basic]
    return region(tuple(index), shape)


def _entry(index: Any) -> Any:
    """Return an index as an int, a slice, None, Ellipsis, or an array."""
    entry = index
    if isinstance(entry, list | tuple | range):
        array = np.asarray(entry)
        entry = array.astype(np.int64) if array.size == 0 else array
    if isinstance(entry, np.ndarray) and entry.ndim == 0 and entry.dtype.kind in "iu":
        return int(entry)
    if isinstance(entry, np.ndarray | TensorCore):
        name = entry.dtype.name
        if name == "uint8":  # a mask, as in PyTorch
            return entry.astype(bool) if isinstance(entry, np.ndarray) else ne(index, 0)
        if name == "bool" or name.startswith(("int", "uint")):
            return entry
        raise IndexDTypeError(
            f"index: an array is {name}; it must be of integers or bools"
        )
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if not hasattr(entry, "__index__"):
        refused = TypeError if isinstance(entry, str | bytes) else IndexRangeError
        raise refused(
            f"index: {entry!r} cannot index; ints, slices, None, Ellipsis and arrays of"
            " integers or bools can"
        )
    return int(entry.__index__())


def _is_mask(entry: Any) -> bool:
    return entry.dtype is bool_ or entry.dtype == np.bool_


def _is_place(entry: Any) -> bool:
    """Return whether an index is an array of one integer, which counts as an int."""
    if not isinstance(entry, np.ndarray | TensorCore):
        return False
    return entry.ndim == 0 and not _is_mask(entry)


def _consumed(entry: Any) -> int:
    """Return the number of dimensions that an index consumes."""
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, np.ndarray | TensorCore) and _is_mask(entry):
        return entry.ndim
    return 1


class _Walk:
    """Builder of a `Region`, index by index over the dimensions of a tensor."""

    def __init__(self, shape: Shape) -> None:
        self.whole = shape
        self.slices: list[tuple[int, int, int]] = []
        self.shape: list[int] = []
        self.flips: list[int] = []
        self.arrays: list[tuple[int, Any]] = []
        self.dims: list[int] = []
        self.kinds: list[bool] = []

    def skip(self, dims: int) -> None:
        """Keep dimensions whole."""
        for _ in range(dims):
            self.add(slice(None))
        if not dims:
            self.kinds.append(False)

    def add(self, entry: Any) -> None:
        """Apply one index that is not Ellipsis."""
        dim = len(self.slices)
        if not isinstance(entry, int) and not _is_place(entry):
            self.kinds.append(entry is not None and not isinstance(entry, slice))
        if entry is None:
            self.shape.append(1)
        elif isinstance(entry, slice):
            start, step, size = _positive(entry, self.whole[dim])
            if step < 0:
                self.flips.append(len(self.shape))
                start, step = start + (size - 1) * step if size else 0, -step
            self.slices.append((start, step, size))
            self.shape.append(size)
        elif isinstance(entry, int):
            place = normalize_index("index", entry, dim, self.whole)
            self.slices.append((place, 1, 1))
        else:
            self._array(entry, dim)

    def _array(self, entry: Any, dim: int) -> None:
        self.dims.append(dim)
        if _is_mask(entry) and entry.ndim == 0:
            # It chooses from a new dimension of one.
            self.arrays.append((len(self.shape), entry.reshape((1,))))
            self.shape.append(1)
            return
        self.arrays.append((len(self.shape), entry))
        sizes = tuple(self.whole[dim : dim + _consumed(entry)])
        if _is_mask(entry):
            if tuple(entry.shape) != sizes:
                raise IndexRangeError(
                    f"index: a mask is {tuple(entry.shape)} for dimensions of sizes"
                    f" {sizes}; they must be equal"
                )
        elif isinstance(entry, np.ndarray):
            checked_rows(entry, self.whole[dim], _site(dim), from_end=True)
        self.slices.extend((0, 1, size) for size in sizes)
        self.shape.extend(sizes)

    def region(self) -> Region:
        """Return the region."""
        starts, steps, sizes = zip(*self.slices) if self.slices else ((), (), ())
        first = self.kinds.index(True) if True in self.kinds else 0
        last = len(self.kinds) - self.kinds[::-1].index(True) if any(self.kinds) else 0
        return Region(
            tuple(starts),
            tuple(steps),
            tuple(sizes),
            tuple(self.shape),
            tuple(self.flips),
            tuple(self.arrays),
            tuple(self.dims),
            not all(self.kinds[first:last]),
        )


def _positive(entry: slice, size: int) -> tuple[int, int, int]:
    """Return start, step and number of elements of a slice."""
    if entry.step == 0:
        raise ShapeError("index: the step is 0; it must be another number")
    start, stop, step = entry.indices(size)
    count = len(range(start, stop, step))
    # A step from one element to none may be of any size.
    return start, step if count > 1 else (1 if step > 0 else -1), count


def _site(dim: int) -> str:
    """Return the index site of an array; see `base.index_checks`."""
    return f"index: dimension {dim}"


def slice_of(x: Tensor, chosen: Region) -> Tensor:
    """Return the view that the slices of an index choose, not reversed."""
    return reshape(slices(x, chosen.starts, chosen.steps, chosen.sizes), chosen.shape)


class Rows(NamedTuple):
    """Row index made of the arrays of an index.

    Attributes
    ----------
    dims : tuple of int
        The view's dimensions in the order (outer, indexed, inner).
    outer : int
        Number of dimensions before the indexed ones.
    indexed : int
        Number of indexed dimensions.
    places : Tensor
        The index, of any shape.
    target : int
        Where the dimensions of the index go in the result.
    site : str
        The index site of the places.
    """

    dims: tuple[int, ...]
    outer: int
    indexed: int
    places: Tensor
    target: int
    site: str


def rows_of_arrays(view: Tensor, chosen: Region) -> Rows:
    """Return the advanced-indexing rows of the view by an index's slices.

    The number of true elements of a mask on a device is read by the host.
    """
    dims: list[int] = []
    flat: list[Tensor] = []
    sizes: list[int] = []
    sites: list[str] = []
    for first, (dim, array) in zip(chosen.dims, chosen.arrays):
        # The host has checked its own arrays, and places of true elements are good.
        known = isinstance(array, np.ndarray) or _is_mask(array)
        sites.append(UNCHECKED if known else _site(first))
        covered = list(range(dim, dim + _consumed(array)))
        dims += covered
        sizes.append(math.prod(view.layout.shape[each] for each in covered))
        flat.append(_integers(view, array))
    if chosen.apart:
        together = dims == list(range(dims[0], dims[0] + len(dims)))
        outer = list(range(dims[0])) if together else []
    else:
        listed = [dim for dim, array in chosen.arrays if not _is_place(array)]
        first = listed[0] if listed else dims[0]
        outer = [dim for dim in range(first) if dim not in dims]
    rest = [
        dim
        for dim in range(len(view.layout.shape))
        if dim not in dims and dim not in outer
    ]
    order = (*outer, *dims, *rest)
    target = 0 if chosen.apart else len(outer)
    places = _combined(flat, sizes, sites)
    site = sites[0] if len(sites) == 1 else UNCHECKED
    return Rows(order, len(outer), len(dims), places, target, site)


def _integers(view: Tensor, array: Any) -> Tensor:
    """Return an array as integer indices on the device of `view`."""
    if isinstance(array, np.ndarray):
        if _is_mask(array):
            array = np.flatnonzero(array).astype(np.int32)
        return type(view).from_host(array, view.device)
    # Where the mask is: on the meta device nothing could be counted.
    index: Tensor = flatnonzero(array) if _is_mask(array) else array
    return index.to(view.device)


def _combined(indices: list[Tensor], sizes: list[int], sites: list[str]) -> Tensor:
    """Return several indices ravelled into one index of flat rows."""
    if len(indices) == 1:
        return indices[0]
    shape = broadcast_shapes("index", *(index.shape for index in indices))
    total, least = None, None
    for index, size, site in zip(indices, sizes, sites):
        place = expand(reshape(_row(index, size, site), index.shape), shape)
        total = place if total is None else add(mul(total, size), place)
        least = place if least is None else minimum(least, place)
    assert total is not None
    assert least is not None
    return where(lt(least, 0), NO_ROW, total)


def _row(index: Tensor, size: int, site: str) -> Tensor:
    return flat_offsets(flatten(index), size, site, from_end=True)


def taken(view: Tensor, rows: Rows) -> Tensor:
    """Return the elements of a view that rows choose."""
    moved = permute(view, rows.dims)
    dims = rows.outer, rows.outer + rows.indexed
    out = take_rows(moved, flatten(rows.places), rows.site, True, dims)
    return from_rows(out, moved.shape, rows)


def _in_rows(moved: Tensor, rows: Rows) -> Tensor:
    """Return (outer, rows, inner) of a tensor whose dimensions are in that order."""
    first, last = rows.outer, rows.outer + rows.indexed
    sizes = (
        moved.layout.shape[:first],
        moved.layout.shape[first:last],
        moved.layout.shape[last:],
    )
    return reshape(moved, tuple(map(math.prod, sizes)))


def from_rows(out: Tensor, sizes: Shape, rows: Rows) -> Tensor:
    """Return (outer, entries, inner) in the order that the index asks for."""
    first, last = rows.outer, rows.outer + rows.indexed
    out = reshape(out, (*sizes[:first], *rows.places.shape, *sizes[last:]))
    count = rows.places.ndim
    if rows.target == first:
        return out
    return movedim(out, list(range(first, first + count)), list(range(count)))


def replaced(
    view: Tensor,
    rows: Rows,
    value: Tensor,
    write: Callable[[Tensor, Tensor, Tensor, str, bool], Tensor] = put_rows,
) -> Tensor:
    """Return a view's elements with those that rows choose taken from `value`.

    `value` broadcasts to the shape of the elements chosen; `write` may add it instead.
    """
    moved = permute(view, rows.dims)
    first, last = rows.outer, rows.outer + rows.indexed
    outer, inner = moved.shape[:first], moved.shape[last:]
    inside = rows.places.shape
    ahead = (*inside, *outer) if rows.target != first else (*outer, *inside)
    wanted = (*ahead, *inner)
    if broadcast_shapes("index", value.layout.shape, wanted) != wanted:
        raise ShapeError(
            f"index: a value of shape {tuple(value.shape)} does not fit into {wanted}"
        )
    value = expand(value, wanted)
    if rows.target != first:
        count = len(inside)
        value = movedim(value, list(range(count)), list(range(first, first + count)))
    source = reshape(value, (math.prod(outer), math.prod(inside), math.prod(inner)))
    out = write(_in_rows(moved, rows), flatten(rows.places), source, rows.site, True)
    back = tuple(int(dim) for dim in np.argsort(rows.dims))
    return permute(reshape(out, moved.shape), back)


def updated(view: Tensor, chosen: Region, value: Tensor) -> Tensor:
    """Return the view by an index's slices with the elements chosen replaced."""
    view = flip(view, chosen.flips) if chosen.flips else view
    if not chosen.arrays:
        out = expand(value, view.layout.shape)
    else:
        masked = _masked(view, chosen, value)
        if masked is None:
            masked = replaced(view, rows_of_arrays(view, chosen), value)
        out = masked
    return flip(out, chosen.flips) if chosen.flips else out


def _masked(view: Tensor, chosen: Region, value: Tensor) -> Tensor | None:
    """Return the view with a mask's elements replaced, if the value broadcasts."""
    (dim, mask), *others = chosen.arrays
    if others or not _is_mask(mask):
        return None
    inner = view.layout.shape[dim + mask.ndim :]
    at = len(value.layout.shape) - len(inner) - 1
    if at >= 0 and value.layout.shape[at] != 1:
        return None
    if at >= 0:
        sizes = (
            *value.layout.shape[:at],
            *[1] * mask.ndim,
            *value.layout.shape[at + 1 :],
        )
        value = reshape(value, sizes)
    if isinstance(mask, np.ndarray):
        mask = type(view).from_host(mask, view.device)
    mask = reshape(mask.to(view.device), (*mask.shape, *[1] * len(inner)))
    if (
        broadcast_shapes("index", value.layout.shape, view.layout.shape)
        != view.layout.shape
    ):
        return None
    return where(mask, value, view)


def _are_integers(entries: Sequence[Any]) -> bool:
    """Return whether an index is of tensors of integers alone, of dimensions each."""
    for entry in entries:
        if not isinstance(entry, TensorCore) or _is_mask(entry):
            return False
        if len(entry.layout.shape) == 0:
            return False
    return len(entries) > 0


def _divided(index: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Tensor]]:
    """Return an index with marks in place of its tensors of integers, and these.

    Both are empty where a part is neither basic nor a tensor of integers.
    """
    parts: list[Any] = []
    arrays: list[Any] = []
    for entry in index:
        if isinstance(entry, TensorCore):
            if not _are_integers((entry,)):
                return (), []
            arrays.append(entry)
            parts.append("tensor")
        elif type(entry) is slice:
            parts.append((entry.start, entry.stop, entry.step))
        elif entry is Ellipsis:
            parts.append("...")
        elif entry is None or type(entry) is int:
            parts.append(entry)
        else:
            return (), []
    return tuple(parts), arrays


@replayable
def _elements_by(x: Tensor, parts: tuple[Any, ...], *arrays: Tensor) -> Tensor:
    """Return the elements that an index chooses, given as `_divided` returns it."""
    left = iter(arrays)
    index: list[Any] = []
    for part in parts:
        if type(part) is tuple:
            index.append(slice(*part))
        elif part == "tensor":
            index.append(next(left))
        else:
            index.append(Ellipsis if part == "..." else part)
    chosen = region(tuple(index), x.layout.shape)
    view = slice_of(x, chosen)
    if chosen.flips:
        view = flip(view, chosen.flips)
    return taken(view, rows_of_arrays(view, chosen))


@replayable
def _put_at(x: Tensor, values: Tensor, accumulate: bool, *indices: Tensor) -> Tensor:
    """Return `x` with the elements that tensors of integers choose replaced."""
    chosen = region(indices, x.layout.shape)
    if not accumulate:
        return updated(x, chosen, values)
    return replaced(x, rows_of_arrays(x, chosen), values, add_rows)


def slice_(x: Tensor, index: object) -> Tensor:
    """Return the elements that an index chooses: a view if it has no arrays.

    Parameters
    ----------
    x : Tensor
    index : int, slice, None, Ellipsis, array, or a tuple of these
        As in NumPy. Arrays are tensors, NumPy arrays or lists, of integers that
        broadcast together, or of bools in the shape of the dimensions they are for. A
        slice with a step below 0 gives a copy.

    Returns
    -------
    Tensor
        Dimensions of arrays are where the arrays stand, or first if something stands
        between two of them. An int beside arrays is applied first, as in PyTorch and
        unlike in NumPy: `x[0, :, [0, 1]]` of shape (2, 3, 4) is `x[0][:, [0, 1]]`, of
        shape (3, 2).
        The number of true elements of a bool tensor is read by the host, which waits
        for it.

    Raises
    ------
    ShapeError
        If the index does not fit the shape; see `region`.
    IndexRangeError
        If an index is out of range: a tensor's on a device by the next read, see
        `set_index_checks`, and any other at once.
    """
    shape = x.layout.shape
    if live and is_symbolic_index(index):
        symbolic = symbolic_index(index, shape)
        if symbolic is not None:
            return taken_by_symbols(x, slice_(x, symbolic.static), symbolic)
        index = index_with_arrays(index, x) or index
    basic = None if isinstance(index, TensorCore) else _basic(index)
    if basic is None:
        parts, arrays = _divided(index if type(index) is tuple else (index,))
        taped = x.requires_grad and is_grad_enabled()
        # The graph shows views before the arrays, of which a replay keeps none.
        if arrays and (len(arrays) == len(parts) or not taped):
            out = _elements_by(x, parts, *arrays)
            if out.grad_node is not None:
                show_as(out, "IndexBackward0", x)
            return out
    chosen = region(index, shape) if basic is None else _basic_region(basic, shape)
    view = slice_of(x, chosen)
    if chosen.flips:
        view = flip(view, chosen.flips)
    if not chosen.arrays:
        if view.grad_node is not None and (index is None or type(index) is int):
            name = "UnsqueezeBackward0" if index is None else "SelectBackward0"
            show_as(view, name, x)
        elif view.grad_node is not None and type(index) is tuple:
            view.grad_node.shown = ShownViews(index, x, slice_)
        return view
    mask = _whole_mask(view, chosen)
    if mask is None:
        out = taken(view, rows_of_arrays(view, chosen))
    else:
        out = masked_elements(view, mask)
    if out.grad_node is not None:
        views = None if view is x else _views_before(index, x)
        if views is not None and view.grad_node is not None:
            view.grad_node.shown = views
        show_as(out, "IndexBackward0", x if views is None else view)
    return out


def _whole_mask(view: Tensor, chosen: Region) -> Tensor | None:
    """Return the mask of all dimensions that is the only array of an index, if any."""
    found: Any
    (_, found), *others = chosen.arrays
    if others or not isinstance(found, TensorCore) or not _is_mask(found):
        return None
    mask: Any = found
    alike = mask.layout.shape == view.layout.shape and mask.device == view.device
    return mask if alike else None


def _views_before(index: Any, x: Tensor) -> ShownViews | None:
    """Return what the graph shows of an index before its arrays, if there is more."""
    if type(index) is not tuple or all(isinstance(e, TensorCore) for e in index):
        return None
    parts: list[Any] = []
    for each in index:
        part = _entry(each)
        basic = part is None or part is Ellipsis or isinstance(part, int | slice)
        parts += [part] if basic else [slice(None)] * _consumed(part)
    shown = ShownViews(tuple(parts), x, slice_)
    return shown if shown.steps() else None


@autocast_promote
@shown_as("IndexPutBackward0", "x", "values")
def index_put(
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """Return `x` with the elements that arrays choose replaced, or added to.

    Parameters
    ----------
    x : Tensor
    indices : sequence of Tensor or None
        Integers that broadcast together, or bools, for the first dimensions; None takes
        one whole. Out of range as in `scatter`.
    values : Tensor of the dtype of `x`
        Broadcasts to the shape of `x[indices]`.
    accumulate : bool, default False
        Add all that go to one place; otherwise the last wins, or on a GPU, of 1 Mi or
        more single elements, any: see `use_deterministic_algorithms`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    DTypeError
        If the dtypes differ.
    """
    entries = [slice(None) if each is None else each for each in indices]
    arrays = [each for each in entries if isinstance(each, TensorCore)]
    if not arrays or any(isinstance(each, int) for each in entries):
        raise ShapeError(
            f"index_put: indices are {indices}; they must be tensors or None, and one"
            " a tensor"
        )
    if values.dtype is not x.dtype:
        raise DTypeError(
            f"index_put: values are {values.dtype.name}, x {x.dtype.name}; they must be"
            " the same"
        )
    if _are_integers(entries):
        return _put_at(x, values, accumulate, *arrays)
    chosen = region(tuple(entries), x.layout.shape)
    if not accumulate:
        return updated(x, chosen, values)
    return replaced(x, rows_of_arrays(x, chosen), values, add_rows)
