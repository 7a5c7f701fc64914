"""GLSL of an element-wise kernel whose invocations take two pairs of elements.

Four elements of eight bytes are two loads and two stores of 16 bytes. Where one
invocation takes both halves, those of neighbours are 32 bytes apart, so each store
covers half of the sectors that it touches: on an NVIDIA H200 (580.159.04, 2026-11-30)
134 MB took 84 us, and 43 where the stores of neighbours lie side by side. So the second
pair of an invocation is as many pairs after the first as a workgroup has invocations.

Random numbers are drawn four at a time. Two invocations then exchange half of theirs
within their subgroup, so that each of their stores is of two pairs side by side.
"""

from __future__ import annotations

from ...base.dtype import DTYPES
from ..ir.horizontal import INVOCATION
from ..ir.program import DRAWN, KernelProgram
from .element_function import ElementFunction
from .elementwise import load_scalars, varying
from .group_reduce import exchanges
from .indexing import element_offsets
from .interface import declarations
from .operand import generated, load, unpack_words
from .packing import LANES, VEC4_WORDS, element, vec4_words

_PLACES = ("i_0", "j_1")
"""Numbers of the pairs that are loaded: of the second in range, if that is not."""


_APART = (
    "uint i_0 = number / gl_WorkGroupSize.x * gl_WorkGroupSize.x + number;",
    "uint i_1 = i_0 + gl_WorkGroupSize.x;",
)
_EXCHANGED = (
    "bool odd = (number & 1u) != 0u;",
    "uint i_0 = odd ? 2u * number - 1u : 2u * number, i_1 = i_0 + 2u;",
)
"""Numbers of an invocation's pairs. Of two that exchange, both have a first pair or
none, so that none returns before the other."""

_IN_SUBGROUPS = (
    "(linear_workgroup() * gl_WorkGroupSize.x"
    " + gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID)"
)
"""Invocation index in which those of a subgroup are neighbours."""


def split_main(function: ElementFunction, horizontal: bool) -> list[str]:
    """Return the main function of a program with `pairs` "split"."""
    program = function.program
    number = INVOCATION if horizontal else "linear_invocation()"
    places = _APART
    if exchanges(program):
        number = number.replace("linear_invocation()", _IN_SUBGROUPS)
        places = _EXCHANGED
    lines = [
        *declarations(program, False, horizontal),
        *load_scalars(program, wide=False),
        f"uint number = {number};",
        *places,
        "if (i_0 >= 2u * quads) return;",
        "bool has_1 = i_1 < 2u * quads;",
        # A pair out of range is loaded and computed as the first.
        "uint j_1 = has_1 ? i_1 : i_0;",
        *_offsets(program),
    ]
    for k in varying(program):
        lines += _load(program, k)
    lines += function.calls()
    for k, output in enumerate(program.outputs):
        lines += _store(k, output.dtype)
    return lines


def _offsets(program: KernelProgram) -> list[str]:
    """Compute the offsets of the four elements."""
    indices = [f"2u * {place}" for place in _PLACES]
    if not program.vec4:
        indices = [f"min({at} + {k}u, last)" for at in indices for k in range(2)]
    return element_offsets(program, range(len(program.patterns)), indices)


def _load(program: KernelProgram, k: int) -> list[str]:
    """Load or generate x{k}_0 to x{k}_3."""
    access = program.accesses[k]
    kind = DTYPES[access.dtype].glsl
    if program.is_vector(access):
        at = f"o{access.pattern}"
        linear = access.kind == "linear"
        places = _PLACES if linear else (f"({at}_0 >> 1)", f"({at}_2 >> 1)")
        return _load_words(k, DTYPES[access.dtype].itemsize, places) + unpack_words(
            k, access
        )
    if access.kind in DRAWN:
        return _draw(program, k)
    if access.kind == "index":
        indices = [f"2u * {place} + {n}u" for place in _PLACES for n in range(2)]
        return [f"{kind} x{k}_{lane} = {indices[lane]};" for lane in LANES]
    if access.kind == "splat":
        lines = []
        for lane in (0, 2):
            value = element(access.dtype, k, f"o{access.pattern}_{lane}")
            lines.append(
                f"{kind} x{k}_{lane} = {value}, x{k}_{lane + 1} = x{k}_{lane};"
            )
        return lines
    return load(program, k, wide=False)


def _draw(program: KernelProgram, k: int) -> list[str]:
    """Draw four numbers, and exchange the two that are the other invocation's."""
    access = program.accesses[k]
    kind = DTYPES[access.dtype].glsl
    vector, pair = ("vec4", "vec2") if kind == "float" else ("uvec4", "uvec2")
    return [
        f"{vector} r{k} = {generated(access, 'number')};",
        f"{pair} g{k} = subgroupShuffleXor(odd ? r{k}.xy : r{k}.zw, 1u);",
        f"{pair} p{k} = odd ? g{k} : r{k}.xy, q{k} = odd ? r{k}.zw : g{k};",
        f"{kind} x{k}_0 = p{k}.x, x{k}_1 = p{k}.y, x{k}_2 = q{k}.x, x{k}_3 = q{k}.y;",
    ]


def _load_words(k: int, itemsize: int, places: tuple[str, ...]) -> list[str]:
    """Load the words of two pairs into w{k}_0, w{k}_1, as those of four elements."""
    first, second = (f"in{k}.at[{place}]" for place in places)
    if itemsize == 8:
        return [f"uvec4 w{k}_0 = {first}, w{k}_1 = {second};"]
    if itemsize > 1:
        kind, _ = VEC4_WORDS[itemsize]
        return [f"{kind} w{k}_0 = {kind}({first}, {second});"]
    halves = [
        f"bitfieldExtract(in{k}.at[{place} >> 1], int({place} & 1u) * 16, 16)"
        for place in places
    ]
    return [f"uint w{k}_0 = {halves[0]} | {halves[1]} << 16;"]


def _store(k: int, dtype: str) -> list[str]:
    """Store the results y{k}_0 to y{k}_3."""
    itemsize, words = DTYPES[dtype].itemsize, vec4_words(k, dtype)
    lines = []
    if itemsize < 8:
        kind, _ = VEC4_WORDS[itemsize]
        lines = [f"{kind} p{k} = {words[0]};"]
        words = [f"p{k}.xy", f"p{k}.zw"] if itemsize == 4 else [f"p{k}.x", f"p{k}.y"]
    lines.append(f"out{k}.at[i_0] = {words[0]};")
    lines.append(f"if (has_1) out{k}.at[i_1] = {words[1]};")
    return lines
