"""Operands in GLSL: four neighbouring elements loaded, generated or drawn, or one."""

from __future__ import annotations

import re

from ...base.dtype import DTYPES
from ..ir.program import GENERATED, Access, KernelProgram
from .packing import LANES, XYZW, element, load_vec4, unpack


def load(program: KernelProgram, k: int, wide: bool) -> list[str]:
    """Load or generate x{k}_0 to x{k}_3, the elements of an operand.

    Their offsets are o{pattern}_0 to o{pattern}_3. The index of a contiguous vector is
    `i`; where elements are loaded one by one, theirs are e_0 to e_3.
    """
    access = program.accesses[k]
    kind = DTYPES[access.dtype].glsl
    if program.is_vector(access):
        return load_words(k, access, wide) + unpack_words(k, access)
    if access.kind in GENERATED and program.vectors:
        vector = "vec4" if kind == "float" else "uvec4"
        lines = [f"{vector} r{k} = {generated(access)};"]
        return lines + [f"{kind} x{k}_{lane} = r{k}.{XYZW[lane]};" for lane in LANES]
    if access.kind in ("splat", "scalar"):
        place = f"o{access.pattern}_0"
        lines = [f"{kind} x{k}_0 = {load_one(program, k, '', place)};"]
        return lines + [f"{kind} x{k}_{lane} = x{k}_0;" for lane in LANES[1:]]
    lines = []
    for lane in LANES:
        place = f"e_{lane}" if access.kind == "linear" else f"o{access.pattern}_{lane}"
        value = load_one(program, k, f"e_{lane}", place)
        lines.append(f"{kind} x{k}_{lane} = {value};")
    return lines


def load_one(program: KernelProgram, k: int, index: str, place: str) -> str:
    """Return one element of an operand: number `index` of a draw, or at its offset."""
    access = program.accesses[k]
    if access.kind in GENERATED:
        return f"{generated(access, f'({index} >> 2)')}[{index} & 3u]"
    return element(access.dtype, k, "0u" if access.kind == "scalar" else place)


def load_words(k: int, access: Access, wide: bool) -> list[str]:
    """Load the words of four contiguous elements."""
    place = "i" if access.kind == "linear" else f"(o{access.pattern}_0 >> 2)"
    return load_vec4(k, DTYPES[access.dtype].itemsize, place, wide)


def unpack_words(k: int, access: Access) -> list[str]:
    """Unpack x{k}_0 to x{k}_3 from their words."""
    kind, name = DTYPES[access.dtype].glsl, access.dtype
    return [f"{kind} x{k}_{lane} = {unpack(name, k, lane)};" for lane in LANES]


def generated(access: Access, index: str = "i") -> str:
    """Return vector number `index` of elements that are in no memory."""
    made = GENERATED[access.kind]
    if index != "i":
        made = re.sub(r"\bi\b", index, made)
    if access.kind in ("index", "product"):
        return made
    words = [f"s{access.pattern + word}" for word in range(4)]
    made = made.replace("key", f"uvec2({words[0]}, {words[1]})")
    return made.replace("call", f"uvec2({words[2]}, {words[3]})")
