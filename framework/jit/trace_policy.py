"""Kinds of calls of a function: which are worth a trace, and which are too many."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable

from ..base.trace_hooks import Structure
from .signature import Call

MOST_ATTEMPTS = 4
"""Traces in a row without a replay after which a kind of call is no longer traced."""

MOST_IN_VAIN = 16
"""Traces of any kind, at least, with as few replays after which there is a warning.

If none of them could be kept, the function is no longer traced.
"""

MOST_KINDS = 256
"""Kinds of calls of which something is remembered beside those that are replayed."""


class Kind:
    """What is known of calls with the same key.

    Attributes
    ----------
    attempts : int
        Traces since the last replay.
    """

    def __init__(self, call: Call) -> None:
        self.attempts = 0
        self._plain = -1
        self._kept = [_weakly(each) for each in call.kept]

    @property
    def plain(self) -> bool:
        """Whether its calls run as they are, until something moves to a device."""
        return self._plain == Structure.changes or self.attempts >= MOST_ATTEMPTS

    def asked_nothing(self) -> None:
        """Note that a call asked nothing of a device."""
        self.attempts = 0
        self._plain = Structure.changes

    def outlived(self) -> bool:
        """Return whether an object is gone that the key names by its number."""
        return any(each() is None for each in self._kept)


class Kinds:
    """What is known of all calls of a function.

    Parameters
    ----------
    most : int
        Kinds of which traces are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._window = max(MOST_IN_VAIN, 2 * most)
        self._kinds: OrderedDict[object, Kind] = OrderedDict()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._kinds.clear()
        self._traces = self._refused = self._before = 0
        self._reason = self._unfit = ""
        self._said = self._given_up = False

    def __len__(self) -> int:
        """Return the number of kinds that are remembered."""
        return len(self._kinds)

    def of(self, call: Call) -> Kind:
        """Return what is known of calls like this one."""
        kind = self._kinds.pop(call.key, None)
        if kind is None or kind.outlived():
            kind = Kind(call)
        self._kinds[call.key] = kind
        if len(self._kinds) > self._most + MOST_KINDS:
            self._kinds.popitem(last=False)
        return kind

    def replayed(self, key: object) -> None:
        """Note that a call of a kind was replayed."""
        kind = self._kinds.get(key)
        if kind is not None:
            kind.attempts = 0

    def unfit(self, place: str) -> None:
        """Note that a trace no longer fits, as a place holds something else."""
        self._unfit = place

    def refused(self, reason: str) -> None:
        """Note that a trace cannot be kept."""
        self._refused += 1
        self._reason = reason

    def kept(self) -> None:
        """Note that a trace is kept."""
        self._refused = 0

    def trace(self, kind: Kind, replays: int) -> str:
        """Count a trace that is about to begin.

        Parameters
        ----------
        kind : Kind
            Of the call.
        replays : int
            Of the function so far.

        Returns
        -------
        str
            What to warn of; empty if nothing.
        """
        said = ""
        if self._traces >= self._window:
            if replays - self._before <= self._traces and not self._said:
                said, self._said = self._most_calls(replays - self._before), True
            self._traces, self._before = 0, replays
        self._traces += 1
        kind.attempts += 1
        return said

    def undone(self, kind: Kind) -> None:
        """Count a trace no longer, as it ended in an error or asked for nothing."""
        self._traces -= 1
        kind.attempts -= 1

    def _most_calls(self, replays: int) -> str:
        why = (
            f"{self._unfit} is another one again and again"
            if self._unfit
            else f"more than max_traces = {self._most} kinds of calls take turns, or"
            " numbers or objects among the arguments are others in each call; numbers"
            " in tensors may change"
        )
        return f"was traced {self._traces} times for {replays} replays: {why}"

    def give_up(self) -> tuple[bool, str]:
        """Return whether to trace no more, as nothing was kept, and what to say."""
        if self._refused < self._window:
            return False, ""
        said = "" if self._given_up else f"runs without replay: {self._reason}"
        self._given_up = self._said = True
        return True, said


def _weakly(value: object) -> Callable[[], object]:
    """Return what returns an object, or None if it is gone and says so."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: True
