"""GLSL of an element-wise kernel with uniform loads: see `lavapipe`."""

from __future__ import annotations

from ...base.dtype import DTYPES
from .element_function import ElementFunction
from .elementwise import load_scalars, varying, vec4_lines
from .interface import declarations
from .lavapipe import uniform_load_operands, uniform_words
from .operand import unpack_words
from .packing import store_vec4


def uniform_load_main(function: ElementFunction) -> list[str]:
    """Return the main function; its operands are contiguous, or scalars.

    Elements past the last whole block are one workgroup's, which gathers each four of
    them.
    """
    program = function.program
    lanes, block = program.lanes, program.lanes * program.rounds
    lines = [
        *declarations(program, wide=True),
        *load_scalars(program, wide=True),
        *uniform_load_operands(program),
        f"uint number = linear_workgroup(), whole = quads / {block}u;",
        "bool inside = number < whole;",
        # The last workgroup may load a block of another, but stores nothing of it.
        "uint block = told(min(number, whole - 1u));",
    ]
    for number in range(program.rounds):
        body = _round(function, number)
        lines += ["{", *(f"    {line}" for line in body), "}"]
    rest = vec4_lines(function, True, varying(program))
    return [
        *lines,
        "if (!inside) {",
        f"    uint i = whole * {block}u + gl_SubgroupInvocationID;",
        f"    for (; i < quads; i += {lanes}u) {{",
        *(f"        {line}" for line in rest),
        "    }",
        "}",
    ]


def _round(function: ElementFunction, number: int) -> list[str]:
    """Load, compute and store four elements per lane."""
    program = function.program
    lanes, rounds = program.lanes, program.rounds
    first = f"number * {lanes * rounds}u + {lanes * number}u"
    lines = [f"uint i = {first} + gl_SubgroupInvocationID;"]
    for k in varying(program):
        access = program.accesses[k]
        size = DTYPES[access.dtype].itemsize
        lines += uniform_words(k, size, f"blocks{k}.at[block]", number, lanes)
        lines += unpack_words(k, access)
    lines += function.calls()
    lines.append("if (inside) {")
    for k, output in enumerate(program.outputs):
        stored = store_vec4(k, output.dtype, True, function.rounded[k])
        lines += [f"    {line}" for line in stored]
    return [*lines, "}"]
