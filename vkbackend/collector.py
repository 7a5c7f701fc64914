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


class _Deferral:
    """Whether collections are deferred, by some thread."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active = False


deferral = _Deferral()
"""Asked before `defer_collections` where many calls are nested."""


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


def defer_collections() -> tuple[int, int, int] | None:
    """Let the collector look for garbage less often; return the thresholds before.

    None where they are deferred already, or as seldom by the program's own settings.
    """
    before = gc.get_threshold()
    if deferral.active or not 0 < before[0] < DEFERRED_OBJECTS:
        return None
    deferral.active = True
    gc.set_threshold(DEFERRED_OBJECTS, *before[1:])
    return before


def resume_collections(before: tuple[int, int, int] | None) -> None:
    """Let the collector look for garbage as before, unless that was changed since."""
    if before is not None:
        if gc.get_threshold()[0] == DEFERRED_OBJECTS:
            gc.set_threshold(*before)
        deferral.active = False
