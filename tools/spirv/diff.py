"""Differences between the reports of two shaders."""

from collections.abc import Iterator
from dataclasses import dataclass

from .report import Report

# Lists of a report, and what their rows are told apart by.
_KEYS = {
    "capabilities": "name",
    "extensions": "name",
    "constants": "name",
    "buffers": "name",
    "members": "name",
    "fields": "name",
    "variables": "name",
}
# What names the shader or an instruction in it, and so differs in any case.
_LEFT_OUT = ("name", "number", "id", "offset", "bytes")


@dataclass(frozen=True)
class Change:
    """Difference between two reports.

    Attributes
    ----------
    where : str
        What: words of the report with dots between them.
    old, new : str, number or None
        Its values; None where it is not there.
    """

    where: str
    old: str | int | float | None
    new: str | int | float | None


def differences(old: Report, new: Report) -> list[Change]:
    """Return what differs between two reports, in their order.

    Parameters
    ----------
    old, new : Report
        As `report.report` makes them.
    """
    return list(_compare("", old, new))


def _compare(where: str, old: object, new: object) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if key not in _LEFT_OUT:
                inner = f"{where}.{key}" if where else str(key)
                yield from _compare(inner, old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list):
        key = _KEYS.get(where.rpartition(".")[2], "")
        before, after = _rows(old, key), _rows(new, key)
        for name in dict.fromkeys((*before, *after)):
            yield from _compare(f"{where}.{name}", before.get(name), after.get(name))
    elif old != new:
        yield Change(where, _plain(old), _plain(new))


def _rows(found: list[object], key: str) -> dict[object, object]:
    """Return a list by what tells its rows apart, or by position."""
    return {
        row[key] if key and isinstance(row, dict) else index: row
        for index, row in enumerate(found)
    }


def _plain(value: object) -> str | int | float | None:
    """Return a value as one line: what a whole row says, without its name."""
    if isinstance(value, dict):
        said = (
            f"{key} {_plain(part)}"
            for key, part in value.items()
            if key not in _LEFT_OUT and part not in ("", None, [], {})
        )
        return ", ".join(said) or "present"
    if isinstance(value, list | tuple):
        return "; ".join(str(_plain(part)) for part in value)
    return value if isinstance(value, str | int | float) else None
