"""`jit`: a function traced once per kind of call, then replayed."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from vkbackend import fork_safety

from ..autograd.engine import is_grad_enabled
from ..base import trace_hooks
from ..base.device import opened_devices
from ..base.errors import TraceError
from ..base.shape import Layout
from ..base.trace_hooks import listener
from ..eager.base_tensor import evaluate
from ..tensor.tensor import Tensor
from . import outputs
from .callees import Calls
from .compiled import Program
from .guards import Surroundings
from .outputs import filled
from .signature import Call, quick_key, take_apart
from .trace_policy import MOST_ATTEMPTS, Kind, Kinds
from .tracer import Trace

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function whose calls are replayed; made by `jit`.

    Attributes
    ----------
    traces : int
        How often the function itself ran to be traced.
    replays : int
        How often a trace was replayed.
    """

    def __init__(self, function: Callable[P, R], max_traces: int) -> None:
        if max_traces < 1:
            raise ValueError(f"jit: max_traces is {max_traces}; it must be at least 1")
        self.traces = 0
        self.replays = 0
        self._function = function
        self._ordered = _takes_any_name(function)
        self._most = max_traces
        self._programs: OrderedDict[object, Program] = OrderedDict()
        self._kinds = Kinds(max_traces)
        self._quick: dict[object, tuple[Program, object, list[Layout]]] = {}
        self._known: tuple[Calls | None, list[Any]] = None, []
        self._lock = threading.RLock()
        fork_safety.renew(self, "_lock", threading.RLock)
        functools.update_wrapper(self, function)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy traces for itself, and belongs to the copy of what it is a method of.
        return Jitted, (self._function, self._most)

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
            bound = Jitted(self._function.__get__(instance, owner), self._most)
            bound = methods.made.setdefault(self, bound)
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay the function, or run it and remember what it did."""
        if trace_hooks.running and listener() is not None:
            return self._function(*args, **kwargs)
        with self._lock:
            quick = None if kwargs else quick_key(args)
            known = self._quick.get(quick)
            if known is not None:
                # Known for as long as it is kept, and so are its attempts none.
                program, key, _ = known
                fed = cast(Sequence[Tensor], args)
                # So that no other thread asks for anything in between.
                with program.device.lock:
                    if program.fits(fed) and not program.profiled():
                        if len(self._programs) > 1:
                            self._programs.move_to_end(key)
                        self.replays += 1
                        return cast(R, program.replay(fed))
            answer = _PLAIN
            if not _profiled():
                answer = self._at_length(quick, args, kwargs)
        if answer is _PLAIN:
            # Without the lock, as calls in other threads may be waited for.
            return self._function(*args, **kwargs)
        return cast(R, answer)

    def _at_length(
        self, quick: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        """Find or make the trace of a call by its whole signature.

        Returns
        -------
        object
            What the call returns; `_PLAIN` if the function is to run as it is.
        """
        call = take_apart(args, kwargs, self._ordered)
        program = self._programs.get(call.key)
        if program is not None:
            with program.device.lock:
                if program.fits(call.fed):
                    if quick is not None:
                        # Layouts are kept: the quick key names them by identity.
                        layouts = [each.layout for each in call.fed]
                        self._quick[quick] = program, call.key, layouts
                    self._programs.move_to_end(call.key)
                    self._kinds.replayed(call.key)
                    self.replays += 1
                    return program.replay(call.fed)
            # In this order an interrupt leaves nothing that is known and forgotten.
            self._quick.clear()
            self._programs.pop(call.key)
            program.forget()
        kind = self._kinds.of(call)
        if program is not None:
            place = program.found() or "something that it reads"
            self._kinds.unfit(place)
            if kind.attempts >= MOST_ATTEMPTS:
                self._warn(f"{place} is another one in each call")
        plain, said = self._kinds.give_up()
        plain = plain or kind.plain
        if not plain:
            said = self._kinds.trace(kind, self.replays)
        if said:
            self._say(said)
        if plain:
            return _PLAIN
        return self._trace(kind, call, args, kwargs)

    def _trace(
        self, kind: Kind, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        """Run the function once, and keep what it did if that can be replayed."""
        self.traces += 1
        evaluate(*call.fed)
        known, owners = self._known
        before = Surroundings(
            self._function, *call.kept, *owners, calls=known, guess=True
        )
        trace = Trace()
        try:
            return cast(R, self._traced(trace, before, kind, call, args, kwargs))
        except BaseException:
            # What was collected is pending then, as without `jit`; the second time if
            # an interrupt ends the first.
            try:
                trace.publish()
            finally:
                trace.publish()
                trace.drop_gradients()
                trace.uncount_steps()
            raise

    def _traced(
        self,
        trace: Trace,
        before: Surroundings,
        kind: Kind,
        call: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run the function for a trace, and keep that if it can be replayed."""
        try:
            # In a list, so that nothing here holds it while it is taken apart.
            recording = is_grad_enabled()
            result = [trace.run(self._function, args, kwargs, call.fed)]
            if is_grad_enabled() is not recording:
                trace.once("it sets whether gradients are recorded afterwards")
            if trace.nodes:
                _check_host(call, trace)
                outputs.check(result[0], trace.makes)
                self._check_changes(before, trace, call)
        except BaseException:
            self._kinds.undone(kind)
            raise
        if not trace.nodes:
            self._kinds.undone(kind)
            kind.asked_nothing()
        if not trace.nodes or trace.reasons:
            answer = trace.passed.callers(result.pop())
            return self._run_now(trace, kind, answer, trace.reasons)
        return self._keep(trace, kind, call, result)

    def _check_changes(self, before: Surroundings, trace: Trace, call: Call) -> None:
        """Note that a replay would leave alone what the function changes in Python."""
        self._known = trace.calls, trace.owners
        around = Surroundings(
            self._function,
            *trace.owners,
            *call.kept,
            *[leaf for leaf, _ in trace.leaves.values()],
            calls=trace.calls,
        )
        found = trace.passed.changed() or before.found() or trace.changed_module()
        found = found or around.doubtful(before)
        if found:
            trace.once(f"it changes {found}, which a replay would not")
        for reason in (trace.calls.reason, around.reason):
            if reason:
                trace.once(reason)
        around.release()
        trace.surroundings = around

    def _run_now(
        self, trace: Trace, kind: Kind, result: Any, reasons: Sequence[str]
    ) -> Any:
        """Run a trace that cannot be kept as if there were no `jit`."""
        trace.run_now()
        trace.part()
        if reasons:
            self._kinds.refused(reasons[0])
            if kind.attempts >= MOST_ATTEMPTS:
                self._warn(reasons[0])
        return result

    def _keep(self, trace: Trace, kind: Kind, call: Call, result: list[Any]) -> Any:
        """Record a trace, run it, and remember it."""
        tree, tensors = trace.settle(result.pop())
        if trace.shares():
            reason = "tensors that it changes share their elements with others"
            return self._run_now(trace, kind, filled(tree, tensors), [reason])
        try:
            program = Program(self._function, trace, call, tree, tensors)
            answer = program.begin(trace, call.fed)
        except Exception as error:
            if trace.ended:
                raise
            kind.attempts = MOST_ATTEMPTS
            return self._run_now(trace, kind, filled(tree, tensors), [str(error)])
        tensors.clear()
        self._kinds.kept()
        self._programs[call.key] = program
        if len(self._programs) > self._most:
            self._quick.clear()
            self._programs.popitem(last=False)[1].forget()
        return answer

    def _warn(self, reason: str) -> None:
        self._say(f"runs without replay for calls of this kind: {reason}")

    def _say(self, what: str) -> None:
        name = getattr(self._function, "__name__", "the function")
        warnings.warn(f"jit: {name} {what}", stacklevel=_levels() + 1)

    def memory_stats(self) -> dict[str, int]:
        """Return what the traces take, summed over all that are kept.

        Returns
        -------
        dict
            Bytes: `planned` for intermediate results, placed by lifetimes; `alive` of
            them in the fullest moment, which no plan can beat; `eager`, what they take
            without a plan; `kept` for results that outlive a replay. Counts:
            `dispatches` and `barriers` of one replay of each trace, and `replays`.
        """
        total: dict[str, int] = {}
        for program in self._programs.values():
            for name, number in program.statistics().items():
                total[name] = total.get(name, 0) + number
        return total

    def clear(self) -> None:
        """Forget every trace."""
        with self._lock:
            self._quick.clear()
            for program in self._programs.values():
                program.forget()
            self._programs.clear()
            self._kinds.clear()


