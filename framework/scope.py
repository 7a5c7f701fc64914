"""Settings of a thread that hold for a block, and are undone however it is left.

An interrupt may come at any line, also when a block is left: then `__exit__` ends
before its time, or does not begin. What holds in a thread is therefore the innermost of
a chain of links. Each block takes out its own link, wherever that stands and as often
as it is tried, and at the latest when the block itself is gone.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any, TypeVar

Self = TypeVar("Self", bound="Block")


class Link:
    """What one block sets.

    Attributes
    ----------
    value : object
        What holds inside.
    outer : Link or None
        The block around it.
    over : bool
        Whether there is nothing to undo.
    """

    __slots__ = ("outer", "over", "value")

    def __init__(self, value: Any, outer: Link | None = None) -> None:
        self.value = value
        self.outer = outer
        self.over = True


class Setting(threading.local):
    """What holds in a thread: `top.value`.

    Parameters
    ----------
    default : object
        What holds outside of all blocks.
    """

    def __init__(self, default: Any) -> None:
        self.top = Link(default)


class Block(ContextDecorator):
    """A block, or function, in which something else holds for a thread.

    Parameters
    ----------
    setting : Setting
        What is set.
    value : object
        What holds inside.
    """

    # Of the class too, for one that was interrupted while it was made.
    _entered: tuple[tuple[dict[str, Any], Link], ...] = ()

    def __init__(self, setting: Setting, value: Any) -> None:
        self._setting = setting
        self._value = value

    def _recreate_cm(self: Self) -> Self:
        # As a decorator: each call has a block of its own.
        return type(self)(self._setting, self._value)

    def value(self, outer: Any) -> Any:
        """Return what holds inside, where `outer` holds around it."""
        return self._value

    def begun(self) -> None:
        """Note that a block begins."""

    def ended(self) -> None:
        """Note that a block has ended."""

    def __enter__(self: Self) -> Self:
        setting = self._setting
        outer = setting.top
        link = Link(self.value(outer.value), outer)
        # The thread's own, as another one may be the last that holds the block.
        self._entered = (*self._entered, (setting.__dict__, link))
        self.begun()
        link.over = False
        setting.top = link
        return self

    def __exit__(self, *raised: object) -> None:
        entered = self._entered
        # The second time in case that an interrupt ends the first.
        try:
            self._leave(entered)
        finally:
            self._leave(entered)

    def _leave(self, entered: tuple[tuple[dict[str, Any], Link], ...]) -> None:
        """Take out the last link of some; may be repeated."""
        own, link = entered[-1]
        _take_out(own, link)
        if not link.over:
            link.over = True
            self.ended()
        self._entered = entered[:-1]

    def __del__(self) -> None:
        for count in range(len(self._entered), 0, -1):
            self._leave(self._entered[:count])


def _take_out(own: dict[str, Any], link: Link) -> None:
    inner: Link | None = own["top"]
    if inner is link:
        own["top"] = link.outer
        return
    while inner is not None and inner.outer is not link:
        inner = inner.outer
    if inner is not None:
        inner.outer = link.outer
