"""Wheel, sdist and editable install hold every module, shader and marker file."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.tree import FOLDERS, ROOT

pytestmark = pytest.mark.checkout

IGNORED = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
INSTALLED = (".py", ".comp", ".glsl", ".toml", ".txt", "py.typed")


def sources() -> dict[str, Path]:
    """Return each file that must be installed, by its path in the wheel."""
    return {
        str(Path(*package.split(".")) / path.relative_to(folder)): path
        for package, folder in FOLDERS.items()
        for path in folder.rglob("*")
        if path.name.endswith(INSTALLED)
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both from a clean copy: what an older build left must not help."""
    folder = tmp_path_factory.mktemp("packaging")
    shutil.copytree(ROOT, folder / "copy", ignore=IGNORED)
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist")
    done = subprocess.run(
        (*command, "copy"), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


def test_wheel_is_whole(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == set(sources())


def test_sdist_is_whole(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {str(path.relative_to(ROOT)) for path in sources().values()}
    assert wanted | {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_this_install_is_whole(tmp_path: Path) -> None:
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    print(*importlib.import_module(name).__path__)\n"
    )
    done = subprocess.run(
        (sys.executable, "-c", program, *FOLDERS),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [str(folder) for folder in FOLDERS.values()]
