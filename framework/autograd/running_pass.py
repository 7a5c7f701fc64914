"""The backward pass that runs, for hooks within it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import BackwardPass


class _Running(threading.local):
    """Backward passes of this thread that run, one within the other."""

    def __init__(self) -> None:
        self.passes: list[BackwardPass] = []


running = _Running()


def running_pass() -> BackwardPass | None:
    """Return the innermost backward pass that runs in this thread."""
    return running.passes[-1] if running.passes else None
