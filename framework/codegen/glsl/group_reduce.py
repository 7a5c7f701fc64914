"""Group reductions in GLSL: pairs of values, and those of a group of invocations."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.dtype import DTYPES
from ..ir.program import DRAWN, Fold, KernelProgram

LEAST = {
    "float": "uintBitsToFloat(0xff800000u)",
    "double": "packDouble2x32(uvec2(0u, 0xfff00000u))",
    "int": "int(0x80000000u)",
    "uint": "0u",
    "int64_t": "int64_t(0x8000000000000000ul)",
    "uint64_t": "0ul",
}
GREATEST = {
    "float": "uintBitsToFloat(0x7f800000u)",
    "double": "packDouble2x32(uvec2(0u, 0x7ff00000u))",
    "int": "0x7fffffff",
    "uint": "0xffffffffu",
    "int64_t": "int64_t(0x7ffffffffffffffful)",
    "uint64_t": "0xfffffffffffffffful",
}
"""Smallest and largest number of each GLSL type."""

COMBINE = {
    "add": "old + new",
    "mul": "old * new",
    "max": "(new > old) != (new != new) ? new : old",
    "min": "(new < old) != (new != new) ? new : old",
}
"""Combining expression of each fold; NaN is both greatest and least, as in NumPy.

The two conditions exclude each other; `||` would be a branch between loads.
"""

SUBGROUP_EXTENSIONS = (
    "GL_KHR_shader_subgroup_basic",
    "GL_KHR_shader_subgroup_shuffle",
)

SHUFFLED = ("float", "int", "uint")
"""Types that every device can shuffle within a subgroup."""


def identity(combine: str, glsl: str) -> str:
    """Return the identity element of a fold."""
    ends = {"max": LEAST, "min": GREATEST}
    return (
        ends[combine][glsl] if combine in ends else f"{glsl}({int(combine == 'mul')})"
    )


def folding(program: KernelProgram) -> list[str]:
    """Declare `combine_how` of two values, and `group_n` for each fold of a program.

    Every invocation of a workgroup must call the latter, each once.
    """
    folds = dict(_folds(program))
    pairs = {(fold.combine, _type(fold)) for fold in folds.values()}
    lines = [
        f"{kind} combine_{how}({kind} old, {kind} new)"
        f" {{ return {_combined(how, kind)}; }}"
        for how, kind in sorted(pairs)
    ]
    if program.group == 1:
        return lines
    for kind in sorted({_type(f) for f in folds.values() if not _shuffles(program, f)}):
        lines.append(f"shared {kind} shared_{kind}[gl_WorkGroupSize.x];")
    for number, fold in folds.items():
        made = _over_subgroups if _shuffles(program, fold) else _over_memory
        lines += made(program, number, fold)
    return lines


_ZEROS = {"max": "&", "min": "|"}
"""Bit operation that picks the greater, or lesser, of a positive and negative zero."""


def _combined(how: str, kind: str) -> str:
    """Return the expression that combines two values of a type.

    For zeros of both signs max and min decide by the sign: by operand order,
    invocations of a group would not agree.
    """
    if how not in _ZEROS or kind != "float":
        return COMBINE[how]
    bits = f"floatBitsToUint(new) {_ZEROS[how]} floatBitsToUint(old)"
    return f"new == old ? uintBitsToFloat({bits}) : {COMBINE[how]}"


def exchanges(program: KernelProgram) -> bool:
    """Whether invocations exchange what they draw."""
    drawn = any(access.kind in DRAWN for access in program.accesses)
    return program.pairs == "split" and drawn


def uses_subgroups(program: KernelProgram) -> bool:
    """Whether the program uses subgroup shuffles, for folds or for what it draws."""
    folds = any(_shuffles(program, fold) for _, fold in _folds(program))
    return folds or exchanges(program)


def place_in_workgroup(program: KernelProgram) -> str:
    """Return an invocation index in which those of a subgroup are contiguous."""
    if uses_subgroups(program):
        return "gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID"
    return "gl_LocalInvocationIndex"


def _folds(program: KernelProgram) -> Iterator[tuple[int, Fold]]:
    for number, step in enumerate(program.instructions):
        if isinstance(step, Fold):
            yield number, step


def _type(fold: Fold) -> str:
    return DTYPES[fold.result].glsl


def _shuffles(program: KernelProgram, fold: Fold) -> bool:
    return program.subgroup > 0 and program.group > 1 and _type(fold) in SHUFFLED


def _over_memory(program: KernelProgram, number: int, fold: Fold) -> list[str]:
    """Fold in a tree; a barrier at the end frees shared memory for the next fold."""
    kind = _type(fold)
    other = f"shared_{kind}[at + half_size]"
    return [
        f"{kind} group_{number}({kind} value) {{",
        f"    uint at = {place_in_workgroup(program)}, part = at % GROUP;",
        f"    shared_{kind}[at] = value;",
        "    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {",
        "        barrier();",
        "        if (part < half_size) {",
        f"            value = combine_{fold.combine}(value, {other});",
        f"            shared_{kind}[at] = value;",
        "        }",
        "    }",
        "    barrier();",
        f"    value = shared_{kind}[at - part];",
        "    barrier();",
        "    return value;",
        "}",
    ]


def _over_subgroups(program: KernelProgram, number: int, fold: Fold) -> list[str]:
    """Fold within subgroups, then across them through shared memory of its own."""
    kind, size = _type(fold), program.subgroup
    inner = min(program.group, size)
    lines = [
        f"{kind} group_{number}({kind} value) {{",
        *_exchanges(fold, inner),
        "    return value;",
        "}",
    ]
    subgroups = program.group // size
    if subgroups <= 1:
        return lines
    first = f"gl_SubgroupID / {subgroups}u * {subgroups}u"
    lines[-2:-2] = [
        f"    if (subgroupElect()) shared_{number}[gl_SubgroupID] = value;",
        "    barrier();",
        f"    uint other = {first} + gl_SubgroupInvocationID % {subgroups}u;",
        f"    value = shared_{number}[other];",
        *_exchanges(fold, subgroups),
    ]
    return [f"shared {kind} shared_{number}[gl_WorkGroupSize.x / {size}u];", *lines]


def _exchanges(fold: Fold, count: int) -> list[str]:
    """Reduce `count` neighbours, a power of two, by butterfly shuffles."""
    how = fold.combine
    return [
        f"    value = combine_{how}(value, subgroupShuffleXor(value, {distance}u));"
        for distance in _halves(count)
    ]


def _halves(count: int) -> list[int]:
    """Return `count` / 2, / 4 and so on down to 1, for a power of two."""
    return [count >> k for k in range(1, count.bit_length())]
