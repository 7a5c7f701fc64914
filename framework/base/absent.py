"""What PyTorch has and this library has not: it is imported, and raises when used."""

from __future__ import annotations

from typing import Any


class Absent:
    """Base of the names that are not here: making or calling one raises.

    They are classes, so that `isinstance(x, name)`, which is False, and subclasses of
    them can be written.

    Raises
    ------
    NotImplementedError
        Always; the text says what to do instead.
    """

    _said = ""
    _why = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(self._said)


def absent(address: str, name: str, why: str) -> type[Absent]:
    """Return the class that stands for a name that is not here."""
    said = f"{address}.{name} is not here: {why}"
    doc = f"Raise `NotImplementedError`: {why}"
    about = {"_said": said, "_why": why, "__doc__": doc, "__module__": address}
    return type(name, (Absent,), about)
