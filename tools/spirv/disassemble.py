"""Disassembler: the text form of a module, as spirv-dis writes it with `--raw-id`.

With names the ids become the shader's own, and comments tell the source lines.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vkbackend.shader.spirv_reader import Opcode, SpirvInstruction, instructions

from . import instruction
from .instruction import InstructionOperand

_LINE, _NO_LINE = 8, 317
_TYPE_INT, _TYPE_FLOAT = 21, 22
_UNWRITABLE = re.compile(r"\W")
_INDENT = 15

# Bytes of a float, bits of its exponent, and decimal digits; 0 for never decimal.
_FLOATS = {16: (2, 5, 0), 32: (4, 8, 9), 64: (8, 11, 17)}


def disassemble(words: bytes) -> list[str]:
    """Return one line per instruction, with numbers for ids.

    Parameters
    ----------
    words : bytes
        The module.

    Raises
    ------
    ShaderError
        If it is broken, naming the offset in words.
    """
    return [text for _, text in _AssemblyWriter({}).lines(instructions(words))]


def listing(words: bytes, sources: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Return the text form to read: names for ids, columns, source lines as comments.

    Parameters
    ----------
    words : bytes
        The module; with line information if source lines are wanted.
    sources : sequence of (str, str)
        Where each line that the module names comes from, and its text.
    """
    rows = list(instructions(words))
    writer = _AssemblyWriter(_friendly(rows))
    output = []
    shown = ""
    for row, text in writer.lines(rows):
        if row.opcode == _LINE:
            shown = _comment(row.operands[1], sources)
            continue
        if shown:
            output.append(shown)
            shown = ""
        if row.opcode == _NO_LINE:
            continue
        head, equals, tail = text.partition(" = ")
        if equals and head.startswith("%"):
            output.append(f"{head:>{_INDENT - 3}} = {tail}")
        else:
            output.append(" " * _INDENT + text)
    return output


def _comment(line: int, sources: Sequence[tuple[str, str]]) -> str:
    """Return the comment that shows a source line."""
    if 0 < line <= len(sources):
        where, text = sources[line - 1]
        return f"; {where}  {text.strip()}"
    return f"; line {line}"


def _friendly(rows: Sequence[SpirvInstruction]) -> dict[int, str]:
    """Return a name for each id that the shader names, unique in the module."""
    wanted: dict[int, str] = {}
    for row in rows:
        if row.opcode == Opcode.NAME and len(row.operands) > 1:
            wanted[row.operands[0]] = _UNWRITABLE.sub("_", row.text(1))[:64]
        else:
            _name_type(row, wanted)
    names: dict[int, str] = {}
    taken: dict[str, int] = {}
    for number, name in wanted.items():
        if name and not name.isdigit():
            count = taken[name] = taken.get(name, -1) + 1
            names[number] = f"{name}_{count}" if count else name
    # A suffix may have made a name that another id has: that one keeps its number.
    unique: dict[int, str] = {}
    used: set[str] = set()
    for number, name in names.items():
        if name not in used:
            used.add(name)
            unique[number] = name
    return unique


def _name_type(row: SpirvInstruction, names: dict[int, str]) -> None:
    """Name a scalar or vector type, or an integer constant, if it has no name."""
    operands = row.operands
    operation = instruction.operation(row.opcode)
    if operation in ("TypeVoid", "TypeBool") and operands:
        names.setdefault(operands[0], operation[4:].lower())
    elif row.opcode == _TYPE_INT and len(operands) == 3:
        base = "int" if operands[2] else "uint"
        names.setdefault(operands[0], base + _width(operands[1]))
    elif row.opcode == _TYPE_FLOAT and len(operands) == 2:
        names.setdefault(operands[0], "float" + _width(operands[1]))
    elif operation == "TypeVector" and len(operands) == 3 and operands[1] in names:
        names.setdefault(operands[0], f"v{operands[2]}{names[operands[1]]}")
    elif operation == "Constant" and len(operands) == 3:
        kind = names.get(operands[0])
        if kind in ("int", "uint") and operands[2] < 1 << 31:
            names.setdefault(operands[1], f"{kind}_{operands[2]}")


def _width(bits: int) -> str:
    return "" if bits == 32 else str(bits)


