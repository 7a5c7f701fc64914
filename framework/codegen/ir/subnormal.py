"""Comparisons by the bits, for devices that take subnormal floats for 0.

A device without `shaderDenormPreserveFloat32` may compare such a float as if it were
0. Its bits are an integer, of which no instruction makes 0.
"""

from __future__ import annotations

import re

from .program import Fold, Instruction, KernelProgram

FLUSHED = frozenset({"float32", "bfloat16"})
"""Dtypes whose subnormal numbers are such in the float32 that they are computed in."""

_COMPARISON = re.compile(r"(?<![\w.])([\w.]+) (==|!=|<=|>=|<|>) ([\w.]+)(?![\w.(])")
_CALLS = {
    "==": "same_number({0}, {1})",
    "!=": "!same_number({0}, {1})",
    "<": "smaller_number({0}, {1})",
    ">": "larger_number({0}, {1})",
    "<=": "smaller_or_same({0}, {1})",
    ">=": "larger_or_same({0}, {1})",
}
"""Functions of `glsl/lib/math/subnormal.glsl`."""

_LARGER = ", x != x)) ? x : "
"""Part of the larger or smaller of two numbers."""

_BETWEEN = "x < low ? low : x > high ? high : x"
_BETWEEN_BY_BITS = "below_bound(x, low) ? low : above_bound(x, high) ? high : x"
"""Elements between bounds that have 0 between them, or are 0."""

_CHOICES = frozenset(
    {
        "signum(x)",
        "x != 0 ? 1 : 0",
        "x == 0 ? 1 : 0",
        "all(bvec2(x >= low, x <= high)) ? slope : 0",
    }
)
"""Expressions whose results are numbers, and depend on comparisons."""


def compared_by_bits(program: KernelProgram) -> KernelProgram:
    """Return a program whose comparisons of floats, and tests for 0, are of the bits.

    Those are the expressions with results of bools, conversions to bool, signs, counts
    of what is not 0, and the larger or smaller of two numbers.
    """
    steps = tuple(
        step if isinstance(step, Fold) else _by_bits(program, step)
        for step in program.instructions
    )
    return program._replace(instructions=steps)


def _by_bits(program: KernelProgram, step: Instruction) -> Instruction:
    glsl, types = step.glsl, list(step.types)
    for k, name in enumerate(step.names):
        if types[k] == "bool" and _is_flushed(program, step, k):
            types[k] = "float32"
            glsl = re.sub(rf"\bbool\({name}\)", name, glsl)
            glsl = re.sub(rf"\b{name}\b", f"is_nonzero({name})", glsl)
    if {*step.types} <= FLUSHED:
        if step.result == "bool" and glsl == "x":
            glsl = "is_nonzero(x)"
        elif glsl == _BETWEEN:
            glsl = _BETWEEN_BY_BITS
        elif step.result == "bool" or glsl in _CHOICES or _LARGER in glsl:
            glsl = re.sub(r"\bbool\((\w+)\)", r"is_nonzero(\1)", glsl)
            glsl = _COMPARISON.sub(_call, glsl).replace("signum(", "sign_of_bits(")
            if step.result != "bool" and _LARGER in glsl:
                # Either of two zeros is the larger one.
                glsl = re.sub(r"(larger|smaller)_number", r"\1_in_order", glsl)
    return step._replace(glsl=glsl, types=tuple(types))


def _is_flushed(program: KernelProgram, step: Instruction, k: int) -> bool:
    reference = step.arguments[k]
    if reference.source not in ("in", "op"):
        return False
    return program.dtype_of(reference).name in FLUSHED


def _call(found: re.Match[str]) -> str:
    first, sign, second = found.groups()
    # That finds NaN, whatever is taken for 0.
    return found[0] if first == second else _CALLS[sign].format(first, second)
