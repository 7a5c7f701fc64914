"""The program of one kernel that reduces rows, as plain hashable values.

The iteration space is (rows, columns). A step gives one value for each element, or one
for each row: a `Fold` takes the elements of a row together. Steps of rows may be read
by steps of elements, so the elements are walked in passes; see `passes`.
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
"""The ends of each GLSL type."""

COMBINE = {
    "add": "old + new",
    "mul": "old * new",
    "max": "(new > old) != (new != new) ? new : old",
    "min": "(new < old) != (new != new) ? new : old",
}
"""How a fold combines two values; NaN is both greatest and least, as in NumPy.

The two conditions exclude each other; `||` would be a branch between loads.
"""


def identity(combine: str, glsl: str) -> str:
    """Return what a fold of nothing gives."""
    ends = {"max": LEAST, "min": GREATEST}
    return (
        ends[combine][glsl] if combine in ends else f"{glsl}({int(combine == 'mul')})"
    )


class RowPattern(NamedTuple):
    """How an operand's offset follows from the coordinates of a row and in it.

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
    """One operand read from memory, or drawn from the random stream.

    Attributes
    ----------
    kind : str
        "linear": in the order of the elements; "quad": four neighbours at once, found
        through `pattern`; "gather": each element alone; "single": the first element of
        the operand, for all rows; or one of `GENERATED`.
    dtype : str
        How the elements are stored.
    per_row : bool
        Whether there is one value for a whole row.
    pattern : int
        Index into `RowProgram.patterns`, or -1 where none is needed; of draws the first
        of the four scalars that name their stream.
    """

    kind: str
    dtype: str
    per_row: bool
    pattern: int = -1


class Fold(NamedTuple):
    """All elements of a row combined: how, from what, and the dtype that it is done in.

    Its other attributes are those of an `Instruction`.
    """

    combine: str
    types: tuple[str]
    arguments: tuple[Reference]
    result: str

    @property
    def glsl(self) -> str:
        """The expression that combines two values."""
        return COMBINE[self.combine]


class RowProgram(NamedTuple):
    """A fused kernel over rows.

    Attributes
    ----------
    row_rank, column_rank : int
        Dimensions of the two collapsed sides of the iteration space.
    neighbours : bool
        Whether an invocation takes four neighbouring columns at a time; otherwise four
        that are as far apart as there are invocations of the row. It follows from the
        number of columns alone, so that the order of sums does.
    vec4 : bool
        Whether neighbours share all coordinates but the last, and are read and written
        at once; otherwise each element is found alone.
    block_order : bool
        Whether folds combine what invocations found in the order of a kernel that reads
        rows as blocks, see `glsl.lavapipe_rowwise`, which this one stands in for.
    group : int
        Invocations that share a row.
    subgroup : int
        Invocations of a subgroup, whose folds then need no shared memory; 0 where that
        is not known.
    rounds : int
        How often each of them takes four elements, if that is few enough to hold
        results in registers; 0 for a loop in which every pass computes anew.
    exact : bool
        Whether rounds and invocations leave no remainder.
    factors : tuple of str
        GLSL types of the numbers that depend on sizes.
    per_row : tuple of bool
        For each step whether it gives one value for a row.
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
    # Wide members first keeps the block free of holes.
    return tuple(sorted(fields, key=lambda field: -field_size(field[1])))


class Pass(NamedTuple):
    """One walk over the elements of a row, and the steps of the row after it.

    Attributes
    ----------
    loads : tuple of int
        Accesses read.
    kept : tuple of Reference
        Values that an earlier pass left in registers.
    steps : tuple of int
        Steps computed for each element.
    folds : tuple of int
    outputs : tuple of int
        Outputs written for each element.
    after : tuple of int
        Steps of the row that can be computed now; folds among them.
    """

    loads: tuple[int, ...]
    kept: tuple[Reference, ...]
    steps: tuple[int, ...]
    folds: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...]


class Passes(NamedTuple):
    """How a program runs: steps of rows that come first, then passes."""

    before: tuple[int, ...]
    passes: tuple[Pass, ...]

    @property
    def kept(self) -> tuple[Reference, ...]:
        """Values that stay in registers from one pass to a later one."""
        return tuple(dict.fromkeys(key for each in self.passes for key in each.kept))


def passes(program: RowProgram, keep: bool) -> Passes:
    """Divide the steps of a program into passes.

    Parameters
    ----------
    program : RowProgram
    keep : bool
        Whether a value of an element that a later pass needs stays in registers;
        otherwise it is computed again.
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
    """Return the step of each output that has a value for each element."""
    return {
        k: output.instruction
        for k, output in enumerate(program.outputs)
        if not program.per_row[output.instruction]
    }


def _stages(program: RowProgram) -> list[int]:
    """Return how many passes must be over before each step can be computed."""
    stages: list[int] = []
    for number, step in enumerate(program.instructions):
        needs = [stages[n] for source, n in step.arguments if source == "op"]
        stages.append(max(needs, default=0) + _is_fold(program, number))
    return stages


def _needed(
    program: RowProgram, roots: list[Reference], known: set[Reference]
) -> tuple[set[Reference], set[Reference]]:
    """Return what must be computed for each element, and what is known already."""
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
