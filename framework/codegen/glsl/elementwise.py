"""GLSL of a fused element-wise program.

Each invocation handles four neighbouring elements. Storage is read and written as
32-bit words, so 1- and 2-byte types need no device feature.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from ...base.dtype import DTYPES, DType
from ..ir.horizontal import ARGUMENT, INVOCATION, SIBLING_INDEX, horizontal_block
from ..ir.program import (
    GENERATED,
    MAX_PUSH,
    Access,
    Fold,
    Instruction,
    KernelProgram,
    Reference,
    fields_size,
    push_fields,
)
from .packing import (
    ALIGNMENT,
    LANES,
    ROUNDED,
    VEC4_WORDS,
    WIDE,
    XYZW,
    element,
    load_vec4,
    store_vec4,
    unpack,
)

PACK_WORDS = (
    "uint64_t pack_words(uvec2 w) { return packUint2x32(w); }",
    "u64vec2 pack_words(uvec4 w) {"
    " return u64vec2(packUint2x32(w.xy), packUint2x32(w.zw)); }",
)

_INT64 = "GL_EXT_shader_explicit_arithmetic_types_int64"


def emit(program: KernelProgram, wide: bool = False, horizontal: bool = False) -> str:
    """Return the compute shader of a program.

    Parameters
    ----------
    program : KernelProgram
        The fused program.
    wide : bool, default False
        Move memory in 64-bit words. Software drivers spend their time per word, so it
        halves the cost there; it needs 64-bit integers.
    horizontal : bool, default False
        Horizontal fusion: several sets of arguments at once; see `ir.horizontal`.
    """
    main = _main(program, wide, horizontal)
    body = "\n".join(f"    {line}" for line in main)
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            *extensions(program, wide),
            *includes(program),
            *interface(push_fields(program), buffer_types(program, wide), horizontal),
            *(PACK_WORDS if wide else ()),
            *functions(program),
            *compute(program),
            "void main() {",
            body,
            "}",
            "",
        ]
    )


def extensions(program: KernelProgram, wide: bool) -> list[str]:
    """Enable the types' extensions; `lib/` guards functions by the same macros."""
    types = _types(program)
    integers = bool(types & {"int64_t", "uint64_t"})
    return [
        *([f"#extension {_INT64} : require"] if wide or integers else []),
        *(["#define INT64"] if integers else []),
        *(["#define FLOAT64"] if "double" in types else []),
    ]


def _types(program: KernelProgram) -> set[str]:
    """Return every GLSL type that the program computes with."""
    dtypes = {access.dtype for access in program.accesses}
    for step in program.instructions:
        dtypes |= {*step.types, step.result}
    return {DTYPES[name].glsl for name in dtypes}


def includes(program: KernelProgram) -> list[str]:
    """Include the library files of expressions, conversions and sources."""
    words = {word for step in program.instructions for word in _WORD.findall(step.glsl)}
    files = {file for name, file in _library() if name in words}
    dtypes = {output.dtype for output in program.outputs}
    dtypes |= {step.result for step in program.instructions}
    dtypes |= {to.name for given, to, _ in _arguments(program) if _rounds(given, to)}
    files |= dtypes & ROUNDED
    files |= {"saturate"} if any(map(_is_called, _arguments(program))) else set()
    made = {access.kind for access in program.accesses} & set(GENERATED)
    files |= {"philox"} if made - {"index", "product"} else set()
    return [f'#include "lib/{file}.glsl"' for file in ("index", *sorted(files))]


_WORD = re.compile(r"\w+")
_DEFINITION = re.compile(r"^ *(?:float|double|bool|T) (\w+)\(", re.MULTILINE)


@functools.cache
def _library() -> frozenset[tuple[str, str]]:
    """Return library functions for expressions, and their files under `glsl/lib/`."""
    folder = resources.files("vkbackend.glsl") / "lib" / "math"
    return frozenset(
        (name, f"math/{file.name.removesuffix('.glsl')}")
        for file in folder.iterdir()
        for name in _DEFINITION.findall(file.read_text("utf-8"))
    )


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
        if access.kind in ("linear", "vec4"):
            words = VEC4_WORDS[DTYPES[access.dtype].itemsize][0]
        if access.kind not in GENERATED:
            kinds[f"in{k}"] = f"In_{WIDE.get(words, words) if wide else words}"
    for k, output in enumerate(program.outputs):
        words = VEC4_WORDS[DTYPES[output.dtype].itemsize][0]
        kinds[f"out{k}"] = f"Out_{WIDE.get(words, words) if wide else words}"
    return kinds


