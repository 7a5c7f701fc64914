"""Expressions in GLSL: functions, arguments, and the library that they need."""

from __future__ import annotations

import functools
import re
from importlib import resources

from ...base.dtype import DTYPES, DType
from ...base.float8 import FORMATS
from ..ir.program import DRAWN, Fold, Instruction, KernelProgram, Reference
from ..ir.rounding import exact_steps
from .packing import ROUNDED


def includes(program: KernelProgram) -> list[str]:
    """Include the library files of expressions, conversions and sources."""
    words = {word for step in program.instructions for word in _WORD.findall(step.glsl)}
    files = {file for name, file in _library() if name in words}
    dtypes = {output.dtype for output in program.outputs}
    dtypes |= {step.result for step in program.instructions}
    dtypes |= {to.name for given, to, _ in _conversions(program) if _rounds(given, to)}
    files |= dtypes & ROUNDED
    loaded = {access.dtype for access in program.accesses}
    files |= set() if FORMATS.keys().isdisjoint(dtypes | loaded) else {"float8"}
    files |= {"saturate"} if any(map(_is_called, _conversions(program))) else set()
    drawn = any(access.kind in DRAWN for access in program.accesses)
    files |= {"philox"} if drawn else set()
    return [f'#include "lib/{file}.glsl"' for file in ("index", *sorted(files))]


_WORD = re.compile(r"\w+")
_DECIMAL = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])")
"""Decimal numbers, which GLSL takes as float32 unless `lf` follows."""
_DEFINITION = re.compile(r"^ *(?:float|double|bool|int|vec2|T) (\w+)\(", re.MULTILINE)


@functools.cache
def _library() -> frozenset[tuple[str, str]]:
    """Return library functions for expressions, and their files under `glsl/lib/`."""
    folder = resources.files("vkbackend.glsl") / "lib" / "math"
    return frozenset(
        (name, f"math/{file.name.removesuffix('.glsl')}")
        for file in folder.iterdir()
        for name in _DEFINITION.findall(file.read_text("utf-8"))
    )


def has_loops(program: KernelProgram) -> bool:
    """Whether an expression calls a library function that loops, if by another."""
    steps = program.instructions
    words = {word for step in steps for word in _WORD.findall(step.glsl)}
    kinds = {DTYPES[kind].kind for step in steps for kind in step.types}
    doubles = any("float64" in step.types for step in steps)
    return not words.isdisjoint(
        _looping(not kinds.isdisjoint({"int", "uint"}), doubles)
    )


