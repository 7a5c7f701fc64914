"""Variable sizes in a SPIR-V module, with specialization constants applied.

Constants and types are declared before they are used, so one pass in module order
resolves all of them, at any nesting.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from vkbackend.errors import ShaderError

from .spirv_reader import (
    INTEGER_KINDS,
    Decoration,
    ModuleTables,
    Opcode,
    SpirvInstruction,
    Storage,
)

Scalar = bool | int | float

Value = int | tuple["Value | None", ...]
"""Of a constant: a number or truth value, or the parts of a composite. A part is None
where it is not known, as a float."""

_POINTER_SIZE = 8
_BOOL_SIZE = 4
_MAX_DEPTH = 1 << 64
"""Sizes are told up to this one, as numbers of a module could make any."""

_MAX_COMPONENTS = 16
"""Parts of the longest vector; what is longer is not computed with, so that the work
stays in proportion to the module."""


class _IntegerType(NamedTuple):
    """Type of an integer or bool, or of the components of a vector of them."""

    width: int
    is_signed: bool

    def unsigned(self, value: int) -> int:
        return value & (1 << self.width) - 1

    def signed(self, value: int) -> int:
        value = self.unsigned(value)
        return value - (1 << self.width) if value >> self.width - 1 else value

    def held(self, value: int) -> int:
        """Return a number as this type holds it."""
        if self.width == 1:
            return int(bool(value))
        return self.signed(value) if self.is_signed else self.unsigned(value)


def _divide(a: int, b: int) -> int:
    """Divide towards zero, as SPIR-V does."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_UNARY: dict[int, Callable[[int], int]] = {
    **dict.fromkeys((113, 114, 124), operator.pos),  # UConvert SConvert Bitcast
    126: operator.neg,
    168: operator.not_,
    200: operator.invert,
}
_BINARY: dict[int, Callable[[int, int], int]] = {
    128: operator.add,
    130: operator.sub,
    132: operator.mul,
    **dict.fromkeys((134, 135), _divide),
    **dict.fromkeys((137, 139), operator.mod),
    138: lambda a, b: a - _divide(a, b) * b,
    **dict.fromkeys((164, 170), operator.eq),
    **dict.fromkeys((165, 171), operator.ne),
    **dict.fromkeys((172, 173), operator.gt),
    **dict.fromkeys((174, 175), operator.ge),
    **dict.fromkeys((176, 177), operator.lt),
    **dict.fromkeys((178, 179), operator.le),
    166: lambda a, b: a or b,
    167: lambda a, b: a and b,
    **dict.fromkeys((194, 195), lambda a, b: a >> (b & 63)),
    196: lambda a, b: a << (b & 63),
    197: operator.or_,
    198: operator.xor,
    199: operator.and_,
}
_TERNARY: dict[int, Callable[[int, int, int], int]] = {
    169: lambda chosen, a, b: a if chosen else b,
}
_OPERATIONS: dict[int, dict[int, Callable[..., int]]] = {
    1: _UNARY,
    2: _BINARY,
    3: _TERNARY,
}
"""Operations on integers and truth values, by their operands and SPIR-V's number."""

_SELECT = 169
_SHUFFLE = 79
_EXTRACT = 81
_INSERT = 82
_COMPOSITES = (Opcode.CONSTANT_COMPOSITE, Opcode.SPEC_CONSTANT_COMPOSITE)
_UNSIGNED = frozenset({113, 134, 137, 170, 171, 172, 174, 176, 178, 194})
_SIGNED = frozenset({114, 135, 138, 139, 173, 175, 177, 179, 195})
"""Operations that take their operands for signed, whatever the type says. Those in
neither set have the same bits either way."""


