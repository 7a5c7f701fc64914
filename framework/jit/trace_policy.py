"""Trace policy: which call signatures are traced, and when to give up."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..base.trace_hooks import Structure
from ..ir.lazy_graph import Array
from .signature import CallSignature

MAX_TRACE_ATTEMPTS = 4
"""Traces in a row without a replay, after which a signature is no longer traced."""

MIN_TRACE_WINDOW = 16
"""Traces, at least, with no more replays, after which there is a warning.

If none of them could be cached, the function is no longer traced.
"""

WHOLE_TRACES = 2
"""Traces of one form, by dtypes and numbers of dimensions, before others are expected.

Their kernels have the size that is best for them; those of further ones have sizes that
all share, as of a loop's steps, which may be any number.
"""

MAX_CALL_KINDS = 256
"""Signatures with statistics beside those that are replayed, at most."""


class CallKind:
    """Statistics of calls with the same signature.

    Attributes
    ----------
    key : hashable
        Of the signature.
    attempts : int
        Traces since the last replay.
    shared : list of (weak reference to Array, device)
        Storages that a trace changed which was refused as they shared values with
        others: the next trace parts them first.
    """

    def __init__(self, call: CallSignature) -> None:
        self.key = call.key
        self.attempts = 0
        self.shared: list[tuple[weakref.ref[Array], Any]] = []
        self._untraced_epoch = -1
        self._kept = [_weak_reference(each) for each in call.identity_keys]

    @property
    def untraced(self) -> bool:
        """Whether its calls run untraced, until something moves to a device."""
        return (
            self._untraced_epoch == Structure.changes
            or self.attempts >= MAX_TRACE_ATTEMPTS
        )

    def ran_no_ops(self) -> None:
        """Record that a call ran no op on a device."""
        self.attempts = 0
        self._untraced_epoch = Structure.changes

    def is_stale(self) -> bool:
        """Return whether an object is gone that the key names by `id`."""
        return any(each() is None for each in self._kept)


class TracePolicy:
    """Trace policy of a function: statistics of its calls by signature.

    Parameters
    ----------
    most : int
        Signatures whose traces are cached.
    """

    def __init__(self, most: int) -> None:
        self._max_traces = most
        self._window = max(MIN_TRACE_WINDOW, 2 * most)
        self._kinds: OrderedDict[object, CallKind] = OrderedDict()
        self._forms: dict[object, set[object]] = {}
        self.clear()

    def clear(self) -> None:
        """Reset all statistics."""
        self._kinds.clear()
        self._forms.clear()
        self._traces = self._refused = self._before = 0
        self._reason = self._failed_guard = ""
        self._warned = self._given_up = False

    def __len__(self) -> int:
        """Return the number of known signatures."""
        return len(self._kinds)

    def of(self, call: CallSignature) -> CallKind:
        """Return the statistics of calls with this signature."""
        kind = self._kinds.pop(call.key, None)
        if kind is None or kind.is_stale():
            kind = CallKind(call)
        self._kinds[call.key] = kind
        if len(self._kinds) > self._max_traces + MAX_CALL_KINDS:
            self._kinds.popitem(last=False)
        return kind

    def varies(self, call: CallSignature) -> bool:
        """Return whether a trace is to share its kernels with those of other sizes.

        The same for each trace of a call.
        """
        form = tuple([(each.ndim, each.dtype) for each in call.inputs])
        known = self._forms.setdefault(form, set())
        if len(known) < WHOLE_TRACES:
            known.add(call.key)
        return call.key not in known

    def replayed(self, key: object) -> None:
        """Record a replay."""
        kind = self._kinds.get(key)
        if kind is not None:
            kind.attempts = 0

    def guard_failed(self, place: str) -> None:
        """Record that a guard of a trace failed."""
        self._failed_guard = place

    def refused(self, reason: str) -> None:
        """Record that a trace cannot be cached."""
        self._refused += 1
        self._reason = reason

    def kept(self) -> None:
        """Record that a trace is cached."""
        self._refused = 0

    def trace(self, kind: CallKind, replays: int) -> str:
        """Count a trace that is about to begin.

        Parameters
        ----------
        kind : Kind
            Statistics of the call's signature.
        replays : int
            Replays of the function so far.

        Returns
        -------
        str
            A warning; empty if none.
        """
        warning = ""
        if self._traces >= self._window:
            if replays - self._before <= self._traces and not self._warned:
                warning, self._warned = (
                    self._retrace_warning(replays - self._before),
                    True,
                )
            self._traces, self._before = 0, replays
        self._traces += 1
        kind.attempts += 1
        return warning

    def uncount(self, kind: CallKind) -> None:
        """Uncount a trace that ended in an error or recorded nothing."""
        self._traces -= 1
        kind.attempts -= 1

    def _retrace_warning(self, replays: int) -> str:
        why = (
            f"{self._failed_guard} is another one again and again"
            if self._failed_guard
            else f"more than max_traces = {self._max_traces} kinds of calls take"
            " turns, or objects among the arguments, or numbers that decide sizes or"
            " branches, are others in each call"
        )
        return f"was traced {self._traces} times for {replays} replays: {why}"

    def give_up(self) -> tuple[bool, str]:
        """Return whether to trace no more, as no trace was cached, and a warning."""
        if self._refused < self._window:
            return False, ""
        warning = "" if self._given_up else f"runs without replay: {self._reason}"
        self._given_up = self._warned = True
        return True, warning


def _weak_reference(value: object) -> Callable[[], object]:
    """Return a weak reference; of an object without any, a callable returning True."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: True
