"""SPIR-V reader: instructions, opcodes, tables by id.

Numbers are those of the SPIR-V specification, unified revision, section 3.
"""

import struct
from collections.abc import Callable, Container, Iterator
from enum import IntEnum
from typing import NamedTuple

from vkbackend.errors import ShaderError

MAGIC = 0x07230203
HEADER_WORDS = 5

MAX_NAME_LENGTH = 256
"""Most characters of a member's name, which is repeated for each of its elements."""


class Opcode(IntEnum):
    """Operations."""

    NAME = 5
    MEMBER_NAME = 6
    EXTENSION = 10
    ENTRY_POINT = 15
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_MATRIX = 24
    TYPE_IMAGE = 25
    TYPE_SAMPLER = 26
    TYPE_SAMPLED_IMAGE = 27
    TYPE_ARRAY = 28
    TYPE_RUNTIME_ARRAY = 29
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    CONSTANT_COMPOSITE = 44
    CONSTANT_NULL = 46
    SPEC_CONSTANT_TRUE = 48
    SPEC_CONSTANT_FALSE = 49
    SPEC_CONSTANT = 50
    SPEC_CONSTANT_COMPOSITE = 51
    SPEC_CONSTANT_OP = 52
    VARIABLE = 59
    DECORATE = 71
    MEMBER_DECORATE = 72
    EXECUTION_MODE_ID = 331
    TYPE_ACCELERATION_STRUCTURE = 5341


class Decoration(IntEnum):
    """Decorations."""

    SPEC_ID = 1
    ARRAY_STRIDE = 6
    BUILT_IN = 11
    BINDING = 33
    DESCRIPTOR_SET = 34
    OFFSET = 35
    NO_CONTRACTION = 42


class Mode(IntEnum):
    """Execution modes."""

    LOCAL_SIZE = 17
    LOCAL_SIZE_ID = 38


class Storage(IntEnum):
    """Storage classes."""

    UNIFORM_CONSTANT = 0
    INPUT = 1
    UNIFORM = 2
    OUTPUT = 3
    WORKGROUP = 4
    PRIVATE = 6
    FUNCTION = 7
    PUSH_CONSTANT = 9
    STORAGE_BUFFER = 12
    PHYSICAL_STORAGE_BUFFER = 5349


EXECUTION_MODEL_GL_COMPUTE = 5
BUILT_IN_WORKGROUP_SIZE = 25

INTEGER_KINDS = {
    (8, 0): "uint8",
    (8, 1): "int8",
    (16, 0): "uint16",
    (16, 1): "int16",
    (32, 0): "uint",
    (32, 1): "int",
    (64, 0): "uint64",
    (64, 1): "int64",
}
"""Kind of an integer type, by width in bits and signedness."""

FLOAT_KINDS = {16: "float16", 32: "float", 64: "double"}
"""Kind of a floating-point type, by width in bits."""

FORMATS = {
    "address": "Q",
    "uint8": "B",
    "int8": "b",
    "uint16": "H",
    "int16": "h",
    "uint": "I",
    "int": "i",
    "uint64": "Q",
    "int64": "q",
    "float16": "e",
    "float": "f",
    "double": "d",
}
"""Format character of each kind, as the module `struct` has them."""


class SpirvInstruction(NamedTuple):
    """SPIR-V instruction.

    Parameters
    ----------
    offset : int
        Words from the start of the module.
    opcode : int
        Number of the operation.
    operands : tuple of int
        The words after the first.
    """

    offset: int
    opcode: int
    operands: tuple[int, ...]

    def error(self, problem: str) -> ShaderError:
        """Return the error that says what is wrong with this instruction."""
        return ShaderError(f"SPIR-V word {self.offset}: {problem}")

    def require(self, count: int) -> tuple[int, ...]:
        """Return the operands if there are at least `count`."""
        if len(self.operands) < count:
            raise self.error(
                f"operation {self.opcode} is cut short: it has {len(self.operands)}"
                f" operands; at least {count} are needed"
            )
        return self.operands

    def text(self, start: int) -> str:
        """Return the name that begins at operand `start`."""
        rest = self.operands[start:]
        raw, end, _ = struct.pack(f"<{len(rest)}I", *rest).partition(b"\0")
        if not end:
            raise self.error("a name has no end; it must close with a zero byte")
        return raw.decode("utf-8", "replace")


