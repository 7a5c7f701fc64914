"""Page of PyTorch's public names, and which of them are here.

    python -m vkbackend.tools.from_pytorch            write docs/FROM_PYTORCH.md
    python -m vkbackend.tools.from_pytorch --check    only say whether it is current
    python -m vkbackend.tools.from_pytorch --missing  print the names that are not here
    python -m vkbackend.tools.from_pytorch --collect  ask the installed PyTorch for its
                                                      names, write pytorch_names.toml

Whether a name is here is asked of the library. What differs, and why something is not
here, stands in from_pytorch.toml. Run it in a checkout: the page is no part of the
package.
"""

import argparse
import importlib
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import vkbackend.framework as fw
from vkbackend.tools import used_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = Path(__file__).resolve().parents[1] / "docs" / "FROM_PYTORCH.md"
REMARKS = Path(__file__).with_name("from_pytorch.toml")
NAMES = Path(__file__).with_name("pytorch_names.toml")

HERE, DIFFERS, ABSENT = "here", "differs", "absent"

FROM_CLASSES = ("Tensor", "nn.Module")
"""Namespaces that are the attributes of a class."""

INCOMPLETE = ("torch", "fft", "cuda")
"""Namespaces whose `__all__` lacks names that are documented."""

NAMES_HEADING = """\
# Public names of PyTorch by namespace, made by
# `python -m vkbackend.tools.from_pytorch --collect`.
version = "{version}"

[names]
"""
LINE = "| {name} | {total} | {here} | {differs} | {absent} | {share} |\n"


@dataclass(frozen=True)
class Remarks:
    """What was written by hand.

    Parameters
    ----------
    heading : str
        How the page begins, up to the counts.
    differs, absent : dict
        Texts by full name, or pattern of full names. Of several patterns the first
        counts, and a name before any pattern.
    namespaces : dict
        Texts by namespace that is not here as a whole.
    left_out : dict
        Patterns of names that are not collected, by namespace; "" is every one.
    """

    heading: str
    differs: Mapping[str, str]
    absent: Mapping[str, str]
    namespaces: Mapping[str, str]
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)


def remarks() -> Remarks:
    """Return what was written by hand."""
    table = tomllib.loads(REMARKS.read_text(encoding="utf-8"))
    for key in (DIFFERS, ABSENT):
        table[key] = {
            name: entry["text"]
            for entry in table[key]
            for name in entry["names"].split()
        }
    return Remarks(**table)


def collected() -> tuple[str, dict[str, list[str]]]:
    """Return PyTorch's version, and its names by namespace."""
    table = tomllib.loads(NAMES.read_text(encoding="utf-8"))
    return table["version"], {
        space: names.split() for space, names in table["names"].items()
    }


def full_name(space: str, name: str) -> str:
    """Return a name as it stands in the remarks: `abs`, `nn.Linear`."""
    return f"{space}.{name}" if space != "torch" else name


def is_here(name: str) -> bool:
    """Return whether the library has what a full name says."""
    found: Any = fw
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def remark(name: str, texts: Mapping[str, str]) -> str | None:
    """Return the text of a full name, or of the first pattern that it matches."""
    if name in texts:
        return texts[name]
    patterns = (each for each in texts if "*" in each and fnmatchcase(name, each))
    return next((texts[each] for each in patterns), None)


def state_of(name: str, known: Remarks) -> tuple[str, str]:
    """Return whether a full name is here, and what is to be said of it."""
    if is_here(name):
        text = remark(name, known.differs)
        return (HERE, "") if text is None else (DIFFERS, text)
    return ABSENT, remark(name, known.absent) or ""


def states() -> Iterator[tuple[str, str, str, str]]:
    """Yield namespace, name, state and text of each of PyTorch's names."""
    known = remarks()
    for space, names in collected()[1].items():
        for name in names:
            yield space, name, *state_of(full_name(space, name), known)


# The names of the installed PyTorch.


