"""The GLSL text of a fused element-wise program.

Each invocation handles four neighbouring elements. Storage is read and written as
32-bit words, so 1- and 2-byte types need no device feature.
"""

from __future__ import annotations

from ..dtype import DTYPES
from .expr import Access, Instruction, Program, field_size, push_fields

MAX_PUSH = 128
"""Bytes of push constants that every device has (Vulkan 1.0 limits table)."""

_LANES = range(4)
_XYZW = "xyzw"

# GLSL type of the words that hold four neighbouring elements, and how many there are.
_QUAD_WORDS = {1: ("uint", 1), 2: ("uvec2", 1), 4: ("uvec4", 1), 8: ("uvec4", 2)}

# The same memory in 64-bit words, and how to turn one into the other.
_WIDE = {"uvec2": "uint64_t", "uvec4": "u64vec2"}
_ALIGNMENT = {"uint": 4, "uvec2": 8, "uint64_t": 8, "uvec4": 16, "u64vec2": 16}

_PACK_WORDS = (
    "uint64_t pack_words(uvec2 w) { return packUint2x32(w); }",
    "u64vec2 pack_words(uvec4 w) {"
    " return u64vec2(packUint2x32(w.xy), packUint2x32(w.zw)); }",
)

_INT64 = "GL_EXT_shader_explicit_arithmetic_types_int64"


def emit(program: Program, wide: bool = False) -> str:
    """Return the compute shader of a program.

    Parameters
    ----------
    program : Program
        What to compute.
    wide : bool, default False
        Move memory in 64-bit words. Software drivers spend their time per word, so it
        halves the cost there; it needs 64-bit integers.
    """
    body = "\n".join(f"    {line}" for line in _main(program, wide))
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            *_extensions(program, wide),
            '#include "lib/index.glsl"',
            '#include "lib/math.glsl"',
            *_random(program),
            *_interface(program, wide),
            *(_PACK_WORDS if wide else ()),
            *_functions(program),
            *_compute(program),
            "void main() {",
            body,
            "}",
            "",
        ]
    )


def _extensions(program: Program, wide: bool) -> list[str]:
    types = {DTYPES[access.dtype].glsl for access in program.accesses}
    types |= {DTYPES[step.result].glsl for step in program.instructions}
    types |= set(program.scalars)
    needed = wide or types & {"int64_t", "uint64_t"}
    return [f"#extension {_INT64} : require"] if needed else []


def _random(program: Program) -> list[str]:
    draws = any(access.kind == "random" for access in program.accesses)
    return ['#include "lib/random.glsl"'] if draws else []


def _interface(program: Program, wide: bool) -> list[str]:
    """Declare one buffer type per kind of operand, and the argument block."""
    kinds = _buffer_types(program, wide)
    members = [
        f"    {kinds.get(name, kind)} {name};" for name, kind in push_fields(program)
    ]
    if sum(field_size(kind) for _, kind in push_fields(program)) <= MAX_PUSH:
        block = ["layout(push_constant, std430) uniform Push {", *members, "} args;"]
    else:
        block = [
            "layout(buffer_reference, std430, buffer_reference_align = 16)"
            " restrict readonly buffer Arguments {",
            *members,
            "};",
            "layout(push_constant, std430) uniform Push { Arguments args; };",
        ]
    return [*map(_buffer_type, sorted(set(kinds.values()))), *block]


def _buffer_types(program: Program, wide: bool) -> dict[str, str]:
    """Return the buffer type of each operand that is in memory, by argument name."""
    kinds = {}
    for k, access in enumerate(program.accesses):
        words = "uint"
        if access.kind in ("linear", "row"):
            words = _QUAD_WORDS[DTYPES[access.dtype].itemsize][0]
        if access.kind != "random":
            kinds[f"in{k}"] = f"In_{_WIDE.get(words, words) if wide else words}"
    for k, output in enumerate(program.outputs):
        words = _QUAD_WORDS[DTYPES[output.dtype].itemsize][0]
        kinds[f"out{k}"] = f"Out_{_WIDE.get(words, words) if wide else words}"
    return kinds


