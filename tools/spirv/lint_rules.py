"""Lint rules of `vkspirv lint`, each with the measurement that justifies it.

Measured on lavapipe of Mesa 22.3.6 (two cores) and on an NVIDIA H200 (driver 580).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vkbackend.shader.spirv_reader import SpirvInstruction

from . import instruction
from .abstract_interpreter import Frame, InvocationContext, Loop
from .cost_model import ExecutedInstruction, LoopNest, classify, storage
from .divergence import Divergence
from .layout import BufferType, alignment, buffer_of, buffer_types
from .memory_access import bank_conflict_degree, byte_offset, origin
from .module import MAX_DEPTH, ResolvedModule
from .report import Analysis
from .types import Type

VECTOR = 16
"""Bytes that one invocation can load at once."""

MAX_CONFLICT_DEGREE = 4
"""Invocations that may wait for one bank of shared memory before it is reported."""

_DIVISIONS = ("UDiv", "SDiv", "UMod", "SMod", "SRem")


class Finding(NamedTuple):
    """Finding of a rule: its location in the shader, and a message."""

    row: SpirvInstruction
    message: str


@dataclass
class LintContext:
    """Lint context: a shader and its analyses.

    Attributes
    ----------
    loops : dict of Loop to LoopNest
        Every loop of the course of the program.
    """

    analysis: Analysis
    loops: dict[Loop, LoopNest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program = self.analysis.program
        self.values = self.analysis.values
        self.divergence = Divergence(self.program)
        self.buffers: dict[int, BufferType] = {
            row.id: row for row in buffer_types(self.values)
        }
        self._accesses: dict[str, list[ExecutedInstruction]] = {}
        for step in self.analysis.steps:
            if instruction.operation(step.row.opcode) in ("Load", "Store"):
                where = storage(self.program, step.row)
                self._accesses.setdefault(where, []).append(step)
        pending = [self.analysis.nest]
        while pending:
            nest = pending.pop()
            if nest.loop is not None:
                self.loops[nest.loop] = nest
            pending += nest.inner

    def accesses(self, where: str) -> Sequence[ExecutedInstruction]:
        """Return the loads and stores of a storage: one of `STORAGE`'s values."""
        return self._accesses.get(where, ())

    def pointer(self, row: SpirvInstruction) -> int:
        """Return the pointer of a load or store."""
        return row.operands[2 if instruction.operation(row.opcode) == "Load" else 0]

    def moved(self, row: SpirvInstruction) -> int:
        """Return the id of the type that a load or store moves."""
        is_load = instruction.operation(row.opcode) == "Load"
        return row.operands[0] if is_load else self.program.type_id(row.operands[1])


@dataclass(frozen=True)
class Rule:
    """Lint rule.

    Attributes
    ----------
    name : str
        What `// lint` lines and `--only` call it.
    advice : str
        What to do about a finding.
    evidence : str
        The measurement that justifies it.
    check : callable
        Yields findings; the same instruction may come twice, from several calls.
    """

    name: str
    advice: str
    evidence: str
    check: Callable[[LintContext], Iterator[Finding]]


def scalar_loads(context: LintContext) -> Iterator[Finding]:
    """Find scalar loads of adjacent elements, in a loop or in a row."""
    rows: dict[tuple[object, int], list[tuple[int, ExecutedInstruction]]] = {}
    for step in context.accesses("device"):
        kind = context.program.type(context.moved(step.row))
        is_number = kind.operation in ("Int", "Float") and kind.size < VECTOR
        if instruction.operation(step.row.opcode) != "Load" or not is_number:
            continue
        pointer = context.pointer(step.row)
        start = byte_offset(context.values, step.frame, pointer, InvocationContext())
        if start is None:
            continue
        base = origin(context.values, step.frame, pointer)
        rows.setdefault(((step.loops, base), kind.size), []).append((start, step))
        loop = step.loops[-1] if step.loops else None
        if loop and _advances_by_size(context, step, start, kind.size, loop):
            yield Finding(
                step.row,
                f"a loop loads {kind.name} after {kind.name}, {kind.size} bytes a"
                f" round; {VECTOR // kind.size} of them can be one load",
            )
    for (_, size), found in rows.items():
        yield from _neighbours(context, found, size)


