"""Examples are tests: those in docstrings, and the Python of the README.

Sections of parameters name what functions take.
"""

import ast
import builtins
import doctest
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from tests.framework.models.small import write_checkpoint
from tests.test_exports import public_names
from tests.tree import MODULES, ROOT
from vkbackend.framework import Tensor
from vkbackend.framework.dispatch.op import Op

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def examples(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each docstring that holds an example.

    They are read from the source: what a decorator makes of a function may be an object
    in which `doctest` does not look for examples.
    """
    source = path.read_text(encoding="utf-8")
    pending: list[ast.AST] = [ast.parse(source)] if ">>>" in source else []
    while pending:
        node = pending.pop()
        if isinstance(node, DOCUMENTED):
            pending += node.body[::-1]
            text = ast.get_docstring(node) or ""
            if ">>>" in text:
                yield getattr(node, "name", path.stem), text


EXAMPLES = [
    pytest.param(module, name, text, id=f"{module}.{name}")
    for module, path in MODULES.items()
    for name, text in examples(path)
]


@pytest.mark.device
@pytest.mark.parametrize(("module", "name", "text"), EXAMPLES)
def test_docstring(module: str, name: str, text: str) -> None:
    scope = dict(vars(importlib.import_module(module)))
    if module.startswith("vkbackend.framework"):
        # An op's file does not import the tensors that its examples make; `round` and
        # the like are Python's there.
        framework = importlib.import_module("vkbackend.framework")
        names = public_names(framework) | {"data", "nn", "ops", "optim"}
        names -= set(dir(builtins))
        scope |= {public: getattr(framework, public) for public in names}
        scope |= {"fw": framework, "np": np}
    example = doctest.DocTestParser().get_doctest(text, scope, name, module, 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert result.failed == 0, "".join(said)


def readme_programs() -> list[str]:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.device
@pytest.mark.checkout
@pytest.mark.parametrize("steps", [30, pytest.param(300, marks=pytest.mark.wide)])
def test_readme(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program may go on from the ones before it; they train for fewer steps."""
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "SmolLM2-135M-Instruct")
    names: dict[str, object] = {"__name__": "__main__"}
    programs = readme_programs()
    assert any("range(300)" in program for program in programs)
    for program in programs:
        program = program.replace("range(300)", f"range({steps})")
        exec(compile(program, "README.md", "exec"), names)
    # The loop's counter is a global with the name of a method.
    assert getattr(names["train_step"], "traces", 0) <= 1


def documented(text: str) -> list[str]:
    """Return the names that a section of parameters has, without stars."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n--|\Z)", text, re.M | re.S)
    lines = section[1].splitlines() if section else []
    heads = [line.partition(" : ")[0] for line in lines if line[:1].strip()]
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


PLACES = ["", ".autograd", ".autograd.functional", ".distributions", ".fft", ".func"]
PLACES += [".linalg", ".nested", ".nn.functional", ".nn.init", ".nn.utils"]
PLACES += [".nn.utils.parametrize", ".nn.utils.prune", ".nn.utils.rnn", ".special"]
PLACES += [".testing"]


FUNCTION = FunctionType | Op


def functions_of(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions of a module, but not what it imports late."""
    for name in sorted(set(dir(module)) & set(vars(module))):
        function = getattr(module, name)
        ours = getattr(function, "__module__", "").startswith("vkbackend")
        if not name.startswith("_") and ours and isinstance(function, FUNCTION):
            yield name, function


def undocumented(function: Callable[..., Any]) -> str:
    """Return what is wrong with a function's section of parameters; "" for nothing."""
    taken = set(inspect.signature(function).parameters) - {"self"}
    public = {each for each in taken if not each.startswith("_")}
    found = documented(inspect.getdoc(function) or "")
    return "" if public <= set(found) <= taken else f"{found} for {taken}"


@pytest.mark.parametrize("place", PLACES)
def test_parameters_are_those_of_the_signature(place: str) -> None:
    module = importlib.import_module(f"vkbackend.framework{place}")
    seen = {name: undocumented(each) for name, each in functions_of(module)}
    assert {name: wrong for name, wrong in seen.items() if wrong} == {}
    assert seen


def test_methods_of_tensors_have_their_parameters() -> None:
    wrong = {}
    for name in dir(Tensor):
        method = inspect.getattr_static(Tensor, name)
        if not name.startswith("_") and not isinstance(method, property):
            method = getattr(Tensor, name)
            if callable(method) and not isinstance(method, type):
                wrong[name] = undocumented(method)
    assert {name: what for name, what in wrong.items() if what} == {}
    assert len(wrong) > 400


@pytest.mark.parametrize("place", [".distributions", ".nn", ".optim"])
def test_classes_have_the_parameters_of_their_constructors(place: str) -> None:
    module = importlib.import_module(f"vkbackend.framework{place}")
    lacking, seen = {}, 0
    for name in module.__all__:
        kind = getattr(module, name)
        if isinstance(kind, type) and kind.__init__ is not object.__init__:
            taken = inspect.signature(kind).parameters.values()
            names = {
                each.name
                for each in taken
                if each.kind.name[:4] != "VAR_" and not each.name.startswith("_")
            }
            lacking[name] = names - {*documented(inspect.getdoc(kind) or "")}
            seen += 1
    assert {name: names for name, names in lacking.items() if names} == {}
    assert seen > 10
