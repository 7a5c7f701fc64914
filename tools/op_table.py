"""Table of operations, generated from their declarations and the tests' cases.

    python -m vkbackend.tools.op_table          write framework/ops/OPS.md
    python -m vkbackend.tools.op_table --check  only say whether it is current

Run it in a checkout: the oracles, and which gradients are differentiated again, are in
its tests.
"""

import argparse
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, cast

import vkbackend.framework.nn.layers  # noqa: F401 - declares its ops
from vkbackend.framework import ops
from vkbackend.framework.base.dtype import (
    ANY,
    DTYPES,
    FLOAT,
    INT,
    INTEGER,
    NUMERIC,
    SINGLE,
    UINT,
    DType,
)
from vkbackend.framework.dispatch.composite import Composite
from vkbackend.framework.dispatch.movement import Movement
from vkbackend.framework.dispatch.op import REGISTRY, Op
from vkbackend.framework.dispatch.primitive import Primitive
from vkbackend.framework.dispatch.replayable import replayable

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "framework" / "ops" / "OPS.md"
FAMILIES = ("vkbackend.framework.ops", "vkbackend.framework.kernels")
KERNELS = frozenset(
    path.relative_to(ROOT / "glsl").with_suffix("").as_posix()
    for path in (ROOT / "glsl").rglob("*.comp")
)

GROUPS: dict[str, Sequence[DType]] = {
    "any": ANY,
    "numeric": NUMERIC,
    "float": FLOAT,
    "integer": INTEGER,
    "int": INT,
    "uint": UINT,
    "single": SINGLE,
}
MOST_FUNCTIONS = 4
"""Public functions that a row names."""

HEADING = """\
# Operations

Made by `python -m vkbackend.tools.op_table`; a test compares it with what is declared.

Public functions are those of `vkbackend.framework.ops` that call the operation itself,
up to {most}; others are written with these. *backward* means that gradients call it. A
view needs no kernel, what is fused is an expression that runs in one kernel with its
neighbours, and the rest is named by its shader under `glsl/`.

Dtypes are those of the tensors, or of each tensor by name:

{groups}
A device takes "the same" as the host where it has what the dtype needs: 64-bit
arithmetic for the 64-bit types, and for some shaders 8- and 16-bit storage.

Gradients: *twice* means that they are differentiated again. Oracles: what the tests
compare results with.

| operation | public functions | host | device | gradient | kernel | oracles |
| --- | --- | --- | --- | --- | --- | --- |
"""


