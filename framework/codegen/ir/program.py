"""Program of one generated kernel, as plain hashable values.

Equal programs are one kernel. Element counts, sizes, strides and scalars are run-time
arguments and so not part of a program; operand wiring, dtypes, access patterns and the
loop nest are.

The iteration space is (rows, columns). A step gives a value per element, or per row: a
`Fold` combines the elements of a row. Per-row steps may be read by per-element steps,
so a row is computed in several passes; see `passes`. An element-wise kernel folds
nothing: it has columns alone, and one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...base.dtype import DTYPES, DType

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


DRAWN = frozenset({"random", "bits", "normal", "exponential"})
"""Those that are of a random stream."""

MAX_PUSH = 128
"""Bytes of push constants that every device has (Vulkan 1.0 limits table)."""


class Pattern(NamedTuple):
    """Access pattern: an operand's offset as a function of the coordinates.

    Attributes
    ----------
    rows, columns : tuple of str
        For each dimension "0" (broadcast), "1" (unit stride) or "s" (stride pushed).
    offset : bool
        Whether a start offset in elements is pushed.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    offset: bool


class Access(NamedTuple):
    """Access of one operand: loaded from memory, or drawn from the random stream.

    Attributes
    ----------
    kind : str
        "linear": contiguous in element order; "vec4": four contiguous elements at once,
        through `pattern`; "splat": one element for all four; "gather": each element at
        an offset of its own; "scalar": the first element, for all; or one of
        `GENERATED`, which load no memory.
    dtype : str
        Stored dtype of the elements.
    pattern : int
        Index into `KernelProgram.patterns`, or -1 where none is needed; of draws the
        first of the four scalars that name their stream.
    per_row : bool
        Whether there is one value per row.
    """

    kind: str
    dtype: str
    pattern: int = -1
    per_row: bool = False


class Reference(NamedTuple):
    """Reference to an argument: index in "in", "op", "scalar" or "factor"."""

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
    per_row : bool
        Whether its value is per row.
    """

    glsl: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    arguments: tuple[Reference, ...]
    result: str
    per_row: bool = False


class Fold(NamedTuple):
    """Fold of a row's elements: the combination, its operand and accumulation dtype.

    Its other attributes are those of an `Instruction`.
    """

    combine: str
    types: tuple[str]
    arguments: tuple[Reference]
    result: str
    glsl: str = ""
    per_row: bool = True


class Output(NamedTuple):
    """Output stored to memory: the instruction's index and the stored dtype."""

    instruction: int
    dtype: str


class KernelProgram(NamedTuple):
    """Kernel program: loads, steps in order, stores, and the loop nest around them.

    Attributes
    ----------
    row_rank, column_rank : int
        Dimensions of the two collapsed sides of the iteration space; of an element-wise
        program, which has no rows, the former is 0.
    vec4 : bool
        Whether the four elements of an invocation share all coordinates but the last.
        In a row program, they are then loaded and stored as a vector, and otherwise
        one by one; an element-wise program always stores vectors.
    factors : tuple of str
        GLSL types of the numbers that depend on sizes.
    rounds : int
        Vectors of four elements per invocation. In a row program, 0 is a loop, in which
        every pass recomputes values; otherwise they stay in registers.
    lanes : int
        Subgroup size for uniform vector loads, see `glsl.lavapipe`; 0 without.
    pairs : str
        Variant of an element-wise program: with more than four elements per invocation,
        "apart", "four" or "joined", see `glsl.wide`; with two pairs of them, "split",
        see `glsl.split`; empty if none.
    tile : tuple of int
        Operands of an element-wise program that are read across its rows, in tiles: see
        `glsl.tiles`; none if vectors are taken in order.
    group : int
        Invocations that share a row; 0 in an element-wise program.
    subgroup : int
        Invocations of a subgroup, whose folds then need no shared memory, and which
        may exchange what they draw; 0 if unknown.
    neighbours : bool
        Whether an invocation takes four contiguous columns at a time; otherwise four
        strided by the invocations of the row. It follows from the number of columns
        alone, so that the summation order does.
    exact : bool
        Whether rounds times invocations cover a row exactly.
    """

    row_rank: int
    column_rank: int
    vec4: bool
    patterns: tuple[Pattern, ...]
    accesses: tuple[Access, ...]
    scalars: tuple[str, ...]
    factors: tuple[str, ...]
    instructions: tuple[Instruction | Fold, ...]
    outputs: tuple[Output, ...]
    rounds: int = 1
    lanes: int = 0
    pairs: str = ""
    tile: tuple[int, ...] = ()
    group: int = 0
    subgroup: int = 0
    neighbours: bool = True
    exact: bool = False

    @property
    def vectors(self) -> bool:
        """Whether contiguous elements are loaded and stored four at a time."""
        return self.vec4 or not self.group

    def is_vector(self, access: Access) -> bool:
        """Whether an operand's four elements are loaded at once."""
        return access.kind == "vec4" or (access.kind == "linear" and self.vectors)

    def is_per_row(self, output: Output) -> bool:
        """Whether an output has one value per row."""
        return self.instructions[output.instruction].per_row

    def dtype_of(self, reference: Reference) -> DType:
        """Return the dtype of an operand or of an instruction's result."""
        source, number = reference
        if source == "in":
            return DTYPES[self.accesses[number].dtype]
        return DTYPES[self.instructions[number].result]


