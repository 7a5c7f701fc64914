"""Replayable functions: plain functions of tensors whose calls are recorded once.

What a composite op is to gradients, this is to the host alone: the ops that such a
function calls have gradient rules of their own, so that a call on the tape runs it. Any
other call whose nodes depend only on its tensors' layouts and dtypes, and on arguments
in its cache key, is recorded the second time and replayed from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from ..autograd.engine import grad_mode
from ..base import inference, modes, trace_hooks
from ..base.device import GpuDevice, on_device_removed
from ..base.recent_cache import RecentCache
from ..base.shape import Layout
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import NodeRecorder, RecordedCall, recorded_call_of
from ..ir.lazy_graph import CacheKey
from .call_cache import call_key

MOST_CALLS = 1024
"""Calls of a function that are in a generation of its cache."""

F = TypeVar("F", bound=Callable[..., Any])


class _CachedReplay(NamedTuple):
    """Cached call of a replayable function.

    Attributes
    ----------
    device : GpuDevice
        Of the tensors.
    generation : int
        Generation of the device when it was cached.
    layouts : tuple of Layout
        Of the tensors: the key names them by identity.
    seen : bool
        Whether the call was seen but once, and is not recorded yet.
    recorded_call : RecordedCall or None
        None if it cannot be replayed.
    results : type
        Of the answer, where that is a named tuple.
    """

    device: GpuDevice
    generation: int
    layouts: tuple[Layout, ...]
    seen: bool
    recorded_call: RecordedCall | None
    results: type


_Cache = RecentCache[CacheKey, _CachedReplay]


def replayable(function: F) -> F:
    """Decorate a function whose nodes depend on layouts, dtypes and arguments alone.

    It neither reads elements nor warns, and its other effects are those that traces are
    told of. What it wraps, as names that the graph shows, goes around it.
    """
    cache: _Cache = RecentCache(MOST_CALLS)
    on_device_removed(cache.clear)

    @functools.wraps(function)
    def replayed(*args: Any, **kwargs: Any) -> Any:
        if trace_hooks.running or modes.autocast_blocks:
            return function(*args, **kwargs)
        given = args
        if kwargs:
            for each in kwargs.items():
                given += each
        key, tensors = call_key(given)
        for tensor in tensors:
            if tensor.needs_grad and grad_mode.top.value:
                return function(*args, **kwargs)
        cached = cache[key]
        if cached is None or cached.generation != cached.device.generation:
            return _first(function, args, kwargs, (cache, key, tensors))
        recorded_call = cached.recorded_call
        if recorded_call is None:
            if not cached.seen or inference.blocks:
                return function(*args, **kwargs)
            return _second(function, args, kwargs, (cache, key, tensors))
        answer = recorded_call.replay(tensors)
        return answer if cached.results is tuple else cached.results(*answer)

    return cast(F, replayed)


def _first(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: tuple[_Cache, CacheKey, Sequence[TensorCore]],
) -> Any:
    """Return the answer of a call that was not seen before."""
    cache, key, tensors = call
    device = tensors[0].device if tensors else None
    plain = all([type(each.layout) is Layout for each in tensors])
    if not key or not plain or not isinstance(device, GpuDevice):
        return function(*args, **kwargs)
    generation = device.generation
    answer = function(*args, **kwargs)
    layouts = tuple([each.layout for each in tensors])
    cache.add(key, _CachedReplay(device, generation, layouts, True, None, tuple))
    return answer


def _second(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: tuple[_Cache, CacheKey, Sequence[TensorCore]],
) -> Any:
    """Return the answer of a call that was seen once; record it."""
    cache, key, tensors = call
    cached = cache[key]
    # Tensors that share a value may be distinct the next time.
    if cached is None or len({each.array.value for each in tensors}) < len(tensors):
        return function(*args, **kwargs)
    recorder = NodeRecorder(cached.device)
    with trace_hooks.listening(recorder):
        answer = function(*args, **kwargs)
    if isinstance(answer, TensorCore | tuple):
        found = recorded_call_of(recorder, cached.device, tensors, answer)
        results = type(answer) if isinstance(answer, tuple) else tuple
        cache.add(
            key, cached._replace(seen=False, recorded_call=found, results=results)
        )
    return answer
