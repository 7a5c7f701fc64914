"""The public surface: `__all__` names exactly what a package offers."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from vkbackend import framework
from vkbackend.framework.tensor.functions import FUNCTIONS

# Modules are public where `__all__` says so; `annotations` is of the second type.
INTERNAL = (ModuleType, type(annotations))
PACKAGES = (
    "vkbackend",
    "vkbackend.framework.data",
    "vkbackend.framework.nn",
    "vkbackend.framework.nn.container",
    "vkbackend.framework.nn.utils",
    "vkbackend.framework.optim",
    "vkbackend.framework.utils",
)
# Those that export names by `from a import x as x`, once each.
BY_ALIAS = (
    "vkbackend.framework",
    "vkbackend.framework.nn.layers",
    "vkbackend.framework.ops",
)


def public_names(package: ModuleType) -> set[str]:
    """Return the names in a package that are neither private nor modules."""
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, INTERNAL)
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_whole(name: str) -> None:
    package = importlib.import_module(name)
    # Their order is ruff's business (RUF022). Some are there once they are asked for.
    named = {
        name
        for name in package.__all__
        if not name.startswith("_") and not isinstance(getattr(package, name), INTERNAL)
    }
    offered = public_names(package)
    assert offered == named


@pytest.mark.parametrize("name", PACKAGES)
def test_all_has_no_duplicates(name: str) -> None:
    package = importlib.import_module(name)
    assert len(set(package.__all__)) == len(package.__all__)


@pytest.mark.parametrize("name", BY_ALIAS)
def test_imports_are_exported_by_their_alias(name: str) -> None:
    """Type checkers take no other import for an export."""
    package = importlib.import_module(name)
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    # What is loaded when it is asked for is imported for type checkers alone.
    late = [
        each for node in tree.body if isinstance(node, ast.If) for each in node.body
    ]
    aliases = [
        alias
        for node in [*tree.body, *late]
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
        if alias.asname or not isinstance(getattr(package, alias.name), ModuleType)
    ]
    exported = [alias.name for alias in aliases if alias.name == alias.asname]
    others = {alias.asname for alias in aliases if alias.name != alias.asname}
    assert all(str(other).startswith("_") for other in others)
    assert len(set(exported)) == len(exported)
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    tabled = {*FUNCTIONS} if package is framework else set()
    assert public_names(package) <= {*exported, *assigned, *tabled}


def test_dir_names_no_internal_package() -> None:
    names = dir(framework)
    assert {"Tensor", "nn", "optim", "softmax", "float32"} <= set(names)
    assert not {"base", "codegen", "dispatch", "ir", "scheduler", "_Any"} & set(names)
