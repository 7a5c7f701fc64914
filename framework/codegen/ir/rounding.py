"""Rounding of 2-byte floats: which results are numbers of their dtype as they are."""

from __future__ import annotations

import functools
import re

from .program import GENERATED, Fold, Instruction, KernelProgram, Reference

_SEGMENT = re.compile(r"([^?:]+)(\??)")
_CHOSEN = re.compile(r"(?:-|magnitude\()?([A-Za-z_]\w*)\)?")
"""An operand, its negative or its magnitude."""

_EXACT = frozenset(
    {
        *(
            "floor(x)",
            "ceil(x)",
            "whole_part(x)",
            "nearest_whole(x)",
            "x - whole_part(x)",
        ),
        *("signum(x)", "sign_of_bits(x)", "with_sign_of(x, y)"),
    }
)
"""Expressions that make no more bits of a mantissa than their operands have."""


@functools.lru_cache(maxsize=1024)
def exact_steps(program: KernelProgram) -> frozenset[int]:
    """Return the instructions that choose among operands of their result's dtype.

    So do negation, magnitudes, the larger of two numbers and `where`: what they make of
    numbers that are rounded to a 2-byte float needs no rounding, nor does a number's
    whole part. Those of a kernel's arguments are not rounded, but for those of
    `with_rounded_arguments`.
    """
    return frozenset(
        n
        for n, step in enumerate(program.instructions)
        if not isinstance(step, Fold) and _choices(program, step) == set()
    )


def with_rounded_arguments(program: KernelProgram) -> KernelProgram:
    """Return a program in which numbers that may be chosen are rounded.

    Those of a kernel's arguments are float32; they are rounded once, not each result.
    """
    steps = tuple(
        step if isinstance(step, Fold) else _rounded(program, step)
        for step in program.instructions
    )
    return program._replace(instructions=steps)


def _rounded(program: KernelProgram, step: Instruction) -> Instruction:
    if step.result not in ("float16", "bfloat16"):
        return step
    glsl = step.glsl
    for name in _choices(program, step) or ():
        rounded = f"round_{step.result}({name})"
        glsl = re.sub(rf"([:?]) {name}(?= :|$)", rf"\1 {rounded}", glsl)
    return step._replace(glsl=glsl)


def _choices(program: KernelProgram, step: Instruction) -> set[str] | None:
    """Return the arguments of a kernel among which a step chooses.

    None where it makes other numbers than its operands.
    """
    operands = dict(zip(step.names, zip(step.types, step.arguments)))
    if step.glsl in _EXACT:
        taken = operands.values()
        exact = all([_is_rounded(program, each, step.result) for _, each in taken])
        return set() if exact and {*step.types} == {step.result} else None
    scalars, rounding = set(), f"round_{step.result}("
    for segment, condition in _SEGMENT.findall(step.glsl):
        value = segment.strip()
        if condition or value in ("0", "1") or value.startswith(rounding):
            continue
        chosen = _CHOSEN.fullmatch(value)
        if chosen is None or chosen[1] not in operands:
            return None
        dtype, reference = operands[chosen[1]]
        if dtype != step.result:
            return None
        if reference.source == "scalar" and chosen[0] == chosen[1] and "?" in step.glsl:
            scalars.add(chosen[1])
        elif not _is_rounded(program, reference, dtype):
            return None
    return scalars


def _is_rounded(program: KernelProgram, reference: Reference, dtype: str) -> bool:
    """Whether an operand is loaded or computed in a dtype, not drawn or an argument.

    What is folded is rounded where it is stored.
    """
    if reference.source not in ("in", "op"):
        return False
    if reference.source == "op" and isinstance(
        program.instructions[reference.number], Fold
    ):
        return False
    drawn = reference.source == "in" and (
        program.accesses[reference.number].kind in GENERATED
    )
    return not drawn and program.dtype_of(reference).name == dtype