def _advances_by_size(
    context: LintContext, step: ExecutedInstruction, start: int, size: int, loop: Loop
) -> bool:
    """Return whether a load moves on by its own size in each round of a loop."""
    places = [start]
    for number in (1, 2):
        invocation = InvocationContext(rounds={loop: number})
        pointer = context.pointer(step.row)
        place = byte_offset(context.values, step.frame, pointer, invocation)
        if place is None:
            return False
        places.append(place)
    return places[1] - places[0] == places[2] - places[1] == size


def _neighbours(
    context: LintContext, found: list[tuple[int, ExecutedInstruction]], size: int
) -> Iterator[Finding]:
    """Yield the first of each four adjacent and aligned loads."""
    by_place = {place: step for place, step in reversed(found)}
    count = VECTOR // size
    for place, step in by_place.items():
        if place - size in by_place:
            continue
        run = 1
        while place + run * size in by_place:
            run += 1
        pointer = context.pointer(step.row)
        odd = byte_offset(
            context.values, step.frame, pointer, InvocationContext(odd=True)
        )
        if run >= count and odd is not None and odd % VECTOR == 0:
            yield Finding(
                step.row,
                f"{run} loads of {size} bytes lie side by side; {count} of them can be"
                " one load",
            )


def wide_arithmetic(context: LintContext) -> Iterator[Finding]:
    """Find 64-bit arithmetic in loops, unless the buffers hold such numbers."""
    program = context.program
    data = _wide_data(context)
    for step in context.analysis.steps:
        if not step.loops or classify(program, step.row) != "arithmetic":
            continue
        ids = (step.row.operands[0], *map(program.type_id, step.row.operands[2:]))
        kinds = [program.type(number) for number in ids]
        wide = [k for k in kinds if k.width == 64 and k.operation != "Pointer"]
        if wide and _scalar_of(program, wide[0]) not in data:
            operation = instruction.operation(step.row.opcode)
            yield Finding(step.row, f"Op{operation} on {wide[0].name} in a loop")


def _wide_data(context: LintContext) -> set[str]:
    """Return the 64-bit kinds of number that buffers hold: the shader's own data."""
    program = context.program
    members = (
        program.type(number)
        for buffer in context.buffers
        for number in program.defined[buffer].operands[1:]
    )
    return {_scalar_of(program, kind) for kind in members if kind.width == 64}


def _scalar_of(program: ResolvedModule, kind: Type) -> str:
    """Return what a type is made of in the end: `Int` or `Float`."""
    for _ in range(MAX_DEPTH):
        if not kind.element:
            break
        kind = program.type(kind.element)
    return kind.operation


def divisions(context: LintContext) -> Iterator[Finding]:
    """Find integer divisions in innermost loops, by what is no constant."""
    for step in context.analysis.steps:
        operation = instruction.operation(step.row.opcode)
        if operation not in _DIVISIONS or not step.loops:
            continue
        if context.loops[step.loops[-1]].inner:
            continue
        divisor = step.row.operands[3]
        known = InvocationContext(assume=False)
        if context.values.value(step.frame, divisor, known) is None:
            yield Finding(step.row, f"Op{operation} by what is no constant, in a loop")


def qualifiers(context: LintContext) -> Iterator[Finding]:
    """Find buffers that may overlap others, or that are only read and do not say so."""
    for buffer in context.buffers.values():
        if not buffer.reads + buffer.writes or buffer.name == "Arguments":
            continue
        words = {word for member in buffer.members for word in member.qualifiers}
        row = context.program.defined[buffer.id]
        if "restrict" not in words:
            yield Finding(row, f"buffer {buffer.name} is not `restrict`")
        if not buffer.writes and "readonly" not in words:
            yield Finding(row, f"buffer {buffer.name} is only read and not `readonly`")


