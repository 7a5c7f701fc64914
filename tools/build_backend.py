"""Build backend: setuptools', whose editable install type checkers follow too.

An editable install maps folders by an import hook, which no type checker runs. So it
gets a path to a stub package as well, `vkbackend-stubs` of PEP 561: links to the
folders, which Python itself never imports.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist as build_sdist,
)
from setuptools.build_meta import (
    build_wheel as build_wheel,
)
from setuptools.build_meta import (
    get_requires_for_build_editable as get_requires_for_build_editable,
)
from setuptools.build_meta import (
    get_requires_for_build_sdist as get_requires_for_build_sdist,
)
from setuptools.build_meta import (
    get_requires_for_build_wheel as get_requires_for_build_wheel,
)
from setuptools.build_meta import (
    prepare_metadata_for_build_editable as prepare_metadata_for_build_editable,
)
from setuptools.build_meta import (
    prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "vkbackend"
BESIDE = ("framework", "glsl", "tools")
"""Folders of the checkout that are installed below the package."""


def build_editable(
    wheel_directory: str,
    config_settings: Any = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel of an editable install; return its name.

    Where links cannot be made, as on Windows without the right to, it is setuptools'.
    """
    name: str = build_meta.build_editable(
        wheel_directory, config_settings, metadata_directory
    )
    try:
        path = link_folders(ROOT)
    except OSError:
        return name
    add_file(Path(wheel_directory, name), f"__typing__.{PACKAGE}.pth", f"{path}\n")
    return name


def link_folders(root: Path) -> Path:
    """Make the stub package of a checkout from links; return the folder it is in."""
    path = root / "build" / "typing"
    package = path / f"{PACKAGE}-stubs"
    package.mkdir(parents=True, exist_ok=True)
    for link in package.iterdir():
        link.unlink()
    for source in [*(root / PACKAGE).iterdir(), *[root / each for each in BESIDE]]:
        if source.is_dir():
            (package / source.name).symlink_to(source, target_is_directory=True)
        elif source.suffix == ".py":
            # A stub package itself is one only with this suffix.
            (package / source.name).with_suffix(".pyi").symlink_to(source)
    return path


def add_file(wheel: Path, name: str, text: str) -> None:
    """Add a file to a wheel, and to its record."""
    with zipfile.ZipFile(wheel) as read:
        contents = [(each, read.read(each)) for each in read.infolist()]
    digest = hashlib.sha256(text.encode()).digest()
    code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    row = f"{name},sha256={code},{len(text.encode())}\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as write:
        for each, content in contents:
            if each.filename.endswith(".dist-info/RECORD"):
                content += row.encode()
            write.writestr(each, content)
        write.writestr(name, text)
