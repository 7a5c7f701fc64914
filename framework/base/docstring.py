"""Sections of docstrings, which functions share: each is written once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .parameters import parameter_stars

if TYPE_CHECKING:
    from .dtype import DType

Function = TypeVar("Function", bound=Callable[..., Any])

_HEAD = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)
_INDENTATION = re.compile(r"\n([ ]*)(?=[^ \n])")


def cleaned(doc: str | None) -> str:
    """Return a docstring without its indentation: `inspect.cleandoc`, but for tabs.

    It takes a tenth of the time, and importing asks for hundreds.
    """
    if not doc:
        return ""
    margin = min(_INDENTATION.findall(doc), default="")
    return doc.replace(f"\n{margin}", "\n").strip()


def section(doc: str, title: str) -> str:
    """Return the text of a section of a clean docstring, or "" where there is none."""
    start = doc.find(f"{title}\n---")
    if start < 0:
        return ""
    body = doc.index("\n", start + len(title) + 1) + 1
    following = _HEAD.search(doc, body)
    return doc[body : following.start() if following else len(doc)].strip("\n")


def with_parameters(doc: str, entries: str) -> str:
    """Return a clean docstring with these entries as its section of parameters.

    Parameters
    ----------
    doc : str
        One with such a section gets this in its place.
    entries : str
        Text below the section's title.
    """
    old = section(doc, "Parameters")
    if old:
        return doc.replace(old, entries)
    following = _HEAD.search(doc)
    place = following.start() if following else len(doc)
    before, after = doc[:place].rstrip("\n"), doc[place:]
    parts = [before, f"Parameters\n----------\n{entries}", after]
    return "\n\n".join(part for part in parts if part)


def entries_of(doc: str) -> dict[tuple[str, ...], str]:
    """Return what a section of parameters says, by the names that each entry has."""
    found: dict[tuple[str, ...], str] = {}
    names: tuple[str, ...] = ()
    for line in section(doc, "Parameters").splitlines():
        if line[:1].strip():
            head, colon, kind = line.partition(" : ")
            names = tuple(name.strip() for name in head.split(","))
            found[names] = f"{colon}{kind}"
        else:
            found[names] += f"\n{line}"
    return found


def shares_parameters(
    source: Callable[..., Any], **renamed: str
) -> Callable[[Function], Function]:
    """Decorate a function that takes parameters of another, described there.

    Its docstring gets their entries beside its own, and that function's errors if it
    has no section of errors. A class has no errors of the function that it calls later.

    Parameters
    ----------
    source : callable
        Whose docstring has them.
    **renamed : str
        Names in `source`, by other names here.
    """

    def decorate(function: Function) -> Function:
        if function.__doc__ is None or source.__doc__ is None:  # python -OO
            return function
        doc, shared = cleaned(function.__doc__), cleaned(source.__doc__)
        stars = parameter_stars(function)
        texts: dict[str, str] = {}
        for entries in (entries_of(shared), entries_of(doc)):
            for names, text in entries.items():
                texts |= {name.lstrip("*"): text for name in names}
        texts |= {ours: texts[theirs] for ours, theirs in renamed.items()}
        known = {name: star for name, star in stars.items() if name in texts}
        doc = with_parameters(doc, _listed(known, texts))
        errors = section(shared, "Raises")
        if errors and not (isinstance(function, type) or section(doc, "Raises")):
            doc += f"\n\nRaises\n------\n{errors}"
        function.__doc__ = doc
        return function

    return decorate


def _listed(stars: dict[str, str], texts: dict[str, str]) -> str:
    """Return the entries of parameters; those of the same text are one entry."""
    groups: list[tuple[list[str], str]] = []
    for name, star in stars.items():
        shown = star + name
        if groups and groups[-1][1] == texts[name]:
            groups[-1][0].append(shown)
        else:
            groups.append(([shown], texts[name]))
    return "\n".join(", ".join(group) + text for group, text in groups)


KINDS = {
    "bool": "bool",
    "integer": "uint8 uint16 uint32 uint64 int8 int16 int32 int64",
    "float": "float16 bfloat16 float32 float64",
    "complex": "complex64 complex128",
}
"""Dtypes by the words that docstrings have for all of a kind."""


def dtype_words(dtypes: Sequence[DType]) -> str:
    """Return dtypes in words: "integer, float or complex", and "" for none."""
    names = [dtype.name for dtype in dtypes]
    words: list[str] = []
    for kind, members in KINDS.items():
        found = [name for name in members.split() if name in names]
        words += [kind] if len(found) == len(members.split()) else found
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
