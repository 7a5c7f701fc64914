"""GLSL of an element-wise kernel: each invocation takes vectors of four elements."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.horizontal import INVOCATION
from ..ir.program import KernelProgram
from .element_function import ElementFunction
from .indexing import element_offsets
from .interface import declarations
from .operand import load
from .packing import LANES, store_vec4
from .tiles import tiled_lines


def elementwise_main(
    function: ElementFunction, wide: bool, horizontal: bool
) -> list[str]:
    """Return the main function; its vectors are contiguous in memory."""
    program = function.program
    lines = declarations(program, wide, horizontal)
    number = INVOCATION if horizontal else "linear_invocation()"
    accesses = range(len(program.accesses))
    if program.tile:
        return lines + tiled_lines(function, wide, number)
    if program.rounds == 1:
        lines += [f"uint i = {number};", "if (i >= quads) return;"]
        return lines + vec4_lines(function, wide, accesses)
    return [
        *lines,
        *load_scalars(program, wide),
        f"uint first = {number} * {program.rounds}u;",
        f"for (uint round_ = 0u; round_ < {program.rounds}u; ++round_) {{",
        "    uint i = first + round_;",
        "    if (i < quads) {",
        *(f"        {line}" for line in vec4_lines(function, wide, varying(program))),
        "    }",
        "}",
    ]


def varying(program: KernelProgram) -> list[int]:
    """Return the operands that are not one element for all."""
    return [k for k, access in enumerate(program.accesses) if not access.per_row]


def load_scalars(program: KernelProgram, wide: bool) -> list[str]:
    """Load the operands that are one element for all."""
    fixed = [k for k, access in enumerate(program.accesses) if access.per_row]
    return [line for k in fixed for line in load(program, k, wide)]


def vec4_lines(
    function: ElementFunction, wide: bool, loads: Iterable[int]
) -> list[str]:
    """Load, compute and store the four elements of vector `i`."""
    program = function.program
    lines = vec4_offsets(program)
    for k in loads:
        lines += load(program, k, wide)
    return lines + computed_vec4(function, wide)


def computed_vec4(function: ElementFunction, wide: bool) -> list[str]:
    """Compute and store the four elements of vector `i`, of loaded operands."""
    lines = function.calls()
    for k, output in enumerate(function.program.outputs):
        lines += store_vec4(k, output.dtype, wide, function.rounded[k])
    return lines


def vec4_offsets(program: KernelProgram) -> list[str]:
    """Compute the offsets of the four elements of vector `i`."""
    indices = [f"min(4u * i + {lane}u, last)" for lane in LANES]
    indices = ["4u * i"] if program.vec4 else indices
    return element_offsets(program, range(len(program.patterns)), indices)