def instructions(
    words: bytes, opcodes: Container[int] | None = None
) -> Iterator[SpirvInstruction]:
    """Yield every instruction of a module, in order.

    Parameters
    ----------
    words : bytes
        The module, little-endian.
    opcodes : container of int, optional
        Which operations to yield, all if not given. Most instructions of a module are
        those of its functions, which few callers look at.

    Yields
    ------
    SpirvInstruction
        With its offset in words.

    Raises
    ------
    ShaderError
        If the header is wrong, or an instruction is empty or passes the end.
    """
    count = len(words) // 4
    if len(words) % 4 or count < HEADER_WORDS:
        raise ShaderError(
            f"SPIR-V word {count}: the module is cut short: it has {len(words)} bytes;"
            f" it must be whole words, at least {HEADER_WORDS}"
        )
    values = struct.unpack(f"<{count}I", words)
    if values[0] != MAGIC:
        raise ShaderError(
            f"SPIR-V word 0: the magic number is {values[0]:#010x};"
            f" it must be {MAGIC:#010x}"
        )
    offset = HEADER_WORDS
    while offset < count:
        length, opcode = values[offset] >> 16, values[offset] & 0xFFFF
        if not 0 < length <= count - offset:
            raise ShaderError(
                f"SPIR-V word {offset}: operation {opcode} is {length} words long;"
                f" 1 to {count - offset} are left"
            )
        if opcodes is None or opcode in opcodes:
            yield SpirvInstruction(offset, opcode, values[offset + 1 : offset + length])
        offset += length


class ModuleTables:
    """The tables of one module, filled instruction by instruction."""

    def __init__(self) -> None:
        self.entry: SpirvInstruction | None = None
        self.entries: list[SpirvInstruction] = []
        self.capabilities: list[int] = []
        self.extensions: list[str] = []
        self.names: dict[int, str] = {}
        self.member_names: dict[tuple[int, int], str] = {}
        self.decorations: dict[tuple[int, int], int] = {}
        self.member_offsets: dict[tuple[int, int], int] = {}
        self.types: dict[int, SpirvInstruction] = {}
        self.constants: dict[int, SpirvInstruction] = {}
        self.modes: dict[tuple[int, int], SpirvInstruction] = {}
        self.computed: dict[int, SpirvInstruction] = {}
        self.variables: list[SpirvInstruction] = []
        self.push_variable: SpirvInstruction | None = None

    def read(self, words: bytes) -> None:
        """Enter all instructions of a module."""
        for instruction in instructions(words, _FILLERS):
            self.take(instruction)

    def take(self, instruction: SpirvInstruction) -> None:
        """Enter one instruction into the tables; what the host need not know passes."""
        filler = _FILLERS.get(instruction.opcode)
        if filler is not None:
            filler(self, instruction)

    def _take_entry_point(self, instruction: SpirvInstruction) -> None:
        model, *_ = instruction.require(3)
        self.entries.append(instruction)
        if model == EXECUTION_MODEL_GL_COMPUTE and self.entry is None:
            self.entry = instruction

    def _take_mode(self, instruction: SpirvInstruction) -> None:
        entry, mode = instruction.require(2)[:2]
        self.modes[entry, mode] = instruction

    def _take_capability(self, instruction: SpirvInstruction) -> None:
        self.capabilities.append(instruction.require(1)[0])

    def _take_extension(self, instruction: SpirvInstruction) -> None:
        self.extensions.append(instruction.text(0))

    def _take_name(self, instruction: SpirvInstruction) -> None:
        self.names[instruction.require(2)[0]] = instruction.text(1)

    def _take_member_name(self, instruction: SpirvInstruction) -> None:
        struct_id, member = instruction.require(3)[:2]
        name = instruction.text(2)
        if len(name) > MAX_NAME_LENGTH:
            raise instruction.error(
                f"a member's name has {len(name)} characters;"
                f" at most {MAX_NAME_LENGTH} are accepted"
            )
        self.member_names[struct_id, member] = name

    def _take_decoration(self, instruction: SpirvInstruction) -> None:
        target, decoration, *literals = instruction.require(2)
        if literals:
            self.decorations[target, decoration] = literals[0]

    def _take_member_decoration(self, instruction: SpirvInstruction) -> None:
        struct_id, member, decoration, *literals = instruction.require(3)
        if decoration == Decoration.OFFSET and literals:
            self.member_offsets[struct_id, member] = literals[0]

    def _take_type(self, instruction: SpirvInstruction) -> None:
        self.types[instruction.require(1)[0]] = instruction

    def _take_constant(self, instruction: SpirvInstruction) -> None:
        self.constants[instruction.require(2)[1]] = instruction

    def _take_computed(self, instruction: SpirvInstruction) -> None:
        self.computed[instruction.require(3)[1]] = instruction

    def _take_variable(self, instruction: SpirvInstruction) -> None:
        self.variables.append(instruction)
        if instruction.require(3)[2] == Storage.PUSH_CONSTANT:
            self.push_variable = instruction

    def type_of(self, type_id: int, user: SpirvInstruction) -> SpirvInstruction:
        """Return the declaration of a type that `user` names."""
        found = self.types.get(type_id)
        if found is None:
            raise user.error(
                f"%{type_id} is not a type that a block or constant may have"
            )
        return found

    def kind_of(self, declared: SpirvInstruction) -> str | None:
        """Return the kind of a scalar or address type, or None for any other."""
        if declared.opcode == Opcode.TYPE_INT:
            _, width, signed = declared.require(3)[:3]
            return INTEGER_KINDS.get((width, signed))
        if declared.opcode == Opcode.TYPE_FLOAT:
            # A third operand is another encoding of the same width, as in bfloat16.
            width = declared.require(2)[1]
            return FLOAT_KINDS.get(width) if len(declared.operands) == 2 else None
        if declared.opcode == Opcode.TYPE_POINTER:
            storage = declared.require(3)[1]
            return "address" if storage == Storage.PHYSICAL_STORAGE_BUFFER else None
        return None

    def pointee(self, pointer_id: int, user: SpirvInstruction) -> SpirvInstruction:
        """Return the struct type behind a pointer type."""
        pointer = self.type_of(pointer_id, user)
        if pointer.opcode == Opcode.TYPE_POINTER:
            struct_type = self.type_of(pointer.require(3)[2], pointer)
            if struct_type.opcode == Opcode.TYPE_STRUCT:
                return struct_type
        raise user.error(f"%{pointer_id} must be a pointer to a struct")

    def integer(self, constant_id: int, user: SpirvInstruction) -> int:
        """Return the value of an integer constant, the default if specialized."""
        constant = self.constants.get(constant_id)
        value = None if constant is None else self.constant_value(constant)[1]
        if type(value) is not int or value < 0:
            raise user.error(f"%{constant_id} must be a constant integer, not negative")
        return value

    def constant_value(
        self, constant: SpirvInstruction
    ) -> tuple[str, bool | int | float]:
        """Return the kind and value, by default, of a scalar constant."""
        if constant.opcode in (Opcode.SPEC_CONSTANT_TRUE, Opcode.SPEC_CONSTANT_FALSE):
            return "bool", constant.opcode == Opcode.SPEC_CONSTANT_TRUE
        type_id, result, *literals = constant.operands
        kind = self.kind_of(self.type_of(type_id, constant))
        if kind is None or constant.opcode not in (
            Opcode.CONSTANT,
            Opcode.SPEC_CONSTANT,
        ):
            raise constant.error(f"constant %{result} must be a scalar")
        raw = struct.pack(f"<{len(literals)}I", *literals)
        size = struct.calcsize(FORMATS[kind])
        if len(raw) < size:
            raise constant.error(f"{kind} constant %{result} has {len(raw)} bytes")
        return kind, struct.unpack(f"<{FORMATS[kind]}", raw[:size])[0]


