"""Program of one row-reduction kernel, as plain hashable values.

The iteration space is (rows, columns). A step gives a value per element, or per row: a
`Fold` combines the elements of a row. Per-row steps may be read by per-element steps,
so a row is computed in several passes; see `passes`.
"""

from __future__ import annotations

from typing import NamedTuple

from .program import GENERATED, Instruction, Output, Reference, field_size

LEAST = {
    "float": "uintBitsToFloat(0xff800000u)",
    "double": "packDouble2x32(uvec2(0u, 0xfff00000u))",
    "int": "int(0x80000000u)",
    "uint": "0u",
    "int64_t": "int64_t(0x8000000000000000ul)",
    "uint64_t": "0ul",
}
GREATEST = {
    "float": "uintBitsToFloat(0x7f800000u)",
    "double": "packDouble2x32(uvec2(0u, 0x7ff00000u))",
    "int": "0x7fffffff",
    "uint": "0xffffffffu",
    "int64_t": "int64_t(0x7ffffffffffffffful)",
    "uint64_t": "0xfffffffffffffffful",
}
"""Smallest and largest number of each GLSL type."""

COMBINE = {
    "add": "old + new",
    "mul": "old * new",
    "max": "(new > old) != (new != new) ? new : old",
    "min": "(new < old) != (new != new) ? new : old",
}
"""Combining expression of each fold; NaN is both greatest and least, as in NumPy.

The two conditions exclude each other; `||` would be a branch between loads.
"""


def identity(combine: str, glsl: str) -> str:
    """Return the identity element of a fold."""
    ends = {"max": LEAST, "min": GREATEST}
    return (
        ends[combine][glsl] if combine in ends else f"{glsl}({int(combine == 'mul')})"
    )


