"""GLSL of a fused element-wise program with uniform vector loads: see `lavapipe`."""

from __future__ import annotations

from ..ir.program import KernelProgram, push_fields
from .elementwise import (
    PACK_WORDS,
    buffer_types,
    compute,
    compute_vec4,
    extensions,
    functions,
    includes,
    interface,
    load,
    vec4_lines,
)
from .lavapipe import (
    UNIFORM_LOAD_EXTENSIONS,
    load_vectors,
    store_vectors,
    uniform_load_functions,
)


def emit_uniform_loads(program: KernelProgram) -> str:
    """Return the compute shader of a program, for a software device.

    Elements have four bytes. Those past the last whole block are one workgroup's, which
    gathers each four of them.

    Parameters
    ----------
    program : KernelProgram
        The fused program; its operands are contiguous, or scalars.
    """
    lanes, rounds = program.lanes, program.rounds
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            *(f"#extension {name} : require" for name in UNIFORM_LOAD_EXTENSIONS),
            *extensions(program, wide=True),
            *includes(program),
            *interface(push_fields(program), buffer_types(program, wide=True)),
            *PACK_WORDS,
            *uniform_load_functions(lanes, 4 * rounds),
            *functions(program),
            *compute(program),
            "void main() {",
            *(f"    {line}" for line in _main(program, lanes, rounds)),
            "}",
            "",
        ]
    )


def _main(program: KernelProgram, lanes: int, rounds: int) -> list[str]:
    kinds = buffer_types(program, wide=True)
    lines = [
        f"{kinds.get(name, kind)} {name} = args.{name};"
        for name, kind in push_fields(program._replace(lanes=0))
    ]
    linear = [k for k, access in enumerate(program.accesses) if access.kind == "linear"]
    for k, access in enumerate(program.accesses):
        lines += (
            [f"Blocks blocks{k} = Blocks(in{k});"]
            if k in linear
            else load(k, access, wide=True)
        )
    for k in range(len(program.outputs)):
        lines.append(f"Words words{k} = Words(out{k});")
    lines += [
        f"uint number = linear_workgroup(), whole = quads / {lanes * rounds}u;",
        "bool inside = number < whole;",
        # The last workgroup may load a block of another, but stores nothing of it.
        "uint block = told(min(number, whole - 1u));",
    ]
    for number in range(rounds):
        body = _round(program, lanes, number, rounds)
        lines += ["{", *(f"    {line}" for line in body), "}"]
    return [
        *lines,
        "if (!inside) {",
        f"    uint i = whole * {lanes * rounds}u + gl_SubgroupInvocationID;",
        f"    for (; i < quads; i += {lanes}u) {{",
        *(f"        {line}" for line in vec4_lines(program, True, linear)),
        "    }",
        "}",
    ]


def _round(program: KernelProgram, lanes: int, number: int, rounds: int) -> list[str]:
    """Load, compute and store four elements per lane."""
    lines = []
    for k, access in enumerate(program.accesses):
        if access.kind == "linear":
            block = f"blocks{k}.at[block]"
            lines += load_vectors(k, access.dtype, block, 4 * number, lanes)
    lines += compute_vec4(program)
    lines.append("if (inside) {")
    first = f"number * {2 * lanes * rounds}u + {2 * lanes * number}u"
    for k, output in enumerate(program.outputs):
        stored = store_vectors(k, output.dtype, first, lanes)
        lines += [f"    {line}" for line in stored]
    return [*lines, "}"]