class _Constants:
    """Values of a module's integers, truth values and composites."""

    def __init__(self, tables: ModuleTables, given: Mapping[int, Scalar]) -> None:
        self._tables = tables
        self._given = given
        self._values: dict[int, Value] = {}
        self._types: dict[int, int] = {}
        for constant in _in_order(tables.constants, tables.computed):
            self._take(constant)

    def number(self, constant_id: int) -> int | None:
        """Return the value of an integer or truth value, if it is known."""
        value = self._values.get(constant_id)
        return value if isinstance(value, int) else None

    def _take(self, constant: SpirvInstruction) -> None:
        type_id, result = constant.require(2)[:2]
        self._types[result] = type_id
        spec = self._tables.decorations.get((result, Decoration.SPEC_ID))
        given = None if spec is None else self._given.get(spec)
        value: Value | float | None
        if constant.opcode in _COMPOSITES:
            value = tuple([self._values.get(part) for part in constant.operands[2:]])
        elif constant.opcode == Opcode.SPEC_CONSTANT_OP:
            value = self._computed(constant)
        elif constant.opcode == Opcode.CONSTANT_NULL:
            value = self._zero(type_id)
        else:
            kind = self._type(type_id)
            value = self._literal(constant) if given is None else given
            if kind is None or not isinstance(value, int):
                return
            value = kind.held(value)
        if value is not None:
            self._values[result] = value

    def _literal(self, constant: SpirvInstruction) -> Scalar | None:
        if constant.opcode in (Opcode.CONSTANT_TRUE, Opcode.SPEC_CONSTANT_TRUE):
            return True
        if constant.opcode in (Opcode.CONSTANT_FALSE, Opcode.SPEC_CONSTANT_FALSE):
            return False
        try:
            return self._tables.constant_value(constant)[1]
        except ShaderError:
            return None  # a number of another kind is no length

    def _zero(self, type_id: int) -> Value | None:
        """Return 0, or a vector of zeros."""
        if self._type(type_id) is None:
            return None
        declared = self._tables.types[type_id]
        if declared.opcode != Opcode.TYPE_VECTOR:
            return 0
        count = declared.require(3)[2]
        return (0,) * count if count <= _MAX_COMPONENTS else None

    def _computed(self, constant: SpirvInstruction) -> Value | None:
        type_id, _, operation, *operands = constant.operands
        if operation == _EXTRACT and operands:
            return _extracted(self._values.get(operands[0]), operands[1:])
        if operation in (_INSERT, _SHUFFLE) and len(operands) > 2:
            first, second = map(self._values.get, operands[:2])
            combine = _inserted if operation == _INSERT else _shuffled
            return combine(first, second, operands[2:])
        values = [self._values.get(operand) for operand in operands]
        if operation == _SELECT and len(values) == 3 and isinstance(values[0], int):
            return values[1] if values[0] else values[2]
        made = self._type(type_id)
        types = [self._type(self._types.get(operand, 0)) for operand in operands]
        known = [each for each in types if each is not None]
        if made is None or len(known) != len(values):
            return None
        compute = _on_numbers(operation, known, made)
        if compute is None:
            return None
        if all(isinstance(value, int) for value in values):
            return compute(values)
        vectors = [value for value in values if isinstance(value, tuple)]
        counts = {len(vector) for vector in vectors}
        if (
            len(vectors) != len(values)
            or len(counts) != 1
            or max(counts) > _MAX_COMPONENTS
        ):
            return None
        return tuple([compute(row) for row in zip(*vectors)])

    def _type(self, type_id: int) -> _IntegerType | None:
        """Return the type of an integer or truth value, or of a vector's parts."""
        declared = self._tables.types.get(type_id)
        if declared is not None and declared.opcode == Opcode.TYPE_VECTOR:
            declared = self._tables.types.get(declared.require(2)[1])
        if declared is not None and declared.opcode == Opcode.TYPE_BOOL:
            return _IntegerType(1, False)
        if declared is None or declared.opcode != Opcode.TYPE_INT:
            return None
        _, width, is_signed = declared.require(3)[:3]
        if (width, is_signed) not in INTEGER_KINDS:
            return None
        return _IntegerType(width, bool(is_signed))


def _on_numbers(
    operation: int, types: Sequence[_IntegerType], made: _IntegerType
) -> Callable[[Sequence[object]], int | None] | None:
    """Return what an operation makes of numbers of some types, if it is known."""
    function = _OPERATIONS.get(len(types), {}).get(operation)
    if function is None:
        return None
    read: list[Callable[[int], int]] = [each.held for each in types]
    if operation in _UNSIGNED:
        read = [each.unsigned for each in types]
    if operation in _SIGNED:
        read = [each.signed for each in types]

    def compute(values: Sequence[object]) -> int | None:
        numbers = [each for each in values if isinstance(each, int)]
        if len(numbers) != len(values):
            return None
        try:
            return made.held(function(*[f(n) for f, n in zip(read, numbers)]))
        except ZeroDivisionError:
            return None

    return compute


