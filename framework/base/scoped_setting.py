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

    Notes
    -----
    It ends at the latest when it is gone: who calls `__enter__` by hand holds it.
    """

    def __init__(self, setting: Setting, value: Any) -> None:
        self._setting = setting
        self._value = value
        # Links that have not been taken out, and whose they are: threads may share it.
        self._entered: dict[Link, dict[str, Any]] = {}

    def _recreate_cm(self: Self) -> Self:
        # As a decorator: each call has a block of its own.
        return type(self)(self._setting, self._value)

    def value(self, outer: Any) -> Any:
        """Return what holds inside, where `outer` holds around it."""
        return self._value

    def begun(self, link: Link) -> None:
        """Note that a block begins; may not come to its end."""

    def ended(self, link: Link) -> None:
        """Note that a block has ended; may be repeated, also where it has not begun."""

    def __enter__(self: Self) -> Self:
        setting = self._setting
        outer = setting.top
        link = Link(self.value(outer.value), outer)
        # The thread's own, as another one may be the last that holds the block.
        self._entered[link] = setting.__dict__
        link.over = False
        self.begun(link)
        setting.top = link
        return self

    def __exit__(self, *raised: object) -> None:
        mine = self._setting.__dict__
        entered = [*self._entered.items()]
        link, own = entered[-1]
        if own is not mine:
            # Generators may be closed by a thread that has not entered it.
            found = [each for each in entered if each[1] is mine]
            link, own = found[-1] if found else entered[-1]
        # The second time in case that an interrupt ends the first.
        try:
            self._leave(own, link)
        finally:
            self._leave(own, link)

    def _leave(self, own: dict[str, Any], link: Link) -> None:
        """Take out a link; may be repeated."""
        _take_out(own, link)
        if not link.over:
            self.ended(link)
            link.over = True
        self._entered.pop(link, None)

    def __del__(self) -> None:
        # There is nothing where an interrupt came while it was made.
        entered = getattr(self, "_entered", None)
        if entered:
            for link, own in reversed([*entered.items()]):
                self._leave(own, link)


def _take_out(own: dict[str, Any], link: Link) -> None:
    inner: Link | None = own["top"]
    if inner is link:
        own["top"] = link.outer
        return
    while inner is not None and inner.outer is not link:
        inner = inner.outer
    if inner is not None:
        inner.outer = link.outer
