"""Interface of a kernel in GLSL: extensions, buffers and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.dtype import DTYPES
from ..ir.horizontal import ARGUMENT, SIBLING_INDEX, horizontal_block
from ..ir.program import (
    DIGIT_FIELD,
    GENERATED,
    MAX_PUSH,
    KernelProgram,
    fields_size,
    push_fields,
)
from .group_reduce import SUBGROUP_EXTENSIONS, uses_subgroups
from .packing import ALIGNMENT, PAIR_WORDS, SINGLE_WORD, VEC4_WORDS, WIDE, WIDE_STORED

_INT64 = "GL_EXT_shader_explicit_arithmetic_types_int64"
_STORAGE = {1: "GL_EXT_shader_8bit_storage", 2: "GL_EXT_shader_16bit_storage"}


def extensions(program: KernelProgram, wide: bool) -> list[str]:
    """Enable what the program uses; `lib/` guards functions by the same macros."""
    types = _types(program)
    integers = bool(types & {"int64_t", "uint64_t"})
    names = [_INT64] if wide or integers else []
    sizes = {
        DTYPES[output.dtype].itemsize
        for output in program.outputs
        if not program.vectors or program.is_per_row(output)
    }
    names += [_STORAGE[size] for size in sorted(sizes & _STORAGE.keys())]
    rounds = program.group and program.rounds > 1 and not program.lanes
    if rounds or program.tile:
        names.append("GL_EXT_control_flow_attributes")
    if program.lanes or uses_subgroups(program):
        names += SUBGROUP_EXTENSIONS
    return [
        *(f"#extension {name} : require" for name in names),
        *(["#define INT64"] if integers else []),
        *(["#define FLOAT64"] if "double" in types else []),
    ]


def _types(program: KernelProgram) -> set[str]:
    """Return every GLSL type that the program computes with."""
    dtypes = {access.dtype for access in program.accesses}
    for step in program.instructions:
        dtypes |= {*step.types, step.result}
    return {DTYPES[name].glsl for name in dtypes}


def interface(
    fields: Sequence[tuple[str, str]],
    kinds: Mapping[str, str],
    horizontal: bool = False,
) -> list[str]:
    """Declare one buffer type per kind of operand, and the argument block."""
    members = [f"    {kinds.get(name, kind)} {name};" for name, kind in fields]
    if horizontal:
        block = horizontal_block(members)
    elif fields_size(fields) <= MAX_PUSH:
        block = ["layout(push_constant, std430) uniform Push {", *members, "} args;"]
    else:
        block = [
            "layout(buffer_reference, std430, buffer_reference_align = 16)"
            " restrict readonly buffer Arguments {",
            *members,
            "};",
            "layout(push_constant, std430) uniform Push { Arguments args; };",
        ]
    return [*map(buffer_type, sorted(set(kinds.values()))), *block]


def buffer_types(program: KernelProgram, wide: bool) -> dict[str, str]:
    """Return the buffer type of each operand that is in memory, by argument name."""
    kinds = {}
    for k, access in enumerate(program.accesses):
        words = "uint"
        if program.is_vector(access):
            words = _vector_words(program, access.dtype, WIDE if wide else {})
        if access.kind not in GENERATED:
            kinds[f"in{k}"] = f"In_{words}"
    for k, output in enumerate(program.outputs):
        words = SINGLE_WORD[DTYPES[output.dtype].itemsize]
        if program.vectors and not program.is_per_row(output):
            wider = WIDE_STORED if wide else {}
            words = _vector_words(program, output.dtype, wider)
        kinds[f"out{k}"] = f"Out_{words}"
    return kinds


def _vector_words(program: KernelProgram, dtype: str, wider: Mapping[str, str]) -> str:
    """Return the GLSL type of the words that vectors are moved in."""
    if program.pairs == "split":
        return PAIR_WORDS[DTYPES[dtype].itemsize]
    words, _ = VEC4_WORDS[DTYPES[dtype].itemsize]
    return wider.get(words, words)


def buffer_type(name: str) -> str:
    """Declare a buffer type from its name, as "In_uvec4"."""
    prefix, words = name.split("_", 1)
    qualifier = "readonly" if prefix == "In" else "writeonly"
    return (
        "layout(buffer_reference, std430, buffer_reference_align ="
        f" {ALIGNMENT[words]}) restrict {qualifier} buffer {name} {{ {words} at[]; }};"
    )


def declarations(
    program: KernelProgram, wide: bool, horizontal: bool = False
) -> list[str]:
    """Declare the arguments, before any branch.

    Within one, some drivers load them once per invocation. Numbers of a row program
    are global variables: see `rowwise`.
    """
    kinds = buffer_types(program, wide)
    place = ARGUMENT if horizontal else "args.{}"
    lines = [SIBLING_INDEX] if horizontal else []
    globals_ = uniform_numbers(program) if program.group else {}
    for name, kind in push_fields(program):
        declared = "" if name in globals_ else f"{kinds.get(name, kind)} "
        if (name, kind) != DIGIT_FIELD:
            lines.append(f"{declared}{name} = {place.format(name)};")
    return lines


def uniform_numbers(program: KernelProgram) -> dict[str, str]:
    """Return the GLSL type of each scalar and factor, by name."""
    numbers = {f"s{k}": kind for k, kind in enumerate(program.scalars)}
    return numbers | {f"factor{k}": kind for k, kind in enumerate(program.factors)}
