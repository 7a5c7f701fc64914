"""Attribute guards, found without running code of the objects' classes."""

import functools
import importlib
import io
from types import SimpleNamespace
from typing import Any

from vkbackend.framework import nn
from vkbackend.framework.jit.attributes import (
    NO_ATTRIBUTES,
    attributes_of,
    can_be_read,
    find_in_mro,
    functions_of,
    is_kind,
    is_standard,
    is_users,
    reports_changes,
)
from vkbackend.framework.jit.guard_sources import MISSING


class Strange:
    """An object that answers nothing."""

    def __init__(self) -> None:
        object.__setattr__(self, "alpha", 1)

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


def test_attributes_are_found_without_asking() -> None:
    assert attributes_of(Strange()) == {"alpha": 1}
    assert attributes_of(SimpleNamespace(a=1)) == {"a": 1}
    assert attributes_of(3) is NO_ATTRIBUTES
    assert is_kind(Strange(), Strange)


def test_where_classes_define_something() -> None:
    place, found = find_in_mro(type("C", (Strange,), {}), "__init__")
    assert place is Strange
    assert found is vars(Strange)["__init__"]
    assert find_in_mro(Strange, "nothing") == (None, MISSING)


def test_functions_behind_attributes() -> None:
    def use(self: Any) -> int:
        return 1

    for each in (use, property(use), staticmethod(use), classmethod(use)):
        assert list(functions_of(each)) == [use]
    assert list(functions_of(functools.cached_property(use))) == [use]
    assert list(functions_of(1)) == []


def test_whose_a_module_is() -> None:
    importlib.import_module("sklearn.base")
    assert is_users(__name__)
    assert not is_users("sklearn.base")
    assert not is_users(None)
    assert is_standard("json")
    assert is_standard("vkbackend.framework")
    assert not is_standard("sklearn.base")


def test_modules_of_networks_say_it() -> None:
    assert reports_changes(nn.ReLU())
    assert not reports_changes(SimpleNamespace())


def test_files_that_can_be_read() -> None:
    file = io.StringIO("a")
    assert can_be_read(file)
    file.read()
    assert not can_be_read(file)
    assert not can_be_read(io.TextIOWrapper(io.BytesIO()))
