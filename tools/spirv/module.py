"""Module with everything in it resolved: types, constants, decorations, functions.

The reader of the library (`vkbackend.shader.reflection`) knows names, layouts and
constants; this adds what inspection needs, and refuses what it cannot follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vkbackend.errors import ShaderError
from vkbackend.shader.reflection import ShaderModule, module_of
from vkbackend.shader.spirv_reader import ModuleTables, SpirvInstruction, instructions

from . import instruction
from .constant_fold import Value, apply
from .control_flow import Function, functions_of
from .instruction import InstructionOperand
from .types import Type, scalar_type, vector_prefix

MAX_SIZE = 1 << 21
"""Most bytes of a module that is inspected; the largest kernels have a tenth."""

MAX_DEPTH = 32
"""Most levels of types within types."""

Constant = bool | int | float

_SCALARS = ("TypeInt", "TypeFloat", "TypeBool")
_PHYSICAL = 5349
_SPEC_ID = 1
# Classes whose ids need not exist, and operations that take types as operands.
_MAY_DANGLE = ("Debug", "Annotation", "Mode-Setting")
_TAKE_TYPES = ("Function", "Tensor", "Reserved", "SizeOf")
_BOOLS = {
    "ConstantTrue": True,
    "ConstantFalse": False,
    "SpecConstantTrue": True,
    "SpecConstantFalse": False,
}


class AppliedDecoration(NamedTuple):
    """Decoration of an id or a member: its name, and its literals."""

    name: str
    values: tuple[int, ...]


@dataclass
class ResolvedModule:
    """A module, by id.

    Attributes
    ----------
    module : ShaderModule
        What the library's reader says.
    rows : list of SpirvInstruction
        Every instruction.
    defined : dict of int to SpirvInstruction
        What each id is the result of.
    names : dict of int to str
        Names of ids.
    functions : dict of int to Function
        By id.
    entry : Function
        Where it starts.
    overrides : dict of int to bool, int or float
        Values of specialization constants by `constant_id`.
    """

    module: ShaderModule
    rows: list[SpirvInstruction]
    tables: ModuleTables
    defined: dict[int, SpirvInstruction]
    decorations: dict[tuple[int, int], list[AppliedDecoration]]
    functions: dict[int, Function]
    entry: Function
    overrides: Mapping[int, Constant]
    extended: frozenset[int]
    _types: dict[int, Type] = field(default_factory=dict)
    _constants: dict[int, Value] = field(default_factory=dict)
    _computing: set[int] = field(default_factory=set)

    @property
    def names(self) -> dict[int, str]:
        """Names of ids."""
        return self.tables.names

    def operation(self, number: int) -> str:
        """Return the operation that an id is the result of; empty if there is none."""
        row = self.defined.get(number)
        return "" if row is None else instruction.operation(row.opcode)

    def name_of(self, number: int) -> str:
        """Return an id's name, or its number with a percent sign."""
        return self.names.get(number) or f"%{number}"

    def decoration(
        self, number: int, name: str, member: int = -1
    ) -> tuple[int, ...] | None:
        """Return the literals of a decoration, or None if the id has it not."""
        for row in self.decorations.get((number, member), ()):
            if row.name == name:
                return row.values
        return None

    def type_id(self, number: int) -> int:
        """Return the id of an id's type; 0 if it has none."""
        row = self.defined.get(number)
        if row is None:
            return 0
        return row.operands[0] if instruction.result_at(row.opcode) == 1 else 0

    def type_of(self, number: int) -> Type:
        """Return the type of an id."""
        return self.type(self.type_id(number))

    def type(self, number: int, depth: int = 0) -> Type:
        """Return a type by its id; one without size if the id is no type."""
        found = self._types.get(number)
        if found is None:
            found = self._types[number] = self._read_type(number, depth)
        return found

    def _read_type(self, number: int, depth: int) -> Type:
        row = self.defined.get(number)
        operation = "" if row is None else instruction.operation(row.opcode)
        if row is None or not operation.startswith("Type"):
            return Type("?", "")
        if depth > MAX_DEPTH:
            raise row.error(f"types are nested too deep: at most {MAX_DEPTH} levels")
        kind = operation.removeprefix("Type")
        if operation in _SCALARS:
            return scalar_type(kind, row)
        if kind in ("Vector", "Matrix", "Array", "RuntimeArray"):
            return self._sequence(kind, row, depth)
        if kind == "Struct":
            return self._struct(row, depth)
        if kind.startswith("CooperativeMatrix"):
            return self._matrix(kind, row, depth)
        if kind == "Pointer":
            storage, target = row.require(3)[1:3]
            size = 8 if storage == _PHYSICAL else 0
            name = self.names.get(target) or "pointer"
            return Type(name, kind, size, max(size, 1), 1, target, 8 * size)
        return Type(kind.lower(), kind)

    def _sequence(self, kind: str, row: SpirvInstruction, depth: int) -> Type:
        element = row.require(2)[1]
        inner = self.type(element, depth + 1)
        if kind == "RuntimeArray":
            name = f"{inner.name}[]"
            return Type(name, kind, 0, inner.alignment, 0, element, inner.width)
        length = row.require(3)[2]
        if kind == "Array":
            value = self.constant(length)
            length = value if type(value) is int and value > 0 else 0
        components = inner.components * length
        if kind == "Vector":
            alignment = inner.size * {3: 4}.get(length, length)
            name = f"{vector_prefix(inner)}vec{length}"
            return Type(
                name, kind, inner.size * length, alignment or 1, components, element,
                inner.width, length,
            )  # fmt: skip
        if kind == "Matrix":
            name = f"mat{length}x{inner.length}"
        else:
            base, bracket, tail = inner.name.partition("[")
            name = f"{base}[{length}]{bracket}{tail}"
        stride = -(-inner.size // inner.alignment) * inner.alignment
        return Type(
            name, kind, stride * length, inner.alignment, components, element,
            inner.width, length,
        )  # fmt: skip

    def _struct(self, row: SpirvInstruction, depth: int) -> Type:
        number, *members = row.require(1)
        size, alignment, components = 0, 1, 0
        for member in members:
            inner = self.type(member, depth + 1)
            alignment = max(alignment, inner.alignment)
            size = -(-size // inner.alignment) * inner.alignment + inner.size
            components += inner.components
        size = -(-size // alignment) * alignment
        name = self.names.get(number) or "struct"
        return Type(name, "Struct", size, alignment, components)

    def _matrix(self, kind: str, row: SpirvInstruction, depth: int) -> Type:
        _, element, _, rows, columns = row.require(5)[:5]
        inner = self.type(element, depth + 1)
        sizes = [self.constant(number) for number in (rows, columns)]
        a, b = (size if type(size) is int and size > 0 else 0 for size in sizes)
        name = f"coopmat<{inner.name}, {a}, {b}>"
        return Type(name, kind, inner.size * a * b, 1, a * b, element, inner.width, a)

    def constant(self, number: int, depth: int = 0) -> Value:
        """Return the value of a constant with the specialization in force.

        None if it is no constant, or of a kind that is not computed.
        """
        if number not in self._constants:
            if number in self._computing or depth > MAX_DEPTH:
                return None
            self._computing.add(number)
            self._constants[number] = self._constant(number, depth)
            self._computing.discard(number)
        return self._constants[number]

    def _constant(self, number: int, depth: int) -> Value:
        """Return the value of a constant that others may be made of."""
        row = self.tables.constants.get(number) or self.defined.get(number)
        if row is None:
            return None
        operation = instruction.operation(row.opcode)
        if operation in ("Constant", "SpecConstant"):
            return self._scalar(number, row)
        if operation in _BOOLS:
            spec = self.tables.decorations.get((number, _SPEC_ID), -1)
            return bool(self.overrides.get(spec, _BOOLS[operation]))
        if operation.endswith("ConstantComposite"):
            return tuple(self.constant(part, depth + 1) for part in row.operands[2:])
        if operation == "SpecConstantOp":
            return self._computed(number, row, depth)
        return None

    def _scalar(self, number: int, row: SpirvInstruction) -> Value:
        spec = self.tables.decorations.get((number, _SPEC_ID))
        if spec is not None and spec in self.overrides:
            return self.overrides[spec]
        try:
            return self.tables.constant_value(row)[1]
        except ShaderError:
            # bfloat16 and other encodings that the host cannot write.
            return None

    def _computed(self, number: int, row: SpirvInstruction, depth: int) -> Value:
        operands: list[Value] = []
        for operand in instruction.decode(row, {})[3:]:
            word = operand.words[0]
            is_id = operand.kind in instruction.IDS
            operands.append(self.constant(word, depth + 1) if is_id else word)
        operation = instruction.operation(row.operands[2])
        return apply(operation, self.type_of(number), operands)


def read_program(
    words: bytes,
    constants: Mapping[str, Constant] | None = None,
    *,
    open_size: int | None = None,
) -> ResolvedModule:
    """Return a module with everything in it resolved.

    Parameters
    ----------
    words : bytes
        The module.
    constants : mapping of str to bool, int or float, optional
        Specialization constants by name; those not named keep their defaults.
    open_size : int, optional
        Invocations in x of a workgroup whose size is left to the host and not given;
        its default if omitted.

    Raises
    ------
    ShaderError
        If the module is broken, naming the offset in words, or a constant is unknown.
    """
    if len(words) > MAX_SIZE:
        raise ShaderError(
            f"SPIR-V word {MAX_SIZE // 4}: the module is too large: {len(words)} bytes;"
            f" at most {MAX_SIZE} are inspected"
        )
    found = _Index()
    for row in instructions(words):
        found.take(row)
    module = module_of(words, found.tables)
    for row, operands in found.used:
        _check(row, operands, found.defined)
    functions = functions_of(found.rows, found.widths)
    assert found.tables.entry is not None
    entry = functions.get(found.tables.entry.operands[1])
    if entry is None:
        raise found.tables.entry.error(
            f"the entry point %{found.tables.entry.operands[1]} is no function"
        )
    return ResolvedModule(
        module=module,
        rows=found.rows,
        tables=found.tables,
        defined=found.defined,
        decorations=found.decorations,
        functions=functions,
        entry=entry,
        overrides=_overrides(module, constants or {}, open_size),
        extended=frozenset(found.extended),
    )


class _Index:
    """The instructions of a module, filed as they come."""

    def __init__(self) -> None:
        self.rows: list[SpirvInstruction] = []
        self.used: list[tuple[SpirvInstruction, list[InstructionOperand]]] = []
        self.tables = ModuleTables()
        self.defined: dict[int, SpirvInstruction] = {}
        self.decorations: dict[tuple[int, int], list[AppliedDecoration]] = {}
        self.extended: set[int] = set()
        self.widths: dict[int, int] = {}

    def take(self, row: SpirvInstruction) -> None:
        """File one instruction, all of whose operands are checked."""
        self.tables.take(row)
        operands = instruction.decode(row, self.widths)
        instruction.learn_width(row, self.widths)
        self.rows.append(row)
        self.used.append((row, operands))
        result = instruction.result_at(row.opcode)
        if result >= 0:
            _define(row, row.operands[result], self.defined)
        operation = instruction.operation(row.opcode)
        if operation in ("Decorate", "MemberDecorate"):
            _decorate(row, operation, self.decorations)
        elif operation == "ExtInstImport" and row.text(1) == "GLSL.std.450":
            self.extended.add(row.operands[0])


def _overrides(
    module: ShaderModule, constants: Mapping[str, Constant], open_size: int | None
) -> dict[int, Constant]:
    known = {row.name: row for row in module.spec_constants}
    unknown = [name for name in constants if name not in known]
    if unknown:
        raise ShaderError(
            f"constants: unknown: {', '.join(unknown)}; the shader has"
            f" {', '.join(known) or 'none'}"
        )
    found = {known[name].id: value for name, value in constants.items()}
    size, number = module.workgroup_size[0], module.workgroup_ids[0]
    if open_size is not None and number is not None and size == 1:
        found.setdefault(number, open_size)
    return found


def _define(
    row: SpirvInstruction, number: int, defined: dict[int, SpirvInstruction]
) -> None:
    if number in defined or number == 0:
        raise row.error(f"%{number} is defined again or 0; ids are unique")
    defined[number] = row


def _check(
    row: SpirvInstruction,
    operands: list[InstructionOperand],
    defined: Mapping[int, SpirvInstruction],
) -> None:
    """Refuse an instruction that uses an id that nothing is, or no type as a type."""
    shape = instruction.operation_grammars()[row.opcode]
    if shape.kind in _MAY_DANGLE:
        return
    is_type = shape.name.startswith("Type")
    for operand in operands:
        if operand.kind not in instruction.IDS or operand.kind == "IdResult":
            continue
        (number,) = operand.words
        if number not in defined:
            raise row.error(f"Op{shape.name} uses %{number}, which nothing defines")
        declares = instruction.operation(defined[number].opcode).startswith("Type")
        if operand.kind == "IdResultType" and not declares:
            raise row.error(f"Op{shape.name} has %{number} for its type, which is none")
        if declares and operand.kind != "IdResultType" and not is_type:
            if shape.kind not in _TAKE_TYPES and shape.name not in _TAKE_TYPES:
                raise row.error(f"Op{shape.name} uses the type %{number} as a value")


def _decorate(
    row: SpirvInstruction,
    operation: str,
    decorations: dict[tuple[int, int], list[AppliedDecoration]],
) -> None:
    if operation == "Decorate":
        target, number, *literals = row.operands
        member = -1
    else:
        target, member, number, *literals = row.operands
    name = instruction.enumerant("Decoration", number)
    decorations.setdefault((target, member), []).append(
        AppliedDecoration(name, tuple(literals))
    )