def _buffer_type(name: str) -> str:
    prefix, words = name.split("_", 1)
    qualifier = "readonly" if prefix == "In" else "writeonly"
    return (
        "layout(buffer_reference, std430, buffer_reference_align ="
        f" {_ALIGNMENT[words]}) restrict {qualifier} buffer {name} {{ {words} at[]; }};"
    )


def _functions(program: Program) -> list[str]:
    """One GLSL function per distinct expression."""
    return [
        f"{DTYPES[step.result].glsl} {name}("
        + ", ".join(f"{kind} {word}" for kind, word in zip(step.types, step.names))
        + f") {{ return {_wrapped(step)}; }}"
        for step, name in _function_names(program).items()
    ]


def _function_names(program: Program) -> dict[Instruction, str]:
    names: dict[Instruction, str] = {}
    for step in program.instructions:
        names.setdefault(step._replace(arguments=()), f"f{len(names)}")
    return names


def _wrapped(step: Instruction) -> str:
    """Return the expression; results narrower than a word wrap or round as in memory.

    So a value is the same whether another operation reads it fused or unfused.
    """
    dtype = DTYPES[step.result]
    expression = f"{dtype.glsl}({step.glsl})"
    if dtype.name == "float16":
        return f"unpackHalf2x16(packHalf2x16(vec2({expression}, 0.0))).x"
    if dtype.kind not in ("int", "uint") or dtype.itemsize >= 4:
        return expression
    return f"bitfieldExtract({expression}, 0, {8 * dtype.itemsize})"


def _compute(program: Program) -> list[str]:
    """Return the function from one element of each input to one of each output."""
    parameters = [
        f"{DTYPES[access.dtype].glsl} x{k}" for k, access in enumerate(program.accesses)
    ]
    parameters += [f"{kind} s{k}" for k, kind in enumerate(program.scalars)]
    parameters += [
        f"out {DTYPES[output.dtype].glsl} y{k}"
        for k, output in enumerate(program.outputs)
    ]
    names = _function_names(program)
    spell = {"in": "x{}", "op": "v{}", "scalar": "s{}"}
    lines = [f"void compute({', '.join(parameters)}) {{"]
    for number, step in enumerate(program.instructions):
        arguments = ", ".join(
            f"{kind}({spell[reference.source].format(reference.number)})"
            for kind, reference in zip(step.types, step.arguments)
        )
        kind = DTYPES[step.result].glsl
        function = names[step._replace(arguments=())]
        lines.append(f"    {kind} v{number} = {function}({arguments});")
    for k, output in enumerate(program.outputs):
        lines.append(f"    y{k} = v{output.instruction};")
    return [*lines, "}"]


def _main(program: Program, wide: bool) -> list[str]:
    kinds = _buffer_types(program, wide)
    # Arguments are read before any branch: within one, some drivers read them once per
    # invocation.
    lines = [
        f"{kinds.get(name, kind)} {name} = args.{name};"
        for name, kind in push_fields(program)
    ]
    lines += ["uint i = linear_invocation();", "if (i >= quads) return;"]
    lines += _offsets(program)
    for k, access in enumerate(program.accesses):
        lines += _load(k, access, wide)
    scalars = [f"s{k}" for k in range(len(program.scalars))]
    for lane in _LANES:
        for k, output in enumerate(program.outputs):
            lines.append(f"{DTYPES[output.dtype].glsl} y{k}_{lane};")
        arguments = [f"x{k}_{lane}" for k in range(len(program.accesses))]
        arguments += scalars
        arguments += [f"y{k}_{lane}" for k in range(len(program.outputs))]
        lines.append(f"compute({', '.join(arguments)});")
    for k, output in enumerate(program.outputs):
        lines += _store(k, output.dtype, wide)
    return lines


