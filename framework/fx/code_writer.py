"""Python code of a graph: the function `forward`."""

from __future__ import annotations

import builtins
import math
import operator
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import overrides
from ..base.late_modules import resolved
from .node import Node, type_text

BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "truediv": "/",
    "mod": "%",
    "pow": "**",
    "lshift": "<<",
    "rshift": ">>",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "matmul": "@",
}
"""Functions of `operator` that have a form with swapped operands, as code."""

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}

FORMS = {
    **{name: f"{{}} {sign} {{}}" for name, sign in {**BINARY, **COMPARISONS}.items()},
    "getitem": "{}[{}]",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
}
"""Functions of `operator`, as code."""


class PythonCode(NamedTuple):
    """Code of a graph.

    Attributes
    ----------
    src : str
        The function `forward`.
    globals : dict
        What its names mean.
    """

    src: str
    globals: dict[str, Any]


class CodeWriter:
    """Writes the code of a graph.

    Parameters
    ----------
    nodes : iterable of Node
        In their order; they can be gone through several times.
    root : str
        The name of the module.
    """

    def __init__(self, nodes: Iterable[Node], root: str) -> None:
        self._nodes = [*nodes]
        self._root = root
        self._globals: dict[str, Any] = {
            "torch": resolved(""),
            "inf": math.inf,
            "nan": math.nan,
            "NoneType": type(None),
            "device": resolved("").device,
        }

    def code(self) -> PythonCode:
        """Return the code and its globals."""
        parameters = [self._root]
        lines: list[str] = []
        dying = self._last_uses()
        for node in self._nodes:
            if node.op == "placeholder":
                parameters.append(self._parameter(node))
                name = node.target.lstrip("*")
                if name != node.name:
                    lines.append(f"{node.name} = {name}")
                continue
            line = self._statement(node)
            if node.op != "output":
                dead = [*dying.get(node, ()), *([] if node.users else [node])]
                names = " = ".join([*map(str, dead), "None"])
                line += f";  {names}" if dead else ""
            lines.append(line)
        body = "\n".join(f"    {line}" for line in [*(lines or ["pass"]), ""])
        head = f"def forward({', '.join(parameters)}){self._result_type()}:"
        return PythonCode(f"\n\n\n{head}\n{body}", self._globals)

    def _last_uses(self) -> dict[Node, list[Node]]:
        """Return the nodes by the last one that takes their result."""
        seen: set[Node] = set()
        found: dict[Node, list[Node]] = {}
        for user in reversed(self._nodes):
            for node in user.all_input_nodes:
                if node not in seen:
                    seen.add(node)
                    found.setdefault(user, []).append(node)
        return found

    def _parameter(self, node: Node) -> str:
        kind = "" if node.type is None else f" : {self._type(node.type)}"
        default = f" = {self._text(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"

    def _result_type(self) -> str:
        for node in self._nodes:
            if node.op == "output" and node.type is not None:
                return f" -> {self._type(node.type)}"
        return ""

    def _type(self, kind: Any) -> str:
        plain = isinstance(kind, type) and kind.__module__ == "builtins"
        return type_text(kind) if plain else self._global(type_text(kind), kind)

    def _statement(self, node: Node) -> str:
        if node.op == "output":
            return f"return {self._text(node.args[0])}"
        kind = "" if node.type is None else f" : {self._type(node.type)}"
        return f"{node.name}{kind} = {self._expression(node)}"

    def _expression(self, node: Node) -> str:
        if node.op == "get_attr":
            return self._attribute(self._root, node.target)
        if node.op == "call_module":
            return (
                f"{self._attribute(self._root, node.target)}({self._arguments(node)})"
            )
        if node.op == "call_method":
            owner = self._text(node.args[0])
            rest = self._call(node.args[1:], node.kwargs)
            return f"{self._attribute(owner, node.target)}({rest})"
        target: Any = node.target
        name = target.__name__
        if getattr(operator, name, None) is node.target and name in FORMS:
            return FORMS[name].format(*map(self._text, node.args))
        is_plain = node.target is getattr and len(node.args) == 2
        if is_plain and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return self._attribute(self._text(node.args[0]), node.args[1])
        return f"{self._function(node.target)}({self._arguments(node)})"

    def _attribute(self, owner: str, path: str) -> str:
        for name in path.split("."):
            if name.isidentifier():
                owner = f"{owner}.{name}"
            else:
                owner = f'getattr({owner}, "{name}")'
        return owner

    def _function(self, target: Any) -> str:
        known = overrides.resolve_name(target)
        if known is not None and not known.endswith("__"):
            return known
        name: str = target.__name__
        if vars(builtins).get(name) is target:
            return name
        return self._global(f"{target.__module__}.{name}", target)

    def _global(self, name: str, value: Any) -> str:
        name = re.sub(r"[^0-9a-zA-Z_]", "_", name)
        while self._globals.setdefault(name, value) is not value:
            name += "_"
        return name

    def _arguments(self, node: Node) -> str:
        return self._call(node.args, node.kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = [self._text(each) for each in args]
        given += [f"{name} = {self._text(each)}" for name, each in kwargs.items()]
        return ", ".join(given)

    def _text(self, value: Any) -> str:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            parts = ", ".join(map(self._text, value))
            return f"{self._global(type_text(type(value)), type(value))}({parts})"
        if type(value) is tuple:
            end = "," if len(value) == 1 else ""
            return f"({', '.join(map(self._text, value))}{end})"
        if type(value) is list:
            return f"[{', '.join(map(self._text, value))}]"
        if type(value) is dict:
            pairs = (f"{key!r}: {self._text(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, slice):
            given = map(self._text, (value.start, value.stop, value.step))
            return f"slice({', '.join(given)})"
        if isinstance(value, type):
            return self._type(value)
        plain = int | float | complex | str | bytes | Node | type(None) | type(...)
        if isinstance(value, plain):
            return repr(value)
        text = repr(value)
        if text.startswith("torch.") and _named(text) is value:
            return text
        return self._global(f"_{type(value).__name__}_{len(self._globals)}", value)


def _named(text: str) -> Any:
    """Return what a name as `torch.float32` means."""
    name = text.removeprefix("torch.")
    return getattr(resolved(""), name, None) if name.isidentifier() else None
