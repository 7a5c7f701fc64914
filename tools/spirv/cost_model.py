"""Cost model of a shader: instruction classes, flops, bytes, loop trip counts.

Static: each instruction counts once for each round of its loops, branches as if all
were taken. Calls are followed, so what a function costs is counted where it is called.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from vkbackend.shader.spirv_reader import SpirvInstruction

from . import instruction
from .abstract_interpreter import MAX_ROUNDS, Frame, InvocationContext, Loop, Values
from .control_flow import BasicBlock
from .module import ResolvedModule

MAX_WALK = 100_000
"""Most instructions that a shader may have once its calls are followed."""

MAX_CALLS = 48
"""Most calls within calls."""

_TRANSCENDENTAL = frozenset(
    (
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh"),
        *("Asinh", "Acosh", "Atanh", "Atan2", "Pow", "Exp", "Log", "Exp2", "Log2"),
        *("Sqrt", "InverseSqrt"),
    )
)
_CLASSES = {
    "Arithmetic": "arithmetic",
    "Bit": "arithmetic",
    "Relational_and_Logical": "arithmetic",
    "Conversion": "conversion",
    "Composite": "composite",
    "Control-Flow": "control",
    "Function": "control",
    "Atomic": "atomic",
    "Barrier": "barrier",
    "Group": "subgroup",
    "Non-Uniform": "subgroup",
    "Memory": "address",
}
# Operations whose class in the grammar says something else than what they do.
_CLASS_OF = {
    "ControlBarrier": "barrier",
    "MemoryBarrier": "barrier",
    "Variable": "declaration",
    "Function": "declaration",
    "FunctionParameter": "declaration",
    "FunctionEnd": "declaration",
    "Label": "declaration",
    "LoopMerge": "declaration",
    "SelectionMerge": "declaration",
    "Line": "declaration",
    "NoLine": "declaration",
    "Undef": "declaration",
    "Nop": "declaration",
}
_PRODUCTS = ("MatrixTimesMatrix", "MatrixTimesVector", "VectorTimesMatrix")
# Flops of each component of the result; a vector operation is as many scalar ones.
_FLOPS = {
    **dict.fromkeys(("FAdd", "FSub", "FMul", "FDiv", "FNegate", "FRem", "FMod"), 1),
    "VectorTimesScalar": 1,
    "MatrixTimesScalar": 1,
    "OuterProduct": 1,
}
_EXTENDED_FLOPS = {
    **dict.fromkeys(("FMin", "FMax", "NMin", "NMax", "FAbs", "FSign", "Floor"), 1),
    **dict.fromkeys(("Ceil", "Trunc", "Round", "RoundEven", "Fract"), 1),
    "FClamp": 2,
    "NClamp": 2,
    "Fma": 2,
    "FMix": 3,
}
STORAGE = {
    "PhysicalStorageBuffer": "device",
    "StorageBuffer": "device",
    "Uniform": "device",
    "Workgroup": "shared",
    "Function": "private",
    "Private": "private",
    "PushConstant": "push",
    "Input": "input",
}


def classify(program: ResolvedModule, row: SpirvInstruction) -> str:
    """Return the class of an instruction of a function.

    One of: arithmetic, transcendental, conversion, composite, load and store with a
    storage (`load device`), address, control, atomic, barrier, subgroup, matrix,
    declaration, other.
    """
    operation = instruction.operation(row.opcode)
    if operation in ("Load", "Store"):
        return f"{operation.lower()} {storage(program, row)}"
    if operation == "ExtInst":
        known = row.operands[2] in program.extended
        name = instruction.extended().get(row.operands[3]) if known else ""
        return "transcendental" if name in _TRANSCENDENTAL else "arithmetic"
    return _class_of(row.opcode)


@functools.cache
def _class_of(opcode: int) -> str:
    """Return the class of an operation whose operands do not matter."""
    shape = instruction.operation_grammars()[opcode]
    if shape.name.startswith(("CooperativeMatrix", "CooperativeVector")):
        return "matrix"
    if shape.name in _CLASS_OF:
        return _CLASS_OF[shape.name]
    if shape.name in _PRODUCTS:
        return "arithmetic"
    if shape.name.startswith("Atomic"):
        return "atomic"
    if shape.name.startswith("GroupNonUniform"):
        return "subgroup"
    return _CLASSES.get(shape.kind, "other")


def storage(program: ResolvedModule, row: SpirvInstruction) -> str:
    """Return where a load or store goes: one of `STORAGE`'s values, or `other`."""
    at = 2 if instruction.operation(row.opcode) == "Load" else 0
    pointer = program.defined.get(program.type_id(row.operands[at]))
    if pointer is None or instruction.operation(pointer.opcode) != "TypePointer":
        return "other"
    name = instruction.enumerant("StorageClass", pointer.operands[1])
    return STORAGE.get(name, "other")


