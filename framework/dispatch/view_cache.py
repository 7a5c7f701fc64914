"""Views that functions return, found by their calls.

Which part of a storage a view shows depends only on the layout of its operand and on
the other arguments. A function that `caches_views` decorates is called the first time,
and then its views are made at once, several of them together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast
from weakref import ref

from ..autograd import saved_tensors
from ..autograd.engine import grad_mode
from ..autograd.recorded_tape import RecordedTape, recorded_tape_of_views
from ..autograd.tape import GradNode, next_sequence
from ..autograd.views import UNRECORDED, inherit_mark, prune
from ..base import trace_hooks
from ..base.shape import Layout, Size, interned
from ..eager.base_tensor import TensorCore
from . import batching
from .call_cache import CallCache

P = ParamSpec("P")
R = TypeVar("R")

_new = object.__new__
_MISSING: Any = object()
_INTEGERS = frozenset({int})
_BOUNDS = frozenset({int, type(None)})
_SHAPES = frozenset({tuple, Size})


def view_of(tensor: Any, layout: Layout, differentiable: bool) -> Any:
    """Return a view of a tensor's storage, which in-place changes of either reach.

    Nothing is recorded of it on the tape.

    Parameters
    ----------
    tensor : Tensor
    layout : Layout
        Of the view.
    differentiable : bool
        Whether its dtype has gradients.
    """
    # Inlines `assembled`, as views are many.
    out: Any = _new(tensor.results)
    out.array = tensor.array
    out.layout = layout
    out.device = tensor.device
    out.needs_grad = False
    out.own_grad = None
    out.grad_node = None
    out.grad_index = 0
    out.hooks = None
    if differentiable and grad_mode.top.value:
        # Inlines `register_view`, too.
        views = tensor.views
        if views is None:
            tensor.views = views = [ref(tensor)]
        elif not len(views) & 31:
            prune(views)
        out.views = views
        views.append(ref(out))
    else:
        out.views = None
        if tensor.needs_grad:
            out.grad_index = UNRECORDED
    if tensor.grad_index < 0 and not tensor.needs_grad:
        inherit_mark(out, tensor)
    return out


def _views_of(tensor: Any, layouts: tuple[Layout, ...], differentiable: bool) -> Any:
    """Return several views of a tensor's storage; see `view_of`."""
    kind, array, device = tensor.results, tensor.array, tensor.device
    views = None
    if differentiable and grad_mode.top.value:
        views = tensor.views
        if views is None:
            tensor.views = views = [ref(tensor)]
    made = []
    for layout in layouts:
        # Inlines `view_of`, as views are many.
        out: Any = _new(kind)
        out.array = array
        out.layout = layout
        out.device = device
        out.needs_grad = False
        out.own_grad = None
        out.grad_node = None
        out.grad_index = 0
        out.hooks = None
        out.views = views
        if views is not None:
            if not len(views) & 31:
                prune(views)
            views.append(ref(out))
        made.append(out)
    if tensor.needs_grad:
        for each in made if views is None else ():
            each.grad_index = UNRECORDED
    elif tensor.grad_index < 0:
        for each in made:
            inherit_mark(each, tensor)
    return made


class _CachedViews(NamedTuple):
    """Cached call of a function of views.

    Attributes
    ----------
    only : Layout or None
        Of its view, where it returns one.
    several : tuple of Layout
        Of its views, one or more; empty where it returns its argument.
    differentiable : bool
        Whether the dtype has gradients.
    layout : Layout
        Of the operand: the key names it by identity.
    tape : RecordedTape or None
        Of a call on the tape.
    tries : int
        Calls that have no such record.
    """

    only: Layout | None
    several: tuple[Layout, ...]
    differentiable: bool
    layout: Layout
    tape: RecordedTape | None = None
    tries: int = 0

    def taped(self, x: Any) -> Any:
        """Return the views, on the tape, of a tensor that requires a gradient."""
        tape = self.tape
        assert tape is not None
        if self.only is not None:
            out = view_of(x, self.only, True)
            tape.put_on((out,), (x,), (x.array,))
            return out
        outs = tuple(_views_of(x, self.several, True))
        tape.put_on(outs, (x,), (x.array,))
        return outs

    def with_tape(self, x: Any, result: Any, start: int) -> _CachedViews:
        """Return it with the tape of a call, if that is like the cached one."""
        views = result if isinstance(result, tuple) else (result,)
        alike = len(views) == len(self.several) and all(
            [
                each.array is x.array and each.layout == layout
                for each, layout in zip(views, self.several)
            ]
        )
        tape = recorded_tape_of_views(x, views, start) if alike else None
        return self._replace(tape=tape, tries=self.tries + 1)


MOST_TRIES = 3
"""Calls on the tape after which no other is recorded: the first make cache entries."""