class RowPattern(NamedTuple):
    """Access pattern: an operand's offset from the coordinates of a row and in it.

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


class RowAccess(NamedTuple):
    """Access of one operand: loaded from memory, or drawn from the random stream.

    Attributes
    ----------
    kind : str
        "linear": contiguous in element order; "quad": four contiguous ones at once,
        through `pattern`; "gather": each element at an offset of its own; "single": the
        first element of the operand, for all rows; or one of `GENERATED`.
    dtype : str
        Stored dtype of the elements.
    per_row : bool
        Whether there is one value per row.
    pattern : int
        Index into `RowProgram.patterns`, or -1 where none is needed; of draws the first
        of the four scalars that name their stream.
    """

    kind: str
    dtype: str
    per_row: bool
    pattern: int = -1


class Fold(NamedTuple):
    """Fold of a row's elements: the combination, its operand and accumulation dtype.

    Its other attributes are those of an `Instruction`.
    """

    combine: str
    types: tuple[str]
    arguments: tuple[Reference]
    result: str

    @property
    def glsl(self) -> str:
        """Expression that combines two values."""
        return COMBINE[self.combine]


class RowProgram(NamedTuple):
    """Fused row program.

    Attributes
    ----------
    row_rank, column_rank : int
        Dimensions of the two collapsed sides of the iteration space.
    neighbours : bool
        Whether an invocation takes four contiguous columns at a time; otherwise four
        strided by the invocations of the row. It follows from the number of columns
        alone, so that the summation order does.
    vec4 : bool
        Whether the four share all coordinates but the last, and are loaded and stored
        as a vector; otherwise each element has an offset of its own.
    block_order : bool
        Whether folds combine partial results in the order of a kernel with uniform
        vector loads, see `glsl.lavapipe_rowwise`, which this one stands in for.
    group : int
        Invocations that share a row.
    subgroup : int
        Invocations of a subgroup, whose folds then need no shared memory; 0 if
        unknown.
    rounds : int
        Vectors of four elements per invocation, if few enough to keep values in
        registers; 0 for a loop, in which every pass recomputes them.
    exact : bool
        Whether rounds times invocations cover a row exactly.
    factors : tuple of str
        GLSL types of the numbers that depend on sizes.
    per_row : tuple of bool
        For each step whether its value is per row.
    """

    row_rank: int
    column_rank: int
    neighbours: bool
    vec4: bool
    block_order: bool
    group: int
    subgroup: int
    rounds: int
    exact: bool
    patterns: tuple[RowPattern, ...]
    accesses: tuple[RowAccess, ...]
    scalars: tuple[str, ...]
    factors: tuple[str, ...]
    instructions: tuple[Instruction | Fold, ...]
    per_row: tuple[bool, ...]
    outputs: tuple[Output, ...]


def row_fields(program: RowProgram) -> tuple[tuple[str, str], ...]:
    """Return (name, GLSL type) of every kernel argument, in the order of the block."""
    fields = [
        (f"in{k}", "")
        for k, access in enumerate(program.accesses)
        if access.kind not in GENERATED
    ]
    fields.extend((f"out{k}", "") for k in range(len(program.outputs)))
    fields.extend((f"s{k}", kind) for k, kind in enumerate(program.scalars))
    fields.extend((f"factor{k}", kind) for k, kind in enumerate(program.factors))
    fields += [("rows", "uint"), ("columns", "uint")]
    for side, rank in (("row", program.row_rank), ("column", program.column_rank)):
        if program.patterns:
            fields.extend(
                (f"{side}_{word}{dim}", "uint")
                for dim in range(1, rank)
                for word in ("size", "magic", "shift")
            )
    for k, pattern in enumerate(program.patterns):
        if pattern.offset:
            fields.append((f"p{k}_offset", "uint"))
        for side, steps in (("row", pattern.rows), ("column", pattern.columns)):
            fields.extend(
                (f"p{k}_{side}{dim}", "uint")
                for dim, step in enumerate(steps)
                if step == "s"
            )
    # Wide members first avoids padding in the block.
    return tuple(sorted(fields, key=lambda field: -field_size(field[1])))


class Pass(NamedTuple):
    """Pass over the elements of a row, and the per-row steps after it.

    Attributes
    ----------
    loads : tuple of int
        Accesses loaded.
    kept : tuple of Reference
        Values in registers from an earlier pass.
    steps : tuple of int
        Per-element steps.
    folds : tuple of int
    outputs : tuple of int
        Per-element outputs stored.
    after : tuple of int
        Per-row steps that can be computed now; folds among them.
    """

    loads: tuple[int, ...]
    kept: tuple[Reference, ...]
    steps: tuple[int, ...]
    folds: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...]


class Passes(NamedTuple):
    """Pass schedule of a program: first the leading per-row steps, then passes."""

    before: tuple[int, ...]
    passes: tuple[Pass, ...]

    @property
    def kept(self) -> tuple[Reference, ...]:
        """Values kept in registers from one pass to a later one."""
        return tuple(dict.fromkeys(key for each in self.passes for key in each.kept))


def passes(program: RowProgram, keep: bool) -> Passes:
    """Schedule the steps of a program into passes.

    Parameters
    ----------
    program : RowProgram
    keep : bool
        Whether a per-element value that a later pass needs stays in registers;
        otherwise it is recomputed.
    """
    stages = _stages(program)
    rows = [n for n, per_row in enumerate(program.per_row) if per_row]
    last = max(
        [
            *(stages[n] - 1 for n in rows if _is_fold(program, n)),
            *(stages[n] for n in _element_outputs(program).values()),
        ]
    )
    found: list[Pass] = []
    known: set[Reference] = set()
    for number in range(last + 1):
        folds = [n for n in rows if _is_fold(program, n) and stages[n] == number + 1]
        outputs = [
            k for k, n in _element_outputs(program).items() if stages[n] == number
        ]
        roots = [
            *(program.instructions[n].arguments[0] for n in folds),
            *(Reference("op", program.outputs[k].instruction) for k in outputs),
        ]
        needed, kept = _needed(program, roots, known if keep else set())
        known |= needed
        found.append(
            Pass(
                tuple(sorted(n for source, n in needed if source == "in")),
                tuple(sorted(kept)),
                tuple(sorted(n for source, n in needed if source == "op")),
                tuple(folds),
                tuple(outputs),
                tuple(n for n in rows if stages[n] == number + 1),
            )
        )
    return Passes(tuple(n for n in rows if stages[n] == 0), tuple(found))


def _is_fold(program: RowProgram, number: int) -> bool:
    return isinstance(program.instructions[number], Fold)


def _element_outputs(program: RowProgram) -> dict[int, int]:
    """Return the step of each per-element output."""
    return {
        k: output.instruction
        for k, output in enumerate(program.outputs)
        if not program.per_row[output.instruction]
    }


def _stages(program: RowProgram) -> list[int]:
    """Return the pass level of each step: passes that must precede it."""
    stages: list[int] = []
    for number, step in enumerate(program.instructions):
        needs = [stages[n] for source, n in step.arguments if source == "op"]
        stages.append(max(needs, default=0) + _is_fold(program, number))
    return stages


def _needed(
    program: RowProgram, roots: list[Reference], known: set[Reference]
) -> tuple[set[Reference], set[Reference]]:
    """Return the references computed per element, and those reused from registers."""
    needed: set[Reference] = set()
    kept: set[Reference] = set()
    pending = list(roots)
    while pending:
        reference = pending.pop()
        source, number = reference
        if source not in ("in", "op") or reference in needed:
            continue
        if _of_row(program, reference):
            continue
        if reference in known:
            kept.add(reference)
            continue
        needed.add(reference)
        if source == "op":
            pending += program.instructions[number].arguments
    return needed, kept


def _of_row(program: RowProgram, reference: Reference) -> bool:
    source, number = reference
    if source == "in":
        return program.accesses[number].per_row
    return program.per_row[number]
