"""The pages of docs/: they name files that exist, and no retired word is a name."""

import io
import keyword
import re
import tokenize
from pathlib import Path

import pytest

from tests.test_layering import ORDER
from tests.tree import FOLDERS, MODULES, ROOT

pytestmark = pytest.mark.checkout

DOCS = ROOT / "docs"
PAGES = tuple(sorted(DOCS.glob("*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    words = re.findall(r"`([\w./]+)`", page.read_text("utf-8"))
    paths = [word for word in words if "/" in word or word.endswith(".py")]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert page.name != "ARCHITECTURE.md" or len(paths) > 50


def test_links_lead_somewhere() -> None:
    for page in (*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8"))
        missing = [link for link in links if not (page.parent / link).exists()]
        assert missing == [], page


def test_the_page_has_every_folder_in_the_order_of_imports() -> None:
    text = (DOCS / "ARCHITECTURE.md").read_text("utf-8")
    table = text.split("## Folders")[1].split("## Where")[0]
    rows = re.findall(r"(?m)^\| (.*?) \|", table)
    named = [path for row in rows for path in re.findall(r"`(\w+/\w+)/`", row)]
    wanted = []
    for folder, name in (
        ("vkbackend", "vkbackend"),
        ("vkbackend.framework", "framework"),
    ):
        for place in ORDER[folder].split():
            if "/" not in place and (FOLDERS[folder] / place).is_dir():
                wanted.append(f"{name}/{place}")
    assert named == wanted


def retired() -> list[str]:
    """Return the names that the glossary says are no longer used."""
    text = (DOCS / "GLOSSARY.md").read_text("utf-8")
    table = text.split("## Retired names")[1]
    rows = re.findall(r"(?m)^\| (.*?) \|", table)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def used(words: set[str], path: Path) -> list[str]:
    """Return which words are identifiers of a Python file, not in strings alone."""
    text = path.read_text("utf-8")
    # To take all files apart takes seconds.
    if words.isdisjoint(re.findall(r"\w+", text)):
        return []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    return sorted(names & words)


def test_retired_names_stay_away() -> None:
    words = retired()
    assert len(words) > 60
    assert not [word for word in words if keyword.iskeyword(word)]
    found = {module: used({*words}, path) for module, path in MODULES.items()}
    assert {module: names for module, names in found.items() if names} == {}