def caches_views(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose results are views of its first argument.

    Calls with the layout and the arguments of an earlier one do not call the function
    again; where a gradient is recorded, their tape entries are made again. Its own are
    calls with other arguments than ints, None, Ellipsis, and slices and sequences of
    these, those within traces on the tape, and all whose results are neither the
    operand nor views of its storage, or are of more of that than the operand is.
    """
    cache: CallCache[_CachedViews] = CallCache()
    find = cache.get

    @functools.wraps(function)
    def call(x: Any = _MISSING, /, *given: Any, **kwargs: Any) -> Any:
        rest: tuple[object, ...] | None = given
        for each in given:
            kind = type(each)
            if kind is not int and (
                kind not in _SHAPES or not _INTEGERS.issuperset(map(type, each))
            ):
                rest = _plain(given)
                break
        if kwargs and rest is not None:
            rest = _plain((*rest, None, *kwargs.values(), *map(_Name, kwargs)))
        try:
            found = find((id(x.layout), x.array.value.dtype, rest))
        except AttributeError:  # The function says what is wrong.
            args = () if x is _MISSING else (x, *given)
            return function(*args, **kwargs)
        if found is None:
            result = function(x, *given, **kwargs)
            entry = None if rest is None else _entry(x, result)
            if entry is not None:
                cache.add((id(x.layout), x.array.value.dtype, rest), entry)
            return result
        only, several, differentiable, _, tape, tries = found
        if x.needs_grad and several and (grad_mode.top.value or x.grad_index < 0):
            # Inlines `is_plain_tape`, as it runs once per view.
            if (
                trace_hooks.running
                or x.grad_index < 0
                or saved_tensors.make_node is not GradNode
                or batching.depth
                or x.array.version < 0
            ):
                return function(x, *given, **kwargs)
            if tape is not None:
                return found.taped(x)
            start = next_sequence()
            result = function(x, *given, **kwargs)
            if tries < MOST_TRIES:
                entry = found.with_tape(x, result, start)
                cache.add((id(x.layout), x.array.value.dtype, rest), entry)
            return result
        if only is not None:
            return view_of(x, only, differentiable)
        return tuple(_views_of(x, several, differentiable)) if several else x

    _uncached[call] = function
    return cast(Callable[P, R], call)


_uncached: dict[Callable[..., Any], Callable[..., Any]] = {}


def uncached(function: Callable[P, R]) -> Callable[P, R] | None:
    """Return the function that `caches_views` has decorated; None if it has not."""
    return _uncached.get(function)


class _Name(str):
    """Name of a keyword in a key: no argument is equal to it."""

    __slots__ = ()


def _plain(arguments: tuple[object, ...]) -> tuple[object, ...] | None:
    """Return arguments as a key has them; None if one may differ each time."""
    key: list[object] = []
    for each in arguments:
        kind = type(each)
        if kind is int or each is None or each is Ellipsis or kind is _Name:
            key.append(each)
        elif kind is list and _INTEGERS.issuperset(map(type, each)):  # type: ignore[call-overload]  # a list
            key.append((list, *each))  # type: ignore[misc]  # a list
        elif isinstance(each, slice):
            bounds = each.start, each.stop, each.step
            if not _BOUNDS.issuperset(map(type, bounds)):
                return None
            key.append((slice, *bounds))
        elif kind is tuple or kind is list or kind is Size:
            parts = _plain(tuple(each))  # type: ignore[arg-type]  # a sequence
            if parts is None:
                return None
            # As an index, a list is another thing than a tuple.
            key.append((list, *parts) if kind is list else parts)
        else:
            return None
    return tuple(key)


def _reach(layout: Layout) -> tuple[int, int]:
    """Return the first and the last element of a storage that a layout has."""
    steps = [(n - 1) * step for n, step in zip(layout.shape, layout.strides)]
    below = sum(step for step in steps if step < 0)
    return layout.offset + below, layout.offset + sum(steps) - below


def _entry(x: Any, result: Any) -> _CachedViews | None:
    """Return what is cached of a call; None if a result is no view of the storage."""
    several = result if isinstance(result, tuple) else (result,)
    # A batched tensor has a layout of its own, and its views are batched.
    if batching.depth or not isinstance(x, TensorCore) or x.is_wrapper or not several:
        return None
    if result is x:
        return _CachedViews(None, (), False, x.layout)
    for each in several:
        if (
            not isinstance(each, TensorCore)
            or each is x
            or each.is_wrapper
            or each.array is not x.array
        ):
            return None
    layouts = tuple([interned(each.layout) for each in several])
    # Of tensors with the operand's layout some have a storage that ends where they do.
    first, last = _reach(x.layout)
    for layout in layouts:
        start, end = _reach(layout)
        if layout.numel and not first <= start <= end <= last:
            return None
    return _CachedViews(
        None if several is result else layouts[0],
        layouts,
        x.dtype.is_differentiable,
        x.layout,
    )
