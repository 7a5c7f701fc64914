"""Determinism: whether sums may depend on the order of atomics."""

from __future__ import annotations

from . import trace_hooks
from .device import change_setting


class _Setting:
    """The mode, one for all threads."""

    deterministic = False


def is_deterministic() -> bool:
    """Return whether results must be the same in each run."""
    return _Setting.deterministic


def set_deterministic(mode: bool) -> None:
    """Set whether results must be the same in each run.

    Cached backward passes and traces of the other mode are not used.
    """
    if mode is not _Setting.deterministic:
        trace_hooks.refuse("determinism is set, which a replay does not repeat")
        change_setting("deterministic", _Setting.deterministic, mode)
        _Setting.deterministic = mode
