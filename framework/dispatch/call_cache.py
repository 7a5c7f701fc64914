"""Per-op call cache: validated shapes, layouts and tape recorder by argument signature.

Checks, shape rules and layouts depend only on the layouts and dtypes of the tensors of
a call and on its other arguments. The first call takes the slow path and leaves a cache
entry; the next ones find it by its key and take the fast path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..base.recent_cache import RecentCache
from ..base.symbolic_number import live
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import recorded_result, recorded_results
from ..ir.lazy_graph import (
    EXACT_TYPES,
    INTEGERS,
    PLAIN,
    CacheKey,
    Value,
    cache_key,
)

if TYPE_CHECKING:
    from ..autograd.saved_tensors import TapeRecorder
    from ..base.device import Device, GpuDevice
    from ..base.shape import Layout, TensorSpec
    from ..eager.node_recorder import RecordedCall
    from ..ir.lazy_graph import NodeSignature

MOST_CACHED_CALLS = 4096
"""Cached calls per op, or jitted function, that are in a generation of its cache."""


Entry = TypeVar("Entry")


class CallCache(RecentCache[CacheKey, Entry]):
    """Cached calls of an op, or jitted function, by key."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(MOST_CACHED_CALLS)


def call_key(args: Sequence[Any]) -> tuple[CacheKey, list[TensorCore]]:
    """Return the cache key of a call, and the tensors among its arguments.

    Layouts count by identity, so the key's owner must keep the layouts alive. The key
    is empty if an argument may differ each time.
    """
    key: list[object] = []
    tensors: list[TensorCore] = []
    for argument in args:
        if isinstance(argument, TensorCore):
            key += (id(argument.layout), argument.array.value.dtype, argument.device)
            tensors.append(argument)
            continue
        kind = type(argument)
        if kind is tuple and INTEGERS.issuperset(map(type, argument)):
            key.append(argument)  # shapes and dims; other keys begin with a type
        elif kind in PLAIN or (kind in EXACT_TYPES and not live):
            key += (kind, argument)
        else:
            mark = cache_key(argument)
            if mark is None:
                return (), tensors
            key.append(mark)
    return tuple(key), tensors


class CachedCall(NamedTuple):
    """Cached call of a composite op: validated, with its tape recorder.

    Attributes
    ----------
    device : Device
        Where it runs.
    generation : int
        Generation of the device when it was cached.
    tape_recorder : TapeRecorder or None
        Recorder of its tape entry; None if the result has no gradient.
    specs : tuple of TensorSpec
        Of the tensors.
    layouts : tuple of Layout
        Of the tensors: the key names them by identity.
    recorded_calls : dict of tuple of bool to RecordedCall or None
        Recorded calls, by which tensors require a gradient; None where the call cannot
        be replayed.
    """

    device: Device
    generation: int
    tape_recorder: TapeRecorder | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]
    recorded_calls: dict[tuple[bool, ...], RecordedCall | None]


class CachedView(NamedTuple):
    """Cached call of a movement op: validated, with the layout of its view.

    Attributes
    ----------
    layout : Layout
        Of the result.
    copied : bool
        Whether the elements are copied into row-major order first.
    device, generation, tape_recorder, specs, layouts
        As in `CachedCall`.
    """

    device: Device
    generation: int
    layout: Layout
    copied: bool
    tape_recorder: TapeRecorder | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]


class CachedNode(NamedTuple):
    """Cached call that records one non-empty node: validated, with its signature.

    Attributes
    ----------
    signature : NodeSignature
        Of the node.
    copied : tuple of int
        Tensors that are copied first, as the kernel does not support their layout.
    device, generation, tape_recorder, specs, layouts
        As in `CachedCall`.
    """

    device: GpuDevice
    generation: int
    signature: NodeSignature
    copied: tuple[int, ...]
    tape_recorder: TapeRecorder | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]

    def replay(self, tensors: Sequence[TensorCore]) -> tuple[TensorCore, ...]:
        """Record such a node for other tensors; return its outputs.

        `tensors` must be referenced until then, also those that were copied.
        """
        signature, device, kind = self.signature, self.device, tensors[0].results
        with device.lock:
            if len(tensors) == 1:
                values: tuple[Value, ...] = (tensors[0].array.value,)
            else:
                values = tuple([each.array.value for each in tensors])
            if len(signature.outputs) == 1:
                return (recorded_result(signature, values, (), kind, device),)
            return recorded_results(signature, values, kind, device)
