"""Editable installs, which type checkers follow."""

import base64
import csv
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.tree import FOLDERS, MODULES, ROOT
from vkbackend.tools import build_backend

pytestmark = pytest.mark.checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the checkout, with only what is installed."""
    copy = tmp_path / "copy"
    for folder in FOLDERS.values():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, copy / folder.name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


def test_an_editable_wheel_has_a_path_that_mypy_follows(checkout: Path) -> None:
    """Of the plain install, without settings; once more it takes new files too."""
    finder: Any = pytest.importorskip("mypy.modulefinder")
    new = checkout / "vkbackend" / "added_file.py"
    program = (
        "import sys; sys.path[:0] = ['tools']; import build_backend\n"
        "print(build_backend.build_editable('..'))"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=True,
        )
        new.touch()
    with zipfile.ZipFile(checkout.parent / done.stdout.split()[-1]) as wheel:
        names = wheel.namelist()
        path = Path(wheel.read("__typing__.vkbackend.pth").decode().strip())
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        rows = {row[0]: row for row in csv.reader(wheel.read(record).decode().split())}
        content = wheel.read("__typing__.vkbackend.pth")
    assert rows.keys() == set(names)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    found = rows["__typing__.vkbackend.pth"][1:]
    assert found == [f"sha256={digest.decode().rstrip('=')}", str(len(content))]
    paths = finder.SearchPaths((), (), (str(path),), ())
    cache = finder.FindModuleCache(paths, None, None)
    for module in [*MODULES, "vkbackend.added_file"]:
        found = cache.find_module(module)
        assert isinstance(found, str), f"{module}: {found}"
        assert Path(found).resolve().is_relative_to(checkout.resolve())


def test_where_links_cannot_be_made_it_is_the_usual_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(folder: str, *_: Any) -> str:
        (Path(folder) / "usual.whl").write_bytes(b"usual")
        return "usual.whl"

    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no right to make links")

    monkeypatch.setattr(build_backend.build_meta, "build_editable", made)
    monkeypatch.setattr(build_backend, "link_folders", refused)
    assert build_backend.build_editable(str(tmp_path)) == "usual.whl"
    assert (tmp_path / "usual.whl").read_bytes() == b"usual"
