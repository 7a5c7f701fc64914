"""A registry made by hand, which has one of each thing that is easy to get wrong."""

import importlib.resources
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vkbackend.tools.bindings import closure, emit, manifest, registry

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def tiny_path() -> Path:
    return DATA / "tiny.xml"


@pytest.fixture(scope="session")
def tiny_text(tiny_path: Path) -> str:
    return tiny_path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def golden() -> str:
    """What tiny.toml asks of tiny.xml, read and found right by hand."""
    return (DATA / "tiny.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def tiny(golden: str) -> dict[str, Any]:
    """The names of the golden file, run as a module."""
    module: dict[str, Any] = {"__name__": "tiny"}
    exec(golden, module)
    return module


@pytest.fixture(scope="session")
def generate(tiny_text: str) -> Callable[[str], str]:
    """Generate what a manifest asks of the registry made by hand."""

    def generate(wanted: str) -> str:
        known = registry.parse(tiny_text)
        chosen = manifest.parse(f"header_version = 7\n{wanted}")
        return emit.emit(known, closure.select(known, chosen), chosen)

    return generate


@pytest.fixture(scope="session")
def published_registry() -> Path:
    """The registry of the pinned version, from the PyPI package `vulkan-object`."""
    return Path(str(importlib.resources.files("vulkan_object") / "vk.xml"))