def _offsets(program: Program) -> list[str]:
    """Element offset of each pattern, for the first element or for each of the four."""
    if not program.patterns:
        return []
    lines = []
    for lane in _LANES[:1] if program.whole_quads else _LANES:
        first = "4u * i" if program.whole_quads else f"min(4u * i + {lane}u, last)"
        lines.append(f"uint e{lane} = {first};")
        for dim in range(program.rank - 1, 0, -1):
            lines += [
                f"uint q{lane}_{dim} = divide(e{lane}, magic{dim}, shift{dim});",
                f"uint c{lane}_{dim} = e{lane} - q{lane}_{dim} * size{dim};",
                f"e{lane} = q{lane}_{dim};",
            ]
        lines.append(f"uint c{lane}_0 = e{lane};")
        for k, pattern in enumerate(program.patterns):
            terms = [f"p{k}_offset"] if pattern.offset else []
            terms += [
                f"c{lane}_{dim}" + (f" * p{k}_{dim}" if step == "s" else "")
                for dim, step in enumerate(pattern.steps)
                if step != "0"
            ]
            lines.append(f"uint o{k}_{lane} = {' + '.join(terms) or '0u'};")
        if program.whole_quads:
            lines += [
                f"uint o{k}_{other} = o{k}_0{_step(k, pattern, other)};"
                for k, pattern in enumerate(program.patterns)
                for other in _LANES[1:]
            ]
    return lines


def _step(k: int, pattern: tuple[tuple[str, ...], bool], lane: int) -> str:
    """Return what `lane` adds to the offset of the first of four elements."""
    last = pattern[0][-1]
    if last == "0":
        return ""
    return f" + {lane}u" + (f" * p{k}_{len(pattern[0]) - 1}" if last == "s" else "")


def _load(k: int, access: Access, wide: bool) -> list[str]:
    dtype = DTYPES[access.dtype]
    if access.kind == "random":
        first = access.pattern
        key, call = (
            f"uvec2(s{first}, s{first + 1})",
            f"uvec2(s{first + 2}, s{first + 3})",
        )
        draws = f"vec4 r{k} = random_uniform(i, {key}, {call});"
        return [draws, *(f"float x{k}_{lane} = r{k}.{_XYZW[lane]};" for lane in _LANES)]
    if access.kind in ("linear", "row"):
        place = "i" if access.kind == "linear" else f"(o{access.pattern}_0 >> 2)"
        return _load_quad(k, dtype.itemsize, place, wide) + [
            f"{dtype.glsl} x{k}_{lane} = {_unpack(dtype.name, k, lane)};"
            for lane in _LANES
        ]
    if access.kind == "gather":
        return [
            f"{dtype.glsl} x{k}_{lane} ="
            f" {_element(dtype.name, k, f'o{access.pattern}_{lane}')};"
            for lane in _LANES
        ]
    place = "0u" if access.kind == "scalar" else f"o{access.pattern}_0"
    return [f"{dtype.glsl} x{k}_0 = {_element(dtype.name, k, place)};"] + [
        f"{dtype.glsl} x{k}_{lane} = x{k}_0;" for lane in _LANES[1:]
    ]


def _load_quad(k: int, itemsize: int, place: str, wide: bool) -> list[str]:
    """Read the words of four neighbouring elements into w{k}_0, w{k}_1."""
    words, count = _QUAD_WORDS[itemsize]
    lines = []
    for part in range(count):
        at = f"in{k}.at[{f'{count}u * {place} + {part}u' if count > 1 else place}]"
        if not wide or words not in _WIDE:
            lines.append(f"{words} w{k}_{part} = {at};")
            continue
        lines.append(f"{_WIDE[words]} d{k}_{part} = {at};")
        halves = (
            [f"d{k}_{part}.x", f"d{k}_{part}.y"]
            if words == "uvec4"
            else [f"d{k}_{part}"]
        )
        unpacked = ", ".join(f"unpackUint2x32({half})" for half in halves)
        lines.append(f"{words} w{k}_{part} = {words}({unpacked});")
    return lines


