"""Script runner: runs a user's program inside a command that observes it."""

import contextlib
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path


def missing(path: str) -> str:
    """Return why there is no such program, or an empty string."""
    if Path(path).is_file() or _is_module(path):
        return ""
    return f"there is no file or module {path}"


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def run_as_main(path: str, arguments: Sequence[str]) -> None:
    """Run a Python file, or a module by its name, as Python itself would.

    What it prints goes to standard error, for standard output is the command's. What it
    raises, `SystemExit` included, is the caller's.
    """
    kept = sys.argv, [*sys.path]
    sys.argv = [path, *arguments]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if Path(path).is_file():
                sys.path.insert(0, str(Path(path).resolve().parent))
                runpy.run_path(path, run_name="__main__")
            else:
                runpy.run_module(path, run_name="__main__", alter_sys=True)
    finally:
        sys.argv, sys.path[:] = kept
