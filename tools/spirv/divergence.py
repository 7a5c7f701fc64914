"""Divergence analysis: values and control flow that differ within a workgroup.

A value differs if it comes from the invocation's own index, from memory at a place that
differs, or from a variable that is written where only some invocations are. The answer
holds for every call of a function at once, so it errs towards `differs`.
"""

from vkbackend.shader.spirv_reader import SpirvInstruction

from . import instruction
from .control_flow import BasicBlock, Function
from .module import ResolvedModule

MAX_PASSES = 64
"""Most times that the module is gone through; after that everything differs."""

# LocalInvocationId, GlobalInvocationId, LocalInvocationIndex, and what tells subgroups.
_OWN = frozenset((27, 28, 29, 40, 41))
_SOURCES = ("Atomic", "Group")
_POINTERS = ("AccessChain", "InBoundsAccessChain", "PtrAccessChain")


class Divergence:
    """Divergent values and control flow among the invocations of one workgroup.

    Attributes
    ----------
    values : set of int
        Ids of values that differ; of variables whose content does.
    blocks : set of int
        Labels that only part of those who entered the function may reach.
    functions : set of int
        Ids of functions that only part of a workgroup may enter.
    """

    def __init__(self, program: ResolvedModule) -> None:
        self.program = program
        self.values: set[int] = set()
        self.blocks: set[int] = set()
        self.functions: set[int] = set()
        self._regions: dict[int, frozenset[int]] = {}
        self._inputs: dict[int, tuple[int, ...]] = {}
        self._outer = {
            number
            for number, row in program.defined.items()
            if instruction.operation(row.opcode) == "Variable"
            and instruction.enumerant("StorageClass", row.operands[2]) != "Function"
        }
        for number in program.defined:
            if program.operation(number) == "Variable":
                built_in = program.tables.decorations.get((number, 11))
                if built_in in _OWN:
                    self.values.add(number)
        looked = {
            function.id: [pair for pair in function.instructions() if _matters(pair[1])]
            for function in program.functions.values()
        }
        for _ in range(MAX_PASSES):
            before = len(self.values), len(self.blocks), len(self.functions)
            for function in program.functions.values():
                self._flow(function)
                for block, row in looked[function.id]:
                    self._look(function, block, row)
            if before == (len(self.values), len(self.blocks), len(self.functions)):
                return
        for function in program.functions.values():
            self.blocks |= function.blocks.keys()
            for _, row in function.instructions():
                if instruction.result_at(row.opcode) == 1:
                    self.values.add(row.operands[1])

    def partial(self, function: Function, block: BasicBlock) -> bool:
        """Return whether only part of a workgroup may reach a block."""
        return function.id in self.functions or block.label in self.blocks

    def _look(
        self, function: Function, block: BasicBlock, row: SpirvInstruction
    ) -> None:
        """Enter what one instruction makes differ."""
        operation = instruction.operation(row.opcode)
        operands = row.operands
        if operation == "Store":
            root = self._root(operands[0])
            # A function's own variables exist for those only who entered it.
            outer = root in self._outer and function.id in self.functions
            differs = operands[1] in self.values or operands[0] in self.values
            if differs or outer or block.label in self.blocks:
                self.values.add(root)
        elif operation == "FunctionCall":
            self._call(function, block, row)
        elif operation == "ReturnValue":
            if operands[0] in self.values or block.label in self.blocks:
                self.values.add(function.id)
        elif operands[1] not in self.values:
            differs = not self.values.isdisjoint(self._inputs_of(row))
            if differs or operation.startswith(_SOURCES):
                self.values.add(operands[1])

    def _inputs_of(self, row: SpirvInstruction) -> tuple[int, ...]:
        """Return the ids that an instruction uses, without its type and literals."""
        if row.offset not in self._inputs:
            operands = instruction.decode(row, {})[2:]
            ids = (op.words[0] for op in operands if op.kind in instruction.IDS)
            self._inputs[row.offset] = tuple(ids)
        return self._inputs[row.offset]

    def _call(self, caller: Function, block: BasicBlock, row: SpirvInstruction) -> None:
        _, result, target, *arguments = row.operands
        function = self.program.functions.get(target)
        if function is None:
            return
        if self.partial(caller, block):
            self.functions.add(target)
        for argument, parameter in zip(arguments, function.parameters):
            if argument in self.values:
                self.values.add(parameter)
            # What a function writes to a parameter, its caller reads.
            elif parameter in self.values:
                self.values.add(argument)
        if target in self.values:
            self.values.add(result)

    def _root(self, pointer: int) -> int:
        for _ in range(64):
            row = self.program.defined.get(pointer)
            if row is None or instruction.operation(row.opcode) not in _POINTERS:
                break
            pointer = row.operands[2]
        return pointer

    def _flow(self, function: Function) -> None:
        """Enter the blocks that a condition that differs decides about."""
        left = False
        for label, block in function.blocks.items():
            if left:
                self.blocks.add(label)
            end = block.terminator
            operation = instruction.operation(end.opcode)
            partial = label in self.blocks
            if operation in ("Return", "ReturnValue", "Kill") and partial:
                left = True
            branches = operation in ("BranchConditional", "Switch")
            differs = branches and end.operands[0] in self.values
            if differs:
                self.blocks |= self._region(function, block)
            if differs or partial:
                self._leave_loops(function, block)

    def _region(self, function: Function, block: BasicBlock) -> frozenset[int]:
        if block.label not in self._regions:
            self._regions[block.label] = function.region(block)
        return self._regions[block.label]

    def _leave_loops(self, function: Function, block: BasicBlock) -> None:
        """Mark the loops that only part of the workgroup leaves here."""
        for loop in block.loops:
            merge = function.blocks[loop].merge
            if merge in block.successors and merge != block.merge:
                self.blocks |= function.members[loop]


def _matters(row: SpirvInstruction) -> bool:
    """Return whether an instruction may make anything differ."""
    is_typed = instruction.result_at(row.opcode) == 1
    return is_typed or instruction.operation(row.opcode) in ("Store", "ReturnValue")
