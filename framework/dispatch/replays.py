"""Functions written with other ops, whose calls without gradients are replayed.

The nodes that such a call records depend on the layouts and dtypes of its tensors and
on its other arguments. They are recorded once; the next call makes them again, without
running the function. A call with gradients runs it: its ops are on the tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from ..autograd.engine import grad_mode
from ..base import modes, trace_hooks
from ..base.device import GpuDevice, on_device_removed
from ..base.shape import Layout
from ..base.symbolic_number import live
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import NodeRecorder, RecordedCall, recorded_call_of
from . import batching
from .call_cache import CallCache, call_key

F = TypeVar("F", bound=Callable[..., Any])

# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


class _Replay(NamedTuple):
    """Cached call.

    Attributes
    ----------
    recorded : RecordedCall or None
        Its nodes; None if it cannot be replayed.
    device : GpuDevice
    generation : int
        Generation of the device when it was cached.
    kind : type or None
        Class of a tuple that it returns.
    layouts : tuple of Layout
        Of the tensors: the key names them by identity.
    """

    recorded: RecordedCall | None
    device: GpuDevice
    generation: int
    kind: type[Any] | None
    layouts: tuple[Layout, ...]


def replays(function: F) -> F:
    """Decorate a function that does nothing but call ops, as its arguments say.

    It returns a tensor, or a tuple of tensors, that are not its arguments.
    """
    cache: CallCache[_Replay] = CallCache()
    on_device_removed(cache.clear)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if trace_hooks.running or modes.autocast_blocks or live or batching.depth:
            return function(*args, **kwargs)
        key, tensors = call_key((*args, *kwargs.values()) if kwargs else args)
        if not key:
            return function(*args, **kwargs)
        if kwargs:
            key = (*key, (None, *kwargs))
        for each in tensors:
            if each.needs_grad and grad_mode.top.value:
                return function(*args, **kwargs)
        found = cache[key]
        if found is None or found.generation != found.device.generation:
            found, answer = _recorded(lambda: function(*args, **kwargs), tensors)
            if found is not None:
                cache.add(key, found)
            return answer
        if found.recorded is None:
            return function(*args, **kwargs)
        made = found.recorded.replay(tensors)
        return made if found.kind is None else _tuple(found.kind, made)

    return cast(F, call)


def _recorded(
    call: Callable[[], Any], tensors: Sequence[TensorCore]
) -> tuple[_Replay | None, Any]:
    """Return a call's nodes and its answer; of calls that are no such ones None."""
    device = tensors[0].device if tensors else None
    if not isinstance(device, GpuDevice) or any(each.is_wrapper for each in tensors):
        return None, call()
    if len({each.array.value for each in tensors}) < len(tensors):
        # Tensors that share a value may be distinct the next time.
        return None, call()
    generation, recorder = device.generation, NodeRecorder(device)
    with trace_hooks.listening(recorder):
        answer = call()
    several = isinstance(answer, tuple)
    recorded = recorded_call_of(recorder, device, tensors, answer)
    kind = type(answer) if several else None
    layouts = tuple([each.layout for each in tensors])
    return _Replay(recorded, device, generation, kind, layouts), answer