def torch_names(space: str, known: Remarks) -> list[str]:
    """Return the public names of a namespace of the installed PyTorch."""
    path = "torch" if space == "torch" else f"torch.{space}"
    if space in FROM_CLASSES:
        parent, _, name = path.rpartition(".")
        owner = getattr(importlib.import_module(parent), name)
    else:
        owner = importlib.import_module(path)
    listed = {*getattr(owner, "__all__", ())}
    if not listed or space in INCOMPLETE:
        listed |= {*dir(owner)}
    patterns = [*known.left_out.get("", ()), *known.left_out.get(space, ())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(
            name
            for name in listed
            if not name.startswith("_")
            and not any(fnmatchcase(name, pattern) for pattern in patterns)
            and not is_foreign(getattr(owner, name, None))
        )


def is_foreign(value: object) -> bool:
    """Return whether something is a module, or was imported from outside PyTorch."""
    if isinstance(value, ModuleType):
        return True
    module = getattr(value, "__module__", None) or type(value).__module__
    return module.partition(".")[0] in ("typing", "dataclasses", "collections")


def collect() -> str:
    """Return the names of the installed PyTorch as TOML."""
    torch = importlib.import_module("torch")
    text = NAMES_HEADING.format(version=torch.__version__.partition("+")[0])
    known = remarks()
    for space in collected()[1]:
        names = "\n".join(wrapped(torch_names(space, known)))
        text += f'"{space}" = """\n{names}\n"""\n'
    return text


# The page.


def wrapped(words: Sequence[str]) -> list[str]:
    """Return words in lines of 88 columns."""
    return textwrap.wrap(
        " ".join(words), 88, break_long_words=False, break_on_hyphens=False
    )


def render() -> str:
    """Return the page as Markdown."""
    version, names = collected()
    known = remarks()
    rows = [*states()]
    text = known.heading.format(version=version) + counts(rows)
    text += f"\n{used_names.section(lambda name: remark(name, known.absent) or '')}"
    for space in names:
        title = "torch" if space == "torch" else f"torch.{space}"
        text += f"\n## {title}\n\n"
        text += section([row[1:] for row in rows if row[0] == space])
    text += "\n## Other namespaces\n\n| namespace | what there is, or what instead |\n"
    text += "| --- | --- |\n"
    for space, why in known.namespaces.items():
        text += f"| `torch.{space}` | {why} |\n"
    return text


def counts(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Return the table of the numbers of names."""
    text = (
        "| namespace | names | here | with a difference | not here | share |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    for space in (*dict.fromkeys(row[0] for row in rows), ""):
        found = [row[2] for row in rows if space in (row[0], "")]
        absent = found.count(ABSENT)
        text += LINE.format(
            name=f"`{space}`" if space else "all",
            total=len(found),
            here=found.count(HERE),
            differs=found.count(DIFFERS),
            absent=absent,
            share=f"{100 * (len(found) - absent) // len(found)} %",
        )
    return text


def section(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return the part of a namespace: what is here, what differs, what is not."""
    here = [f"`{name}`" for name, state, _ in rows if state == HERE]
    text = "\n".join(wrapped(here)) + "\n" if here else "None is here as it is there.\n"
    for state, title in ((DIFFERS, "difference"), (ABSENT, "why, what instead")):
        by_text: dict[str, list[str]] = {}
        for name, found, said in rows:
            if found == state:
                by_text.setdefault(said, []).append(f"`{name}`")
        if by_text:
            head = "here with a difference" if state == DIFFERS else "not here"
            text += f"\n| {head} | {title} |\n| --- | --- |\n"
            for said, names in by_text.items():
                text += f"| {' '.join(names)} | {said} |\n"
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it; the exit status is 0 if it is current."""
    parser = argparse.ArgumentParser(prog="python -m vkbackend.tools.from_pytorch")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--missing", action="store_true", help="print what is not here")
    parser.add_argument("--collect", action="store_true", help="ask PyTorch for names")
    options = parser.parse_args(arguments)
    if options.missing:
        for space, name, state, why in states():
            if state == ABSENT:
                print(f"{full_name(space, name)}: {why or 'no reason is given'}")
        return 0
    if options.collect:
        NAMES.write_text(collect(), encoding="utf-8")
    text = render()
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"from_pytorch: {PAGE} is not current; run this without --check")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