_PLAIN = object()
"""Instead of a result: the function runs as it is."""

_METHODS = "jitted methods"
"""Where an object keeps them: no attribute that a program may name."""


class _Methods:
    """The jitted methods of one object, each of which has its own traces."""

    def __init__(self, instance: object) -> None:
        self.instance = instance
        self.made: dict[Jitted[Any, Any], Jitted[Any, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Methods, (None,)


def _takes_any_name(function: Callable[..., Any]) -> bool:
    """Whether a function may find out in which order names are passed."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or bool(code.co_flags & inspect.CO_VARKEYWORDS)


def _levels() -> int:
    """Return how many calls of this module's functions are between here and a user."""
    frame = inspect.currentframe()
    levels = 0
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
        levels += 1
    return levels - 1


def _profiled() -> bool:
    """Whether a device is being profiled, which sees no dispatch of a recording."""
    for device in opened_devices():
        if device.gpu.open_profile is not None:
            return True
    return False


def _check_host(call: Call, trace: Trace) -> None:
    """Raise `TraceError` where operations on a device depend on the host."""
    if call.on_host:
        raise TraceError(
            f"jit: argument {call.on_host[0]} is on the host, so a replay would not see"
            " its elements; move it to the device first"
        )
    if trace.changes_host:
        raise TraceError(
            "jit: a tensor on the host is changed in place, which a replay does not"
            " repeat; move it to the device"
        )


@overload
def jit(function: Callable[P, R], /, *, max_traces: int = 8) -> Jitted[P, R]: ...


@overload
def jit(*, max_traces: int = 8) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(function: Any = None, /, *, max_traces: int = 8) -> Any:
    """Return a function that is traced once per kind of call and then replayed.

    The whole function, for example a training step with backward pass and optimizer,
    becomes one recording: a call copies its tensors in and submits once, whatever the
    number of operations. Intermediate results share memory by their lifetimes.

    Tensors on the device that do not require a gradient are fed to each call; their
    shapes, strides and dtypes, and all other arguments, are the kind of the call. What
    the function finds around it, modules and tensors, is read and changed in place as
    without `jit`; learning rates, step counts and random draws go on as they would.

    Parameters
    ----------
    function : callable
        Returns tensors, or sequences, mappings or data classes of them.
    max_traces : int, default 8
        Kinds of calls that are remembered; the least recently used goes first.

    Returns
    -------
    Jitted
        Called like the function. Its results are off the tape and share elements with
        nothing: not with an argument or a variable that the function returns, nor is
        one result a view of another. Arrays of the host that it makes are made anew
        for each call; other objects without tensors are the same in each.

    Raises
    ------
    TraceError
        When called, if the function reads a tensor on the host (also to print it or to
        branch on it), changes a tensor that is an argument, seeds a generator or
        returns an iterator or an object that no replay can make. What it asked for
        before that has been done, as without `jit`.

    Notes
    -----
    A call traces again when its kind is new, or when something has changed that the
    function read, or that what it called did, of the user's own or of installed
    packages: variables of closures, globals, default values, attributes of objects,
    classes and Python modules, elements of containers (up to 100,000) and arrays (up to
    64 MiB), the environment, context variables, parameters, modules, and an optimizer's
    options other than the learning rate.

    Where the function changes one of these itself, or a container or data class that
    it is given, or asks what no replay can ask, the trace is not kept: clocks, files,
    queues, other processes, random numbers of the host, iterators, larger containers
    and arrays, objects that C extensions keep to themselves, functions in C of packages
    other than NumPy. After some attempts there is a warning that names it, and the
    function runs as it is. There is one, too, where most calls are traced. Lists,
    tuples, dictionaries and data classes among the arguments count by what they hold,
    not by which object they are: a replay does not see that another one is equal.

    Not seen is what nothing in Python tells of: hidden state that an operator of a C
    extension reads, as `numpy.seterr` sets; names of `builtins` that were replaced, and
    what was replaced inside the library or as a method of its tensors; attributes of a
    network's modules that are written past them (`vars(module)["p"] = 1`); what other
    threads, logs, warnings and progress bars read for the function; what became of a
    cache's results beyond 1000; attributes that only C code reads of an object whose
    other attributes are read by name; memory that C structures point to. What a trace
    looks at stays alive with it, but for what a weak reference is to. Other Python
    side effects, such as printing, happen when tracing only.

    Threads may share a function; while one traces, the calls of the others wait, so a
    function must not wait for another call of itself.

    While a device is profiled the function runs as it is, and a profile of Python
    leaves out the calls that trace. Gradients left on parameters are written again by
    each call. Every replay gives the bits of the first, which are those of the function
    without `jit`.

    Examples
    --------
    >>> @fw.jit
    ... def double(x):
    ...     return x * 2
    >>> double(fw.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    if function is None:
        return functools.partial(jit, max_traces=max_traces)
    return Jitted(function, max_traces)
