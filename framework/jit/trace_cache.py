"""Trace cache of `jit`: one compiled trace per call signature, then replays."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from vkbackend import fork_safety

from ..autograd.engine import is_grad_enabled
from ..base import trace_hooks
from ..base.device import opened_devices
from ..base.errors import DistributedError, TraceError
from ..base.shape import Layout
from ..base.symbolic_number import SymbolConflict
from ..base.trace_hooks import listener
from ..dispatch import batching
from ..dispatch.call_cache import CallCache
from ..eager.base_tensor import evaluate
from ..ir.lazy_graph import CacheKey
from ..tensor.tensor import Tensor
from . import outputs
from .callees import CalleeTracker
from .compiled import CompiledTrace
from .guards import Guards
from .number_promotion import NumberPromotion, Promoted
from .outputs import fill_slots
from .signature import CallSignature, fast_key, signature_of
from .trace_policy import MAX_TRACE_ATTEMPTS, CallKind, TracePolicy
from .tracer import Trace, part

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function whose calls are replayed; made by `jit`, or by `compile`.

    Parameters
    ----------
    function : callable
        What is called.
    max_traces : int
        Signatures whose traces are cached.
    on_tape : bool
        Whether results stay on the tape: calls run untraced whose results need that.
    breaks : bool
        Whether calls run untraced, from there on, that do what no replay can.

    Attributes
    ----------
    traces : int
        How often the function itself ran to be traced.
    replays : int
        How often a trace was replayed.
    """

    def __init__(
        self,
        function: Callable[P, R],
        max_traces: int,
        on_tape: bool = False,
        breaks: bool = False,
    ) -> None:
        if max_traces < 1:
            raise ValueError(f"jit: max_traces is {max_traces}; it must be at least 1")
        # First, as it copies attributes: an op has some of the same names.
        functools.update_wrapper(self, function)
        self.traces = 0
        self.replays = 0
        self._function = function
        self._ordered = _takes_any_name(function)
        self._max_traces = max_traces
        self._on_tape, self._breaks = on_tape, breaks
        self._compiled: OrderedDict[object, CompiledTrace] = OrderedDict()
        self._policy = TracePolicy(max_traces)
        self._promotion = NumberPromotion()
        self._fast_path: CallCache[tuple[CompiledTrace, object, list[Layout]]]
        self._fast_path = CallCache()
        self._known: tuple[CalleeTracker | None, list[Any]] = None, []
        self._lock = threading.RLock()
        fork_safety.renew(self, "_lock", threading.RLock)

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", repr(self._function))
        return f"<jit of {name}: {self.traces} traces, {self.replays} replays>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has its own traces, and belongs to the copy of its instance.
        return Jitted, (self._function, *self._options())

    def _options(self) -> tuple[int, bool, bool]:
        return self._max_traces, self._on_tape, self._breaks

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if trace_hooks.running and listener() is not None:
            return self._function.__get__(instance, owner)
        space = getattr(instance, "__dict__", None)
        if not isinstance(space, dict):
            # Of a class, or an object with slots: it shares the traces of all others.
            return MethodType(self, instance)
        methods = space.get(_METHODS)
        if methods is None or methods.instance is not instance:
            # None, or those of the object of which this one is a copy.
            methods = space[_METHODS] = _Methods(instance)
        bound = methods.made.get(self)
        if bound is None:
            bound = Jitted(self._function.__get__(instance, owner), *self._options())
            bound = methods.made.setdefault(self, bound)
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay the function, or trace it."""
        if trace_hooks.running and listener() is not None:
            return self._function(*args, **kwargs)
        if batching.depth and batching.transforming():
            # The transform's tensors are not those that a trace would guard.
            return self._function(*args, **kwargs)
        with self._lock:
            fast = () if kwargs else fast_key(args)
            known = self._fast_path[fast]
            if known is not None:
                # Cached as long as its trace, so its attempts are none.
                compiled, key, _ = known
                inputs = cast(Sequence[Tensor], args)
                # So that no other thread records anything in between.
                with compiled.device.lock:
                    if compiled.fits(inputs) and not compiled.profiled():
                        if len(self._compiled) > 1:
                            self._compiled.move_to_end(key)
                        self.replays += 1
                        return cast(R, compiled.replay(inputs))
            answer = _UNTRACED
            if not _profiled():
                answer = self._slow_path(fast, args, kwargs)
        if answer is _UNTRACED:
            # Without the lock, as calls in other threads may be waited for.
            return self._function(*args, **kwargs)
        return cast(R, answer)

    def _slow_path(
        self, fast: CacheKey, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        """Look up or make the trace of a call by its whole signature.

        Returns
        -------
        object
            Result of the call; `_UNTRACED` if the function is to run untraced.
        """
        try:
            call = signature_of(args, kwargs, self._ordered)
        except TraceError:
            if self._on_tape:
                return _UNTRACED
            raise
        key = call.key
        compiled = self._compiled.get(key)
        if compiled is None:
            key, compiled = self._symbolic_trace(call)
        if compiled is not None:
            with compiled.device.lock:
                if compiled.fits(call.inputs):
                    if fast:
                        # Layouts are kept: the fast key names them by identity.
                        layouts = [each.layout for each in call.inputs]
                        self._fast_path.add(fast, (compiled, key, layouts))
                    self._compiled.move_to_end(key)
                    self._policy.replayed(compiled.kind)
                    if compiled.symbols is not None:
                        self._promotion.replayed(call)
                    self.replays += 1
                    return compiled.replay(call.inputs)
            # In this order an interrupt leaves no stale fast path.
            self._fast_path.clear()
            self._compiled.pop(key)
            self._promotion.evicted(key)
            compiled.forget()
        promoted = self._promotion.promoted(call, len(args))
        kind = self._policy.of(call if promoted is None else promoted.call)
        if compiled is not None:
            place = compiled.failed_guard() or "something that it reads"
            self._policy.guard_failed(place)
            if kind.attempts >= MAX_TRACE_ATTEMPTS:
                self._warn(f"{place} is another one in each call")
        untraced, warning = self._policy.give_up()
        untraced = untraced or kind.untraced
        if not untraced:
            warning = self._policy.trace(kind, self.replays)
        if warning:
            self._say(warning)
        if untraced:
            return _UNTRACED
        return self._trace(kind, call, args, kwargs, promoted)

    def _symbolic_trace(
        self, call: CallSignature
    ) -> tuple[object, CompiledTrace | None]:
        """Return a trace that takes the numbers of a call, and its key."""
        for numbers, key in self._promotion.variants(call):
            compiled = self._compiled[key]
            assert compiled.symbols is not None
            with compiled.device.lock:
                if compiled.symbols.fit(numbers):
                    return key, compiled
        return call.key, None

    def _trace(
        self,
        kind: CallKind,
        call: CallSignature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        promoted: Promoted | None = None,
    ) -> R:
        """Trace the function, and cache the trace if it can be replayed."""
        self.traces += 1
        evaluate(*call.inputs, *part(kind.shared))
        known, owners = self._known
        before = Guards(
            self._function, *call.identity_keys, *owners, callees=known, assume_run=True
        )
        table = None if promoted is None else promoted.table
        trace = Trace(table, self._breaks)
        try:
            return cast(
                R, self._traced(trace, before, kind, call, args, kwargs, promoted)
            )
        except BaseException as error:
            untraced = self._breaks and isinstance(error, TraceError)
            repeats = untraced or promoted is not None
            if not repeats or not self._can_repeat(trace, before, error):
                # The recorded nodes are pending then, as without `jit`; the second time
                # if an interrupt ends the first.
                try:
                    trace.publish()
                finally:
                    trace.publish()
                    trace.drop_host_steps()
                    trace.drop_gradients()
                    trace.uncount_steps()
                if isinstance(error, SymbolConflict):
                    raise TraceError(f"jit: {error}") from None
                raise
            try:
                trace.discard()
            finally:
                trace.discard()
            if promoted is None:
                kind.attempts = MAX_TRACE_ATTEMPTS
                return cast(R, _UNTRACED)
            self._promotion.failed(promoted)
        return self._trace(self._policy.of(call), call, args, kwargs)

    def _can_repeat(self, trace: Trace, before: Guards, error: BaseException) -> bool:
        """Return whether the function can run again, as symbols may have failed it.

        Two traces without them have had no effect in Python.
        """
        return (
            isinstance(error, Exception | SymbolConflict)
            and not trace.ended
            and trace.is_repeatable()
            and not trace.arguments.changed()
            and not before.failed_guard()
        )

    def _traced(
        self,
        trace: Trace,
        before: Guards,
        kind: CallKind,
        call: CallSignature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        promoted: Promoted | None,
    ) -> Any:
        """Run the function under a trace, and cache that if it can be replayed."""
        try:
            # In a list, so that nothing here holds it while it is taken apart.
            recording = is_grad_enabled()
            places = () if promoted is None else promoted.places
            result = [trace.run(self._function, args, kwargs, call.inputs, places)]
            if promoted is not None and outputs.has_symbolic_keys(result[0]):
                promoted.table.conflicts()
            if is_grad_enabled() is not recording:
                trace.once("it sets whether gradients are recorded afterwards")
            if self._on_tape and outputs.need_grad(result[0]):
                trace.once(_NEEDS_TAPE)
            if trace.nodes and not trace.ended and trace.reasons != [_NEEDS_TAPE]:
                _note_host(call, trace)
                self._check_result(trace, result[0])
                self._check_changes(before, trace, call)
        except BaseException:
            self._policy.uncount(kind)
            raise
        if not trace.nodes:
            self._policy.uncount(kind)
            kind.ran_no_ops()
        if not trace.nodes or trace.reasons:
            answer = trace.arguments.caller_value(result.pop())
            if promoted is not None:
                self._promotion.failed(promoted)
                answer = outputs.plain(answer)
            return self._run_now(trace, kind, answer, trace.reasons)
        return self._keep(trace, kind, call, result, promoted)

    def _check_result(self, trace: Trace, result: Any) -> None:
        """Reject the trace if no replay could make the result."""
        try:
            outputs.check(result, trace.is_computed)
        except TraceError as error:
            if not self._breaks:
                raise
            trace.once(str(error))

    def _check_changes(self, before: Guards, trace: Trace, call: CallSignature) -> None:
        """Reject the trace if the function has side effects in Python."""
        self._known = trace.callees, trace.owners
        guards = Guards(
            self._function,
            *trace.owners,
            *call.identity_keys,
            *[leaf for leaf, _ in trace.leaves.values()],
            callees=trace.callees,
        )
        found = (
            trace.arguments.changed() or before.failed_guard() or trace.changed_module()
        )
        found = found or guards.untracked_change(before)
        if found:
            trace.once(f"it changes {found}, which a replay would not")
        for reason in (trace.callees.reason, guards.reason):
            if reason:
                trace.once(reason)
        guards.release()
        trace.guards = guards

    def _run_now(
        self, trace: Trace, kind: CallKind, result: Any, reasons: Sequence[str]
    ) -> Any:
        """Run a trace that cannot be cached, as without `jit`."""
        trace.run_now()
        trace.unshare()
        if _NEEDS_TAPE in reasons:
            kind.attempts = MAX_TRACE_ATTEMPTS
        elif reasons:
            self._policy.refused(reasons[0])
            if kind.attempts >= MAX_TRACE_ATTEMPTS:
                self._warn(reasons[0])
        return result

    def _keep(
        self,
        trace: Trace,
        kind: CallKind,
        call: CallSignature,
        result: list[Any],
        promoted: Promoted | None,
    ) -> Any:
        """Compile a trace, run it, and cache it."""
        tree, tensors = trace.isolate_outputs(result.pop())
        if trace.has_shared_storage():
            kind.shared = trace.rebound_storages()
            reason = "tensors that it changes share their elements with others"
            return self._run_now(trace, kind, fill_slots(tree, tensors), [reason])
        try:
            compiled = CompiledTrace(
                self._function, trace, call, tree, tensors, self._policy.varies(call)
            )
            compiled.kind = kind.key
            answer = compiled.begin(trace, call.inputs)
        except Exception as error:
            if trace.ended or isinstance(error, DistributedError):
                raise
            kind.attempts = MAX_TRACE_ATTEMPTS
            if promoted is not None:
                self._promotion.failed(promoted)
            return self._run_now(trace, kind, fill_slots(tree, tensors), [str(error)])
        tensors.clear()
        self._policy.kept()
        key = call.key
        if promoted is not None:
            key = self._promotion.keep(promoted, call)
        else:
            self._promotion.kept(call, trace.callees, trace.is_repeatable())
        self._compiled[key] = compiled
        if len(self._compiled) > self._max_traces:
            self._fast_path.clear()
            evicted, oldest = self._compiled.popitem(last=False)
            self._promotion.evicted(evicted)
            oldest.forget()
        return answer

    def _warn(self, reason: str) -> None:
        self._say(f"runs without replay for calls of this kind: {reason}")

    def _say(self, what: str) -> None:
        name = getattr(self._function, "__name__", "the function")
        warnings.warn(f"jit: {name} {what}", stacklevel=_levels() + 1)

    def memory_stats(self) -> dict[str, int]:
        """Return memory statistics, summed over all cached traces.

        Returns
        -------
        dict
            Bytes: `planned` for intermediate results, placed by live ranges; `alive`,
            their peak of live bytes, which no plan can beat; `eager`, without a memory
            plan; `kept` for results that outlive a replay. Counts:
            `dispatches` and `barriers` of one replay of each trace, and `replays`.
        """
        total: dict[str, int] = {}
        for compiled in self._compiled.values():
            for name, number in compiled.statistics().items():
                total[name] = total.get(name, 0) + number
        return total

    def clear(self) -> None:
        """Drop every cached trace."""
        with self._lock:
            self._fast_path.clear()
            for compiled in self._compiled.values():
                compiled.forget()
            self._compiled.clear()
            self._policy.clear()
            self._promotion.clear()


_UNTRACED = object()
"""Sentinel instead of a result: the function runs untraced."""

_NEEDS_TAPE = "its result needs a gradient, and those of replays are off the tape"

_METHODS = "jitted methods"
"""Key of `_Methods` in an object's `__dict__`: no valid attribute name."""


class _Methods:
    """Bound jitted methods of one object, each with its own trace cache."""

    def __init__(self, instance: object) -> None:
        self.instance = instance
        self.made: dict[Jitted[Any, Any], Jitted[Any, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Methods, (None,)


def _takes_any_name(function: Callable[..., Any]) -> bool:
    """Whether a function can see the order of its keyword arguments."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or bool(code.co_flags & inspect.CO_VARKEYWORDS)


def _levels() -> int:
    """Return the stack depth of this module's frames below the user's."""
    frame = inspect.currentframe()
    levels = 0
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
        levels += 1
    return levels - 1


def _profiled() -> bool:
    """Whether a device is profiled: profiles do not see dispatches of recordings."""
    for device in opened_devices():
        if device.gpu.open_profile is not None:
            return True
    return False


def _note_host(call: CallSignature, trace: Trace) -> None:
    """Reject the trace where operations on a device depend on the host."""
    if call.on_host:
        trace.once(
            f"{call.on_host[0]}, so a replay would not see its elements; move it to the"
            " device first"
        )
    if trace.changes_host:
        trace.once(
            "a tensor on the host is changed in place, which a replay does not repeat;"
            " move it to the device"
        )
