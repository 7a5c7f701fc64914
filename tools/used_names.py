"""Names of PyTorch that other packages use, and which of them are here.

    python -m vkbackend.tools.used_names    print the shares, and what is missing

The names stand in used_names.txt, with the number of packages that use each.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vkbackend.framework as fw
from vkbackend.framework.base.absent import Absent

NAMES = Path(__file__).with_name("used_names.txt")
HERE, RAISES, MISSING = "here", "raises", "missing"


@dataclass(frozen=True)
class Used:
    """A name that other packages use.

    Parameters
    ----------
    name : str
        Without `torch.`.
    packages : int
        How many packages use it.
    state : str
        Whether it is here, is here to raise when it is called, or is missing.
    why : str
        What it says when it is called.
    """

    name: str
    packages: int
    state: str
    why: str = ""


def names() -> dict[str, int]:
    """Return the number of packages by name."""
    lines = NAMES.read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line[:1] != "#")
    return {name: int(packages) for name, packages in rows}


def found(name: str) -> Any:
    """Return what the library has by a name, imported where need be, or None."""
    value: Any = fw
    path = fw.__name__
    for part in name.split("."):
        path += f".{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(path)
            except ImportError:
                return None
    return value


def used() -> list[Used]:
    """Return the names with their states, those that most packages use first."""
    rows = []
    for name, packages in sorted(names().items(), key=lambda row: (-row[1], row[0])):
        value = found(name)
        if isinstance(value, type) and issubclass(value, Absent):
            rows.append(Used(name, packages, RAISES, value._why))
        else:
            state = MISSING if value is None else HERE
            rows.append(Used(name, packages, state))
    return rows


def shares(rows: Sequence[Used]) -> tuple[float, float]:
    """Return the share of names that work, and of those that can be imported."""
    states = [row.state for row in rows]
    here = states.count(HERE)
    return here / len(rows), (here + states.count(RAISES)) / len(rows)


def section(reason: Callable[[str], str]) -> str:
    """Return the part of the page of PyTorch's names, as Markdown.

    Parameters
    ----------
    reason : callable
        Gives the reason for a name that is missing.
    """
    rows = used()
    works, imports = shares(rows)
    text = (
        f"Of the {len(rows)} names that two or more of 50 well-known packages use,"
        f" {100 * works:.1f} % work and {100 * imports:.1f} % can be imported;"
        " the others raise by name when they are called:\n\n"
        "| name | packages | not here: what instead |\n| --- | --- | --- |\n"
    )
    by_text: dict[str, list[Used]] = {}
    for row in rows:
        if row.state != HERE:
            said = row.why or reason(row.name)
            by_text.setdefault(said[:1].upper() + said[1:], []).append(row)
    for said, each in by_text.items():
        listed = " ".join(f"`{row.name}`" for row in each)
        text += (
            f"| {listed} | {', '.join(str(row.packages) for row in each)} | {said} |\n"
        )
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the shares and what does not work; the exit status is 0."""
    rows = used()
    works, imports = shares(rows)
    print(f"{len(rows)} names: {works:.2%} work, {imports:.2%} can be imported")
    for row in rows:
        if row.state != HERE:
            print(f"{row.packages} {row.name}: {row.why or row.state}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
