"""The public surface: `__all__` names exactly what a package offers."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

# Modules are public where `__all__` says so; `annotations` is of the second type.
INTERNAL = (ModuleType, type(annotations))
PACKAGES = (
    "vkbackend",
    "vkbackend.framework",
    "vkbackend.framework.data",
    "vkbackend.framework.nn",
    "vkbackend.framework.optim",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_whole(name: str) -> None:
    package = importlib.import_module(name)
    # Their order is ruff's business (RUF022).
    offered = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, INTERNAL)
    }
    named = {
        name
        for name in package.__all__
        if not name.startswith("_") and not isinstance(getattr(package, name), INTERNAL)
    }
    assert offered == named


@pytest.mark.parametrize("name", PACKAGES)
def test_all_has_no_duplicates(name: str) -> None:
    package = importlib.import_module(name)
    assert len(set(package.__all__)) == len(package.__all__)