_FILLERS: dict[int, Callable[[ModuleTables, SpirvInstruction], None]] = {
    Opcode.NAME: ModuleTables._take_name,
    Opcode.MEMBER_NAME: ModuleTables._take_member_name,
    Opcode.EXTENSION: ModuleTables._take_extension,
    Opcode.ENTRY_POINT: ModuleTables._take_entry_point,
    Opcode.EXECUTION_MODE: ModuleTables._take_mode,
    Opcode.EXECUTION_MODE_ID: ModuleTables._take_mode,
    Opcode.CAPABILITY: ModuleTables._take_capability,
    Opcode.SPEC_CONSTANT_OP: ModuleTables._take_computed,
    Opcode.VARIABLE: ModuleTables._take_variable,
    Opcode.DECORATE: ModuleTables._take_decoration,
    Opcode.MEMBER_DECORATE: ModuleTables._take_member_decoration,
    **dict.fromkeys(
        (
            *(Opcode.TYPE_BOOL, Opcode.TYPE_INT, Opcode.TYPE_FLOAT, Opcode.TYPE_VECTOR),
            *(Opcode.TYPE_MATRIX, Opcode.TYPE_ARRAY, Opcode.TYPE_RUNTIME_ARRAY),
            *(
                Opcode.TYPE_STRUCT,
                Opcode.TYPE_POINTER,
                Opcode.TYPE_ACCELERATION_STRUCTURE,
            ),
            *(Opcode.TYPE_IMAGE, Opcode.TYPE_SAMPLER, Opcode.TYPE_SAMPLED_IMAGE),
        ),
        ModuleTables._take_type,
    ),
    **dict.fromkeys(
        (
            *(Opcode.CONSTANT_TRUE, Opcode.CONSTANT_FALSE, Opcode.CONSTANT_NULL),
            *(Opcode.CONSTANT, Opcode.CONSTANT_COMPOSITE, Opcode.SPEC_CONSTANT),
            *(Opcode.SPEC_CONSTANT_TRUE, Opcode.SPEC_CONSTANT_FALSE),
            Opcode.SPEC_CONSTANT_COMPOSITE,
        ),
        ModuleTables._take_constant,
    ),
}
"""What to enter into the tables, by operation."""