def buffer_type(name: str) -> str:
    """Declare a buffer type from its name, as "In_uvec4"."""
    prefix, words = name.split("_", 1)
    qualifier = "readonly" if prefix == "In" else "writeonly"
    return (
        "layout(buffer_reference, std430, buffer_reference_align ="
        f" {ALIGNMENT[words]}) restrict {qualifier} buffer {name} {{ {words} at[]; }};"
    )


def functions(program: KernelProgram) -> list[str]:
    """Return one GLSL function per distinct expression.

    In row programs they round results of 2-byte floats; elsewhere `compute` does at
    each use.
    """
    lines = []
    for step, name in function_names(program).items():
        kind = DTYPES[step.result].glsl
        parameters = ", ".join(
            f"{DTYPES[taken].glsl} {word}"
            for taken, word in zip(step.types, step.names)
        )
        value = _wrapped(step)
        if program.group and step.result in ROUNDED:
            value = f"round_{step.result}({value})"
        lines.append(f"{kind} {name}({parameters}) {{ return {value}; }}")
    return lines


def function_names(program: KernelProgram) -> dict[Instruction, str]:
    """Return the function of each expression, by the instruction without arguments."""
    names: dict[Instruction, str] = {}
    for step in program.instructions:
        if not isinstance(step, Fold):
            names.setdefault(
                step._replace(arguments=(), per_row=False), f"f{len(names)}"
            )
    return names


def _wrapped(step: Instruction) -> str:
    """Return the expression; integers narrower than a word wrap as in memory.

    So a value is the same whether another node reads it fused or unfused.
    """
    dtype = DTYPES[step.result]
    expression = f"{dtype.glsl}({step.glsl})"
    return _narrowed(expression, dtype) if _is_narrow(dtype) else expression


def _is_narrow(dtype: DType) -> bool:
    return dtype.kind in ("int", "uint") and dtype.itemsize < 4


def _narrowed(value: str, dtype: DType) -> str:
    return f"bitfieldExtract({value}, 0, {8 * dtype.itemsize})"


def compute(program: KernelProgram) -> list[str]:
    """Return the function from one element of each input to one of each output.

    Outputs of 2-byte floats are not rounded here but where they are stored, two at a
    time.
    """
    parameters = [
        f"{DTYPES[access.dtype].glsl} x{k}" for k, access in enumerate(program.accesses)
    ]
    parameters += [f"{kind} s{k}" for k, kind in enumerate(program.scalars)]
    parameters += [
        f"out {DTYPES[output.dtype].glsl} y{k}"
        for k, output in enumerate(program.outputs)
    ]
    names = function_names(program)
    lines = [f"void compute({', '.join(parameters)}) {{"]
    for number, step in enumerate(program.instructions):
        arguments = ", ".join(
            argument(program, DTYPES[kind], reference, step.glsl == "x")
            for kind, reference in zip(step.types, step.arguments)
        )
        kind = DTYPES[step.result].glsl
        assert isinstance(step, Instruction)
        function = names[step._replace(arguments=(), per_row=False)]
        if step.result in ROUNDED:
            lines.append(f"    {kind} u{number} = {function}({arguments});")
            lines.append(f"    {kind} v{number} = round_{step.result}(u{number});")
        else:
            lines.append(f"    {kind} v{number} = {function}({arguments});")
    for k, output in enumerate(program.outputs):
        made = "u" if output.dtype in ROUNDED else "v"
        lines.append(f"    y{k} = {made}{output.instruction};")
    return [*lines, "}"]


def _arguments(program: KernelProgram) -> list[tuple[DType, DType, bool]]:
    """Return the dtypes each argument is converted between, and if it is computed."""
    return [
        (_source(program, reference), DTYPES[kind], reference.source == "op")
        for step in program.instructions
        for kind, reference in zip(step.types, step.arguments)
        if reference.source in ("in", "op")
    ]