def alignments(context: LintContext) -> Iterator[Finding]:
    """Find vectors whose alignment is less than their size."""
    for step in context.accesses("device"):
        kind = context.program.type(context.moved(step.row))
        stated = alignment(context.program, step.row)
        if kind.operation == "Vector" and 0 < stated < kind.alignment:
            name = context.program.name_of(
                buffer_of(context.values, context.pointer(step.row))
            )
            yield Finding(
                step.row,
                f"{kind.name} of buffer {name} is aligned to {stated} bytes;"
                f" buffer_reference_align = {kind.alignment} would be right",
            )


def bank_conflicts(context: LintContext) -> Iterator[Finding]:
    """Find accesses to shared memory in which neighbours meet in one bank."""
    for step in context.accesses("shared"):
        size = context.program.type(context.moved(step.row)).size
        pointer = context.pointer(step.row)
        ways = bank_conflict_degree(
            context.values, context.divergence, step.frame, pointer, size
        )
        if ways >= MAX_CONFLICT_DEGREE:
            verb = instruction.operation(step.row.opcode).lower()
            yield Finding(
                step.row,
                f"{ways} neighbours {verb} different words of one bank of shared"
                " memory at once",
            )
    yield from _matrix_conflicts(context)


def _matrix_conflicts(context: LintContext) -> Iterator[Finding]:
    """Find matrices in shared memory whose rows begin in the same banks."""
    for step in context.analysis.steps:
        if instruction.operation(step.row.opcode) != "CooperativeMatrixLoadKHR":
            continue
        pointer, *rest = step.row.operands[2:]
        declared = context.program.defined.get(context.program.type_id(pointer))
        if declared is None or len(rest) < 2:
            continue
        where = instruction.enumerant("StorageClass", declared.operands[1])
        stride = context.values.value(step.frame, rest[1], InvocationContext())
        if where != "Workgroup" or type(stride) is not int:
            continue
        stride *= max(1, context.program.type(declared.operands[2]).size)
        # Eight rows of 16 bytes are fetched at once, from 32 banks of 4 bytes.
        places = {row * stride // VECTOR % 8 for row in range(8)}
        if 8 // len(places) >= MAX_CONFLICT_DEGREE:
            yield Finding(
                step.row,
                f"rows of {stride} bytes put {8 // len(places)} rows of a matrix into"
                " the same banks",
            )


def private_arrays(context: LintContext) -> Iterator[Finding]:
    """Find private arrays whose index is known only when the shader runs."""
    for step in context.accesses("private"):
        place = context.values.place(step.frame, context.pointer(step.row))
        variable = context.program.defined.get(place.root)
        if variable is None or instruction.operation(variable.opcode) != "Variable":
            continue
        kind = context.program.type(context.program.type_of(place.root).element)
        # An array of one is what a constant has switched off.
        if kind.operation != "Array" or kind.length < 2:
            continue
        if any(_is_dynamic(context, step, *where) for where in place.path):
            name = context.program.name_of(place.root)
            yield Finding(
                step.row,
                f"{kind.name} {name} is indexed by what is known only at run time",
            )


def _is_dynamic(
    context: LintContext, step: ExecutedInstruction, frame: Frame, number: int
) -> bool:
    """Return whether unrolling its loops does not make an index a constant."""
    values = context.values
    first = values.value(frame, number, InvocationContext(assume=False))
    if first is None:
        return True
    other = InvocationContext(lane=1, assume=False)
    if values.value(frame, number, other) != first:
        return True
    for loop in step.loops:
        if context.loops[loop].rounds is None:
            moved = InvocationContext(rounds={loop: 1}, assume=False)
            if values.value(frame, number, moved) != first:
                return True
    return False


def barriers(context: LintContext) -> Iterator[Finding]:
    """Find barriers that only part of a workgroup may reach."""
    for step in context.analysis.steps:
        if instruction.operation(step.row.opcode) == "ControlBarrier":
            if context.divergence.partial(step.frame.function, step.block):
                yield Finding(step.row, "only part of the workgroup may get here")


def atomics(context: LintContext) -> Iterator[Finding]:
    """Find atomics in loops."""
    for step in context.analysis.steps:
        operation = instruction.operation(step.row.opcode)
        if step.loops and operation.startswith("Atomic"):
            yield Finding(step.row, f"Op{operation} in a loop")


RULES = (
    Rule(
        "scalar-load",
        "load vectors of 16 bytes, with buffer_reference_align = 16",
        "H200: a matrix product whose loads the driver cannot widen runs at 46 TFLOP/s,"
        " the same one with loads of 16 bytes at 262; summing 64 Mi floats takes 0.182"
        " ms by single floats and 0.114 by vectors. lavapipe: no difference, it loads"
        " components one by one in any case",
        scalar_loads,
    ),
    Rule(
        "wide-arithmetic",
        "compute in 32 bits, or outside the loop",
        "lavapipe, 64 steps per element: uint64 4.1 ms against 3.1 of uint, double 4.3"
        " ms against 2.0 of float. H200, the same over 16 Mi elements: double 0.355 ms"
        " against 0.151 of float; uint64 no slower than uint, 0.176 and 0.178",
        wide_arithmetic,
    ),
    Rule(
        "integer-division",
        "divide by a specialization constant, or multiply as lib/index.glsl's `divide`",
        "lavapipe, 64 divisions per element: 12.0 ms by an argument, 4.9 by a constant,"
        " 5.5 by multiplication. H200, over 16 Mi elements: 0.677 ms by an argument,"
        " 0.383 by a constant, 0.363 by multiplication",
        divisions,
    ),
    Rule(
        "qualifier",
        "declare buffers restrict, and readonly if they are",
        "H200: the same kernel takes 0.247 ms with the qualifiers and 0.286 without;"
        " loads go through the read-only cache (LDG.E.128.CONSTANT) only from readonly"
        " buffers. lavapipe: no difference",
        qualifiers,
    ),
    Rule(
        "alignment",
        "give buffer_reference_align the size of the vector",
        "a driver may load a vector whole only if its alignment is stated. H200, driver"
        " 580: no difference in a copy, 0.209 ms against 0.204. lavapipe: none either."
        " Kept for drivers that take the statement at its word",
        alignments,
    ),
    Rule(
        "bank-conflict",
        "pad the rows of shared arrays by 16 bytes, or swizzle the index",
        "H200: the float16 product of 4096 squared runs at 343 TFLOP/s with rows padded"
        " by 16 bytes, at 100 without; reading down columns of shared memory takes 1.99"
        " ms with rows of 33 words and 33.0 with rows of 32. lavapipe: no difference,"
        " it has no banks",
        bank_conflicts,
    ),
    Rule(
        "private-array",
        "index by constants and loops that unroll, or use shared memory",
        "lavapipe, 128 accesses per element: 11.8 ms with run-time indices, 1.4 with"
        " constants. H200, over 16 Mi elements: 11.3 ms against 0.18, as the array then"
        " is in memory instead of registers",
        private_arrays,
    ),
    Rule(
        "divergent-barrier",
        "move the barrier to where every invocation of the workgroup gets",
        "not slow but wrong: Vulkan leaves undefined what a barrier does that some"
        " invocations do not reach (OpControlBarrier: dynamic uniformity)",
        barriers,
    ),
    Rule(
        "atomic-in-loop",
        "combine in a register or in shared memory, then use one atomic",
        "lavapipe, 16 additions per invocation to one word: 5.7 ms with an atomic each,"
        " 0.92 with one atomic for their sum. H200: 1.66 ms against 0.21",
        atomics,
    ),
)