_FUNCTION = re.compile(r"^ *(\w+) (\w+)\([^;{}]*?\) *\{", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\(")
_LOOP = re.compile(r"\b(?:for|while) \(")


@functools.cache
def _looping(integers: bool, doubles: bool) -> frozenset[str]:
    """Return the library functions that loop, or call one that does.

    Those of integers, whose type is the macro `T`, and of doubles are among them if
    asked for.
    """
    left_out = {"T": not integers, "double": not doubles}
    folder = resources.files("vkbackend.glsl") / "lib"
    folders = ("math", "double") if doubles else ("math",)
    calls: dict[str, set[str]] = {}
    looping = set()
    for file in (file for name in folders for file in (folder / name).iterdir()):
        parts = _FUNCTION.split(file.read_text("utf-8"))
        for kind, name, body in zip(parts[1::3], parts[2::3], parts[3::3]):
            if left_out.get(kind):
                continue
            calls.setdefault(name, set()).update(_CALL.findall(body))
            if _LOOP.search(body):
                looping.add(name)
    while True:
        found = {name for name in calls if not looping.isdisjoint(calls[name])}
        if found <= looping:
            return frozenset(looping)
        looping |= found


def functions(program: KernelProgram, names: list[str]) -> list[str]:
    """Return one GLSL function per distinct expression, of `function_names`.

    In row programs they round results of 2-byte floats, unless no use of them makes
    other numbers than such; elsewhere each use does.
    """
    first: dict[str, Instruction] = {}
    for step, name in zip(program.instructions, names):
        if not isinstance(step, Fold):
            first.setdefault(name, step)
    exact = exact_steps(program)
    made = {name for n, name in enumerate(names) if n not in exact}
    lines = []
    for name, step in first.items():
        kind = DTYPES[step.result].glsl
        parameters = ", ".join(
            f"{DTYPES[taken].glsl} {word}"
            for taken, word in zip(step.types, step.names)
        )
        value = _wrapped(step)
        rounds = program.group and step.result in ROUNDED and name in made
        if rounds or step.result in FORMATS:
            value = f"round_{step.result}({value})"
        lines.append(f"{kind} {name}({parameters}) {{ return {value}; }}")
    return lines


def function_names(program: KernelProgram) -> list[str]:
    """Return the function of each instruction; equal expressions share one."""
    names: dict[tuple[object, ...], str] = {}
    return [
        ""
        if isinstance(step, Fold)
        else names.setdefault(
            (step.glsl, step.names, step.types, step.result), f"f{len(names)}"
        )
        for step in program.instructions
    ]


def call(program: KernelProgram, number: int, name: str) -> str:
    """Return the value of an instruction: the call of its function."""
    step = program.instructions[number]
    arguments = ", ".join(
        argument(program, DTYPES[kind], reference, step.glsl == "x")
        for kind, reference in zip(step.types, step.arguments)
    )
    return f"{name}({arguments})"


def _wrapped(step: Instruction) -> str:
    """Return the expression; integers narrower than a word wrap as in memory.

    In float64 its decimal numbers are of that. So a value is the same whether another
    node reads it fused or unfused.
    """
    dtype = DTYPES[step.result]
    text = step.glsl
    if "float64" in (step.result, *step.types):
        text = _DECIMAL.sub(r"\g<0>lf", text)
    expression = f"{dtype.glsl}({text})"
    return _narrowed(expression, dtype) if _is_narrow(dtype) else expression


def _is_narrow(dtype: DType) -> bool:
    return dtype.kind in ("int", "uint") and dtype.itemsize < 4


def _narrowed(value: str, dtype: DType) -> str:
    return f"bitfieldExtract({value}, 0, {8 * dtype.itemsize})"


def _conversions(program: KernelProgram) -> list[tuple[DType, DType, bool]]:
    """Return the dtypes each argument is converted between, and if it is computed."""
    return [
        (
            program.dtype_of(reference).to_real(),
            DTYPES[kind].to_real(),
            reference.source == "op",
        )
        for step in program.instructions
        for kind, reference in zip(step.types, step.arguments)
        if reference.source in ("in", "op")
    ]


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
    if source == "scalar" and target.is_complex:
        return f"{target.glsl}(s{number}, s{number + 1})"
    if source in ("scalar", "factor"):
        return f"{target.glsl}({'s' if source == 'scalar' else 'factor'}{number})"
    value = f"x{number}" if source == "in" else f"v{number}"
    given = program.dtype_of(reference)
    made = source == "op"
    if given.is_complex:
        if target.is_complex:
            return value
        if target.kind == "bool":
            return f"any(notEqual({value}, vec2(0)))"
        value, given = f"{value}.x", given.to_real()
    if target.is_complex:
        part = _converted(value, given, target.to_real(), made, kept)
        return f"{target.glsl}({part}, 0)"
    return _converted(value, given, target, made, kept)


def _converted(value: str, given: DType, target: DType, made: bool, kept: bool) -> str:
    """Return a real value of one dtype as another; `made` if it was computed."""
    if _saturates(given, target):
        low, high = (_integer(target, limit) for limit in target.limits)
        return f"saturate({value}, {low}, {high})"
    if _widens(given, target):
        value = f"widened({value})"
    elif made and _is_counted(given, target):
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