TILE_WORDS = ("tile_rows", "tile_between", "tile_columns")
"""Arguments of a program with `tile`: see `glsl.tiles`."""

DIGITS = 8
MAX_UNIFORM = DIGITS**DIGITS
"""Values of a digit, of which there are as many; limit of uniform indices."""

DIGIT_FIELD = (f"digit[{DIGITS}]", "uint")
DIGIT_WORDS = [(f"digit[{value}]", value) for value in range(DIGITS)]
"""Argument of kernels with uniform vector loads, and the words that fill it."""


def push_fields(program: KernelProgram) -> tuple[tuple[str, str], ...]:
    """Return (name, GLSL type) of every kernel argument, in the order of the block."""
    fields = [
        (f"in{k}", "")
        for k, access in enumerate(program.accesses)
        if access.kind not in GENERATED
    ]
    fields += [(f"out{k}", "") for k in range(len(program.outputs))]
    fields += [(f"s{k}", kind) for k, kind in enumerate(program.scalars)]
    fields += [(f"factor{k}", kind) for k, kind in enumerate(program.factors)]
    fields += [(name, "uint") for name in _word_names(program)]
    # Wide members first avoids padding in the block.
    fields.sort(key=lambda field: -field_size(field[1]))
    return (*fields, DIGIT_FIELD) if program.lanes else tuple(fields)


def _word_names(program: KernelProgram) -> Iterator[str]:
    """Yield the names of counts, sizes and strides."""
    if program.group:
        yield from ("rows", "columns")
    else:
        yield "quads"
        if program.patterns and not program.vec4:
            yield "last"
    if program.tile:
        yield from TILE_WORDS
    if not program.patterns:
        return
    for side, rank in (("row_", program.row_rank), ("", program.column_rank)):
        for dim in range(1, rank):
            yield from (f"{side}{word}{dim}" for word in ("size", "magic", "shift"))
    for k, pattern in enumerate(program.patterns):
        if pattern.offset:
            yield f"p{k}_offset"
        yield from (name for name, step in stride_names(k, pattern) if step == "s")


def stride_names(k: int, pattern: Pattern) -> list[tuple[str, str]]:
    """Return the argument name and the step of each dimension of pattern `k`."""
    return [(f"p{k}_row{dim}", step) for dim, step in enumerate(pattern.rows)] + [
        (f"p{k}_{dim}", step) for dim, step in enumerate(pattern.columns)
    ]


def fields_size(fields: Iterable[tuple[str, str]]) -> int:
    """Return the bytes of kernel arguments, by name and GLSL type."""
    counts = {DIGIT_FIELD[0]: DIGITS}
    return sum(counts.get(name, 1) * field_size(kind) for name, kind in fields)


def field_size(kind: str) -> int:
    """Return the size in bytes of a push field; an empty kind is an address."""
    return 8 if kind in ("", "double", "int64_t", "uint64_t") else 4
