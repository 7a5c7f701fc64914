"""Names in bytecode, in every version of Python."""

from typing import Any

import pytest

from vkbackend.framework.jit.bytecode_names import (
    CLOSURE,
    GLOBAL,
    LOCAL,
    RESULT,
    lookups,
)


def found(function: Any) -> set[tuple[int, str, tuple[str, ...]]]:
    return {tuple(each) for each in lookups(function.__code__)}


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


def test_what_is_assigned_counts() -> None:
    def use(given: Any) -> None:
        given.inner.count = 1
        given.total += 2
        given.first, given.second = given
        del given.gone
        setattr(given, "named", 3)  # noqa: B010

    names = {tuple(each[1:]) for each in found(use)}
    for name in ("total", "first", "second", "gone", "named"):
        assert ("given", (name,)) in names
    assert ("given", ("inner", "count")) in names


def test_assigned_globals_count() -> None:
    code = compile("def use():\n global a, b\n a = 1\n del b", "file", "exec")
    assert {each for each in lookups(code) if each.root == GLOBAL} == {
        (GLOBAL, "a", ()),
        (GLOBAL, "b", ()),
    }
