"""GLSL of a row kernel: a group of invocations shares a row.

Each invocation takes four elements a round. A pass iterates over the row: it loads,
computes, folds and stores. Results of folds are known to the whole group before the
next pass begins. Values of a row are global variables, and the same in its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...base.dtype import DTYPES
from ..ir.passes import Pass, Passes
from ..ir.program import Fold, KernelProgram
from .element_function import ElementFunction, register, variable
from .expression import call
from .group_reduce import identity, place_in_workgroup
from .indexing import element_offsets, row_offsets
from .interface import declarations, uniform_numbers
from .lavapipe import uniform_load_operands, uniform_words
from .operand import load, load_one, unpack_words
from .packing import LANES, store_element, store_vec4


def row_variables(program: KernelProgram) -> list[str]:
    """Declare the variables that are uniform over a row."""
    lines = [f"{kind} {name};" for name, kind in uniform_numbers(program).items()]
    for k, access in enumerate(program.accesses):
        if access.per_row:
            lines.append(f"{DTYPES[access.dtype].glsl} x{k};")
    for n, step in enumerate(program.instructions):
        if step.per_row:
            lines.append(f"{DTYPES[step.result].glsl} v{n};")
    return lines


def row_main(
    program: KernelProgram,
    schedule: Passes,
    functions: Sequence[ElementFunction],
    wide: bool,
) -> list[str]:
    """Return the main function, with the function of each pass."""
    known, names = "min(row, rows - 1u)", functions[0].names
    lines = [
        *declarations(program, wide),
        f"uint at = {place_in_workgroup(program)}, part = at % GROUP;",
        "uint row = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + at / GROUP;",
        f"uint known = {f'told({known})' if program.lanes else known};",
        "uint first = known * columns;",
        "bool leads = part == 0u && row < rows;",
        *row_offsets(program),
        *(uniform_load_operands(program) if program.lanes else ()),
    ]
    for k, access in enumerate(program.accesses):
        if access.per_row:
            value = load_one(program, k, "known", f"b{access.pattern}")
            lines.append(f"x{k} = {value};")
    lines += _row_steps(program, schedule.before, names)
    for key in schedule.kept:
        kind, size = program.dtype_of(key).glsl, 4 * program.rounds
        lines.append(f"{kind} kept_{variable(key)}[{size}];")
    for function in functions:
        lines += _pass(function, wide)
        lines += _row_steps(program, function.walk.after, names)
    return lines


def _row_steps(
    program: KernelProgram, numbers: Iterable[int], names: list[str]
) -> list[str]:
    """Compute per-row instructions, and store those that are outputs."""
    lines = []
    for n in numbers:
        step = program.instructions[n]
        if isinstance(step, Fold):
            value = _folded(program, n, step)
        else:
            value = call(program, n, names[n])
        lines.append(f"v{n} = {value};")
        for k, output in enumerate(program.outputs):
            if output.instruction == n:
                stored = store_element(k, output.dtype, f"v{n}", "row")
                lines.append(f"if (leads) {stored}")
    return lines


def _folded(program: KernelProgram, n: int, fold: Fold) -> str:
    """Return the fold of a row, from those of each invocation's four lanes."""
    lanes = [f"a{n}_{lane}" for lane in LANES]
    pairs = [f"combine_{fold.combine}({lanes[j]}, {lanes[j + 1]})" for j in (0, 2)]
    value = f"combine_{fold.combine}({', '.join(pairs)})"
    return value if program.group == 1 else f"group_{n}({value})"


def _pass(function: ElementFunction, wide: bool) -> list[str]:
    """Iterate over the row once."""
    program, walk = function.program, function.walk
    lines = []
    for n in walk.folds:
        step = program.instructions[n]
        assert isinstance(step, Fold)
        kind = DTYPES[step.result].glsl
        for lane in LANES:
            lines.append(f"{kind} a{n}_{lane} = {identity(step.combine, kind)};")
    if program.lanes:
        return lines + _unrolled_rounds(function)
    body = [*_place(program), *_load(program, walk, wide), *_apply(function)]
    body += _store(program, walk, wide)
    return [*lines, _loop(program), *(f"    {line}" for line in body), "}"]


def _unrolled_rounds(function: ElementFunction) -> list[str]:
    """Unroll a pass with uniform vector loads: see `lavapipe`.

    Llvmpipe does not keep uniformity inside loops.
    """
    program, walk = function.program, function.walk
    lanes, lines = program.lanes, []
    for number in range(program.rounds):
        first = f"row * {lanes * program.rounds}u + {lanes * number}u"
        body = [f"uint i = {first} + part;"]
        for k in walk.loads:
            access = program.accesses[k]
            size = DTYPES[access.dtype].itemsize
            block = f"blocks{k}.at[{'known' if access.kind == 'linear' else '0u'}]"
            body += uniform_words(k, size, block, number, lanes)
            body += unpack_words(k, access)
        body += _apply(function)
        stored: list[str] = []
        for k in walk.outputs:
            stored += store_vec4(k, program.outputs[k].dtype, True, rounded=True)
        if stored:
            body += ["if (row < rows) {", *(f"    {line}" for line in stored), "}"]
        lines.append(f"{{ const uint round_ = {number}u;")
        lines += [*(f"    {line}" for line in body), "}"]
    return lines


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
    indices = [f"column_{lane}" for lane in LANES]
    indices = ["4u * column"] if program.vec4 else indices
    lines = element_offsets(program, used, indices)
    return lines + [line for k in walk.loads for line in load(program, k, wide)]


def _apply(function: ElementFunction) -> list[str]:
    """Compute a pass for each of four elements; fold, and keep values in registers."""
    program = function.program
    lines = []
    for lane in LANES:
        lines += function.call(lane)
        for key in function.keeps:
            name = variable(key)
            made = f"h{key.number}" if key.source == "op" else name
            lines.append(f"{register(name, lane)} = {made}_{lane};")
        inside = _inside(program, lane)
        for n in function.walk.folds:
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
