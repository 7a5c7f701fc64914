"""Trace hooks: events that a running trace of `jit` gets from the layers below it.

A traced function runs once in Python; its nodes are collected, and later calls replay
them without Python. So effects of Python besides ops must be reported to the trace:
dynamic arguments (`changing`), host actions of each call (`each_time`), storages that
are rebound, draws. Effects that cannot be replayed are refused (`refuse`), or mark the
trace as one that cannot be cached (`once`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkbackend import fork_safety

from .scoped_setting import ScopedSetting, ScopeFrame, SettingScope

if TYPE_CHECKING:
    from ..ir.lazy_graph import Array, Node, Value
    from .device import GpuDevice
    from .philox import Generator


class Changing(float):
    """Dynamic argument: a number that is read again before each replay.

    Attributes
    ----------
    read : callable
        Returns the number for the next replay.
    """

    __slots__ = ("read",)

    read: Callable[[], float]


class ChangingInt(int):
    """Dynamic argument that is an int; see `Changing`.

    Attributes
    ----------
    read : callable
        Returns the number for the next replay.
    """

    read: Callable[[], int]


class StreamWord(int):
    """Word of a random stream, drawn anew for each replay.

    Attributes
    ----------
    generator : Generator
        Generator of the stream.
    call : int
        Number of the draw among those of the traced function, from 0.
    part : int
        Index of the word.
    """

    generator: Generator
    call: int
    part: int


DYNAMIC = (Changing, ChangingInt, StreamWord)
"""Classes of numbers that differ from replay to replay."""


class TraceHooks:
    """Event handlers of a trace; by default an event prevents a replay.

    A subclass overrides the handlers of those events that it can replay.

    Attributes
    ----------
    replayable : bool
        Whether all events so far can be replayed.
    refuses_reads : bool
        Whether results cannot be read while it runs, as they are not computed.
    """

    replayable = True
    refuses_reads = False

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Record a node; an override makes it pending."""
        raise NotImplementedError

    def on_rebind(self, array: Array, before: Value) -> None:
        """Note that a storage has other content than `before`."""
        self.replayable = False

    def on_copy(self, array: Array) -> None:
        """Note a new storage of the function that shares the content of another."""
        self.replayable = False

    def on_constant(self, array: Array) -> None:
        """Note a storage that follows from shapes and numbers, and stays as it is."""

    def on_draw(self, generator: Generator, words: tuple[int, int, int, int]) -> Any:
        """Return the words of a draw as `StreamWord`s."""
        self.replayable = False
        return words

    def changing(self, read: Callable[[], float]) -> float:
        """Return a dynamic argument, read before each replay."""
        self.replayable = False
        return read()

    def each_time(self, action: Callable[[], object]) -> None:
        """Note a host action that is repeated before each replay."""
        self.replayable = False

    def at_end(self, action: Callable[[], object]) -> bool:
        """Run an action when the function has returned, as a part of the trace.

        Returns
        -------
        bool
            Whether it will be run; not by a trace of less than a function.
        """
        return False

    def once(self, reason: str) -> None:
        """Note an action that is done only once: the trace cannot be cached."""
        self.replayable = False

    def takes_host_steps(self) -> bool:
        """Return whether nodes may be steps of the host; see `ir.host_step`."""
        return False

    def called(self, owner: Any) -> None:
        """Note an object whose `_fingerprint()` guards the trace."""
        self.replayable = False

    def on_grad_write(self, leaf: Any, cleared: bool) -> None:
        """Note that the gradient of a leaf is about to be dropped or accumulated."""
        self.replayable = False

    def on_grad_read(self, leaf: Any) -> None:
        """Note that later ops may depend on the gradient of a leaf."""
        self.replayable = False

    def refused(self, what: str) -> None:
        """Note an action that cannot be replayed, or raise `TraceError`."""
        self.replayable = False


_local = ScopedSetting(None)
running = 0
"""Traces running in all threads: a quick test for the common case of none."""

# A plain counter would stay wrong after an interrupt beside its update.
_counted: set[ScopeFrame] = set()
# Signal handlers, too, may enter blocks.
_counting = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_counting", threading.RLock)


def listener() -> TraceHooks | None:
    """Return the trace that runs in this thread."""
    return _local.top.value if running else None


def reads_are_refused() -> bool:
    """Return whether the trace that runs in this thread refuses to read results."""
    trace = listener()
    return trace is not None and trace.refuses_reads


class listening(SettingScope):  # noqa: N801 - used as a function
    """Send the events of this thread, within the block, to a trace, or to none."""

    def __init__(self, trace: TraceHooks | None) -> None:
        super().__init__(_local, trace)

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Count the trace."""
        global running
        with _counting:
            _counted.add(scope_frame)
            running = len(_counted)

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Uncount the trace."""
        global running
        with _counting:
            _counted.discard(scope_frame)
            running = len(_counted)


def stop_listening(trace: TraceHooks) -> None:
    """Send what would go to a trace of this thread to none, in all its blocks."""
    frame: ScopeFrame | None = _local.top
    while frame is not None:
        if frame.value is trace:
            frame.value = None
        frame = frame.outer


def changing(read: Callable[[], float]) -> float:
    """Return a dynamic argument of an element-wise op, read before each replay."""
    trace = listener()
    return read() if trace is None else trace.changing(read)


def constant(array: Array) -> None:
    """Report a storage that follows from shapes and numbers, and stays as it is.

    It is in memory, and small, as recorded calls keep it alive.
    """
    trace = listener()
    if trace is not None:
        trace.on_constant(array)


def each_time(action: Callable[[], object]) -> None:
    """Run a host action now and, in order, before each replay."""
    trace = listener()
    if trace is None:
        action()
        return
    with listening(None):
        action()
    trace.each_time(action)


def once(reason: str) -> None:
    """Report an action that later calls will not repeat."""
    trace = listener()
    if trace is not None:
        trace.once(reason)


def refuse(what: str) -> None:
    """Raise `TraceError` if a trace of `jit` runs in this thread, or end it.

    A trace of `compile` ends, where it can, and its function runs on without one.

    Parameters
    ----------
    what : str
        The problem, and the remedy.
    """
    trace = listener()
    if trace is not None:
        trace.refused(what)


class Structure:
    """Version counter of module structure, so that replays need not compare it."""

    changes = 0


def structure_changed() -> None:
    """Count a change of a module, parameter or optimizer."""
    Structure.changes += 1
