"""In-place mutation: rebinding of a storage to a new value, seen by all its views.

Values are never written again once they are computed; a change in place computes a new
one and rebinds the storage to it. So what autograd saved, and what is still pending,
keeps the elements it was made with, and two storages may share one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import ops
from ..autograd.engine import grad_mode, no_grad
from ..autograd.tape import show_as
from ..autograd.views import (
    DATA,
    UNRECORDED,
    changes_of_data,
    check_overwrite,
    check_view,
    inherit_mark,
)
from ..base import inference, trace_hooks
from ..base.dtype import can_cast, float32
from ..base.errors import DeviceMismatchError, DomainError, DTypeError, ShapeError
from ..base.modes import autocast_disabled
from ..base.philox import Generator
from ..base.shape import Layout, broadcast_shapes
from ..base.symbolic_number import live
from ..dispatch import batching
from ..eager.base_tensor import TensorCore, operand
from ..ir.lazy_graph import Array
from ..ops.elementwise.cast import need_float, need_numbers
from ..ops.indexing import getitem
from ..ops.indexing.symbolic_index import (
    index_with_arrays,
    is_symbolic_index,
    symbolic_index,
    written_places,
)
from .overlap import refuse_partial_overlap
from .overwrite import record_overwrite

if TYPE_CHECKING:
    from .tensor import Tensor


def assign(x: Tensor, source: Tensor | float) -> Tensor:
    """Replace the elements of `x`, which may be a view, and return it.

    Recorded on the tape if either requires a gradient, for `x` and all its views.

    Parameters
    ----------
    x : Tensor
        What to change.
    source : Tensor or number
        New elements; broadcast, moved and cast to `x`.

    Raises
    ------
    GradError
        If gradients are being recorded and `x`, or a tensor that it is a view of, is a
        leaf that requires one.
    ShapeError
        If `source` does not broadcast to the shape of `x`, or elements of `x` share
        memory with each other.
    """
    if batching.has_rules:
        rules = batching.in_place_rules(x, source)
        if rules is not None:
            return cast("Tensor", rules.assign(x, source))
    if isinstance(source, TensorCore):
        if source.array is x.array and source.layout == x.layout:
            return x  # as x[index] += 1 ends
        recorded = _is_recorded(x, source)
        dtypes = source.array.value.dtype, x.array.value.dtype
        if source.device is not x.device or dtypes[0] is not dtypes[1]:
            source = source.to(x.device).to(x.dtype)
        return _replace(x, source, recorded, made=False)
    recorded = _is_recorded(x)
    with no_grad():
        new = ops.fill_like(x, x.shape, source, x.dtype)
    return _replace(x, new, recorded, made=False)


def _is_recorded(x: Tensor, *others: object) -> bool:
    """Return whether a change of `x` is to be recorded; check that it may be."""
    if inference.used:
        inference.check_change(x.array)
    if not grad_mode.top.value:
        return False
    if x.grad_index == UNRECORDED:
        check_view(x)
    found = x.needs_grad
    for each in others:
        found = found or (isinstance(each, TensorCore) and each.needs_grad)
    if found:
        check_overwrite(x)
    return found


def _replace(x: Tensor, new: Tensor, recorded: bool, *, made: bool) -> Tensor:
    """Replace the elements of `x`, on the tape if so; see `record_overwrite`."""
    shape = x.layout.shape
    if new.layout.shape != shape:
        if broadcast_shapes("in place", shape, new.shape) != shape:
            raise ShapeError(
                f"in place: the result has shape {tuple(new.shape)};"
                f" it does not fit into {tuple(shape)}"
            )
        new = ops.expand(new, shape)
    if 0 not in shape:
        # Or what another thread writes elsewhere in the storage would be lost.
        with x.device.lock:
            new_array = _storage(x, new).array
            uncounted = x.grad_index == DATA and not trace_hooks.running
            version = x.array.version if uncounted else 0
            value = new_array.value
            x.array.rebind(value)
            # What it is taken from may have been changed, and that been dropped.
            while value is not new_array.value:
                value = new_array.value
                x.array.rebind(value)
            if uncounted:
                x.array.version = version
                changes_of_data(x)[0] += 1
    if recorded:
        record_overwrite(x, new, made=made)
    return x


def transaction(change: Callable[[], object], undo: Callable[[], object]) -> None:
    """Make a change as a transaction: rolled back on an error or interrupt.

    Parameters
    ----------
    change : callable
        Without arguments.
    undo : callable
        May be called at any stage of the change, and twice.
    """
    try:
        change()
    except BaseException:
        # The second time in case that an interrupt ends the first.
        try:
            undo()
        finally:
            undo()
        raise


def restorer(tensors: Iterable[Tensor]) -> Callable[[], None]:
    """Return a callable that restores a snapshot of tensors; it may be repeated."""
    listed: list[Any] = list(tensors)
    wrappers = [(each, each.detach()) for each in listed if each.is_wrapper]
    saved = [
        (each.array, Array.sharing(each.array))
        for each in listed
        if not each.is_wrapper
    ]

    def restore() -> None:
        for wrapper, before in wrappers:
            wrapper.data = before
        for array, kept in saved:
            if array.value is not kept.value:
                array.rebind(kept.value)

    return restore


def change(
    x: Tensor, op: Callable[..., Tensor], *operands: Any, **options: Any
) -> Tensor:
    """Apply an op to `x` in place, and return it.

    Other threads do not change it meanwhile.

    Raises
    ------
    DTypeError
        If the result has fractions where `x` has none, or numbers where it has bools.
    DeviceMismatchError
        If an operand is on another device, and not a zero-dimensional one of the host.
    GradError
        As `assign`.
    ShapeError
        As `assign`; or if an operand shares a part of the memory of `x`, but not all.
    """
    others = [operand(x, y) if isinstance(y, np.ndarray) else y for y in operands]
    if batching.has_rules:
        rules = batching.in_place_rules(x, *others, *options.values())
        if rules is not None:
            return cast("Tensor", rules.change(x, op, tuple(others), options))
    recorded = _is_recorded(x, *others, *options.values())
    for each in others:
        if isinstance(each, TensorCore) and each.array is x.array:
            refuse_partial_overlap("in place", x, (each,))
    with x.device.lock:
        # Of a storage of its own, which the tape may save: `x` itself is overwritten.
        target = x.alias() if recorded else x.detach()
        with autocast_disabled():
            new = op(target, *others, **options)
        if new.device is not x.device:
            raise DeviceMismatchError(
                f"in place: the result is on {new.device}, the tensor on {x.device};"
                " move one with .to()"
            )
        if not can_cast(new.dtype, x.dtype):
            raise DTypeError(
                f"in place: the result is {new.dtype.name}, which {x.dtype.name} does"
                " not hold; write x = f(x), or cast the tensor first"
            )
        return _replace(x, new.to(x.dtype), recorded, made=new is not target)


def _storage(x: Tensor, new: Tensor) -> Tensor:
    """Return the whole storage of `x` with its elements replaced by `new`."""
    numel, layout = x.array.value.numel, x.layout
    if layout.numel == numel and layout.is_contiguous:
        whole = new.array.value.numel == numel
        if whole and (new.layout is layout or new.layout.is_contiguous):
            return new
        with no_grad():
            new = new.contiguous()
            return new if new.array.value.numel == numel else new.clone()
    with no_grad():
        flat: Tensor = ops.strided_scatter(
            x.view_of(Layout.contiguous((numel,))), new, layout
        )
    return flat


def set_item(x: Tensor, index: object, value: Tensor | float) -> None:
    """Replace the elements of `x` that an index chooses; see `ops.slice_`.

    A mask with one value, or with values that broadcast along what it chooses, needs
    no host; otherwise the number of its true elements is read, which waits for it.
    Where integers name one element several times, the last value wins, or on a GPU, of
    1 Mi or more of single elements, any: see `use_deterministic_algorithms`. The
    value's leading dimensions of size 1 may be more than what is chosen has.

    Raises
    ------
    GradError, ShapeError
        As `assign`.
    IndexRangeError
        If an index is out of range: a tensor's on a device by the next read, see
        `set_index_checks`, and any other at once.
    """
    if batching.has_rules:
        entries = index if isinstance(index, tuple) else (index,)
        rules = batching.in_place_rules(x, value, *entries)
        if rules is not None:
            rules.set_item(x, index, value)
            return
    if isinstance(value, TensorCore) and value.layout.shape[:1] == (1,):
        value = _without_leading_ones(value)
    if live and is_symbolic_index(index):
        symbolic = symbolic_index(index, x.layout.shape)
        places = None if symbolic is None else written_places(x, symbolic, value)
        if symbolic is not None and places is not None:
            set_item(ops.slice_(x, symbolic.static), places, value)
            return
        index = index_with_arrays(index, x) or index
    chosen = getitem.region(index, x.shape)
    recorded = _is_recorded(x, value)
    whole = x if recorded else x.detach()
    if x.grad_index == DATA:
        inherit_mark(whole, x)
    view = getitem.slice_of(whole, chosen)
    if not chosen.arrays and not chosen.flips:
        assign(view, value)
        return
    if isinstance(value, TensorCore):
        new = value.to(x.device).to(x.dtype)
    else:
        new = ops.fill_like(x.detach(), (), value, x.dtype)
    with x.device.lock:
        before = view.alias() if recorded else view
        after = getitem.updated(before, chosen, new)
        if recorded:
            show_as(after, "IndexPutBackward0", before, new)
        _replace(view, after, recorded, made=True)


def _without_leading_ones(value: Tensor) -> Tensor:
    """Return a value, which broadcasts as before, without leading sizes of 1."""
    shape = value.layout.shape
    first = next((dim for dim, size in enumerate(shape) if size != 1), len(shape))
    return ops.reshape(value, shape[first:])


def fill_uniform(
    x: Tensor, low: float, high: float, generator: Generator | None = None
) -> Tensor:
    """Replace the elements by draws from [low, high) and return `x`.

    Raises
    ------
    ShapeError
        If `low` is above `high`.
    """
    if low > high:
        raise ShapeError(
            f"uniform_: low is {low}, high {high}; low must not be above high"
        )
    return assign(x, _drawn(ops.draw_uniform, x, generator) * (high - low) + low)


def fill_normal(
    x: Tensor, mean: float, std: float, generator: Generator | None = None
) -> Tensor:
    """Replace the elements by normal draws and return `x`.

    Raises
    ------
    ShapeError
        If `std` is below 0.
    """
    if std < 0:
        raise ShapeError(f"normal_: std is {std}; it must be at least 0")
    return assign(x, _drawn(ops.draw_normal, x, generator) * std + mean)


def fill_exponential(
    x: Tensor, lambd: float, generator: Generator | None = None
) -> Tensor:
    """Replace the elements by draws of mean 1 / `lambd` and return `x`.

    Raises
    ------
    DomainError
        If `lambd` is not above 0.
    """
    if not lambd > 0:
        raise DomainError(f"exponential_: lambd is {lambd!r}; it must be above 0")
    drawn = _drawn(ops.draw_exponential, x, generator)
    return assign(x, drawn if lambd == 1 else drawn * (1.0 / lambd))


def fill_bernoulli(
    x: Tensor, p: Tensor | float, generator: Generator | None = None
) -> Tensor:
    """Replace the elements by 1 with probability `p`, otherwise 0, and return `x`.

    Raises
    ------
    ShapeError
        If `p` is a number that is not from 0 to 1.
    """
    if isinstance(p, int | float) and not 0 <= p <= 1:
        raise ShapeError(f"bernoulli_: p is {p}; it must be from 0 to 1")
    if isinstance(p, TensorCore):
        need_float("bernoulli_", p=p)
        if p.is_cpu:
            found = p.host_view()
            good = (found >= 0) & (found <= 1)
            need_numbers("bernoulli_", p, good, "probabilities are from 0 to 1")
    return assign(x, ops.draw_uniform(x.detach(), x.shape, float32, generator) < p)


def fill_integers(
    x: Tensor, low: int = 0, high: int | None = None, generator: Generator | None = None
) -> Tensor:
    """Replace the elements by integers from [low, high) and return `x`.

    `high` None means one more than the largest that the dtype holds, a float exactly,
    or the largest int64.
    """
    if high is None:
        whole = {"float16": 11, "bfloat16": 8, "float32": 24}.get(x.dtype.name, 53)
        most = 1 << whole if x.dtype.is_float else x.dtype.limits[1]
        high = min(most + 1, (1 << 63) - 1)
    like = x.detach()
    return assign(x, ops.draw_integers(like, x.shape, low, high, x.dtype, generator))


def _drawn(
    draw: Callable[..., Tensor], x: Tensor, generator: Generator | None
) -> Tensor:
    return draw(x.detach(), x.shape, x.dtype, generator)
