"""Parameters as they are in signatures, of functions and what wraps them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.parameters import parameter_kinds, parameter_stars
from vkbackend.framework.dispatch.op import REGISTRY


def every_kind(a: int, /, b: int, *c: float, d: bool = True, **e: str) -> None:
    """Have a parameter of every kind."""


@functools.wraps(every_kind)
def wrapped(*args: Any, **kwargs: Any) -> None:
    every_kind(*args, **kwargs)


class Called:
    def __init__(self, first: int, second: int = 2) -> None: ...

    def method(self, third: int) -> None: ...


def signed(*args: Any) -> None: ...


signed.__signature__ = inspect.signature(Called)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "function",
    [every_kind, wrapped, Called, Called(1).method, signed, lambda: None, fw.nn.Linear],
)
def test_names_are_those_of_the_signature(function: Callable[..., Any]) -> None:
    stars = {"*": "VAR_POSITIONAL", "**": "VAR_KEYWORD"}
    found = inspect.signature(function).parameters
    assert [*parameter_stars(function)] == [*found]
    for name, star in parameter_stars(function).items():
        assert (found[name].kind.name == stars.get(star)) == bool(star)


def test_kinds_are_the_annotations() -> None:
    kinds = {"a": "int", "b": "int", "c": "float", "d": "bool", "e": "str"}
    assert parameter_kinds(wrapped) == kinds
    for op in REGISTRY.values():
        found = inspect.signature(op.function).parameters
        kinds = {name: str(each.annotation) for name, each in found.items()}
        assert parameter_kinds(op.function) == kinds
