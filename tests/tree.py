"""Locations of the project's folders and modules: in the checkout, or installed."""

from pathlib import Path

import vkbackend

# The checkout that these tests are in; not there when they test an installed copy.
ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(vkbackend.__file__).resolve().parent


def _folder(name: str) -> Path:
    """Return a folder: in the package if installed, beside it in a checkout."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / name


# The installed name of each folder at the top of the checkout that is installed.
FOLDERS = {
    "vkbackend": PACKAGE,
    "vkbackend.framework": _folder("framework"),
    "vkbackend.glsl": _folder("glsl"),
    "vkbackend.tools": _folder("tools"),
}


def folder_of(module: str) -> str:
    """Return the installed name of the folder that a module is in."""
    inner = ".".join(module.split(".")[:2])
    return inner if inner in FOLDERS else "vkbackend"


def _modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            found[".".join((package, *parts))] = path
    return found


# Every module of the project, by its installed name.
MODULES = _modules()
