"""Composite ops, written with other ops: calls are recorded once, then replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ..autograd.engine import grad_mode, no_grad
from ..base import modes, trace_hooks
from ..base.device import META, GpuDevice
from ..base.dtype import DType
from ..base.modes import autocast_disabled
from ..base.shape import TensorSpec
from ..base.symbolic_number import concrete, live
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import LIBRARY_PREFIX, NodeRecorder, recorded_call_of
from ..ir.lazy_graph import INTEGERS, CacheKey
from . import batching
from .call_cache import CachedCall, CallCache, call_key
from .diagnosis import explained_op
from .keywords import into
from .op import Op, Rule

P = ParamSpec("P")
R = TypeVar("R")

_UNSEEN: Any = object()


class Composite(Op[P, R]):
    """Composite op: written with other ops, with a gradient rule of its own."""

    def __init__(
        self,
        function: Callable[P, R],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        outputs: Sequence[str],
    ) -> None:
        super().__init__(function, dtypes, outputs)
        self.call_cache: CallCache[CachedCall] = CallCache()
        self.shape_rule: Callable[..., Any] | None = None
        # Composites of users may not be pure functions of their arguments.
        self.own = function.__module__.startswith(LIBRARY_PREFIX)
        self.stream = self.names.index("stream") if "stream" in self.names else None

    def forget(self) -> None:
        """Clear the call cache."""
        self.call_cache.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op, on the fast path if the call is cached."""
        given: tuple[Any, ...] = args
        casts = modes.autocast_blocks and self.policy is not None
        if kwargs or casts or len(args) != len(self.names):
            if "out" in kwargs:
                return cast(R, into(self, args, kwargs))
            given = self._given(args, kwargs)
        key, tensors = call_key(given) if self.stream is None else self._key_of(given)
        cached = self.call_cache[key]
        if cached is None or cached.generation != cached.device.generation:
            return cast(R, self._slow_path(given, key))
        wants = tuple([each.needs_grad for each in tensors])
        answer = self._answer(cached, wants, given, tensors)
        if True in wants and cached.tape_recorder is not None and grad_mode.top.value:
            outputs = answer if isinstance(answer, tuple) else (answer,)
            # Draws are others each time, so that the call does not name them.
            kind = cached if self.stream is None else None
            cached.tape_recorder.record(given, tensors, outputs, cached.specs, kind)
        result: R = answer  # no `cast`, which is a call
        return result

    def _key_of(self, given: tuple[Any, ...]) -> tuple[CacheKey, list[TensorCore]]:
        """Return the key of a call but for its draws, which are others each time."""
        place = self.stream
        if place is None or not INTEGERS.issuperset(map(type, given[place])):
            return call_key(given)
        return call_key((*given[:place], *given[place + 1 :]))

    def _answer(
        self,
        cached: CachedCall,
        wants: tuple[bool, ...],
        given: tuple[Any, ...],
        tensors: Sequence[TensorCore],
    ) -> Any:
        """Return the outputs of a validated call, replayed if it was recorded."""
        device = tensors[0].device
        replayed = self.own and not trace_hooks.running
        if replayed and isinstance(device, GpuDevice):
            stream = None if self.stream is None else given[self.stream]
            if stream is not None and not INTEGERS.issuperset(map(type, stream)):
                return self._plain(given)
            recorded_call = cached.recorded_calls.get(wants, _UNSEEN)
            if recorded_call is not _UNSEEN:
                if recorded_call is not None:
                    return recorded_call.replay(tensors, stream)
            elif len({each.array.value for each in tensors}) == len(tensors):
                # Tensors that share a value may be distinct the next time.
                recorder = NodeRecorder(device)
                with trace_hooks.listening(recorder):
                    answer = self._plain(given)
                cached.recorded_calls[wants] = recorded_call_of(
                    recorder, device, tensors, answer, stream=stream
                )
                return answer
        return self._plain(given)

    def spec(self, rule: Rule) -> Rule:
        """Declare shapes and dtypes, for a function that reads elements.

        The rule takes specs in place of the tensors; it answers on the meta device.
        """
        self.shape_rule = rule
        return rule

    def _without_data(self, bound: dict[str, Any], tensors: dict[str, Any]) -> Any:
        """Return results on the meta device, by the declared rule."""
        assert self.shape_rule is not None
        specs = {name: each.spec for name, each in tensors.items()}
        kind = next(iter(tensors.values())).results
        found = self.shape_rule(**{**bound, **specs})
        if isinstance(found, TensorSpec):
            return kind.without_data(found.shape, found.dtype)
        return tuple(kind.without_data(each.shape, each.dtype) for each in found)

    def _plain(self, given: tuple[Any, ...]) -> Any:
        with no_grad(), autocast_disabled():
            return self.function(*given)  # type: ignore[call-arg]  # the parameters P

    @explained_op
    def _slow_path(self, given: tuple[Any, ...], key: CacheKey) -> Any:
        """Check a call and apply the op; cache the call under `key`."""
        if live:
            given = concrete(given)
        bound = dict(zip(self.names, given))
        if batching.has_rules:
            answer = batching.batched_call(self, bound)
            if answer is not NotImplemented:
                return answer
        tensors = self._tensors(bound)
        device = self._check(tensors)
        generation = device.generation
        if device is META and self.shape_rule is not None:
            answer = self._without_data(bound, tensors)
        else:
            answer = self._plain(given)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        self._record(bound, tensors, outputs)
        if key and (device is not META or self.shape_rule is None):
            entry = CachedCall(
                device,
                generation,
                self.tape_recorder(tuple(tensors))
                if outputs[0].dtype.is_differentiable
                else None,
                tuple(each.spec for each in tensors.values()),
                tuple(each.layout for each in tensors.values()),
                {},
            )
            self.call_cache.add(key, entry)
        return answer