def _extracted(value: Value | None, path: Sequence[int]) -> Value | None:
    """Return one part of a composite, as `gl_WorkGroupSize.x`."""
    for index in path:
        if not isinstance(value, tuple) or index >= len(value):
            return None
        value = value[index]
    return value


def _inserted(
    part: Value | None, whole: Value | None, path: Sequence[int]
) -> Value | None:
    """Return a composite with one part replaced."""
    levels: list[tuple[Value | None, ...]] = []
    for index in path:
        if not isinstance(whole, tuple) or not index < len(whole) <= _MAX_COMPONENTS:
            return None
        levels.append(whole)
        whole = whole[index]
    for index, level in zip(reversed(path), reversed(levels)):
        part = (*level[:index], part, *level[index + 1 :])
    return part


def _shuffled(
    first: Value | None, second: Value | None, chosen: Sequence[int]
) -> Value | None:
    """Return a vector of parts of two vectors."""
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return None
    if max(len(first), len(second), len(chosen)) > _MAX_COMPONENTS:
        return None
    parts = first + second
    # What is of no vector, as 0xFFFFFFFF, is undefined.
    return tuple([parts[at] if at < len(parts) else None for at in chosen])


class TypeSizes:
    """Sizes of a module's types in bytes, members one after another without gaps.

    Parameters
    ----------
    tables : ModuleTables
        Of the whole module.
    values : mapping of int to bool, int or float
        Specialization constants by their `constant_id`.

    Raises
    ------
    ShaderError
        If an array's length is no constant that can be computed, or not positive.
    """

    def __init__(self, tables: ModuleTables, values: Mapping[int, Scalar]) -> None:
        self._tables = tables
        self._constants = _Constants(tables, values)
        self._sizes: dict[int, int] = {}
        for declared in tables.types.values():
            self._sizes[declared.operands[0]] = min(self._size(declared), _MAX_DEPTH)

    def of(self, variable: SpirvInstruction) -> int:
        """Return the bytes of a variable."""
        pointer = self._tables.type_of(variable.operands[0], variable)
        if pointer.opcode != Opcode.TYPE_POINTER:
            raise variable.error(f"%{variable.operands[0]} must be a pointer type")
        return self._sizes.get(pointer.require(3)[2], 0)

    def total(self, storage: Storage) -> int:
        """Return the bytes of all variables of a storage class."""
        rows = self._tables.variables
        return sum(self.of(row) for row in rows if row.operands[2] == storage)

    def _size(self, declared: SpirvInstruction) -> int:
        """Return the size of a type whose parts are known."""
        code = declared.opcode
        if code == Opcode.TYPE_BOOL:
            return _BOOL_SIZE
        if code in (Opcode.TYPE_INT, Opcode.TYPE_FLOAT):
            return (declared.require(2)[1] + 7) // 8
        if code == Opcode.TYPE_POINTER:
            return _POINTER_SIZE
        if code == Opcode.TYPE_STRUCT:
            return sum(self._part(part, declared) for part in declared.operands[1:])
        if code in (Opcode.TYPE_VECTOR, Opcode.TYPE_MATRIX):
            _, part, count = declared.require(3)[:3]
            return self._part(part, declared) * count
        if code == Opcode.TYPE_ARRAY:
            _, part, count = declared.require(3)[:3]
            return self._part(part, declared) * self._length(count, declared)
        return 0

    def _part(self, type_id: int, user: SpirvInstruction) -> int:
        if type_id in self._sizes:
            return self._sizes[type_id]
        declared = self._tables.types.get(type_id)
        if declared is None:
            return 0  # has no layout, as a cooperative matrix
        if declared.opcode == Opcode.TYPE_POINTER:
            return _POINTER_SIZE  # the one type that may be declared later
        raise user.error(f"%{type_id} is part of a type, but is declared after it")

    def _length(self, constant_id: int, user: SpirvInstruction) -> int:
        length = self._constants.number(constant_id)
        if length is None:
            raise user.error(
                f"the length of an array, %{constant_id}, cannot be computed here;"
                " make it an integer constant, or of operations on such"
            )
        if length < 1:
            raise user.error(
                f"the length of an array, %{constant_id}, is {length}; it must be a"
                " constant of 1 or more"
            )
        return length


def _in_order(*tables: Mapping[int, SpirvInstruction]) -> Iterable[SpirvInstruction]:
    rows = [row for table in tables for row in table.values()]
    return sorted(rows, key=lambda row: row.offset)
