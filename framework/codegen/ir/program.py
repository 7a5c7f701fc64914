"""Program of one fused element-wise kernel, as plain hashable values.

Equal programs are one kernel. Element counts, sizes, strides and scalars are run-time
arguments and so not part of a program; operand wiring, dtypes and access patterns are.
"""

from __future__ import annotations

from typing import NamedTuple

GENERATED = {
    "index": "uvec4(4u * i, 4u * i + 1u, 4u * i + 2u, 4u * i + 3u)",
    "random": "random_uniform(i, key, call)",
    "bits": "random_bits(i, key, call)",
    "normal": "random_normal(i, key, call)",
    "exponential": "random_exponential(i, key, call)",
    "product": "product",
}
"""GLSL of four elements generated from the vector index `i` and a random stream, or
passed in registers by a matrix product."""


MAX_PUSH = 128
"""Bytes of push constants that every device has (Vulkan 1.0 limits table)."""


class Pattern(NamedTuple):
    """Access pattern: an operand's offset as a function of the coordinates.

    Attributes
    ----------
    steps : tuple of str
        For each dimension "0" (broadcast), "1" (unit stride) or "s" (stride pushed).
    offset : bool
        Whether a start offset in elements is pushed.
    """

    steps: tuple[str, ...]
    offset: bool


class Access(NamedTuple):
    """Access of one operand: loaded from memory, or drawn from the random stream.

    Attributes
    ----------
    kind : str
        "linear": the four elements at the invocation's own index; "row": four
        contiguous ones through `pattern`; "splat": one element for all four; "gather":
        four elements, each at an offset of its own; "scalar": the first element; or one
        of `GENERATED`, which load no memory.
    dtype : str
        Stored dtype of the elements.
    pattern : int
        Index into `Program.patterns`, or -1 where none is needed; of draws the first
        of the four scalars that name their stream.
    """

    kind: str
    dtype: str
    pattern: int = -1


class Reference(NamedTuple):
    """Reference to an argument: index in "in", "op", "scalar" or, of rows, "factor"."""

    source: str
    number: int


class Instruction(NamedTuple):
    """Instruction: one op on one element.

    Attributes
    ----------
    glsl : str
        The op's expression over `names`.
    names : tuple of str
        Parameter names of the expression.
    types : tuple of str
        Dtype to which each argument is converted.
    arguments : tuple of Reference
        Reference of each parameter.
    result : str
        Dtype of the result, which also decides its GLSL type.
    """

    glsl: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    arguments: tuple[Reference, ...]
    result: str


class Output(NamedTuple):
    """Output stored to memory: the instruction's index and the stored dtype."""

    instruction: int
    dtype: str


class Program(NamedTuple):
    """Fused kernel program: loads, instructions in order, stores.

    Attributes
    ----------
    rank : int
        Dimensions of the collapsed iteration space.
    whole_quads : bool
        Whether the last dimension is a multiple of four, so that the four elements of
        an invocation share all other coordinates.
    pairs : str
        Variant with more than four elements per invocation, "apart", "four" or
        "joined": see `glsl.wide`; empty if none.
    """

    rank: int
    whole_quads: bool
    patterns: tuple[Pattern, ...]
    accesses: tuple[Access, ...]
    scalars: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[Output, ...]
    pairs: str = ""


def push_fields(program: Program) -> tuple[tuple[str, str], ...]:
    """Return (name, GLSL type) of every kernel argument, in the order of the block."""
    fields: list[tuple[str, str]] = []
    for k, access in enumerate(program.accesses):
        if access.kind not in GENERATED:
            fields.append((f"in{k}", ""))
    fields.extend((f"out{k}", "") for k in range(len(program.outputs)))
    fields.extend((f"s{k}", kind) for k, kind in enumerate(program.scalars))
    fields.append(("quads", "uint"))
    if program.patterns:
        if not program.whole_quads:
            fields.append(("last", "uint"))
        for dim in range(1, program.rank):
            fields.extend(
                (f"{word}{dim}", "uint") for word in ("size", "magic", "shift")
            )
    for k, pattern in enumerate(program.patterns):
        if pattern.offset:
            fields.append((f"p{k}_offset", "uint"))
        fields.extend(
            (f"p{k}_{dim}", "uint")
            for dim, step in enumerate(pattern.steps)
            if step == "s"
        )
    # Wide members first avoids padding in the block.
    return tuple(sorted(fields, key=lambda field: -field_size(field[1])))


def field_size(kind: str) -> int:
    """Return the size in bytes of a push field; an empty kind is an address."""
    return 8 if kind in ("", "double", "int64_t", "uint64_t") else 4
