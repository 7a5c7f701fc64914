"""GLSL of a row program with uniform vector loads of whole rows: see `lavapipe`."""

from __future__ import annotations

from ..ir.passes import Pass
from ..ir.program import KernelProgram
from .lavapipe import load_vectors, store_vectors


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


def unrolled_rounds(
    program: KernelProgram, walk: Pass, applied: list[str], lanes: int
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
