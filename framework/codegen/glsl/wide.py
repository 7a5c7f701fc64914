"""GLSL of an element-wise kernel with several vectors per invocation.

That is two vectors of four, "apart" by the workgroup size in vectors, so that
neighbouring invocations still access neighbouring memory; "four" such vectors; or two
"joined": contiguous, so that 16 bytes of 2-byte elements move at once. All vectors are
loaded before the first is computed. Autotuning chooses it: see
`elementwise_variants`.
"""

from __future__ import annotations

from ...base.dtype import DTYPES
from ..ir.horizontal import INVOCATION
from ..ir.program import KernelProgram
from .element_function import ElementFunction
from .elementwise import load_scalars, varying, vec4_offsets
from .interface import declarations
from .operand import load, load_words, unpack_words
from .packing import VEC4_WORDS, vec4_words

VEC8_WORDS = {1: "uvec2", 2: "uvec4"}
"""GLSL type of eight neighbouring elements, by the size of one."""

_HALVES = {1: ("x", "y"), 2: ("xy", "zw")}

GROUPS = {"apart": 2, "four": 4, "joined": 2}
"""Vectors of four elements per invocation."""


def _places(program: KernelProgram) -> list[str]:
    """Return the index of each vector, and the in-range index that is loaded."""
    count = GROUPS[program.pairs]
    if program.pairs == "joined":
        lines = ["uint i_0 = 2u * number;", "uint i_1 = i_0 + 1u;"]
    else:
        # Workgroups take `count` vectors per invocation.
        width = "gl_WorkGroupSize.x"
        lines = [f"uint i_0 = number / {width} * {count - 1}u * {width} + number;"]
        for group in range(1, count):
            lines.append(f"uint i_{group} = i_{group - 1} + {width};")
    lines.append("if (i_0 >= quads) return;")
    for group in range(1, count):
        # A vector out of range is loaded and computed as the first.
        lines += [
            f"bool has_{group} = i_{group} < quads;",
            f"uint j_{group} = has_{group} ? i_{group} : i_0;",
        ]
    return lines


def _groups(program: KernelProgram) -> list[tuple[int, str]]:
    """Return each vector's index, and the index that is loaded."""
    return [(k, f"j_{k}" if k else "i_0") for k in range(GROUPS[program.pairs])]


def vec8_types(program: KernelProgram) -> dict[str, str]:
    """Return the types of buffers that are accessed eight elements at a time."""
    return {
        f"pair_{side}{k}": f"{side.capitalize()}_{VEC8_WORDS[size]}"
        for side, k, size in _joined(program)
    }


def _joined(program: KernelProgram) -> list[tuple[str, int, int]]:
    """Return accesses of eight elements: "in" or "out", number, element size."""
    if program.pairs != "joined":
        return []
    moved = [
        ("in", k, DTYPES[access.dtype].itemsize)
        for k, access in enumerate(program.accesses)
        if access.kind == "linear"
    ]
    moved += [
        ("out", k, DTYPES[output.dtype].itemsize)
        for k, output in enumerate(program.outputs)
    ]
    return [each for each in moved if each[2] in VEC8_WORDS]


def unrolled_main(function: ElementFunction, horizontal: bool) -> list[str]:
    """Return the main function of a program with `pairs`."""
    program = function.program
    joined = _joined(program)
    whole = {k: size for side, k, size in joined if side == "in"}
    written = {k for side, k, _ in joined if side == "out"}
    lines = [
        *declarations(program, False, horizontal),
        *load_scalars(program, wide=False),
        f"uint number = {INVOCATION if horizontal else 'linear_invocation()'};",
        *_places(program),
        *_read(program, whole),
    ]
    groups = _groups(program)
    for k, output in enumerate(program.outputs):
        lines += _held("t", k, DTYPES[output.dtype].itemsize, len(groups))
    for group, place in groups:
        body = _computed(function, group)
        lines += [f"{{ uint i = {place};", *(f"    {line}" for line in body), "}"]
    for k, output in enumerate(program.outputs):
        size = DTYPES[output.dtype].itemsize
        lines += _written(k, size, k in written, len(groups))
    return lines


def _held(name: str, k: int, size: int, groups: int) -> list[str]:
    """Declare the words of vectors of four elements."""
    words, count = VEC4_WORDS[size]
    declared = [
        f"{name}{k}_{p}_{group}" for group in range(groups) for p in range(count)
    ]
    return [f"{words} {', '.join(declared)};"]


def _by_groups(program: KernelProgram, whole: dict[int, int]) -> list[int]:
    """Return the operands that are loaded four elements at a time."""
    return [
        k
        for k, access in enumerate(program.accesses)
        if program.is_vector(access) and k not in whole
    ]


def _read(program: KernelProgram, whole: dict[int, int]) -> list[str]:
    """Load the contiguous operands, before anything is computed."""
    grouped, groups = _by_groups(program, whole), _groups(program)
    lines = []
    for k in (*whole, *grouped):
        size = DTYPES[program.accesses[k].dtype].itemsize
        lines += _held("h", k, size, len(groups))
    first, second = [], []
    for k, size in whole.items():
        low, high = _HALVES[size]
        words = VEC8_WORDS[size]
        first += [
            f"{words} pair{k} = In_{words}(in{k}).at[number];",
            f"h{k}_0_0 = pair{k}.{low}, h{k}_0_1 = pair{k}.{high};",
        ]
        second.append(f"h{k}_0_0 = h{k}_0_1 = in{k}.at[i_0];")
    if whole:
        lines += ["if (has_1) {", *(f"    {line}" for line in first), "} else {"]
        lines += [*(f"    {line}" for line in second), "}"]
    for group, place in groups if grouped else ():
        body = vec4_offsets(program)
        for k in grouped:
            access = program.accesses[k]
            body += load_words(k, access, wide=False)
            _, count = VEC4_WORDS[DTYPES[access.dtype].itemsize]
            body += [f"h{k}_{part}_{group} = w{k}_{part};" for part in range(count)]
        lines += [f"{{ uint i = {place};", *(f"    {line}" for line in body), "}"]
    return lines


def _computed(function: ElementFunction, group: int) -> list[str]:
    """Compute the words of one vector's results."""
    program = function.program
    lines = vec4_offsets(program)
    for k in varying(program):
        access = program.accesses[k]
        if program.is_vector(access):
            words, count = VEC4_WORDS[DTYPES[access.dtype].itemsize]
            for part in range(count):
                lines.append(f"{words} w{k}_{part} = h{k}_{part}_{group};")
            lines += unpack_words(k, access)
        else:
            lines += load(program, k, wide=False)
    lines += function.calls()
    for k, output in enumerate(program.outputs):
        stored = vec4_words(k, output.dtype, function.rounded[k])
        for part, words in enumerate(stored):
            lines.append(f"t{k}_{part}_{group} = {words};")
    return lines


def _written(k: int, size: int, whole: bool, groups: int) -> list[str]:
    """Store the results of the vectors."""
    if whole:
        words = VEC8_WORDS[size]
        return [
            f"if (has_1) Out_{words}(out{k}).at[number] = {words}(t{k}_0_0, t{k}_0_1);",
            f"else out{k}.at[i_0] = t{k}_0_0;",
        ]
    _, count = VEC4_WORDS[size]
    lines = []
    for group in range(groups):
        condition = f"if (has_{group}) " if group else ""
        for part in range(count):
            place = f"{count}u * i_{group} + {part}u" if count > 1 else f"i_{group}"
            lines.append(f"{condition}out{k}.at[{place}] = t{k}_{part}_{group};")
    return lines
