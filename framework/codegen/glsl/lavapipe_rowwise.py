"""GLSL of a row program with uniform vector loads of whole rows: see `lavapipe`."""

from __future__ import annotations

from ...base.dtype import DTYPES
from ..ir.program import MAX_PUSH, field_size
from ..ir.row_program import Pass, RowAccess, RowProgram, row_fields
from .lavapipe import DIGIT_BYTES, load_vectors, store_vectors


def fits_uniform_loads(program: RowProgram) -> bool:
    """Whether per-element operands and results fit uniform vector loads."""
    moved = [access for access in program.accesses if not access.per_row]
    dtypes = [access.dtype for access in moved]
    dtypes += [
        output.dtype
        for output in program.outputs
        if not program.per_row[output.instruction]
    ]
    size = sum(field_size(kind) for _, kind in row_fields(program))
    return (
        all(_is_block(program, access) for access in moved)
        and all(DTYPES[dtype].itemsize == 4 for dtype in dtypes)
        and program.rounds > 0
        and size + DIGIT_BYTES <= MAX_PUSH
    )


def _is_block(program: RowProgram, access: RowAccess) -> bool:
    """Whether each row of an operand is a block, or all share one."""
    if access.kind != "quad":
        return access.kind == "linear"
    rows, columns, offset = program.patterns[access.pattern]
    return set(rows) == {"0"} and columns == ("1",) and not offset


def uniform_load_operands(program: RowProgram) -> list[str]:
    """Declare per-element operands as blocks, and results as words."""
    lines = [
        f"Blocks blocks{k} = Blocks(in{k});"
        for k, access in enumerate(program.accesses)
        if not access.per_row
    ]
    return lines + [
        f"Words words{k} = Words(out{k});"
        for k, output in enumerate(program.outputs)
        if not program.per_row[output.instruction]
    ]


def unrolled_rounds(
    program: RowProgram, walk: Pass, applied: list[str], lanes: int
) -> list[str]:
    """Unroll a pass, because llvmpipe does not keep uniformity inside loops."""
    lines = []
    for number in range(program.rounds):
        body = []
        for k in walk.loads:
            access = program.accesses[k]
            block = f"blocks{k}.at[{'known' if access.kind == 'linear' else '0u'}]"
            body += load_vectors(k, access.dtype, block, 4 * number, lanes)
        body += applied
        first = f"row * {2 * lanes * program.rounds}u + {2 * lanes * number}u"
        stored: list[str] = []
        for k in walk.outputs:
            stored += store_vectors(k, program.outputs[k].dtype, first, lanes)
        if stored:
            body += ["if (row < rows) {", *(f"    {line}" for line in stored), "}"]
        lines.append(f"{{ const uint round_ = {number}u;")
        lines += [*(f"    {line}" for line in body), "}"]
    return lines
