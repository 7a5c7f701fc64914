"""What code looks up, in every version of Python."""

from typing import Any

import pytest

from vkbackend.framework.capture.names import CLOSURE, GLOBAL, LOCAL, RESULT, uses


def found(function: Any) -> set[tuple[int, str, tuple[str, ...]]]:
    return {tuple(each) for each in uses(function.__code__)}


def test_variables_and_attributes() -> None:
    held: Any = None

    def use(given: Any, other: Any) -> Any:
        print(given, other.a.b)
        held.step()
        return pytest.mark.core(given).c

    assert found(use) == {
        (GLOBAL, "print", ()),
        (LOCAL, "given", ()),
        (LOCAL, "other", ("a", "b")),
        (CLOSURE, "held", ("step",)),
        (GLOBAL, "pytest", ("mark", "core")),
        (RESULT, "", ("c",)),
    }


def test_functions_within_count() -> None:
    def use(given: Any) -> Any:
        return [lambda: given.rate for _ in given], (each.size for each in given)

    names = {(name, attributes) for _, name, attributes in found(use)}
    assert ("given", ("rate",)) in names
    assert ("each", ("size",)) in names


def test_what_is_assigned_is_not_looked_up() -> None:
    def use(given: Any) -> None:
        given.count = 1
        given.total += 2

    assert ("given", ("total",)) in {tuple(each[1:]) for each in found(use)}
    assert not any("count" in attributes for _, _, attributes in found(use))
