"""The GLSL of element-wise work that a matrix product does with its results.

A shader that includes `matmul/epilogue_hook.glsl` hands on four neighbouring results at
a time, by the number of the four in row-major order. The file is replaced by what is
generated here, which is a fused kernel without its own loop: the program's product is
what it is handed, other operands are read and results written as ever.
"""

from __future__ import annotations

from importlib import resources

from ...base.dtype import DTYPES
from ..ir.program import Program, field_size, push_fields
from .elementwise import (
    buffer_type,
    buffer_types,
    compute,
    extensions,
    functions,
    includes,
    vec4_lines,
)

HOOK = '#include "matmul/epilogue_hook.glsl"'


def takes_epilogue(kernel: str) -> bool:
    """Return whether a library kernel has a place for an epilogue."""
    return HOOK in _source(kernel)


def with_epilogue(kernel: str, program: Program) -> str:
    """Return the GLSL of a library kernel that goes on with its results.

    Its arguments are those of the kernel, and those of `epilogue_fields` as members of
    a struct named `epilogue`.
    """
    return _source(kernel).replace(HOOK, _epilogue(program))


def epilogue_fields(program: Program) -> tuple[tuple[str, str], ...]:
    """Return (name, GLSL type) of each argument of an epilogue."""
    return tuple(field for field in push_fields(program) if field[0] != "quads")


def epilogue_size(program: Program) -> int:
    """Return the bytes of an epilogue's arguments, whole addresses."""
    size = sum(field_size(kind) for _, kind in epilogue_fields(program))
    return (size + 7) // 8 * 8


def _source(kernel: str) -> str:
    path = resources.files("vkbackend.glsl") / f"{kernel}.comp"
    return path.read_text("utf-8")


def _epilogue(program: Program) -> str:
    fields, kinds = epilogue_fields(program), buffer_types(program, wide=False)
    members = [f"    {kinds.get(name, kind)} {name};" for name, kind in fields]
    (product,) = {row.dtype for row in program.accesses if row.kind == "product"}
    dtype = DTYPES[product].name
    needed = [] if dtype == "float32" else [f'#include "lib/{dtype}.glsl"']
    # As another kernel would read it from memory, if it is not already.
    rounded = [
        f"    product.{part} = from_{dtype}(to_{dtype}(product.{part}));"
        for part in ("xyzw" if needed else "")
    ]
    loads = range(len(program.accesses))
    lines = [
        "#define EPILOGUE",
        *extensions(program, wide=False),
        *includes(program),
        *needed,
        *map(buffer_type, sorted(set(kinds.values()))),
        *("struct Epilogue {", *members, "};"),
        *functions(program),
        *compute(program),
        "void epilogue(Epilogue args, uint i, vec4 product) {",
        *(["#ifndef ROUNDED", *rounded, "#endif"] if rounded else []),
        *(
            f"    {kinds.get(name, kind)} {name} = args.{name};"
            for name, kind in fields
        ),
        *(f"    {line}" for line in vec4_lines(program, False, loads)),
        "}",
    ]
    return "\n".join(lines)
