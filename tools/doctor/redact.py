"""Redaction of the user's paths from reports."""

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

HIDDEN = "<hidden>"

_SYSTEM = (
    *("/usr", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/sys", "/dev"),
    *("/System", "/Library", "C:\\Windows", "C:\\Program Files"),
)
_STOP = r"\s'\"`,;:()\[\]{}<>|"
_MARK = "\0"
_KNOWN = re.compile(rf"{_MARK}(?:[/\\][^{_STOP}]*)?")
_ABSOLUTE = re.compile(rf"(?<![\w.{_MARK}>])(?:[A-Za-z]:\\|/)[^{_STOP}]+")
# A name with such an ending says what was looked for, not whose it is.
_TELLING = re.compile(r"[\w.+-]+\.(?:so(?:\.\d+)*|dll|dylib|json|bin|spv|py)$")


def user_paths() -> list[str]:
    """Return folders and files of the user that may occur in texts."""
    found = [os.path.expanduser("~"), os.getcwd(), sys.prefix, *sys.path]
    for name, value in os.environ.items():
        if name.startswith(("VK", "LD_LIBRARY", "DYLD", "XDG_", "TMP", "TEMP")):
            found += value.split(os.pathsep)
    return found


def hide(value: Any, paths: Iterable[str]) -> Any:
    """Return a report without paths, other than those of the system.

    Parameters
    ----------
    value : object
        Dictionaries, lists and plain values, as from JSON.
    paths : iterable of str
        Known paths, which are found also if they hold spaces.
    """
    private = {path for path in paths if os.path.isabs(path) and not _system(path)}
    private.discard(os.path.sep)
    return _hide(value, sorted(private, key=len, reverse=True))


def _hide(value: Any, private: list[str]) -> Any:
    if isinstance(value, dict):
        return {key: _hide(inner, private) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(inner, private) for inner in value]
    if not isinstance(value, str):
        return value
    for path in private:
        # Not where it is the beginning of another name.
        found = re.split(rf"{re.escape(path)}(?![\w.-])", value)
        value = f"{_MARK}{_telling_name(path)}".join(found)
    value = _KNOWN.sub(_short, value)
    return _ABSOLUTE.sub(_short, value)


def _short(found: re.Match[str]) -> str:
    path = found[0]
    if _system(path):
        return path
    return HIDDEN + _telling_name(path)


def _telling_name(path: str) -> str:
    """Return the last part of a path with its slash, if it is not the user's own."""
    name = re.split(r"[/\\]", path)[-1]
    return f"/{name}" if _TELLING.match(name) else ""


def _system(path: str) -> bool:
    return any(
        path == root or path.startswith((f"{root}/", f"{root}\\")) for root in _SYSTEM
    )