def flops(program: ResolvedModule, row: SpirvInstruction) -> int:
    """Return the floating-point operations of an instruction; an fma is two."""
    operation = instruction.operation(row.opcode)
    if operation == "Dot":
        return 2 * program.type_of(row.operands[2]).components - 1
    if operation in _PRODUCTS:
        result = program.type(row.operands[0])
        # Each component of the result is a dot product as long as the shared dimension.
        left, right = (program.type_of(number) for number in row.operands[2:4])
        inner = left.length if left.operation == "Matrix" else right.components
        if operation == "VectorTimesMatrix":
            inner = left.components
        return result.components * max(0, 2 * inner - 1)
    count = _FLOPS.get(operation, 0)
    if operation == "ExtInst" and row.operands[2] in program.extended:
        count = _EXTENDED_FLOPS.get(instruction.extended().get(row.operands[3], ""), 0)
    if not count:
        return 0
    result = program.type(row.operands[0])
    return 0 if result.operation.startswith("Coop") else count * result.components


def matrix_flops(program: ResolvedModule, row: SpirvInstruction) -> int:
    """Return the flops of a cooperative product, of all invocations of its scope."""
    if not instruction.operation(row.opcode).startswith("CooperativeMatrixMulAdd"):
        return 0
    left, result = program.type_of(row.operands[2]), program.type(row.operands[0])
    inner = left.components // max(1, left.length)
    return 2 * inner * result.components


@dataclass
class CostTally:
    """Costs of one round: counts by class, flops, bytes moved by storage."""

    counts: dict[str, int] = field(default_factory=dict)
    flops: int = 0
    matrix_flops: int = 0
    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)

    def add(self, program: ResolvedModule, row: SpirvInstruction) -> None:
        """Count one instruction."""
        kind = classify(program, row)
        if kind == "declaration":
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "arithmetic":
            self.flops += flops(program, row)
        elif kind == "matrix":
            self.matrix_flops += matrix_flops(program, row)
        verb, _, where = kind.partition(" ")
        if verb == "load":
            size = program.type(row.operands[0]).size
            self.read[where] = self.read.get(where, 0) + size
        elif verb == "store":
            size = program.type_of(row.operands[1]).size
            self.written[where] = self.written.get(where, 0) + size

    def add_times(self, other: "CostTally", times: int) -> None:
        """Add another tally so many times."""
        self.flops += times * other.flops
        self.matrix_flops += times * other.matrix_flops
        for mine, theirs in (
            (self.counts, other.counts),
            (self.read, other.read),
            (self.written, other.written),
        ):
            for key, value in theirs.items():
                mine[key] = mine.get(key, 0) + times * value


@dataclass
class LoopNest:
    """A loop, or the whole shader: its own costs, and the loops in it.

    Attributes
    ----------
    loop : Loop or None
        Which; None for the shader.
    rounds : int or None
        How often it goes round, if constants decide that; at most so often if
        something else can end it too.
    own : CostTally
        Of one round, without the inner loops.
    function : str
        Name of the function that the loop stands in.
    offset : int
        Of the loop's header in words.
    """

    loop: Loop | None
    rounds: int | None
    own: CostTally = field(default_factory=CostTally)
    inner: "list[LoopNest]" = field(default_factory=list)
    function: str = ""
    offset: int = 0

    def total(self) -> tuple[CostTally, bool]:
        """Return the costs of one round with the inner loops; and whether it is all.

        A loop of which nobody knows how often it goes round counts once.
        """
        tally, complete = CostTally(), True
        tally.add_times(self.own, 1)
        for nest in self.inner:
            inside, whole = nest.total()
            complete = complete and whole and nest.rounds is not None
            tally.add_times(inside, 1 if nest.rounds is None else nest.rounds)
        return tally, complete


