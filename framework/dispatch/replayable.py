"""Replayable functions: plain functions of tensors whose calls are recorded once.

What a composite op is to gradients, this is to the host alone: the ops that such a
function calls have gradient rules of their own. A call whose nodes depend only on its
tensors' layouts and dtypes, and on arguments in its cache key, is recorded the second
time and replayed from then on, with its tape entries where there are any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from ..autograd import saved_tensors
from ..autograd.engine import grad_mode
from ..autograd.recorded_tape import RecordedTape, recorded_tape_of
from ..autograd.tape import GradNode, next_sequence
from ..base import inference, modes, trace_hooks
from ..base.device import GpuDevice, on_device_removed
from ..base.recent_cache import RecentCache
from ..base.shape import Layout
from ..codegen.ir.reductions import SMALL
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import NodeRecorder, RecordedCall, recorded_call_of
from ..ir.lazy_graph import CacheKey, Value
from . import batching
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
    tape : RecordedTape or None
        Of a call on the tape.
    results : type
        Of the answer, where that is a named tuple.
    """

    device: GpuDevice
    generation: int
    layouts: tuple[Layout, ...]
    seen: bool
    recorded_call: RecordedCall | None
    tape: RecordedTape | None
    results: type


_Cache = RecentCache[CacheKey, _CachedReplay]


def replayable(function: F) -> F:
    """Decorate a function whose nodes depend on layouts, dtypes and arguments alone.

    And on whether an element-wise op is about to make a large tensor, which reductions
    compute on the way. It neither reads elements nor warns, and its other effects are
    those that traces are told of. What it wraps, as names that the graph shows, goes
    around it.
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
        if len(set(map(id, tensors))) < len(tensors):
            # As of self-attention: a replay is given each once.
            tensors = list({id(each): each for each in tensors}.values())
            places = {id(each): at for at, each in enumerate(tensors)}
            key = key and (*key, tuple([places.get(id(each)) for each in given]))
        for tensor in tensors:
            if tensor.needs_grad and grad_mode.top.value:
                if not _is_plain_tape(tensors):
                    return function(*args, **kwargs)
                key = key and (*key, tuple([each.needs_grad for each in tensors]))
                break
        for tensor in tensors:
            value = tensor.array.value
            if value.node is not None and value.numel > SMALL:
                key = key and (*key, *map(_is_about_to_be_made, tensors))
                break
        cached = cache[key]
        if cached is None or cached.generation != cached.device.generation:
            return _first(function, args, kwargs, (cache, key, tensors))
        recorded_call = cached.recorded_call
        if recorded_call is None:
            if not cached.seen or inference.blocks:
                return function(*args, **kwargs)
            return _second(function, args, kwargs, (cache, key, tensors))
        if cached.tape is not None:
            outputs = cached.tape.replay(recorded_call, tensors)
            answer = outputs[0] if recorded_call.single else tuple(outputs)
        else:
            answer = recorded_call.replay(tensors)
        return answer if cached.results is tuple else cached.results(*answer)

    return cast(F, replayed)


def _is_about_to_be_made(tensor: TensorCore) -> bool:
    """Return whether an element-wise op is about to make a large tensor."""
    value = tensor.array.value
    node = value.node
    return node is not None and node.op.is_elementwise and value.numel > SMALL


def _is_plain_tape(tensors: Sequence[TensorCore]) -> bool:
    """Return whether tape entries are those of every call on such tensors."""
    return (
        saved_tensors.make_node is GradNode
        and not batching.depth
        and all([each.array.version >= 0 for each in tensors])
    )


def _first(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: tuple[_Cache, CacheKey, Sequence[TensorCore]],
) -> Any:
    """Return the answer of a call that was not seen before."""
    cache, key, tensors = call
    device = tensors[0].device if tensors else None
    plain = all(
        [type(each.layout) is Layout and each.device is device for each in tensors]
    )
    if not key or not plain or not isinstance(device, GpuDevice):
        return function(*args, **kwargs)
    generation = device.generation
    answer = function(*args, **kwargs)
    layouts = tuple([each.layout for each in tensors])
    cache.add(key, _CachedReplay(device, generation, layouts, True, None, None, tuple))
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
    start = next_sequence()
    with trace_hooks.listening(recorder):
        answer = function(*args, **kwargs)
    recorded = cached._replace(seen=False)
    if isinstance(answer, TensorCore | tuple):
        recorded = _recorded(recorded, recorder, tensors, answer, start)
    cache.add(key, recorded)
    return answer


def _recorded(
    cached: _CachedReplay,
    recorder: NodeRecorder,
    tensors: Sequence[TensorCore],
    answer: Any,
    start: int,
) -> _CachedReplay:
    """Return the entry of a call that was recorded; it may be one not to replay."""
    outputs = answer if isinstance(answer, tuple) else (answer,)
    if not all([isinstance(each, TensorCore) for each in outputs]):
        return cached
    numbers: dict[Value, int] | None = None
    if any([each.needs_grad for each in outputs]):
        numbers = {}
    call = recorded_call_of(recorder, cached.device, tensors, answer, numbers)
    if call is None:
        return cached
    results = type(answer) if isinstance(answer, tuple) else tuple
    if numbers is None:
        return cached._replace(recorded_call=call, results=results)
    tape = recorded_tape_of(tensors, outputs, numbers, start)
    if tape is None:
        return cached
    return cached._replace(recorded_call=call, tape=tape, results=results)
