"""`vkspirv lint`: run the rules on a shader, with suppressions by comment.

A shader whose findings have a reason says so in the comment at its head:

    // lint    scalar-load: rows begin at any element, so nothing is aligned to 16 bytes
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import instruction
from .lint_rules import RULES, LintContext, Rule
from .module import Constant, ResolvedModule
from .report import analyse

OPEN_SIZE = 64
"""Invocations of a workgroup whose size is left to the host and not given."""

_REASON = re.compile(r"^//\s*lint\s+([\w-]+):\s*(.+)$")
_MORE = re.compile(r"^//\s{8,}(\S.*)$")


@dataclass(frozen=True)
class Diagnostic:
    """Diagnostic of a lint rule.

    Attributes
    ----------
    rule : str
        Name of the rule.
    where : str
        File and line, or the function, of what was found.
    offset : int
        Of the instruction, in words.
    message : str
        What was found.
    reason : str
        Why the shader is as it is; empty if it gives none.
    """

    rule: str
    where: str
    offset: int
    message: str
    reason: str


def reasons(texts: Sequence[str]) -> dict[str, str]:
    """Return the reasons that comments give, by rule."""
    found: dict[str, str] = {}
    for text in texts:
        current = ""
        for line in text.splitlines():
            start, more = _REASON.match(line), _MORE.match(line)
            if start is not None:
                current = start[1]
                found[current] = start[2].strip()
            elif more is not None and current:
                found[current] += f" {more[1].strip()}"
            else:
                current = ""
    return found


def lint(
    words: bytes,
    constants: Mapping[str, Constant] | None = None,
    *,
    sources: Sequence[tuple[str, str]] = (),
    texts: Sequence[str] = (),
    rules: Sequence[Rule] = RULES,
) -> list[Diagnostic]:
    """Return what the rules find in a module, in their order.

    Parameters
    ----------
    words : bytes
        The module.
    constants : mapping of str to bool, int or float, optional
        Specialization constants by name. A `LOCAL_X` that is left open counts as 64.
    sources : sequence of (str, str)
        Where each line that the module names comes from, and its text.
    texts : sequence of str
        The shader's files, whose comments may give reasons.
    rules : sequence of Rule
        Which rules.

    Raises
    ------
    ShaderError
        If the module is broken, naming the offset in words.
    """
    analysis = analyse(words, constants, open_size=OPEN_SIZE)
    context = LintContext(analysis)
    excuses = reasons(texts)
    places = _places(analysis.program, sources)
    diagnostics = []
    for rule in rules:
        seen = set()
        for row, message in rule.check(context):
            if row.offset not in seen:
                seen.add(row.offset)
                where = places.get(row.offset, f"word {row.offset}")
                reason = excuses.get(rule.name, "")
                diagnostics.append(
                    Diagnostic(rule.name, where, row.offset, message, reason)
                )
    return diagnostics


def _places(
    program: ResolvedModule, sources: Sequence[tuple[str, str]]
) -> dict[int, str]:
    """Return where each instruction comes from: a source line, or a function."""
    found: dict[int, str] = {}
    for function in program.functions.values():
        name = program.name_of(function.id).partition("(")[0]
        line = 0
        for _, row in function.instructions():
            operation = instruction.operation(row.opcode)
            if operation == "Line":
                line = row.operands[1]
            elif operation == "NoLine":
                line = 0
            place = f"{name}(), word {row.offset}"
            if 0 < line <= len(sources):
                place = sources[line - 1][0]
            found[row.offset] = place
    return found