class ExecutedInstruction(NamedTuple):
    """Instruction in execution order, with its enclosing loops."""

    frame: Frame
    block: BasicBlock
    row: SpirvInstruction
    loops: tuple[Loop, ...]


def walk(values: Values) -> Iterator[ExecutedInstruction]:
    """Yield each instruction in the order of the module, calls followed."""
    yield from _walk(values, Frame(values.program.entry), [MAX_WALK])


def _walk(
    values: Values, frame: Frame, budget: list[int]
) -> Iterator[ExecutedInstruction]:
    for block in frame.function.blocks.values():
        loops = (*frame.loops, *((frame.key, header) for header in block.loops))
        for row in block.rows:
            budget[0] -= 1
            if budget[0] < 0:
                raise row.error(
                    "calls make the shader too long: more than"
                    f" {MAX_WALK} instructions; functions call each other too often"
                )
            yield ExecutedInstruction(frame, block, row, loops)
            if instruction.operation(row.opcode) == "FunctionCall":
                if len(frame.key) >= MAX_CALLS:
                    raise row.error(f"calls are nested too deep: at most {MAX_CALLS}")
                yield from _walk(values, values.call(frame, row, loops), budget)


def loop_nests(values: Values, steps: list[ExecutedInstruction]) -> LoopNest:
    """Return the costs of a shader by its loops."""
    whole = nest = LoopNest(None, 1)
    found: dict[Loop, LoopNest] = {}
    loops: tuple[Loop, ...] = ()
    for step in steps:
        if step.loops is not loops:
            loops = step.loops
            nest = _nest_of(loops, whole, found)
        nest.own.add(values.program, step.row)
        if nest.loop is not None and step.block.label == nest.loop[1]:
            if instruction.operation(step.row.opcode) == "Label":
                name = values.program.name_of(step.frame.function.id)
                nest.function = name.partition("(")[0]
                nest.offset = step.row.offset
                nest.rounds = rounds(values, step.frame, step.block)
    return whole


def _nest_of(
    loops: tuple[Loop, ...], whole: LoopNest, found: dict[Loop, LoopNest]
) -> LoopNest:
    """Return the nest of the innermost of some loops, made if it is a new one."""
    nest = whole
    for loop in loops:
        if loop not in found:
            found[loop] = LoopNest(loop, None)
            nest.inner.append(found[loop])
        nest = found[loop]
    return nest


def rounds(values: Values, frame: Frame, header: BasicBlock) -> int | None:
    """Return a loop's trip count, or None if it is not constant."""
    function = frame.function
    loop = (frame.key, header.label)
    exits = [
        block
        for block in function.blocks.values()
        if block.label in function.members[header.label]
        and block.loops[-1:] == (header.label,)
        and header.merge in block.successors
        and instruction.operation(block.terminator.opcode) == "BranchConditional"
    ]
    for block in exits:
        found = _rounds(values, frame, loop, header, block)
        if found is not None:
            return found
    return None


def _rounds(
    values: Values, frame: Frame, loop: Loop, header: BasicBlock, block: BasicBlock
) -> int | None:
    condition, first, _ = block.terminator.operands[:3]
    stays_on = first != header.merge
    # A loop that is left where it continues has gone round once by then.
    late = block.label == header.proceed
    for number in range(MAX_ROUNDS + 1):
        invocation = InvocationContext(rounds={loop: number + late}, assume=False)
        value = values.value(frame, condition, invocation)
        if not isinstance(value, bool):
            return None
        if value != stays_on:
            return number + late
    return None
