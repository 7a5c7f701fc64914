"""Storages while a trace changes them: what it makes of them, it sees alone.

A traced function computes nothing, so what its storages hold meanwhile cannot be read.
Other threads go on with what they held before, until the trace has ended.
"""

from __future__ import annotations

import weakref
from typing import Any

from .lazy_graph import Array, BoundArray, Failed, Value, replays_of, tell

_value: Any = Array.__dict__["value"]
_version: Any = Array.__dict__["version"]


class Traced:
    """What a storage holds for a running trace, and what it was before.

    Attributes
    ----------
    trace : Listener
        Its `visible()` says whether the caller is to see what the trace does.
    kind : type
        Class of the array when no trace changes it.
    value : Value or None
        What it holds for the trace.
    changes : int
        How often the trace has changed it.
    former : Value or None
        See `Array.former`; of what others see.
    before : Value or None
        What others saw, once the trace has ended.
    version : int
        Of what everybody sees then.
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
    """A storage that a running trace changes, which other threads do not see.

    An array becomes one by assignment to its `__class__`, in `divert`; `former` is a
    `Traced` then.
    """

    __slots__ = ()

    @property
    def value(self) -> Value:
        """The content, as this thread is to see it."""
        view: Traced = self.former
        if view.value is not None and view.trace.visible():
            return view.value
        found: Value = _value.__get__(self)
        return found

    @value.setter
    def value(self, value: Value) -> None:
        _value.__set__(self, value)

    @property
    def version(self) -> int:
        """Number of changes in place so far, as this thread is to see it."""
        view: Traced = self.former
        count: int = _version.__get__(self)
        if view.kind is BoundArray:
            count += replays_of(_value.__get__(self))
        return count + view.changes if view.trace.visible() else count

    @version.setter
    def version(self, count: int) -> None:
        view: Traced = self.former
        more = count - self.version
        if view.trace.visible():
            view.changes += more
        else:
            _version.__set__(self, _version.__get__(self) + more)

    def replace(self, value: Value) -> None:
        """Hold another value, which is not a change for those who saved this one."""
        view: Traced = self.former
        node = value.node
        if node is not None:
            node.arrays = (*node.arrays, (weakref.ref(self), value))
        value.holders += 1
        tell(value, grew=True)
        if view.trace.visible():
            old, view.value = view.value, value
        else:
            old = _value.__get__(self)
            if node is not None and view.former is None and old.node is None:
                view.former = old
            _value.__set__(self, value)
        if old is not None:
            old.holders -= 1
            tell(old, grew=False)

    def settle(self, value: Value) -> None:
        """Note that one of the values that it has held is pending no longer."""
        view: Traced = self.former
        if view.trace.ended:
            self.join()
            self.settle(value)
            return
        now = _value.__get__(self)
        if now.node is None:
            if view.former is not None and type(now.buffer) is Failed:
                view.former.holders += 1
                tell(view.former, grew=True)
                _value.__set__(self, view.former)
                _version.__set__(self, _version.__get__(self) + 1)
            view.former = None

    def give_back(self, value: Value) -> None:
        """Hold an earlier value again, which is pending, where the last one failed."""
        view: Traced = self.former
        if view.trace.ended:
            self.join()
            self.give_back(value)

    def join(self) -> None:
        """Let everybody see what the trace did, which has ended.

        May be repeated, as it may have been interrupted.
        """
        view: Traced = self.former
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
            # For a moment too many rather than too few; see `BoundArray.replace`.
            _version.__set__(self, view.version)
            _value.__set__(self, value)
        self.former, self.__class__ = former, view.kind  # type: ignore[assignment]
        self.version = view.version
        if value is not None:
            before.holders -= 1
            tell(before, grew=False)

    def __del__(self) -> None:
        view: Traced = self.former
        for value in (_value.__get__(self), view.value):
            if value is not None:
                value.holders -= 1
                tell(value, grew=False)


def divert(array: Array, trace: Any) -> None:
    """Let only a trace see what it makes of a storage until it ends."""
    kind = type(array)
    view = Traced(trace, kind, array.former)
    array.former, array.__class__ = view, TracedArray
