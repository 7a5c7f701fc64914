"""Uniform loads for llvmpipe, whose compiler gathers lane by lane otherwise.

Lavapipe (Mesa 22.3 and 25.0, read and measured) loads from memory lane by lane, in a
loop of some twenty cycles for each. Only where it can prove an address uniform, outside
of any branch, does it load once and broadcast the value. Of such loads, each selected
by one lane, LLVM makes scalar loads into one vector. Constants and push constants are
uniform to it, but not the workgroup index; `told` therefore looks the index's digits up
in the push block to make it uniform. Such loads cost next to nothing; stores stay a
loop over lanes, and take words of 64 bits.

A block is what the workgroup handles whose index it has, in rounds: in each one lane
has four neighbouring elements, and the next lane the next four.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...base.dtype import DTYPES
from ..ir.program import DIGITS, KernelProgram
from .packing import ALIGNMENT, VEC4_WORDS, XYZW

_BITS = DIGITS.bit_length() - 1
_UNIFORM = " | ".join(
    f"args.digit[number >> {_BITS * k}u & {DIGITS - 1}u] << {_BITS * k}u"
    for k in range(DIGITS)
)


def uniform_load_functions(lanes: int, rounds: int, sizes: Iterable[int]) -> list[str]:
    """Declare blocks of elements of these sizes, and the functions of `uniform_words`.

    `told(number)` is the number made uniform over all lanes. `pick` selects the own
    lane's word.
    """
    lines = []
    for size in sorted(set(sizes)):
        align = min(4 * size, ALIGNMENT["uvec4"])
        lines += [
            f"struct Block{size} {{ uvec4 four[{lanes * rounds * size // 4}]; }};",
            "layout(buffer_reference, std430, buffer_reference_align ="
            f" {align}) restrict readonly buffer Blocks{size}"
            f" {{ Block{size} at[]; }};",
        ]
    chosen = f"word{lanes - 1}"
    for k in reversed(range(lanes - 1)):
        chosen = f"lane == {k}u ? word{k} : {chosen}"
    given = ", ".join(f"uint word{k}" for k in range(lanes))
    return [
        *lines,
        f"uint told(uint number) {{ return {_UNIFORM}; }}",
        f"uint pick({given}) {{",
        "    uint lane = gl_SubgroupInvocationID;",
        f"    return {chosen};",
        "}",
    ]


def block_sizes(program: KernelProgram) -> set[int]:
    """Return the element sizes of the operands that are loaded as blocks."""
    return {
        DTYPES[access.dtype].itemsize
        for access in program.accesses
        if not access.per_row
    }


def uniform_load_operands(program: KernelProgram) -> list[str]:
    """Declare per-element operands as blocks."""
    lines = []
    for k, access in enumerate(program.accesses):
        kind = f"Blocks{DTYPES[access.dtype].itemsize}"
        if not access.per_row:
            lines.append(f"{kind} blocks{k} = {kind}(in{k});")
    return lines


def uniform_words(
    k: int, itemsize: int, block: str, number: int, lanes: int
) -> list[str]:
    """Load w{k}_0, w{k}_1, as `packing.load_vec4` does, in one round of a block.

    It must be outside of any branch.
    """
    kind, count = VEC4_WORDS[itemsize]
    lines, parts = [], itemsize // count
    for part in range(count):
        words = []
        for word in range(part * parts, (part + 1) * parts):
            places = [
                (number * lanes + lane) * itemsize + word for lane in range(lanes)
            ]
            given = [f"{block}.four[{at // 4}].{XYZW[at % 4]}" for at in places]
            words.append(f"pick({', '.join(given)})")
        made = f"{kind}({', '.join(words)})" if parts > 1 else words[0]
        lines.append(f"{kind} w{k}_{part} = {made};")
    return lines
