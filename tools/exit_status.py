"""Exit statuses of commands: an error that its user can mend is one line."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TextIO

from vkbackend import Error

PIPE_CLOSED = 141
"""Exit status where the reader has gone, as shells have it for SIGPIPE."""

REFUSED = 2
"""Exit status of a command that cannot be carried out."""


def outcome(name: str, command: Callable[[], int]) -> int:
    """Return the exit status of a command, with errors of the library in one line.

    Parameters
    ----------
    name : str
        What errors begin with.
    command : callable
        Does all of it and returns its status.
    """
    try:
        status = command()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return PIPE_CLOSED
    except (Error, OSError) as error:
        _silence()
        print(f"{name}: {error}", file=sys.stderr)
        return REFUSED
    return status


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream, which may be closed, is a terminal."""
    return stream is not None and stream.isatty()


def _silence() -> None:
    """Let what is left in the buffer, and cannot be written, go nowhere at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