def _unpack(name: str, k: int, lane: int) -> str:
    """Element `lane` of the four that the words w{k}_* hold."""
    dtype = DTYPES[name]
    if dtype.itemsize == 8:
        return _decode(
            name, f"w{k}_{lane // 2}.{'xy' if lane % 2 == 0 else 'zw'}", "0u"
        )
    if dtype.itemsize == 4:
        return _decode(name, f"w{k}_0.{_XYZW[lane]}", "0u")
    if dtype.itemsize == 2:
        return _decode(name, f"w{k}_0.{'xxyy'[lane]}", f"{lane % 2 * 16}u")
    return _decode(name, f"w{k}_0", f"{lane * 8}u")


def _element(name: str, k: int, place: str) -> str:
    """Element number `place` of an operand read word by word."""
    dtype = DTYPES[name]
    at = f"in{k}.at"
    if dtype.itemsize == 8:
        return _decode(
            name, f"uvec2({at}[2u * {place}], {at}[2u * {place} + 1u])", "0u"
        )
    if dtype.itemsize == 4:
        return _decode(name, f"{at}[{place}]", "0u")
    if dtype.itemsize == 2:
        return _decode(name, f"{at}[{place} >> 1]", f"16u * ({place} & 1u)")
    return _decode(name, f"{at}[{place} >> 2]", f"8u * ({place} & 3u)")


def _decode(name: str, word: str, shift: str) -> str:
    """Turn a word, or a pair of words, into the value that starts `shift` bits in."""
    dtype = DTYPES[name]
    whole = {
        "float32": "uintBitsToFloat({})",
        "int32": "int({})",
        "uint32": "{}",
        "float64": "packDouble2x32({})",
        "int64": "int64_t(packUint2x32({}))",
        "uint64": "packUint2x32({})",
    }
    if name in whole:
        return whole[name].format(word)
    shifted = word if shift == "0u" else f"({word} >> ({shift}))"
    if name == "float16":
        return f"unpackHalf2x16({shifted}).x"
    field = f"bitfieldExtract({{}}({shifted}), 0, {8 * dtype.itemsize})"
    if name == "bool":
        return f"({field.format('uint')} != 0u)"
    return field.format(dtype.glsl)


def _store(k: int, name: str, wide: bool) -> list[str]:
    """Write the four results y{k}_0 to y{k}_3."""
    size = DTYPES[name].itemsize
    pack = "pack_words" if wide else ""
    encoded = [_encode(name, f"y{k}_{lane}") for lane in _LANES]
    if size == 8:
        pairs = [
            f"uvec4({encoded[0]}, {encoded[1]})",
            f"uvec4({encoded[2]}, {encoded[3]})",
        ]
        return [
            f"out{k}.at[2u * i + {part}u] = {pack}({pairs[part]});" for part in (0, 1)
        ]
    if size == 4:
        value = f"uvec4({', '.join(encoded)})"
        return [f"out{k}.at[i] = {pack}({value});"]
    if size == 2:
        pairs = [f"{encoded[j]} | ({encoded[j + 1]} << 16)" for j in (0, 2)]
        return [f"out{k}.at[i] = {pack}(uvec2({pairs[0]}, {pairs[1]}));"]
    parts = [f"({word} << {8 * lane})" for lane, word in enumerate(encoded)]
    return [f"out{k}.at[i] = {' | '.join(parts)};"]


def _encode(name: str, value: str) -> str:
    """Turn a value into its word, a pair of words, or the low bits of a word."""
    dtype = DTYPES[name]
    whole = {
        "float32": "floatBitsToUint({})",
        "int32": "uint({})",
        "uint32": "{}",
        "float64": "unpackDouble2x32({})",
        "int64": "unpackUint2x32(uint64_t({}))",
        "uint64": "unpackUint2x32({})",
        "float16": "(packHalf2x16(vec2({}, 0.0)))",
    }
    if name in whole:
        return whole[name].format(value)
    return f"(uint({value}) & {hex((1 << 8 * dtype.itemsize) - 1)}u)"
