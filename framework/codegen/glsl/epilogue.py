"""Epilogue GLSL: element-wise work on the results of a matrix product.

A shader that includes `matmul/epilogue_hook.glsl` passes on four neighbouring results
at a time, with their vector index in row-major order. The file is replaced by the GLSL
generated here, which is a fused kernel without its own loop: the program's product is
the passed vector, other operands are loaded and results stored as in any kernel.
"""

from __future__ import annotations

import functools
from importlib import resources

from ...base.dtype import DTYPES
from ...base.shape import ceil_div
from ..ir.passes import passes
from ..ir.program import KernelProgram, fields_size, push_fields
from .element_function import ElementFunction
from .elementwise import vec4_lines
from .expression import function_names, functions, includes
from .interface import buffer_type, buffer_types, extensions

HOOK = '#include "matmul/epilogue_hook.glsl"'


def takes_epilogue(kernel: str) -> bool:
    """Return whether a hand-written kernel has an epilogue hook."""
    return HOOK in _source(kernel)


def with_epilogue(kernel: str, program: KernelProgram) -> str:
    """Return the GLSL of a hand-written kernel with a fused epilogue.

    Its arguments are those of the kernel, and those of `epilogue_fields` as members of
    a struct named `epilogue`.
    """
    return _source(kernel).replace(HOOK, _epilogue(program))


def epilogue_fields(program: KernelProgram) -> tuple[tuple[str, str], ...]:
    """Return (name, GLSL type) of each argument of an epilogue."""
    return tuple(field for field in push_fields(program) if field[0] != "quads")


def epilogue_size(program: KernelProgram) -> int:
    """Return the bytes of an epilogue's arguments, a multiple of an address."""
    return ceil_div(fields_size(epilogue_fields(program)), 8) * 8


@functools.lru_cache(maxsize=64)
def _source(kernel: str) -> str:
    path = resources.files("vkbackend.glsl") / f"{kernel}.comp"
    return path.read_text("utf-8")


def _epilogue(program: KernelProgram) -> str:
    fields, kinds = epilogue_fields(program), buffer_types(program, wide=False)
    members = [f"    {kinds.get(name, kind)} {name};" for name, kind in fields]
    (product,) = {row.dtype for row in program.accesses if row.kind == "product"}
    dtype = DTYPES[product].name
    needed = [] if dtype == "float32" else [f'#include "lib/{dtype}.glsl"']
    # As an unfused kernel would load it, if it is not rounded already.
    rounded = [
        f"    product.{part} = from_{dtype}(to_{dtype}(product.{part}));"
        for part in ("xyzw" if needed else "")
    ]
    names = function_names(program)
    function = ElementFunction(program, passes(program, keep=False), 0, names)
    loads = range(len(program.accesses))
    lines = [
        "#define EPILOGUE",
        *extensions(program, wide=False),
        *includes(program),
        *needed,
        *map(buffer_type, sorted(set(kinds.values()))),
        *("struct Epilogue {", *members, "};"),
        *functions(program, names),
        *function.definition(),
        "void epilogue(Epilogue args, uint i, vec4 product) {",
        *(["#ifndef ROUNDED", *rounded, "#endif"] if rounded else []),
        *(
            f"    {kinds.get(name, kind)} {name} = args.{name};"
            for name, kind in fields
        ),
        *(f"    {line}" for line in vec4_lines(function, False, loads)),
        "}",
    ]
    return "\n".join(lines)
