"""Epilogue GLSL: element-wise work on the results of a matrix product.

A shader that includes `matmul/epilogue_hook.glsl` passes on four neighbouring results
at a time, with their vector index in row-major order. The file is replaced by the GLSL
generated here, which is a fused kernel without its own loop: the program's product is
the passed vector, other operands are loaded and results stored as in any kernel; those
of whole vectors may be loaded before, several vectors at a time.
"""

from __future__ import annotations

import functools
from importlib import resources

from ...base.dtype import DTYPES
from ...base.shape import ceil_div
from ..ir.passes import passes
from ..ir.program import KernelProgram, fields_size, push_fields
from .element_function import ElementFunction
from .elementwise import computed_vec4, vec4_offsets
from .expression import function_names, functions, includes
from .interface import buffer_type, buffer_types, extensions
from .operand import load, load_words, unpack_words

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
    arguments = [
        f"    {kinds.get(name, kind)} {name} = args.{name};" for name, kind in fields
    ]
    words = _words(program)
    loaded = ", EpilogueWords words" if words else ""
    lines = [
        "#define EPILOGUE",
        *extensions(program, wide=False),
        *includes(program),
        *needed,
        *map(buffer_type, sorted(set(kinds.values()))),
        *("struct Epilogue {", *members, "};"),
        *functions(program, names),
        *function.definition(),
        *_loads(program, words, arguments),
        f"void epilogue(Epilogue args, uint i, vec4 product{loaded}) {{",
        *(["#ifndef ROUNDED", *rounded, "#endif"] if rounded else []),
        *arguments,
        *(f"    {line}" for line in _computed(function, words)),
        "}",
    ]
    if words:
        lines += [
            "void epilogue(Epilogue args, uint i, vec4 product) {",
            "    epilogue(args, i, product, epilogue_words(args, i));",
            "}",
        ]
    return "\n".join(lines)


def _words(program: KernelProgram) -> dict[int, list[str]]:
    """Return the lines that load what the epilogue reads in whole vectors."""
    return {
        k: load_words(k, access, False)
        for k, access in enumerate(program.accesses)
        if program.is_vector(access)
    }


def _declared(lines: list[str]) -> list[tuple[str, str]]:
    """Return the type and the name of each variable that lines declare."""
    return [(line.split()[0], line.split()[1]) for line in lines]


def _loads(
    program: KernelProgram, words: dict[int, list[str]], arguments: list[str]
) -> list[str]:
    """Return the function that loads these, apart from what is computed of them."""
    if not words:
        return []
    found = [line for lines in words.values() for line in lines]
    names = ", ".join(name for _, name in _declared(found))
    return [
        "#define EPILOGUE_WORDS",
        "struct EpilogueWords {",
        *(f"    {kind} {name};" for kind, name in _declared(found)),
        "};",
        "EpilogueWords epilogue_words(Epilogue args, uint i) {",
        *arguments,
        *(f"    {line}" for line in [*vec4_offsets(program), *found]),
        f"    return EpilogueWords({names});",
        "}",
    ]


def _computed(function: ElementFunction, words: dict[int, list[str]]) -> list[str]:
    """Return the lines that compute and store, of `words` where there are some."""
    program = function.program
    lines = vec4_offsets(program)
    for k, access in enumerate(program.accesses):
        if k in words:
            declared = _declared(words[k])
            lines += [f"{kind} {name} = words.{name};" for kind, name in declared]
            lines += unpack_words(k, access)
        else:
            lines += load(program, k, False)
    return lines + computed_vec4(function, False)