def _source(program: KernelProgram, reference: Reference) -> DType:
    if reference.source == "in":
        return DTYPES[program.accesses[reference.number].dtype]
    return DTYPES[program.instructions[reference.number].result]


def _is_called(conversion: tuple[DType, DType, bool]) -> bool:
    """Whether a conversion calls a function of `lib/saturate.glsl`."""
    source, target, made = conversion
    return (
        _saturates(source, target)
        or _widens(source, target)
        or (made and _is_counted(source, target))
    )


def _saturates(source: DType, target: DType) -> bool:
    return source.is_float and target.kind in ("int", "uint")


def _rounds(source: DType, target: DType) -> bool:
    """Whether an integer may have more bits than a 2-byte float's mantissa."""
    wide = source.kind in ("int", "uint") and source.itemsize > 1
    return wide and target.name in ROUNDED


def _overflows(source: DType, target: DType) -> bool:
    """Whether an integer may overflow a narrow type: a zero-dimensional operand."""
    (low, high), (least, most) = source.limits, target.limits
    return _is_narrow(target) and not least <= low <= high <= most


def _widens(source: DType, target: DType) -> bool:
    return source.glsl == "int" and target.glsl in ("int64_t", "uint64_t")


def _is_counted(source: DType, target: DType) -> bool:
    return not source.is_float and target.is_float


def argument(
    program: KernelProgram, target: DType, reference: Reference, kept: bool = False
) -> str:
    """Return one argument of an instruction, converted to its parameter's dtype.

    Integers out of range wrap, unless they are `kept` for a result that wraps itself.
    """
    source, number = reference
    if source in ("scalar", "factor"):
        return f"{target.glsl}({'s' if source == 'scalar' else 'factor'}{number})"
    value = f"x{number}" if source == "in" else f"v{number}"
    given = _source(program, reference)
    if _saturates(given, target):
        low, high = (_integer(target, limit) for limit in target.limits)
        return f"saturate({value}, {low}, {high})"
    if _widens(given, target):
        value = f"widened({value})"
    elif source == "op" and _is_counted(given, target):
        value = f"unknown({value})"
    value = f"{target.glsl}({value})"
    if _overflows(given, target) and not kept:
        return _narrowed(value, target)
    return f"round_{target.name}({value})" if _rounds(given, target) else value


def _integer(dtype: DType, value: int) -> str:
    """Return an integer constant of a dtype's GLSL type."""
    bits = 64 if dtype.itemsize == 8 else 32
    suffix = "ul" if bits == 64 else "u"
    return f"{dtype.glsl}({value & (1 << bits) - 1}{suffix})"


def declarations(program: KernelProgram, wide: bool, horizontal: bool) -> list[str]:
    """Declare the arguments, before any branch.

    Within one, some drivers load them once per invocation.
    """
    kinds = buffer_types(program, wide)
    place = ARGUMENT if horizontal else "args.{}"
    lines = [SIBLING_INDEX] if horizontal else []
    return lines + [
        f"{kinds.get(name, kind)} {name} = {place.format(name)};"
        for name, kind in push_fields(program)
    ]


def _main(program: KernelProgram, wide: bool, horizontal: bool) -> list[str]:
    rounds = program.rounds
    lines = declarations(program, wide, horizontal)
    number = INVOCATION if horizontal else "linear_invocation()"
    fixed = [k for k, access in enumerate(program.accesses) if access.kind == "scalar"]
    if rounds == 1:
        lines += [f"uint i = {number};", "if (i >= quads) return;"]
        return lines + vec4_lines(program, wide, range(len(program.accesses)))
    for k in fixed:
        lines += load(k, program.accesses[k], wide)
    varying = [k for k in range(len(program.accesses)) if k not in fixed]
    return [
        *lines,
        f"uint first = {number} * {rounds}u;",
        f"for (uint round_ = 0u; round_ < {rounds}u; ++round_) {{",
        "    uint i = first + round_;",
        "    if (i < quads) {",
        *(f"        {line}" for line in vec4_lines(program, wide, varying)),
        "    }",
        "}",
    ]


