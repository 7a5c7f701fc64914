"""Instruction decoder by SPIR-V's grammar: names, operands and their kinds.

Nothing in a module is trusted: an operand that the grammar does not allow, or that is
missing, is a `ShaderError` with the offset of its instruction in words.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vkbackend.errors import ShaderError
from vkbackend.shader.spirv_reader import SpirvInstruction

from . import table

EXT_IMPORT, EXT_INST, SPEC_CONSTANT_OP, SWITCH = 11, 12, 52, 251
CONSTANTS = (43, 50)
_NUMBERS = (21, 22)  # OpTypeInt, OpTypeFloat

IDS = frozenset(
    ("IdResultType", "IdResult", "IdMemorySemantics", "IdScope", "IdRef"),
)
_PLAIN = IDS | {"LiteralInteger", "LiteralExtInstInteger"}
_MAX_PLAIN = 64
_PAIRS = {
    "PairLiteralIntegerIdRef": ("LiteralInteger", "IdRef"),
    "PairIdRefLiteralInteger": ("IdRef", "LiteralInteger"),
    "PairIdRefIdRef": ("IdRef", "IdRef"),
}


class OperationGrammar(NamedTuple):
    """Grammar entry of an operation: name, class, kinds of its operands."""

    name: str
    kind: str
    operands: tuple[str, ...]


class InstructionOperand(NamedTuple):
    """Operand: its kind, its words as a tuple, and how it is written."""

    kind: str
    words: tuple[int, ...]


# As `InstructionOperand._make`, without its steps in Python.
_operand = functools.partial(tuple.__new__, InstructionOperand)


@dataclass(frozen=True)
class OperandKind:
    """A kind of operand that has named values: what each is called and takes."""

    combines: bool
    names: dict[int, str]
    parameters: dict[int, tuple[str, ...]]


def _rows(text: str) -> Iterator[list[str]]:
    return (line.split(" ") for line in text.replace("\n ", " ").splitlines())


@functools.cache
def operation_grammars() -> dict[int, OperationGrammar]:
    """Return every operation of the grammar by its number."""
    return {
        int(number): OperationGrammar(name, kind, tuple(operands))
        for number, name, kind, *operands in _rows(table.INSTRUCTIONS)
    }


@functools.cache
def enumerations() -> dict[str, OperandKind]:
    """Return every kind of operand that has named values, by its name."""
    found: dict[str, OperandKind] = {}
    for first, *rest in _rows(table.KINDS):
        if not first.isdigit():
            current = OperandKind(first.endswith("&"), {}, {})
            found[first.rstrip("&")] = current
        else:
            current.names[int(first)] = rest[0]
            if rest[1:]:
                current.parameters[int(first)] = tuple(rest[1:])
    return found


@functools.cache
def extended() -> dict[int, str]:
    """Return the names of GLSL.std.450 by number."""
    return {int(number): name for number, name in _rows(table.EXTENDED)}


@functools.cache
def opcode(name: str) -> int:
    """Return the number of an operation, by its name without `Opcode`."""
    return next(n for n, shape in operation_grammars().items() if shape.name == name)


@functools.cache
def operation(number: int) -> str:
    """Return the name of an operation, without `Opcode`; its number if it has none."""
    shape = operation_grammars().get(number)
    return str(number) if shape is None else shape.name


@functools.cache
def result_at(number: int) -> int:
    """Return which operand of an operation is its result; -1 if it has none.

    Its type, if it has one, comes first: then this is 1.
    """
    kinds = operation_grammars()[number].operands[:2]
    return kinds.index("IdResult") if "IdResult" in kinds else -1


def enumerant(kind: str, value: int) -> str:
    """Return the name of a value, or its number if the grammar does not know it."""
    return enumerations()[kind].names.get(value) or str(value)


def decode(
    instruction: SpirvInstruction, widths: Mapping[int, int]
) -> list[InstructionOperand]:
    """Return the operands of an instruction as the grammar has them.

    Parameters
    ----------
    instruction : SpirvInstruction
        Any, of any module.
    widths : mapping of int to int
        Words of a literal of a type, by the type's id; and of a value of that type, by
        the value's: the selector of a switch decides how long its literals are.

    Raises
    ------
    ShaderError
        If the grammar does not know the operation, or has other operands.
    """
    words, opcode_ = instruction.operands, instruction.opcode
    at = _choice(opcode_)
    kinds = _plain(opcode_, len(words), words[at] if at < len(words) else 0)
    if kinds is not None:
        return [*map(_operand, zip(kinds, zip(words)))]
    return _read(instruction, widths)


def _read(
    instruction: SpirvInstruction, widths: Mapping[int, int]
) -> list[InstructionOperand]:
    """Return the operands of an instruction, taken one after the other."""
    shape = operation_grammars().get(instruction.opcode)
    if shape is None:
        raise instruction.error(
            f"operation {instruction.opcode} is unknown; it must be one of SPIR-V"
            f" {'.'.join(map(str, table.REVISION[:2]))}"
        )
    reader = _Reader(instruction, shape, widths)
    for kind in shape.operands:
        reader.take(kind)
    if instruction.opcode == SPEC_CONSTANT_OP:
        reader.take_nested()
    if reader.at < len(instruction.operands):
        raise instruction.error(
            f"Op{shape.name} is too long: it has {len(instruction.operands)} words of"
            f" operands; {reader.at} are allowed"
        )
    return reader.found


@functools.cache
def _choice(number: int) -> int:
    """Return where the first operand with named values of an operation would be."""
    kinds = (
        operation_grammars()[number].operands if number in operation_grammars() else ()
    )
    named = (i for i, kind in enumerate(kinds) if kind.rstrip("?*") in enumerations())
    return next(named, len(kinds))


@functools.lru_cache(maxsize=4096)
def _plain(number: int, count: int, choice: int) -> tuple[str, ...] | None:
    """Return the kinds of `count` words of an operation, each an operand.

    Most instructions need no reader: the first operand with named values, which is
    `choice`, decides what all words are. None for all others.
    """
    if count > _MAX_PLAIN or number == SWITCH:
        return None
    at = _choice(number)
    words = tuple(choice if i == at else 0 for i in range(count))
    try:
        found = _read(SpirvInstruction(0, number, words), {})
    except ShaderError:
        return None
    kinds = tuple(operand.kind for operand in found)
    is_plain = _PLAIN.issuperset(kinds[:at] + kinds[at + 1 :]) and len(kinds) == count
    return kinds if is_plain else None


def learn_width(instruction: SpirvInstruction, widths: dict[int, int]) -> None:
    """Enter into `widths` what an instruction says of literals, once it is decoded."""
    operands = instruction.operands
    if instruction.opcode in _NUMBERS:
        widths[operands[0]] = 1 if operands[1] <= 32 else 2
    elif result_at(instruction.opcode) == 1 and operands[0] in widths:
        widths[operands[1]] = widths[operands[0]]


class _Reader:
    """Takes the operands of one instruction, first to last."""

    def __init__(
        self,
        instruction: SpirvInstruction,
        shape: OperationGrammar,
        widths: Mapping[int, int],
    ) -> None:
        self.instruction = instruction
        self.shape = shape
        self.widths = widths
        self.at = 0
        self.found: list[InstructionOperand] = []

    def take(self, kind: str) -> None:
        """Take one operand of the grammar: none, one or many of the instruction."""
        words = self.instruction.operands
        if kind[-1] == "?":
            if self.at < len(words):
                self.take_one(kind[:-1])
        elif kind[-1] == "*":
            while self.at < len(words):
                self.take_one(kind[:-1])
        else:
            self.take_one(kind)

    def take_one(self, kind: str) -> None:
        """Take one operand and the parameters that it brings."""
        if kind in _PAIRS:
            for part in _PAIRS[kind]:
                self.take_one(part)
            return
        words = self.instruction.operands
        size = self.size(kind)
        if self.at + size > len(words):
            raise self.error(f"is cut short: {kind} is missing at operand {self.at}")
        operand = InstructionOperand(kind, words[self.at : self.at + size])
        self.at += size
        self.found.append(operand)
        if kind in enumerations():
            self.take_parameters(kind, operand.words[0])

    def size(self, kind: str) -> int:
        """Return how many words an operand takes."""
        words = self.instruction.operands
        if kind == "LiteralString":
            for end in range(self.at, len(words)):
                # A string ends with the first word that holds a zero byte.
                if not all(words[end].to_bytes(4, "little")):
                    return end + 1 - self.at
            raise self.error("has a string without an end; it must close with a zero")
        opcode_ = self.instruction.opcode
        if kind == "LiteralContextDependentNumber" and opcode_ in CONSTANTS:
            return self.widths.get(words[0], 1)
        if kind == "LiteralInteger" and opcode_ == SWITCH:
            return self.widths.get(words[0], 1)
        return 1

    def take_parameters(self, kind: str, value: int) -> None:
        """Take what the values of an enumeration bring: an alignment, a location."""
        enumeration = enumerations()[kind]
        if not enumeration.combines:
            if value not in enumeration.names:
                raise self.error(
                    f"has an unknown {kind}: {value}; the grammar's are 0 to"
                    f" {max(enumeration.names)}, with gaps"
                )
            bits = [value]
        else:
            bits = [1 << bit for bit in range(32) if value >> bit & 1]
            if any(bit not in enumeration.names for bit in bits):
                raise self.error(f"has unknown bits in {kind}: {value:#x}")
        for bit in bits:
            for parameter in enumeration.parameters.get(bit, ()):
                self.take(parameter)

    def take_nested(self) -> None:
        """Take the operands of the operation within OpSpecConstantOp."""
        nested = operation_grammars().get(self.found[-1].words[0])
        if nested is None:
            raise self.error(f"wraps an unknown operation: {self.found[-1].words[0]}")
        for kind in nested.operands:
            if kind not in ("IdResultType", "IdResult"):
                self.take(kind)

    def error(self, problem: str) -> ShaderError:
        """Return the error that says what is wrong with the instruction."""
        return self.instruction.error(f"Op{self.shape.name} {problem}")
