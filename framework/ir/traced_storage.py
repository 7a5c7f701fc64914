"""Traced storages: in-place changes of a running trace, isolated from other threads.

A traced function computes nothing, so the content of its storages cannot be read
meanwhile. Other threads see the content from before the trace until it has ended.
"""

from __future__ import annotations

import weakref
from typing import Any

from .lazy_graph import Array, Failed, ReplayOwnedArray, Value, notify, replay_count

_value: Any = Array.__dict__["value"]
_version: Any = Array.__dict__["version"]


class TracedState:
    """State of a storage inside a running trace, and outside of it.

    Attributes
    ----------
    trace : TraceHooks
        Its `visible()` says whether the calling thread sees the trace's changes.
    kind : type
        Class of the array outside of the trace.
    value : Value or None
        Content inside the trace.
    changes : int
        In-place changes by the trace.
    former : Value or None
        Rollback value outside of the trace; see `Array.former`.
    before : Value or None
        Content outside of the trace, once the trace has ended.
    version : int
        Version that every thread sees then.
    """

    __slots__ = ("before", "changes", "former", "kind", "trace", "value", "version")

    def __init__(self, trace: Any, kind: type[Array], former: Value | None) -> None:
        self.trace = trace
        self.kind = kind
        self.value: Value | None = None
        self.changes = 0
        self.former = former
        self.before: Value | None = None
        self.version = 0


class TracedArray(Array):
    """Storage whose in-place changes by a trace are isolated from other threads.

    An array becomes one by assignment to its `__class__`, in `isolate`; `former` is a
    `TracedState` then.
    """

    __slots__ = ()

    @property
    def value(self) -> Value:
        """Content as the calling thread sees it."""
        view: TracedState = self.former
        if view.value is not None and view.trace.visible():
            return view.value
        found: Value = _value.__get__(self)
        return found

    @value.setter
    def value(self, value: Value) -> None:
        _value.__set__(self, value)

    @property
    def version(self) -> int:
        """Number of in-place changes so far, as the calling thread sees it."""
        view: TracedState = self.former
        count: int = _version.__get__(self)
        if view.kind is ReplayOwnedArray:
            count += replay_count(_value.__get__(self))
        return count + view.changes if view.trace.visible() else count

    @version.setter
    def version(self, count: int) -> None:
        view: TracedState = self.former
        more = count - self.version
        if view.trace.visible():
            view.changes += more
        else:
            _version.__set__(self, _version.__get__(self) + more)

    def replace(self, value: Value) -> None:
        """Replace the content without an in-place change: saved versions stay valid."""
        view: TracedState = self.former
        node = value.node
        if node is not None:
            node.arrays = (*node.arrays, (weakref.ref(self), value))
        value.external_refs += 1
        notify(value, grew=True)
        if view.trace.visible():
            old, view.value = view.value, value
        else:
            old = _value.__get__(self)
            if node is not None and view.former is None and old.node is None:
                view.former = old
            _value.__set__(self, value)
        if old is not None:
            old.external_refs -= 1
            notify(old, grew=False)

    def settle(self, value: Value) -> None:
        """Commit or roll back one of the values that it has held."""
        view: TracedState = self.former
        if view.trace.ended:
            self.publish()
            self.settle(value)
            return
        now = _value.__get__(self)
        if now.node is None:
            if view.former is not None and type(now.buffer) is Failed:
                view.former.external_refs += 1
                notify(view.former, grew=True)
                _value.__set__(self, view.former)
                _version.__set__(self, _version.__get__(self) + 1)
            view.former = None

    def give_back(self, value: Value) -> None:
        """Restore an earlier lazy value after the flush of the last one failed."""
        view: TracedState = self.former
        if view.trace.ended:
            self.publish()
            self.give_back(value)

    def publish(self) -> None:
        """Publish the changes of a trace that has ended.

        Idempotent, as an interrupt may have cut it short.
        """
        view: TracedState = self.former
        if view.before is None:
            view.version = self.version
            view.before = _value.__get__(self)
        before, value = view.before, view.value
        former = view.former
        if value is not None:
            if value.node is None:
                former = None
            elif former is None and before.node is None:
                former = before
            # Rather too many for a moment than too few; see `ReplayOwnedArray.replace`.
            _version.__set__(self, view.version)
            _value.__set__(self, value)
        self.former, self.__class__ = former, view.kind  # type: ignore[assignment]
        self.version = view.version
        if value is not None:
            before.external_refs -= 1
            notify(before, grew=False)

    def discard(self) -> None:
        """Drop the changes of a trace that is not to end.

        Idempotent, as an interrupt may have cut it short.
        """
        view: TracedState = self.former
        value, view.value = view.value, None
        self.former, self.__class__ = view.former, view.kind  # type: ignore[assignment]
        if value is not None:
            value.external_refs -= 1
            notify(value, grew=False)

    def __del__(self) -> None:
        view: TracedState = self.former
        for value in (_value.__get__(self), view.value):
            if value is not None:
                value.external_refs -= 1
                notify(value, grew=False)


def isolate(array: Array, trace: Any) -> None:
    """Isolate the changes of a trace to a storage until the trace ends."""
    kind = type(array)
    view = TracedState(trace, kind, array.former)
    array.former, array.__class__ = view, TracedArray
