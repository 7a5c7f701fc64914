"""GLSL of a fused row program.

A group of invocations shares a row; each takes four elements a round. A pass iterates
over the row: it loads, computes, folds and stores. Results of folds are known to the
whole group before the next pass begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...base.dtype import DTYPES
from ..ir.passes import Pass, Passes, passes
from ..ir.program import GENERATED, Fold, KernelProgram, Reference, push_fields
from .elementwise import (
    PACK_WORDS,
    argument,
    emit,
    extensions,
    function_names,
    functions,
    includes,
    interface,
)
from .group_reduce import (
    folding,
    folds_in_block_order,
    identity,
    place_in_workgroup,
    uses_subgroups,
)
from .indexing import column_offsets, row_offsets
from .lavapipe import uniform_load_functions
from .lavapipe_elementwise import emit_uniform_loads
from .lavapipe_rowwise import uniform_load_operands, unrolled_rounds
from .packing import (
    LANES,
    SINGLE_WORD,
    VEC4_WORDS,
    WIDE,
    element,
    load_vec4,
    store_element,
    store_vec4,
    unpack,
)
from .wide import emit_unrolled


def emit_any(
    program: KernelProgram, wide: bool = False, horizontal: bool = False
) -> str:
    """Return the compute shader of an element-wise or row program."""
    if program.group:
        return emit_rows(program, wide)
    if program.pairs:
        return emit_unrolled(program, horizontal)
    if program.lanes:
        return emit_uniform_loads(program)
    return emit(program, wide, horizontal)


def emit_rows(program: KernelProgram, wide: bool = False) -> str:
    """Return the compute shader of a row program.

    Parameters
    ----------
    program : KernelProgram
        The fused program.
    wide : bool, default False
        Move memory in 64-bit words; see `elementwise.emit`.
    """
    lanes = program.lanes
    schedule = passes(program, keep=program.rounds > 0)
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            *extensions(program, wide),
            *_row_extensions(program, lanes),
            *includes(program),
            f"const uint GROUP = {program.group}u;",
            *interface(push_fields(program), _buffer_types(program, wide)),
            *(PACK_WORDS if wide else ()),
            *(uniform_load_functions(lanes, 4 * program.rounds) if lanes else ()),
            *functions(program),
            *folding(program),
            *_globals(program),
            *_pass_functions(program, schedule),
            "void main() {",
            *(f"    {line}" for line in _main(program, schedule, wide, lanes)),
            "}",
            "",
        ]
    )


def _row_extensions(program: KernelProgram, lanes: int) -> list[str]:
    names = {1: "GL_EXT_shader_8bit_storage", 2: "GL_EXT_shader_16bit_storage"}
    alone = {
        DTYPES[output.dtype].itemsize
        for output in program.outputs
        if not program.vec4 or program.is_per_row(output)
    }
    needed = [names[size] for size in sorted(alone & names.keys())]
    if program.rounds > 1 and not lanes:
        needed.append("GL_EXT_control_flow_attributes")
    if uses_subgroups(program):
        needed += ["GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle"]
    return [f"#extension {name} : require" for name in needed]


def _buffer_types(program: KernelProgram, wide: bool) -> dict[str, str]:
    """Return the buffer type of each operand that is in memory, by argument name."""
    kinds = {}
    for k, access in enumerate(program.accesses):
        words = "uint"
        if access.kind == "vec4" or (access.kind == "linear" and program.vec4):
            words = VEC4_WORDS[DTYPES[access.dtype].itemsize][0]
            words = WIDE.get(words, words) if wide else words
        if access.kind not in GENERATED:
            kinds[f"in{k}"] = f"In_{words}"
    for k, output in enumerate(program.outputs):
        size = DTYPES[output.dtype].itemsize
        words = SINGLE_WORD[size]
        if program.vec4 and not program.is_per_row(output):
            words = VEC4_WORDS[size][0]
            words = WIDE.get(words, words) if wide else words
        kinds[f"out{k}"] = f"Out_{words}"
    return kinds


def _type(program: KernelProgram, reference: Reference) -> str:
    source, number = reference
    if source == "in":
        return DTYPES[program.accesses[number].dtype].glsl
    return DTYPES[program.instructions[number].result].glsl


def _globals(program: KernelProgram) -> list[str]:
    """Declare the variables that are uniform over a row."""
    lines = [f"{kind} s{k};" for k, kind in enumerate(program.scalars)]
    lines += [f"{kind} factor{k};" for k, kind in enumerate(program.factors)]
    for k, access in enumerate(program.accesses):
        if access.per_row:
            lines.append(f"{DTYPES[access.dtype].glsl} x{k};")
    for n, step in enumerate(program.instructions):
        if step.per_row:
            lines.append(f"{DTYPES[step.result].glsl} v{n};")
    return lines


def _step(program: KernelProgram, number: int) -> str:
    """Return the call that computes an instruction."""
    step = program.instructions[number]
    assert not isinstance(step, Fold)
    arguments = ", ".join(
        argument(program, DTYPES[kind], reference, step.glsl == "x")
        for kind, reference in zip(step.types, step.arguments)
    )
    name = function_names(program)[step._replace(arguments=(), per_row=False)]
    return f"v{number} = {name}({arguments});"


def _name(reference: Reference) -> str:
    return f"{'x' if reference.source == 'in' else 'v'}{reference.number}"


class _Signature:
    """Signature of a pass function: parameters and results by name and type."""

    def __init__(self, program: KernelProgram, schedule: Passes, number: int) -> None:
        walk = schedule.passes[number]
        loads = [Reference("in", k) for k in walk.loads]
        self.takes = {_name(key): _type(program, key) for key in (*loads, *walk.kept)}
        # A folded, stored or kept value is returned under a name of its own.
        self.answers: dict[str, tuple[str, str]] = {}
        for n in walk.folds:
            step = program.instructions[n]
            kind = DTYPES[step.types[0]]
            taken = argument(program, kind, step.arguments[0])
            self.answers[f"t{n}"] = (kind.glsl, taken)
        for k in walk.outputs:
            output = program.outputs[k]
            kind = DTYPES[output.dtype]
            self.answers[f"y{k}"] = (kind.glsl, f"v{output.instruction}")
        for key in schedule.kept:
            if key.source == "op" and key.number in walk.steps:
                self.answers[f"h{key.number}"] = (_type(program, key), _name(key))


def _pass_functions(program: KernelProgram, schedule: Passes) -> list[str]:
    """Return the per-element function of each pass."""
    lines = []
    for number, walk in enumerate(schedule.passes):
        signature = _Signature(program, schedule, number)
        parameters = [f"{kind} {name}" for name, kind in signature.takes.items()]
        parameters += [
            f"out {kind} {name}" for name, (kind, _) in signature.answers.items()
        ]
        lines.append(f"void pass{number}({', '.join(parameters)}) {{")
        for n in walk.steps:
            kind = DTYPES[program.instructions[n].result].glsl
            lines.append(f"    {kind} {_step(program, n)}")
        for name, (_, value) in signature.answers.items():
            lines.append(f"    {name} = {value};")
        lines.append("}")
    return lines


def _main(
    program: KernelProgram, schedule: Passes, wide: bool, lanes: int
) -> list[str]:
    kinds = _buffer_types(program, wide)
    globals_ = {f"s{k}" for k in range(len(program.scalars))}
    globals_ |= {f"factor{k}" for k in range(len(program.factors))}
    lines = []
    for name, kind in push_fields(program._replace(lanes=0)):
        declared = "" if name in globals_ else f"{kinds.get(name, kind)} "
        lines.append(f"{declared}{name} = args.{name};")
    known = "min(row, rows - 1u)"
    lines += [
        f"uint at = {place_in_workgroup(program)}, part = at % GROUP;",
        "uint row = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + at / GROUP;",
        f"uint known = {f'told({known})' if lanes else known};",
        "uint first = known * columns;",
        "bool leads = part == 0u && row < rows;",
        *row_offsets(program),
        *(uniform_load_operands(program) if lanes else ()),
    ]
    for k, access in enumerate(program.accesses):
        if access.per_row:
            lines.append(f"x{k} = {_one(program, k, 'known', f'b{access.pattern}')};")
    lines += _row_steps(program, schedule.before)
    for key in schedule.kept:
        size = 4 * program.rounds
        lines.append(f"{_type(program, key)} kept_{_name(key)}[{size}];")
    for number in range(len(schedule.passes)):
        lines += _pass(program, schedule, number, wide, lanes)
    return lines


def _row_steps(program: KernelProgram, numbers: Iterable[int]) -> list[str]:
    """Compute per-row instructions, and store those that are outputs."""
    lines = []
    for n in numbers:
        step = program.instructions[n]
        if isinstance(step, Fold):
            how, lanes = step.combine, [f"a{n}_{lane}" for lane in LANES]
            if folds_in_block_order(program, step):
                value = f"group_{n}({', '.join(lanes)})"
            else:
                pairs = [f"combine_{how}({lanes[j]}, {lanes[j + 1]})" for j in (0, 2)]
                value = f"combine_{how}({', '.join(pairs)})"
                value = value if program.group == 1 else f"group_{n}({value})"
            lines.append(f"v{n} = {value};")
        else:
            lines.append(_step(program, n))
        for k, output in enumerate(program.outputs):
            if output.instruction == n:
                stored = store_element(k, output.dtype, f"v{n}", "row")
                lines.append(f"if (leads) {stored}")
    return lines


def _one(program: KernelProgram, k: int, number: str, place: str) -> str:
    """Return one element of an access: the `number`-th of a draw, or by its place."""
    access = program.accesses[k]
    if access.kind in GENERATED:
        return f"{_draw(program, k, f'({number} >> 2)')}[{number} & 3u]"
    return element(access.dtype, k, "0u" if access.kind == "scalar" else place)


def _draw(program: KernelProgram, k: int, number: str) -> str:
    """Return four generated elements, without memory."""
    access = program.accesses[k]
    made = re.sub(r"\bi\b", number, GENERATED[access.kind])
    if access.kind == "index":
        return made
    words = [f"s{access.pattern + word}" for word in range(4)]
    made = made.replace("key", f"uvec2({words[0]}, {words[1]})")
    return made.replace("call", f"uvec2({words[2]}, {words[3]})")


def _pass(
    program: KernelProgram, schedule: Passes, number: int, wide: bool, lanes: int
) -> list[str]:
    """Iterate over the row once, then compute the per-row instructions after it."""
    walk = schedule.passes[number]
    lines = []
    for n in walk.folds:
        step = program.instructions[n]
        assert isinstance(step, Fold)
        kind = DTYPES[step.result].glsl
        for lane in LANES:
            lines.append(f"{kind} a{n}_{lane} = {identity(step.combine, kind)};")
    applied = _apply(program, schedule, number)
    if lanes:
        lines += unrolled_rounds(program, walk, applied, lanes)
        return lines + _row_steps(program, walk.after)
    body = [*_place(program), *_load(program, walk, wide), *applied]
    body += _store(program, walk, wide)
    lines += [_loop(program), *(f"    {line}" for line in body), "}"]
    return lines + _row_steps(program, walk.after)


def _loop(program: KernelProgram) -> str:
    if program.rounds == 1:
        return "{ const uint round_ = 0u;"
    if program.rounds:
        return (
            "[[unroll]] for (uint round_ = 0u;"
            f" round_ < {program.rounds}u; ++round_) {{"
        )
    each = "GROUP" if program.vec4 else "(4u * GROUP)"
    rounds = f"(columns - 1u) / {each} + 1u"
    return f"for (uint round_ = 0u, rounds = {rounds}; round_ < rounds; ++round_) {{"


def _place(program: KernelProgram) -> list[str]:
    """Compute the columns of four elements, and whether they are in the row."""
    if program.vec4:
        lines = ["uint column = round_ * GROUP + part;"]
        if not program.exact:
            lines.append("bool inside = column < columns;")
            lines.append("column = min(column, columns - 1u);")
        return [*lines, "uint i = first + column;"]
    lines = []
    for lane in LANES:
        at = f"(4u * round_ + {lane}u) * GROUP + part"
        if program.neighbours:
            at = f"4u * (round_ * GROUP + part) + {lane}u"
        lines.append(f"uint column_{lane} = {at};")
        if not program.exact:
            lines.append(f"bool inside_{lane} = column_{lane} < columns;")
            lines.append(f"column_{lane} = min(column_{lane}, columns - 1u);")
        lines.append(f"uint e_{lane} = first + column_{lane};")
    return lines


def _load(program: KernelProgram, walk: Pass, wide: bool) -> list[str]:
    """Load four elements of each operand of a pass."""
    used = {
        program.accesses[k].pattern
        for k in walk.loads
        if program.accesses[k].kind in ("vec4", "gather")
    }
    lines = column_offsets(program, used)
    for k in walk.loads:
        access = program.accesses[k]
        kind = DTYPES[access.dtype].glsl
        if access.kind == "vec4" or (access.kind == "linear" and program.vec4):
            place = "i" if access.kind == "linear" else f"(o{access.pattern}_0 >> 2)"
            lines += load_vec4(k, DTYPES[access.dtype].itemsize, place, wide)
            values = [unpack(access.dtype, k, lane) for lane in LANES]
        elif access.kind in GENERATED and program.vec4:
            vector = "vec4" if kind == "float" else "uvec4"
            lines.append(f"{vector} d{k} = {_draw(program, k, 'i')};")
            values = [f"d{k}[{lane}]" for lane in LANES]
        else:
            linear = access.kind == "linear"
            values = [
                _one(
                    program,
                    k,
                    f"e_{lane}",
                    f"e_{lane}" if linear else f"o{access.pattern}_{lane}",
                )
                for lane in LANES
            ]
        lines += [f"{kind} x{k}_{lane} = {values[lane]};" for lane in LANES]
    return lines


def _apply(program: KernelProgram, schedule: Passes, number: int) -> list[str]:
    """Compute a pass for each of four elements; fold, and keep values in registers."""
    walk = schedule.passes[number]
    signature = _Signature(program, schedule, number)
    kept = {_name(key) for key in walk.kept}
    lines = []
    for lane in LANES:
        at = f"[4u * round_ + {lane}u]"
        for name, (kind, _) in signature.answers.items():
            lines.append(f"{kind} {name}_{lane};")
        arguments = [
            f"kept_{name}{at}" if name in kept else f"{name}_{lane}"
            for name in signature.takes
        ]
        arguments += [f"{name}_{lane}" for name in signature.answers]
        lines.append(f"pass{number}({', '.join(arguments)});")
        for key in schedule.kept:
            if key.source == "op" and key.number in walk.steps:
                lines.append(f"kept_v{key.number}{at} = h{key.number}_{lane};")
            elif key.source == "in" and key.number in walk.loads:
                lines.append(f"kept_x{key.number}{at} = x{key.number}_{lane};")
        inside = _inside(program, lane)
        for n in walk.folds:
            step = program.instructions[n]
            assert isinstance(step, Fold)
            old = f"a{n}_{lane}"
            new = f"combine_{step.combine}({old}, t{n}_{lane})"
            new = f"{inside} ? {new} : {old}" if inside else new
            lines.append(f"{old} = {new};")
    return lines


def _inside(program: KernelProgram, lane: int) -> str:
    """Return the condition that an element is in the row; nothing if it always is."""
    if program.exact:
        return ""
    return "inside" if program.vec4 else f"inside_{lane}"


def _store(program: KernelProgram, walk: Pass, wide: bool) -> list[str]:
    """Store four elements of each output of a pass."""
    lines = []
    if program.vec4:
        for k in walk.outputs:
            lines += store_vec4(k, program.outputs[k].dtype, wide, rounded=True)
        if not lines:
            return []
        condition = "row < rows" if program.exact else "inside && row < rows"
        return [f"if ({condition}) {{", *(f"    {line}" for line in lines), "}"]
    for k in walk.outputs:
        for lane in LANES:
            inside = _inside(program, lane)
            condition = f"{inside} && row < rows" if inside else "row < rows"
            dtype = program.outputs[k].dtype
            stored = store_element(k, dtype, f"y{k}_{lane}", f"e_{lane}")
            lines.append(f"if ({condition}) {stored}")
    return lines
