"""The backward pass that runs, for hooks within it, and checks of its gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import BackwardPass
    from .tape import GradNode

check_gradients: list[Callable[[GradNode, tuple[Any, ...]], object]] = []
"""What each rule's gradients are passed to, as for `detect_anomaly`; usually empty."""


class _Running(threading.local):
    """Backward passes of this thread that run, one within the other."""

    def __init__(self) -> None:
        self.passes: list[BackwardPass] = []


running = _Running()


def running_pass() -> BackwardPass | None:
    """Return the innermost backward pass that runs in this thread."""
    return running.passes[-1] if running.passes else None