def reached(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield the operations and texts that a function names, or functions it calls do.

    Other public functions are not followed.
    """
    pending: list[Any] = [inspect.unwrap(function, stop=lambda f: isinstance(f, Op))]
    public = {id(getattr(ops, name)) for name in ops.NAMES} - {id(function)}
    seen: set[int] = set()
    while pending:
        known = pending.pop()
        code = getattr(known, "__code__", None)
        if code is not None and code.co_filename == replayable.__code__.co_filename:
            known = known.__wrapped__
            code = known.__code__
        if code is None or id(known) in seen:
            continue
        seen.add(id(known))
        names, constants = names_and_texts(code)
        yield from constants
        for name in names:
            found = known.__globals__.get(name)
            if isinstance(found, Op | str):
                yield found
            elif inspect.isclass(found) and found.__module__.startswith(FAMILIES):
                pending += [each for _, each in inspect.getmembers(found)]
            elif (
                inspect.isfunction(found)
                and id(found) not in public
                and found.__module__.startswith(FAMILIES)
            ):
                pending.append(found)


def names_and_texts(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the names and the texts in a function and the functions within it."""
    names, texts = set(code.co_names), set()
    pending: list[Any] = [*code.co_consts]
    while pending:
        constant = pending.pop()
        if isinstance(constant, CodeType):
            names |= set(constant.co_names)
            pending += constant.co_consts
        elif isinstance(constant, tuple):
            pending += constant
        elif isinstance(constant, str):
            texts.add(constant)
    return names, texts


def users() -> dict[str, list[str]]:
    """Return the public functions that serve each operation, by its name."""
    found: dict[str, set[str]] = {name: set() for name in REGISTRY}
    for public in ops.NAMES:
        function = getattr(ops, public)
        if isinstance(function, Op):
            found[function.name].add(public)
        elif inspect.isfunction(function):
            for op in reached(function):
                if isinstance(op, Op):
                    found[op.name].add(public)
    for op in REGISTRY.values():
        if inspect.isfunction(op.rule):
            for other in reached(op.rule):
                if isinstance(other, Op) and not found[other.name]:
                    found[other.name].add("*backward*")
    return {name: sorted(names) for name, names in found.items()}


def listed(name: str, functions: Sequence[str]) -> str:
    """Return the public functions of a row, that of the operation's name first."""
    ordered = sorted(functions, key=lambda function: (function != name, function))
    shown = [
        function if function.startswith("*") else f"`{function}`"
        for function in ordered[:MOST_FUNCTIONS]
    ]
    return ", ".join(shown + ["..."] * (len(ordered) > MOST_FUNCTIONS)) or "internal"


def group(dtypes: Sequence[DType]) -> str:
    """Return dtypes by the name of a group, or one by one."""
    for name, members in GROUPS.items():
        if set(dtypes) == set(members):
            return name
    for name, members in GROUPS.items():
        if len(members) > 3 and set(members) < set(dtypes):
            rest = [dtype for dtype in dtypes if dtype not in members]
            return f"{name}, {', '.join(dtype.name for dtype in rest)}"
    return ", ".join(name for name, dtype in DTYPES.items() if dtype in dtypes)


def dtypes_of(taken: Any) -> str:
    """Return what an operation takes, by tensor where that differs."""
    if not isinstance(taken, dict):
        return group(taken)
    groups = {name: group(dtypes) for name, dtypes in taken.items()}
    if len(set(groups.values())) == 1:
        return next(iter(groups.values()))
    return "; ".join(f"{name}: {each}" for name, each in groups.items())


def kernel_of(op: Op[..., Any]) -> str:
    """Return how an operation runs on a device."""
    if op.is_elementwise:
        return "fused"
    if isinstance(op, Movement):
        return "view"
    if isinstance(op, Composite):
        return "other operations"
    assert isinstance(op, Primitive)
    named = {text for text in reached(op.rules["kernel"]) if isinstance(text, str)}
    return ", ".join(f"`{kernel}`" for kernel in sorted(named & KERNELS))


def gradient_of(op: Op[..., Any], case: Any) -> str:
    """Return whether an operation has a gradient, and that one again."""
    if op.rule == op._no_rule:
        return "no"
    return "twice" if case.gradient and case.twice else "yes"


def _cases() -> Mapping[str, Any]:
    """Return the cases of the tests."""
    kept = [*sys.path]
    sys.path.insert(0, str(ROOT))
    try:
        # They are no part of the package, so that no import statement names them.
        return cast(Mapping[str, Any], importlib.import_module("tests.cases").CASES)
    finally:
        sys.path[:] = kept


def _load_all() -> None:
    """Import every module of operations, also those that are imported when used."""
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(module.name)


def render() -> str:
    """Return the table as Markdown."""
    _load_all()
    cases = _cases()
    groups = "".join(
        f"- *{name}*: {', '.join(dtype.name for dtype in members)}\n"
        for name, members in GROUPS.items()
    )
    rows = []
    served = users()
    for name, op in sorted(REGISTRY.items()):
        case = cases[name]
        device = "the same" if op.device_dtypes is None else dtypes_of(op.device_dtypes)
        oracles = [
            oracle
            for oracle, given in (("NumPy", case.numpy), ("PyTorch", case.torch))
            if given is not None
        ]
        cells = (
            f"`{name}`",
            listed(name, served[name]),
            dtypes_of(op.dtypes),
            device,
            gradient_of(op, case),
            kernel_of(op),
            ", ".join(oracles),
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEADING.format(groups=groups, most=MOST_FUNCTIONS) + "".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table, or check it; the exit status is 0 if it is current."""
    parser = argparse.ArgumentParser(prog="python -m vkbackend.tools.op_table")
    parser.add_argument("--check", action="store_true", help="write nothing")
    checks = parser.parse_args(arguments).check
    text = render()
    if not checks:
        TABLE.write_text(text, encoding="utf-8")
    elif not TABLE.exists() or TABLE.read_text(encoding="utf-8") != text:
        print(f"optable: {TABLE} is not current; run this without --check")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
