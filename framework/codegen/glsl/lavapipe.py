"""Uniform vector loads for llvmpipe, whose compiler gathers lane by lane otherwise.

Lavapipe (Mesa 22.3 and 25.0, read and measured) loads from memory lane by lane, in a
loop of some five cycles for each. Only where it can prove an address uniform, outside
of any branch, does it load once and broadcast the value. Of such loads from
neighbouring words, each selected by one lane, LLVM makes one vector load. Constants and
push constants are uniform to it, but not the workgroup index; `told` therefore looks
the index's digits up in the push block to make it uniform. Such loads cost next to
nothing; stores stay a loop over lanes, and take words of 64 bits.

Elements have four bytes. A vector is one of them for each lane, and a block is a run of
vectors with the index of the workgroup that handles it.
"""

from __future__ import annotations

from ...base.dtype import DTYPES
from ..ir.program import DIGITS, KernelProgram
from .packing import ALIGNMENT, LANES, XYZW, decode, encode

_BITS = DIGITS.bit_length() - 1
_UNIFORM = " | ".join(
    f"args.digit[number >> {_BITS * k}u & {DIGITS - 1}u] << {_BITS * k}u"
    for k in range(DIGITS)
)


def uniform_load_functions(lanes: int, vectors: int) -> list[str]:
    """Declare blocks of some vectors, and the functions of `load_vectors` and the like.

    `told(number)` is the number made uniform over all lanes. `pick` selects the own
    lane's element of a vector. `pair` of two vectors is the own 64-bit word of the two,
    one behind the other.
    """
    given = ", ".join(f"uvec4 four{k}" for k in range(lanes // 4))
    elements = [f"four{k // 4}.{XYZW[k % 4]}" for k in range(lanes)]
    chosen = elements[-1]
    for k in reversed(range(lanes - 1)):
        chosen = f"lane == {k}u ? {elements[k]} : {chosen}"
    return [
        f"struct Block {{ uvec4 four[{lanes * vectors // 4}]; }};",
        "layout(buffer_reference, std430, buffer_reference_align ="
        f" {ALIGNMENT['uvec4']}) restrict readonly buffer Blocks {{ Block at[]; }};",
        "layout(buffer_reference, std430, buffer_reference_align ="
        f" {ALIGNMENT['uint64_t']}) restrict writeonly buffer Words"
        " { uint64_t at[]; };",
        f"uint told(uint number) {{ return {_UNIFORM}; }}",
        f"uint pick({given}) {{",
        "    uint lane = gl_SubgroupInvocationID;",
        f"    return {chosen};",
        "}",
        "uint64_t pair(uint low, uint high) {",
        "    uint lane = gl_SubgroupInvocationID;",
        f"    uint place = 2u * lane & {lanes - 1}u;",
        "    uint low_first = subgroupShuffle(low, place);",
        "    uint low_second = subgroupShuffle(low, place + 1u);",
        "    uint high_first = subgroupShuffle(high, place);",
        "    uint high_second = subgroupShuffle(high, place + 1u);",
        f"    bool lower = lane < {lanes // 2}u;",
        "    return packUint2x32(uvec2(lower ? low_first : high_first,",
        "                              lower ? low_second : high_second));",
        "}",
    ]


def uniform_load_operands(program: KernelProgram) -> list[str]:
    """Declare per-element operands as blocks, and results as words."""
    lines = [
        f"Blocks blocks{k} = Blocks(in{k});"
        for k, access in enumerate(program.accesses)
        if not access.per_row
    ]
    return lines + [
        f"Words words{k} = Words(out{k});"
        for k, output in enumerate(program.outputs)
        if not program.is_per_row(output)
    ]


def load_vectors(k: int, dtype: str, block: str, number: int, lanes: int) -> list[str]:
    """Load x{k}_0 to x{k}_3 from four vectors of a block, from vector `number` on.

    It must be outside of any branch.
    """
    lines = []
    for j in LANES:
        fours = range((number + j) * lanes // 4, (number + j + 1) * lanes // 4)
        words = ", ".join(f"{block}.four[{four}]" for four in fours)
        lines.append(
            f"{DTYPES[dtype].glsl} x{k}_{j} = {decode(dtype, f'pick({words})')};"
        )
    return lines


def store_vectors(k: int, dtype: str, first: str, lanes: int) -> list[str]:
    """Store y{k}_0 to y{k}_3 into four vectors, from word number `first` on.

    Each address is computed separately, in 32 bits: a shared one would be kept for
    every lane, in 64 bits.
    """
    words = [encode(dtype, f"y{k}_{lane}") for lane in LANES]
    return [
        f"words{k}.at[{first} + {j * lanes}u + gl_SubgroupInvocationID]"
        f" = pair({words[2 * j]}, {words[2 * j + 1]});"
        for j in range(2)
    ]
