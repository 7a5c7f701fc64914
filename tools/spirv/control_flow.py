"""Control-flow graph: functions, basic blocks, loops by SPIR-V's merge blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vkbackend.shader.spirv_reader import SpirvInstruction

from . import instruction

MAX_VISITS = 200_000
"""Most steps taken to find what belongs to the loops and branches of one function."""

_TERMINATORS = frozenset(
    (
        *("Branch", "BranchConditional", "Switch", "Return", "ReturnValue"),
        *("Unreachable", "Kill", "TerminateInvocation", "EmitMeshTasksEXT"),
        *("IgnoreIntersectionKHR", "TerminateRayKHR"),
    )
)


@dataclass
class BasicBlock:
    """Basic block of a function.

    Attributes
    ----------
    label : int
        Its id.
    rows : list of SpirvInstruction
        From its label to its terminator.
    successors : tuple of int
        Labels that it may jump to.
    merge : int
        Where the construct that it heads ends; 0 if it heads none.
    proceed : int
        Where the loop that it heads continues; 0 if it heads no loop.
    loops : tuple of int
        Headers of the loops that it is in, outermost first.
    """

    label: int
    rows: list[SpirvInstruction] = field(default_factory=list)
    successors: tuple[int, ...] = ()
    merge: int = 0
    proceed: int = 0
    loops: tuple[int, ...] = ()

    @property
    def terminator(self) -> SpirvInstruction:
        """The last instruction."""
        return self.rows[-1]


@dataclass
class Function:
    """Function with its control-flow graph.

    Attributes
    ----------
    id : int
        Its id.
    row : SpirvInstruction
        Its declaration.
    parameters : list of int
        Ids of its parameters.
    blocks : dict of int to BasicBlock
        By label, in the order of the module.
    members : dict of int to frozenset of int
        Labels of the blocks of each loop, by its header.
    """

    id: int
    row: SpirvInstruction
    parameters: list[int] = field(default_factory=list)
    blocks: dict[int, BasicBlock] = field(default_factory=dict)
    members: dict[int, frozenset[int]] = field(default_factory=dict)
    _branches: dict[frozenset[int], SpirvInstruction] = field(default_factory=dict)

    def branches(self) -> Mapping[frozenset[int], SpirvInstruction]:
        """Return the first conditional branch to each set of one or two labels."""
        if not self._branches:
            for block in self.blocks.values():
                if (
                    instruction.operation(block.terminator.opcode)
                    == "BranchConditional"
                ):
                    targets = frozenset(block.successors)
                    self._branches.setdefault(targets, block.terminator)
        return self._branches

    def instructions(self) -> Iterator[tuple[BasicBlock, SpirvInstruction]]:
        """Yield each instruction with its block."""
        for block in self.blocks.values():
            for row in block.rows:
                yield block, row

    def region(self, header: BasicBlock) -> frozenset[int]:
        """Return the blocks that only some invocations enter if a header's do part."""
        stop = {header.merge} if header.merge else set()
        for loop in header.loops:
            stop |= {loop, self.blocks[loop].merge, self.blocks[loop].proceed}
        return _reach(self, header.successors, stop, [MAX_VISITS])


def functions_of(
    rows: Sequence[SpirvInstruction], widths: Mapping[int, int]
) -> dict[int, Function]:
    """Return the functions of a module by id.

    Parameters
    ----------
    rows : sequence of SpirvInstruction
        The module; `instruction.decode` accepts each.
    widths : mapping of int to int
        As `instruction.decode` takes it.

    Raises
    ------
    ShaderError
        If a block has no end, or jumps to what is no block of its function.
    """
    functions: dict[int, Function] = {}
    for function in _split(rows):
        functions[function.id] = function
        for block in function.blocks.values():
            _link(function, block, widths)
        _find_loops(function)
    return functions


def _split(rows: Iterable[SpirvInstruction]) -> Iterator[Function]:
    """Yield functions with their blocks, not yet linked."""
    function: Function | None = None
    block: BasicBlock | None = None
    for row in rows:
        operation = instruction.operation(row.opcode)
        if operation == "Function":
            if function is not None:
                raise row.error("a function begins within another; OpFunctionEnd first")
            function = Function(row.require(4)[1], row)
        elif function is None:
            continue
        elif operation == "FunctionParameter":
            function.parameters.append(row.require(2)[1])
        elif operation == "FunctionEnd":
            if block is not None:
                raise row.error(f"block %{block.label} has no end; it needs a branch")
            yield function
            function = None
        elif operation == "Label":
            if block is not None:
                raise row.error(f"block %{block.label} has no end; it needs a branch")
            block = BasicBlock(row.require(1)[0], [row])
            function.blocks[block.label] = block
        elif block is not None:
            block.rows.append(row)
            if operation in _TERMINATORS:
                block = None
        elif operation not in ("Line", "NoLine"):
            raise row.error(f"Op{operation} stands in no block")
    if function is not None:
        raise function.row.error(f"function %{function.id} has no end")


def _link(function: Function, block: BasicBlock, widths: Mapping[int, int]) -> None:
    """Read where a block may jump to, and what it heads."""
    end = block.terminator
    operation = instruction.operation(end.opcode)
    if operation == "Branch":
        block.successors = end.operands[:1]
    elif operation == "BranchConditional":
        block.successors = end.operands[1:3]
    elif operation == "Switch":
        pairs = instruction.decode(end, widths)[1:]
        block.successors = tuple(
            operand.words[0] for operand in pairs if operand.kind == "IdRef"
        )
    for row in block.rows:
        merges = instruction.operation(row.opcode)
        if merges == "SelectionMerge":
            block.merge = row.operands[0]
        elif merges == "LoopMerge":
            block.merge, block.proceed = row.operands[:2]
    for target in (*block.successors, *filter(None, (block.merge, block.proceed))):
        if target not in function.blocks:
            raise end.error(f"%{target} is no block of function %{function.id}")


def _find_loops(function: Function) -> None:
    """Give each block the loops that it is in, outermost first."""
    budget = [MAX_VISITS]
    for header in function.blocks.values():
        if header.proceed:
            members = _reach(function, (header.label,), {header.merge}, budget)
            function.members[header.label] = members
    for label, block in function.blocks.items():
        inside = [h for h, members in function.members.items() if label in members]
        # A loop lies within another if it has fewer blocks.
        inside.sort(key=lambda head: -len(function.members[head]))
        block.loops = tuple(inside)


def _reach(
    function: Function, start: Iterable[int], stop: set[int], budget: list[int]
) -> frozenset[int]:
    """Return the blocks that can be reached without entering those of `stop`."""
    seen: set[int] = set()
    pending = [label for label in start if label not in stop]
    while pending:
        label = pending.pop()
        if label in seen:
            continue
        seen.add(label)
        budget[0] -= 1
        if budget[0] < 0:
            raise function.row.error(
                f"function %{function.id} has too many blocks in too many loops:"
                f" {len(function.blocks)} blocks; {MAX_VISITS} steps are spent on them"
            )
        pending += [s for s in function.blocks[label].successors if s not in stop]
    return frozenset(seen)
