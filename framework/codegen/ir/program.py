"""The program of one fused element-wise kernel, as plain hashable values.

Equal programs are one kernel. Element counts, sizes, strides and scalars are run-time
arguments and so not part of a program; operand wiring, dtypes and the way each operand
walks memory are.
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
"""GLSL of four elements that come from the invocation's number `i` and a stream, or
that a matrix product hands on."""


MAX_PUSH = 128
"""Bytes of push constants that every device has (Vulkan 1.0 limits table)."""


class Pattern(NamedTuple):
    """How an operand's offset follows from the coordinates.

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
    """One operand read from memory, or drawn from the random stream.

    Attributes
    ----------
    kind : str
        "linear": all four elements at the invocation's own place; "row": four
        neighbours found through `pattern`; "splat": one element for all four;
        "gather": four elements, each found alone; "scalar": the first element; or one
        of `GENERATED`, which read no memory.
    dtype : str
        How the elements are stored.
    pattern : int
        Index into `Program.patterns`, or -1 where none is needed; of draws the first
        of the four scalars that name their stream.
    """

    kind: str
    dtype: str
    pattern: int = -1


class Reference(NamedTuple):
    """An argument: number so-and-so of "in", "op", "scalar" or, of rows, "factor"."""

    source: str
    number: int


class Instruction(NamedTuple):
    """One operation on one element.

    Attributes
    ----------
    glsl : str
        The op's expression over `names`.
    names : tuple of str
        Parameter names of the expression.
    types : tuple of str
        Dtype in which each argument is taken.
    arguments : tuple of Reference
        What each parameter stands for.
    result : str
        Dtype of the result, which also decides its GLSL type.
    """

    glsl: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    arguments: tuple[Reference, ...]
    result: str


class Output(NamedTuple):
    """One result written to memory: the instruction's index and the stored dtype."""

    instruction: int
    dtype: str


class Program(NamedTuple):
    """A fused kernel: reads, operations in order, writes.

    Attributes
    ----------
    rank : int
        Dimensions of the collapsed iteration space.
    whole_quads : bool
        Whether the last dimension is a multiple of four, so that the four elements of
        an invocation share all other coordinates.
    pairs : str
        How an invocation takes more than four elements, "apart", "four" or "joined":
        see `glsl.wide`; empty if it does not.
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
    # Wide members first keeps the block free of holes.
    return tuple(sorted(fields, key=lambda field: -field_size(field[1])))


def field_size(kind: str) -> int:
    """Return the size in bytes of a push field; an empty kind is an address."""
    return 8 if kind in ("", "double", "int64_t", "uint64_t") else 4
