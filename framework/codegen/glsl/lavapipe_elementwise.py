"""GLSL of an element-wise kernel with uniform vector loads: see `lavapipe`."""

from __future__ import annotations

from .element_function import ElementFunction
from .elementwise import load_scalars, varying, vec4_lines
from .interface import declarations
from .lavapipe import load_vectors, store_vectors, uniform_load_operands


def uniform_load_main(function: ElementFunction) -> list[str]:
    """Return the main function; its operands are contiguous, or scalars.

    Elements past the last whole block are one workgroup's, which gathers each four of
    them.
    """
    program = function.program
    lanes, elements = program.lanes, program.lanes * program.rounds
    lines = [
        *declarations(program, wide=True),
        *load_scalars(program, wide=True),
        *uniform_load_operands(program),
        f"uint number = linear_workgroup(), whole = quads / {elements}u;",
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
        f"    uint i = whole * {elements}u + gl_SubgroupInvocationID;",
        f"    for (; i < quads; i += {lanes}u) {{",
        *(f"        {line}" for line in rest),
        "    }",
        "}",
    ]


def _round(function: ElementFunction, number: int) -> list[str]:
    """Load, compute and store four elements per lane."""
    program = function.program
    lanes, rounds = program.lanes, program.rounds
    lines = []
    for k in varying(program):
        dtype = program.accesses[k].dtype
        lines += load_vectors(k, dtype, f"blocks{k}.at[block]", 4 * number, lanes)
    lines += function.calls()
    lines.append("if (inside) {")
    first = f"number * {2 * lanes * rounds}u + {2 * lanes * number}u"
    for k, output in enumerate(program.outputs):
        stored = store_vectors(k, output.dtype, first, lanes)
        lines += [f"    {line}" for line in stored]
    return [*lines, "}"]
