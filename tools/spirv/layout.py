"""Memory layout of a shader: buffer types and shared memory."""

from dataclasses import dataclass

from vkbackend.shader.spirv_reader import SpirvInstruction

from . import instruction
from .abstract_interpreter import Values
from .cost_model import storage
from .module import ResolvedModule

_ALIGNED = 2


@dataclass(frozen=True)
class Member:
    """Member of a buffer type.

    Attributes
    ----------
    name, type : str
        As in the shader.
    offset, size : int
        Bytes; the size of an array without length is 0.
    stride : int
        Bytes from one element to the next; 0 if it is no array.
    qualifiers : tuple of str
        `restrict`, `readonly`, `writeonly`, `coherent`, `volatile`.
    """

    name: str
    type: str
    offset: int
    size: int
    stride: int
    qualifiers: tuple[str, ...]


@dataclass(frozen=True)
class BufferType:
    """Buffer type behind an address.

    Attributes
    ----------
    id : int
        Id of the struct.
    name : str
        As in the shader.
    members : tuple of Member
        In their order.
    reads, writes : int
        Instructions that load from it and store to it.
    alignments : tuple of int
        Bytes, as the loads and stores state them, each once.
    """

    id: int
    name: str
    members: tuple[Member, ...]
    reads: int
    writes: int
    alignments: tuple[int, ...]


@dataclass(frozen=True)
class Variable:
    """Variable in shared memory: name, type, and bytes by the rules of std430."""

    name: str
    type: str
    size: int


_QUALIFIERS = {
    "Restrict": "restrict",
    "NonWritable": "readonly",
    "NonReadable": "writeonly",
    "Coherent": "coherent",
    "Volatile": "volatile",
}


def alignment(program: ResolvedModule, row: SpirvInstruction) -> int:
    """Return the alignment that a load or store states, in bytes; 0 if none."""
    at = 3 if instruction.operation(row.opcode) == "Load" else 2
    masks = row.operands[at:]
    return masks[1] if len(masks) > 1 and masks[0] & _ALIGNED else 0


def buffer_of(values: Values, pointer: int) -> int:
    """Return the id of the buffer type that a pointer leads into; 0 if it is none."""
    program = values.program
    root, _ = values.root(pointer)
    declared = program.defined.get(program.type_id(root))
    if declared is None or instruction.operation(declared.opcode) != "TypePointer":
        return 0
    return declared.operands[2]


def buffer_types(values: Values) -> tuple[BufferType, ...]:
    """Return the buffer types of a shader, in the order of their declaration."""
    program = values.program
    found: dict[int, tuple[list[int], set[int]]] = {}
    for row in program.rows:
        if instruction.operation(row.opcode) == "TypePointer":
            _, where, target = row.operands
            physical = (
                instruction.enumerant("StorageClass", where) == "PhysicalStorageBuffer"
            )
            if physical and program.type(target).operation == "Struct":
                if program.decoration(target, "Block") is not None:
                    found.setdefault(target, ([0, 0], set()))
    for function in program.functions.values():
        for _, row in function.instructions():
            if instruction.operation(row.opcode) not in ("Load", "Store"):
                continue
            if storage(program, row) != "device":
                continue
            is_load = instruction.operation(row.opcode) == "Load"
            target = buffer_of(values, row.operands[2 if is_load else 0])
            if target in found:
                counts, alignments = found[target]
                counts[0 if is_load else 1] += 1
                alignments.add(alignment(program, row))
    return tuple(
        BufferType(
            number,
            program.name_of(number),
            _members(program, number),
            counts[0],
            counts[1],
            tuple(sorted(alignments - {0})),
        )
        for number, (counts, alignments) in found.items()
    )


def _members(program: ResolvedModule, struct: int) -> tuple[Member, ...]:
    rows = []
    for index, member in enumerate(program.defined[struct].operands[1:]):
        kind = program.type(member)
        offset = program.tables.member_offsets.get((struct, index), 0)
        stride = program.decoration(member, "ArrayStride")
        qualifiers = tuple(
            word
            for name, word in _QUALIFIERS.items()
            if program.decoration(struct, name, index) is not None
        )
        name = program.tables.member_names.get((struct, index)) or f"member_{index}"
        size = kind.size
        if stride and kind.length:
            size = stride[0] * kind.length
        rows.append(
            Member(name, kind.name, offset, size, (stride or (0,))[0], qualifiers)
        )
    return tuple(rows)


def shared_variables(program: ResolvedModule) -> tuple[Variable, ...]:
    """Return the variables in shared memory with their sizes."""
    found = []
    for number, row in program.defined.items():
        if instruction.operation(row.opcode) != "Variable":
            continue
        if instruction.enumerant("StorageClass", row.operands[2]) == "Workgroup":
            kind = program.type(program.type_of(number).element)
            found.append(Variable(program.name_of(number), kind.name, kind.size))
    return tuple(found)
