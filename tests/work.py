"""Work counted in lines of Python that run, which no other program can change.

Where the work is done in C, as in NumPy, a line counts as one like any other.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

COUNT = """
lines = 0
def count(frame, event, argument):
    global lines
    lines += event == "line"
    return count
"""
"""Defines `count` for `sys.settrace`, which adds to `lines`; for other processes."""


def lines_run(action: Callable[[], object]) -> int:
    """Return how many lines of Python an action runs."""
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines
