"""The garbage collector: paused where it would find nothing, or run less often."""

import contextlib
import gc
from collections.abc import Iterator

DEFERRED_OBJECTS = 1 << 17
"""New objects after which the collector looks for garbage while it is deferred.

The tape of a training step has tens of thousands, which all live until the backward
pass: from Python's 700 on it went through them fifty times a step, and every third time
through all objects of the process. A fine-tuning step of 28 layers spent a third of the
host's time on that.
"""


KEPT_OBJECTS = 1 << 14
"""Objects that may be left by steps of a training before garbage is looked for.

After a backward pass the collector would go through what the loss still holds of the
tape, each time: up to a fifth of the host's time.
"""


class Deferral:
    """State of the deferral of collections.

    Attributes
    ----------
    active : bool
        Whether a forward or backward pass runs that they are deferred for.
    kept : bool
        Whether they stay deferred after it: a training goes on.
    most : int
        New objects after a backward pass with which it ends; 0 before the first one.
    thresholds : tuple of int or None
        Those of the program, while others are set.
    """

    __slots__ = ("active", "kept", "most", "thresholds")

    def __init__(self) -> None:
        self.active = self.kept = False
        self.most = 0
        self.thresholds: tuple[int, int, int] | None = None


deferral = Deferral()
"""`active` is to be asked before `defer_collections` where many calls are nested."""


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Let no garbage be looked for in a block, and leave the collector as it was."""
    enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


def defer_collections() -> bool:
    """Let the collector look for garbage less often; return whether to resume it.

    Not where that is deferred already, or as seldom by the program's own thresholds.
    """
    if deferral.active:
        return False
    now = gc.get_threshold()
    if deferral.thresholds is None or now[0] != DEFERRED_OBJECTS:
        if not 0 < now[0] < DEFERRED_OBJECTS:
            return False
        deferral.thresholds = now
        gc.set_threshold(DEFERRED_OBJECTS, *now[1:])
    deferral.active = True
    return True


def resume_collections(tape: bool) -> None:
    """End what `defer_collections` began for a forward pass, unless it left a tape."""
    deferral.active = False
    deferral.kept = deferral.kept or tape
    if not deferral.kept:
        _restore()


def resume_after_backward() -> None:
    """End what `defer_collections` began, where steps have left many objects."""
    count = gc.get_count()[0]
    deferral.most = deferral.most or count + KEPT_OBJECTS
    deferral.active, deferral.kept = False, count < deferral.most
    if not deferral.kept:
        deferral.most = 0
        _restore()


def _restore() -> None:
    """Set the program's thresholds, unless it has set others since."""
    before, deferral.thresholds = deferral.thresholds, None
    if before is not None and gc.get_threshold()[0] == DEFERRED_OBJECTS:
        gc.set_threshold(*before)