class _AssemblyWriter:
    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self.kinds: dict[int, str] = {}
        self.widths: dict[int, int] = {}
        self.imports: dict[int, str] = {}

    def lines(
        self, rows: Iterable[SpirvInstruction]
    ) -> Iterator[tuple[SpirvInstruction, str]]:
        """Yield each instruction and its text."""
        for row in rows:
            operands = instruction.decode(row, self.widths)
            self.learn(row, operands)
            yield row, self.text(row, operands)

    def learn(self, row: SpirvInstruction, operands: list[InstructionOperand]) -> None:
        """Remember what later literals depend on."""
        instruction.learn_width(row, self.widths)
        if row.opcode in (_TYPE_INT, _TYPE_FLOAT):
            self.kinds[row.operands[0]] = self.scalar(row)
        elif operands and operands[0].kind == "IdResultType":
            kind = self.kinds.get(row.operands[0])
            if kind is not None:
                self.kinds[row.operands[1]] = kind
        if row.opcode == instruction.EXT_IMPORT:
            self.imports[row.operands[0]] = row.text(1)

    def scalar(self, row: SpirvInstruction) -> str:
        """Return how literals of a numerical type are written: `i32`, `u8`, `f16`."""
        _, width, *rest = row.operands
        if row.opcode == _TYPE_INT:
            return f"{'i' if rest[0] else 'u'}{width}"
        # Another encoding of the same width, as bfloat16, is written as bits.
        return f"f{width}" if width in _FLOATS and not rest else f"u{width}"

    def text(self, row: SpirvInstruction, operands: list[InstructionOperand]) -> str:
        """Return the text of one instruction."""
        head, parts = "", [f"Op{instruction.operation_grammars()[row.opcode].name}"]
        for operand in operands:
            if operand.kind == "IdResult":
                head = f"{self.id(operand.words[0])} = "
            else:
                parts.append(self.operand(row, operand))
        return head + " ".join(parts)

    def id(self, number: int) -> str:
        """Return how an id is written."""
        return f"%{self.names.get(number, number)}"

    def operand(self, row: SpirvInstruction, operand: InstructionOperand) -> str:
        """Return the text of one operand."""
        kind, words = operand
        if kind in instruction.IDS:
            return self.id(words[0])
        if kind == "LiteralString":
            return _quoted(words)
        if kind == "LiteralContextDependentNumber":
            return _number(words, self.kinds.get(row.operands[0], "u32"))
        if kind == "LiteralInteger" and row.opcode == instruction.SWITCH:
            return _number(words, self.kinds.get(row.operands[0], "u32"))
        if kind == "LiteralExtInstInteger":
            known = self.imports.get(row.operands[2]) == "GLSL.std.450"
            names = instruction.extended() if known else {}
            return names.get(words[0], str(words[0]))
        if kind == "LiteralSpecConstantOpInteger":
            return instruction.operation(words[0])
        if kind == "LiteralFloat":
            return _number(words, "f32")
        if kind in instruction.enumerations():
            return _enumerants(kind, words[0])
        return str(words[0])


def _enumerants(kind: str, value: int) -> str:
    enumeration = instruction.enumerations()[kind]
    if not enumeration.combines or value == 0:
        return enumeration.names.get(value, "None")
    return "|".join(
        enumeration.names[1 << bit] for bit in range(32) if value >> bit & 1
    )


def _quoted(words: tuple[int, ...]) -> str:
    raw = struct.pack(f"<{len(words)}I", *words).partition(b"\0")[0]
    text = raw.decode("utf-8", "replace").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _number(words: tuple[int, ...], kind: str) -> str:
    """Return a literal of a kind such as `i32`, `u8` or `f16`."""
    raw = b"".join(word.to_bytes(4, "little") for word in words)
    if kind[0] == "f":
        return _float(raw, int(kind[1:]))
    return str(int.from_bytes(raw, "little", signed=kind[0] == "i"))


def _float(raw: bytes, width: int) -> str:
    """Return a float in decimal, or in hexadecimal where that is how it is written."""
    size, exponent_bits, digits = _FLOATS[width]
    bits = int.from_bytes(raw[:size], "little")
    fraction_bits = width - 1 - exponent_bits
    fraction = bits & (1 << fraction_bits) - 1
    exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
    normal = 0 < exponent < (1 << exponent_bits) - 1
    if digits and (normal or not (fraction or exponent)):
        code_ = "f" if width == 32 else "d"
        return f"{struct.unpack(f'<{code_}', raw[:size])[0]:.{digits}g}"
    bias = (1 << exponent_bits - 1) - 1
    power = exponent - bias
    if not exponent and fraction:
        # A subnormal number is written with a leading one, like all others.
        shift = fraction_bits + 1 - fraction.bit_length()
        fraction = fraction << shift & (1 << fraction_bits) - 1
        power = 1 - bias - shift
    lead = "1" if bits & (1 << width - 1) - 1 else "0"
    power = power if lead == "1" else 0
    hexadecimal = f"{fraction << -fraction_bits % 4:0{-(-fraction_bits // 4)}x}"
    point = f".{hexadecimal}".rstrip("0").rstrip(".")
    return f"{'-' * (bits >> width - 1)}0x{lead}{point}p{power:+}"
