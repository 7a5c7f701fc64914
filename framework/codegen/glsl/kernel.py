"""GLSL of a kernel program: the parts that all have, around the main of its loop nest.

Storage is read and written as 32-bit words, so 1- and 2-byte types need no device
feature, except where one of them is written alone.
"""

from __future__ import annotations

import functools

from ..ir.passes import passes
from ..ir.program import KernelProgram, push_fields
from ..ir.rounding import with_rounded_arguments
from .element_function import ElementFunction
from .elementwise import elementwise_main
from .expression import function_names, functions, includes
from .group_reduce import folding
from .interface import buffer_types, extensions, interface
from .lavapipe import block_sizes, uniform_load_functions
from .lavapipe_elementwise import uniform_load_main
from .rowwise import row_main, row_variables
from .split import split_main
from .tiles import tile_memory
from .wide import unrolled_main, vec8_types

JOIN = "uint64_t join(uvec2 w) { return uint64_t(w.x) | uint64_t(w.y) << 32; }"
"""A word of 64 bits; `packUint2x32` takes lavapipe three times as long to store."""


@functools.lru_cache(maxsize=1024)
def emit(program: KernelProgram, wide: bool = False, horizontal: bool = False) -> str:
    """Return the compute shader of a program; the same text for the same program.

    Sizes are arguments of a kernel, so a graph with another length, or with more steps
    of a loop, has few programs that are new.

    Parameters
    ----------
    program : KernelProgram
        If `pairs` is "joined", contiguous operands of narrow elements begin at
        multiples of eight elements.
    wide : bool, default False
        Move memory in 64-bit words. Software drivers spend their time per word, so it
        halves the cost there; it needs 64-bit integers.
    horizontal : bool, default False
        Horizontal fusion: several sets of arguments at once; see `ir.horizontal`.
        The program is element-wise, without uniform vector loads.
    """
    program = program if program.group else with_rounded_arguments(program)
    # Unrolled kernels are those of GPUs, which move 32-bit words.
    wide = wide and not program.pairs
    schedule, names = passes(program, keep=program.rounds > 0), function_names(program)
    walks = [
        ElementFunction(program, schedule, number, names)
        for number in range(len(schedule.passes))
    ]
    kinds = buffer_types(program, wide) | vec8_types(program)
    lanes, grouped = program.lanes, program.group > 0
    if grouped:
        main = row_main(program, schedule, walks, wide)
    elif lanes:
        main = uniform_load_main(walks[0])
    elif program.pairs == "split":
        main = split_main(walks[0], horizontal)
    elif program.pairs:
        main = unrolled_main(walks[0], horizontal)
    else:
        main = elementwise_main(walks[0], wide, horizontal)
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            *extensions(program, wide),
            *includes(program),
            *([f"const uint GROUP = {program.group}u;"] if grouped else ()),
            *interface(push_fields(program), kinds, horizontal),
            *tile_memory(program),
            *([JOIN] if wide else ()),
            *(_uniform_loads(program) if lanes else ()),
            *functions(program, names),
            *folding(program),
            *(row_variables(program) if grouped else ()),
            *(line for function in walks for line in function.definition()),
            "void main() {",
            *(f"    {line}" for line in main),
            "}",
            "",
        ]
    )


def _uniform_loads(program: KernelProgram) -> list[str]:
    return uniform_load_functions(program.lanes, program.rounds, block_sizes(program))
