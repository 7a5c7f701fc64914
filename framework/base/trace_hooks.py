"""Trace hooks: events that a running trace of `jit` gets from the layers below it.

A traced function runs once in Python; its operations are collected, and later calls
replay them without Python. So whatever Python does beside operations must be told to
the trace: numbers that change from call to call (`changing`), actions that belong to
each call (`each_time`), storages that are rebound, draws. What cannot be replayed is
refused (`refuse`), or marks the trace as one that cannot be kept (`once`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from vkbackend import fork_safety

from .scoped_setting import ScopedSetting, ScopeFrame, SettingScope

if TYPE_CHECKING:
    from ..ir.lazy_graph import Array, Node, Value
    from .device import GpuDevice
    from .philox import Generator


class Changing(float):
    """A number that is read again before each replay.

    Attributes
    ----------
    read : callable
        Returns the number for the call that is about to run.
    """

    __slots__ = ("read",)

    read: Callable[[], float]


class StreamWord(int):
    """One of the four words of a stream, which is another in each replay.

    Attributes
    ----------
    generator : Generator
        Whose stream it is.
    call : int
        Number of the draw among those of the traced function, from 0.
    part : int
        Which word.
    """

    generator: Generator
    call: int
    part: int


class Listener(Protocol):
    """Listener: the event handlers of a trace."""

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Note an operation."""

    def on_rebind(self, array: Array, before: Value) -> None:
        """Note that a storage has other content than `before`."""

    def on_copy(self, array: Array) -> None:
        """Note a storage of the function's own that shares the content of another."""

    def on_draw(self, generator: Generator, words: tuple[int, int, int, int]) -> Any:
        """Return the words of a draw so that they are told apart."""

    def changing(self, read: Callable[[], float]) -> float:
        """Return a number that is read before each replay."""

    def each_time(self, action: Callable[[], object]) -> None:
        """Note an action that is repeated before each replay."""

    def once(self, reason: str) -> None:
        """Note that the function did what it does only once."""

    def called(self, owner: Any) -> None:
        """Note an object whose `_fingerprint()` tells whether the trace still fits."""

    def on_grad_write(self, leaf: Any, cleared: bool) -> None:
        """Note that the gradient of a leaf is about to be dropped or added to."""

    def on_grad_read(self, leaf: Any) -> None:
        """Note that what follows may depend on the gradient of a leaf."""

    def refused(self, what: str) -> None:
        """Note what a replay cannot do, or raise `TraceError`."""


_local = ScopedSetting(None)
running = 0
"""Traces running in all threads: a quick test for the common case that none does."""

# A number alone would be wrong for good where an interrupt comes beside it.
_counted: set[ScopeFrame] = set()
# Signal handlers, too, may enter blocks.
_counting = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_counting", threading.RLock)


def listener() -> Listener | None:
    """Return the trace that runs in this thread."""
    return _local.top.value if running else None


class listening(SettingScope):  # noqa: N801 - used as a function
    """Send what happens in this thread, within the block, to a trace, or to none."""

    def __init__(self, trace: Listener | None) -> None:
        super().__init__(_local, trace)

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Count it."""
        global running
        with _counting:
            _counted.add(scope_frame)
            running = len(_counted)

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Count it no longer."""
        global running
        with _counting:
            _counted.discard(scope_frame)
            running = len(_counted)


def changing(read: Callable[[], float]) -> float:
    """Return a number for an element-wise operation, read anew for each replay."""
    trace = listener()
    return read() if trace is None else trace.changing(read)


def each_time(action: Callable[[], object]) -> None:
    """Do something on the host now and, in order, before each replay."""
    trace = listener()
    if trace is None:
        action()
        return
    with listening(None):
        action()
    trace.each_time(action)


def once(reason: str) -> None:
    """Say that what happens now will not happen in the next call."""
    trace = listener()
    if trace is not None:
        trace.once(reason)


def refuse(what: str) -> None:
    """Raise `TraceError` if a trace of `jit` runs in this thread.

    Parameters
    ----------
    what : str
        What is wrong, and what would be right.
    """
    trace = listener()
    if trace is not None:
        trace.refused(what)


class Structure:
    """Counts changes of what modules consist of, so that replays need not look."""

    changes = 0


def structure_changed() -> None:
    """Note that a module, parameter or optimizer is no longer what it was."""
    Structure.changes += 1
