"""Scoped thread-local settings, restored however their block is left.

An interrupt may come at any line, also when a block is left: then `__exit__` ends
early, or does not begin. The setting of a thread is therefore the innermost of a chain
of frames. Each block removes its own frame, wherever that stands and however often it
is tried, and at the latest when the block itself is freed.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any, TypeVar

Self = TypeVar("Self", bound="SettingScope")


class ScopeFrame:
    """Frame of one scope, in the chain of a thread.

    Attributes
    ----------
    value : object
        Setting inside the scope.
    outer : ScopeFrame or None
        Frame of the enclosing scope.
    closed : bool
        Whether there is nothing to undo.
    """

    __slots__ = ("closed", "outer", "value")

    def __init__(self, value: Any, outer: ScopeFrame | None = None) -> None:
        self.value = value
        self.outer = outer
        self.closed = True


class ScopedSetting(threading.local):
    """A thread-local setting; its value is `top.value`.

    Parameters
    ----------
    default : object
        Setting outside of all blocks.
    """

    def __init__(self, default: Any) -> None:
        self.top = ScopeFrame(default)


class SettingScope(ContextDecorator):
    """Scope, as a block or decorator, in which a setting has another value.

    Parameters
    ----------
    setting : ScopedSetting
        The setting.
    value : object
        Its value inside.

    Notes
    -----
    It ends at the latest when it is freed: callers of bare `__enter__` must keep it.
    """

    def __init__(self, setting: ScopedSetting, value: Any) -> None:
        self._setting = setting
        self._value = value
        # Frames that have not been removed, by owner: threads may share the scope.
        self._entered: dict[ScopeFrame, dict[str, Any]] = {}

    def _recreate_cm(self: Self) -> Self:
        # As a decorator: each call has a block of its own.
        return type(self)(self._setting, self._value)

    def value(self, outer: Any) -> Any:
        """Return the setting inside, where `outer` is the enclosing one."""
        return self._value

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Handle the start of a block; an interrupt may cut it short."""

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Handle the end of a block; idempotent, also without a start."""

    def __enter__(self: Self) -> Self:
        setting = self._setting
        outer = setting.top
        scope_frame = ScopeFrame(self.value(outer.value), outer)
        # The thread's own, as another one may hold the last reference to the block.
        self._entered[scope_frame] = setting.__dict__
        scope_frame.closed = False
        self.on_enter(scope_frame)
        setting.top = scope_frame
        return self

    def __exit__(self, *raised: object) -> None:
        mine = self._setting.__dict__
        scope_frame, own = mine["top"], mine
        if self._entered.get(scope_frame) is not mine:
            scope_frame, own = self._last_entered(mine)
        # Twice, in case an interrupt ends the first.
        try:
            self._leave(own, scope_frame)
        finally:
            if scope_frame in self._entered:
                self._leave(own, scope_frame)

    def _last_entered(self, mine: dict[str, Any]) -> tuple[ScopeFrame, dict[str, Any]]:
        """Return the frame to remove where it is not the innermost of this thread."""
        entered = [*self._entered.items()]
        scope_frame, own = entered[-1]
        if own is not mine:
            # Generators may be closed by a thread that has not entered it.
            found = [each for each in entered if each[1] is mine]
            scope_frame, own = found[-1] if found else entered[-1]
        return scope_frame, own

    def _leave(self, own: dict[str, Any], scope_frame: ScopeFrame) -> None:
        """Remove a frame; idempotent."""
        _unlink(own, scope_frame)
        if not scope_frame.closed:
            self.on_exit(scope_frame)
            scope_frame.closed = True
        self._entered.pop(scope_frame, None)

    def __del__(self) -> None:
        # It is missing where an interrupt came in the constructor.
        entered = getattr(self, "_entered", None)
        if entered:
            for scope_frame, own in reversed([*entered.items()]):
                self._leave(own, scope_frame)


def remove_frame(setting: ScopedSetting, scope_frame: ScopeFrame) -> None:
    """Remove a frame from the chain of this thread, wherever it stands in it."""
    _unlink(setting.__dict__, scope_frame)


def _unlink(own: dict[str, Any], scope_frame: ScopeFrame) -> None:
    inner: ScopeFrame | None = own["top"]
    if inner is scope_frame:
        own["top"] = scope_frame.outer
        return
    while inner is not None and inner.outer is not scope_frame:
        inner = inner.outer
    if inner is not None:
        inner.outer = scope_frame.outer
