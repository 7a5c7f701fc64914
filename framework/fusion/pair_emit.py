"""The GLSL text of a fused element-wise program whose invocations take eight elements.

That is two groups of four, "apart" by as many groups as there are invocations in a
workgroup, so that neighbours still read neighbouring memory, or "joined": side by side,
so that 16 bytes of 2-byte elements move at once. Both groups are read before the first
is computed with. A measurement chooses it: see `quad_choice`.
"""

from __future__ import annotations

from ..dtype import DTYPES
from .emit import (
    buffer_types,
    compute,
    compute_quad,
    declarations,
    extensions,
    functions,
    includes,
    interface,
    load,
    load_words,
    offsets,
    unpack_words,
)
from .expr import Program, push_fields
from .siblings import INVOCATION
from .words import QUAD_WORDS, quad_words

PAIR_WORDS = {1: "uvec2", 2: "uvec4"}
"""GLSL type that holds eight neighbouring elements, by the size of one."""

_HALVES = {1: ("x", "y"), 2: ("xy", "zw")}

_PLACES = {
    # Workgroups take twice as many groups of four as they have invocations.
    "apart": (
        "uint i_0 = number / gl_WorkGroupSize.x * gl_WorkGroupSize.x + number;",
        "uint i_1 = i_0 + gl_WorkGroupSize.x;",
    ),
    "joined": ("uint i_0 = 2u * number;", "uint i_1 = i_0 + 1u;"),
}


def emit_pairs(program: Program, siblings: bool = False) -> str:
    """Return the compute shader of a program with `pairs`.

    Parameters
    ----------
    program : Program
        What to compute. If `pairs` is "joined", operands of narrow elements that are
        read in order begin at multiples of eight elements.
    siblings : bool, default False
        Run it for several sets of arguments at once; see `siblings`.
    """
    kinds = buffer_types(program, wide=False)
    pairs = {
        f"pair_{side}{k}": f"{side.capitalize()}_{PAIR_WORDS[size]}"
        for side, k, size in _joined(program)
    }
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            *extensions(program, wide=False),
            *includes(program),
            *interface(push_fields(program), kinds | pairs, siblings),
            *functions(program),
            *compute(program),
            "void main() {",
            *(f"    {line}" for line in _main(program, siblings)),
            "}",
            "",
        ]
    )


def _joined(program: Program) -> list[tuple[str, int, int]]:
    """Return what moves eight elements at once: "in" or "out", number, element size."""
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
    return [each for each in moved if each[2] in PAIR_WORDS]


def _main(program: Program, siblings: bool) -> list[str]:
    joined = _joined(program)
    whole = {k: size for side, k, size in joined if side == "in"}
    written = {k for side, k, _ in joined if side == "out"}
    lines = declarations(program, False, siblings)
    for k, access in enumerate(program.accesses):
        if access.kind == "scalar":
            lines += load(k, access, wide=False)
    lines += [
        f"uint number = {INVOCATION if siblings else 'linear_invocation()'};",
        *_PLACES[program.pairs],
        "if (i_0 >= quads) return;",
        "bool both = i_1 < quads;",
        # Without a second group the first is read and computed twice.
        "uint j_1 = both ? i_1 : i_0;",
        *_read(program, whole),
    ]
    for k, output in enumerate(program.outputs):
        lines += _held("t", k, DTYPES[output.dtype].itemsize)
    for group, place in enumerate(("i_0", "j_1")):
        body = _computed(program, group)
        lines += [f"{{ uint i = {place};", *(f"    {line}" for line in body), "}"]
    for k, output in enumerate(program.outputs):
        lines += _written(k, DTYPES[output.dtype].itemsize, k in written)
    return lines


def _held(name: str, k: int, size: int) -> list[str]:
    """Declare the words of two groups of four elements."""
    words, count = QUAD_WORDS[size]
    held = [f"{name}{k}_{part}_{group}" for group in (0, 1) for part in range(count)]
    return [f"{words} {', '.join(held)};"]


def _by_groups(program: Program, whole: dict[int, int]) -> list[int]:
    """Return the operands that are read four elements at a time."""
    return [
        k
        for k, access in enumerate(program.accesses)
        if access.kind in ("linear", "row") and k not in whole
    ]


def _read(program: Program, whole: dict[int, int]) -> list[str]:
    """Read what lies in order, before anything is computed."""
    grouped = _by_groups(program, whole)
    lines = []
    for k in (*whole, *grouped):
        lines += _held("h", k, DTYPES[program.accesses[k].dtype].itemsize)
    first, second = [], []
    for k, size in whole.items():
        low, high = _HALVES[size]
        words = PAIR_WORDS[size]
        first += [
            f"{words} pair{k} = In_{words}(in{k}).at[number];",
            f"h{k}_0_0 = pair{k}.{low}, h{k}_0_1 = pair{k}.{high};",
        ]
        second.append(f"h{k}_0_0 = h{k}_0_1 = in{k}.at[i_0];")
    if whole:
        lines += ["if (both) {", *(f"    {line}" for line in first), "} else {"]
        lines += [*(f"    {line}" for line in second), "}"]
    if not grouped:
        return lines
    for group, place in enumerate(("i_0", "j_1")):
        body = offsets(program)
        for k in grouped:
            access = program.accesses[k]
            body += load_words(k, access, wide=False)
            _, count = QUAD_WORDS[DTYPES[access.dtype].itemsize]
            body += [f"h{k}_{part}_{group} = w{k}_{part};" for part in range(count)]
        lines += [f"{{ uint i = {place};", *(f"    {line}" for line in body), "}"]
    return lines


def _computed(program: Program, group: int) -> list[str]:
    """Compute the words of the results of one group."""
    lines = offsets(program)
    for k, access in enumerate(program.accesses):
        if access.kind in ("linear", "row"):
            words, count = QUAD_WORDS[DTYPES[access.dtype].itemsize]
            for part in range(count):
                lines.append(f"{words} w{k}_{part} = h{k}_{part}_{group};")
            lines += unpack_words(k, access)
        elif access.kind != "scalar":
            lines += load(k, access, wide=False)
    lines += compute_quad(program)
    for k, output in enumerate(program.outputs):
        for part, words in enumerate(quad_words(k, output.dtype)):
            lines.append(f"t{k}_{part}_{group} = {words};")
    return lines


def _written(k: int, size: int, whole: bool) -> list[str]:
    """Write what both groups gave."""
    if whole:
        words = PAIR_WORDS[size]
        return [
            f"if (both) Out_{words}(out{k}).at[number] = {words}(t{k}_0_0, t{k}_0_1);",
            f"else out{k}.at[i_0] = t{k}_0_0;",
        ]
    _, count = QUAD_WORDS[size]
    lines = []
    for group, condition in enumerate(("", "if (both) ")):
        for part in range(count):
            place = f"{count}u * i_{group} + {part}u" if count > 1 else f"i_{group}"
            lines.append(f"{condition}out{k}.at[{place}] = t{k}_{part}_{group};")
    return lines