def vec4_lines(program: KernelProgram, wide: bool, loads: Iterable[int]) -> list[str]:
    """Load, compute and store the four elements of vector `i`."""
    lines = offsets(program)
    for k in loads:
        lines += load(k, program.accesses[k], wide)
    lines += compute_vec4(program)
    for k, output in enumerate(program.outputs):
        lines += store_vec4(k, output.dtype, wide)
    return lines


def compute_vec4(program: KernelProgram) -> list[str]:
    """Compute y{k}_0 to y{k}_3 from four loaded elements."""
    lines = []
    scalars = [f"s{k}" for k in range(len(program.scalars))]
    for lane in LANES:
        for k, output in enumerate(program.outputs):
            lines.append(f"{DTYPES[output.dtype].glsl} y{k}_{lane};")
        arguments = [f"x{k}_{lane}" for k in range(len(program.accesses))]
        arguments += scalars
        arguments += [f"y{k}_{lane}" for k in range(len(program.outputs))]
        lines.append(f"compute({', '.join(arguments)});")
    return lines


def offsets(program: KernelProgram) -> list[str]:
    """Compute each pattern's element offset, of the first or each of four elements."""
    if not program.patterns:
        return []
    lines = []
    for lane in LANES[:1] if program.vec4 else LANES:
        first = "4u * i" if program.vec4 else f"min(4u * i + {lane}u, last)"
        lines.append(f"uint e{lane} = {first};")
        for dim in range(program.column_rank - 1, 0, -1):
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
                for dim, step in enumerate(pattern.columns)
                if step != "0"
            ]
            lines.append(f"uint o{k}_{lane} = {' + '.join(terms) or '0u'};")
        if program.vec4:
            lines += [
                f"uint o{k}_{other} = o{k}_0{_step(k, pattern.columns, other)};"
                for k, pattern in enumerate(program.patterns)
                for other in LANES[1:]
            ]
    return lines


def _step(k: int, steps: tuple[str, ...], lane: int) -> str:
    """Return the offset of `lane` relative to the first of four elements."""
    last = steps[-1]
    if last == "0":
        return ""
    return f" + {lane}u" + (f" * p{k}_{len(steps) - 1}" if last == "s" else "")


def load(k: int, access: Access, wide: bool) -> list[str]:
    """Load or generate x{k}_0 to x{k}_3, the elements of an operand."""
    dtype = DTYPES[access.dtype]
    if access.kind in GENERATED:
        return _made(k, access)
    if access.kind in ("linear", "vec4"):
        return load_words(k, access, wide) + unpack_words(k, access)
    if access.kind == "gather":
        return [
            f"{dtype.glsl} x{k}_{lane} ="
            f" {element(dtype.name, k, f'o{access.pattern}_{lane}')};"
            for lane in LANES
        ]
    place = "0u" if access.kind == "scalar" else f"o{access.pattern}_0"
    return [f"{dtype.glsl} x{k}_0 = {element(dtype.name, k, place)};"] + [
        f"{dtype.glsl} x{k}_{lane} = x{k}_0;" for lane in LANES[1:]
    ]


def load_words(k: int, access: Access, wide: bool) -> list[str]:
    """Load the words of four contiguous elements."""
    place = "i" if access.kind == "linear" else f"(o{access.pattern}_0 >> 2)"
    return load_vec4(k, DTYPES[access.dtype].itemsize, place, wide)


def unpack_words(k: int, access: Access) -> list[str]:
    """Unpack x{k}_0 to x{k}_3 from their words."""
    kind, name = DTYPES[access.dtype].glsl, access.dtype
    return [f"{kind} x{k}_{lane} = {unpack(name, k, lane)};" for lane in LANES]


def _made(k: int, access: Access) -> list[str]:
    """Generate four elements without memory."""
    kind, made = DTYPES[access.dtype].glsl, GENERATED[access.kind]
    if access.kind != "index":
        words = [f"s{access.pattern + word}" for word in range(4)]
        made = made.replace("key", f"uvec2({words[0]}, {words[1]})")
        made = made.replace("call", f"uvec2({words[2]}, {words[3]})")
    vector = "vec4" if kind == "float" else "uvec4"
    lanes = [f"{kind} x{k}_{lane} = r{k}.{XYZW[lane]};" for lane in LANES]
    return [f"{vector} r{k} = {made};", *lanes]
