"""Sizes of variables in a SPIR-V module, with specialization constants applied.

Constants and types are declared before they are used, so one walk in the order of the
module resolves all of them, however deep they are nested and whatever they hold.
"""

import operator
from collections.abc import Callable, Iterable, Mapping

from .errors import ShaderError
from .spirv_binary import Decoration, Instruction, Op, Storage, Tables

Scalar = bool | int | float

_POINTER_SIZE = 8
_BOOL_SIZE = 4
_INT_WIDTH = 32
_MOST = 1 << 64
"""Sizes are told up to this one, as numbers of a module could make any."""


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
"""Operations on integers and truth values, by SPIR-V's number."""

_SELECT = 169
_EXTRACT = 81
_COMPOSITES = (Op.CONSTANT_COMPOSITE, Op.SPEC_CONSTANT_COMPOSITE)
_UNSIGNED = (134, 137, 194, 172, 174, 176, 178)
"""Operations that take their operands for unsigned."""


class Sizes:
    """Sizes of a module's types in bytes, members one after another without gaps.

    Parameters
    ----------
    tables : Tables
        Of the whole module.
    values : mapping of int to bool, int or float
        Specialization constants by their `constant_id`.

    Raises
    ------
    ShaderError
        If an array's length is no constant that can be computed, or not positive.
    """

    def __init__(self, tables: Tables, values: Mapping[int, Scalar]) -> None:
        self._tables = tables
        self._values = values
        self._constants: dict[int, int] = {}
        for constant in _in_order(tables.constants, tables.computed):
            self._take_constant(constant)
        self._sizes: dict[int, int] = {}
        for declared in tables.types.values():
            self._sizes[declared.operands[0]] = min(self._size(declared), _MOST)

    def of(self, variable: Instruction) -> int:
        """Return the bytes of a variable."""
        pointer = self._tables.type_of(variable.operands[0], variable)
        if pointer.opcode != Op.TYPE_POINTER:
            raise variable.error(f"%{variable.operands[0]} must be a pointer type")
        return self._sizes.get(pointer.require(3)[2], 0)

    def total(self, storage: Storage) -> int:
        """Return the bytes of all variables of a storage class."""
        rows = self._tables.variables
        return sum(self.of(row) for row in rows if row.operands[2] == storage)

    def _take_constant(self, constant: Instruction) -> None:
        """Enter a constant if it is an integer or a truth value."""
        type_id, result = constant.require(2)[:2]
        spec = self._tables.decorations.get((result, Decoration.SPEC_ID))
        value: object = self._values.get(-1 if spec is None else spec)
        if value is None:
            value = self._value(constant)
        if isinstance(value, bool | int):
            self._constants[result] = self._wrap(int(value), type_id)

    def _value(self, constant: Instruction) -> object:
        if constant.opcode in (Op.CONSTANT_TRUE, Op.SPEC_CONSTANT_TRUE):
            return True
        if constant.opcode in (Op.CONSTANT_FALSE, Op.SPEC_CONSTANT_FALSE):
            return False
        if constant.opcode == Op.SPEC_CONSTANT_OP:
            return self._computed(constant)
        try:
            return self._tables.constant_value(constant)[1]
        except ShaderError:
            return None  # a vector, or a number of another kind, is no length

    def _computed(self, constant: Instruction) -> int | None:
        type_id, _, operation, *operands = constant.operands
        if operation == _EXTRACT and len(operands) == 2:
            return self._extracted(*operands)
        numbers = [self._constants.get(operand) for operand in operands]
        known = [number for number in numbers if number is not None]
        if len(known) != len(numbers):
            return None
        if operation in _UNSIGNED:
            width = self._width(type_id)
            known = [number & (1 << width) - 1 for number in known]
        if operation == _SELECT and len(known) == 3:
            return known[1] if known[0] else known[2]
        try:
            if operation in _UNARY and len(known) == 1:
                return _UNARY[operation](known[0])
            if operation in _BINARY and len(known) == 2:
                return _BINARY[operation](known[0], known[1])
        except ZeroDivisionError:
            return None
        return None

    def _extracted(self, composite: int, index: int) -> int | None:
        """Return one part of a vector, as `gl_WorkGroupSize.x`."""
        row = self._tables.constants.get(composite)
        parts = () if row is None or row.opcode not in _COMPOSITES else row.operands[2:]
        return self._constants.get(parts[index]) if index < len(parts) else None

    def _width(self, type_id: int) -> int:
        declared = self._tables.types.get(type_id)
        if declared is None or declared.opcode != Op.TYPE_INT:
            return _INT_WIDTH
        return min(declared.require(3)[1], 64)

    def _wrap(self, value: int, type_id: int) -> int:
        """Return an integer as its type holds it."""
        declared = self._tables.types.get(type_id)
        width = self._width(type_id)
        value &= (1 << width) - 1
        is_signed = (
            declared is not None
            and declared.opcode == Op.TYPE_INT
            and declared.require(3)[2]
        )
        return value - (1 << width) if is_signed and value >> width - 1 else value

    def _size(self, declared: Instruction) -> int:
        """Return the size of a type whose parts are known."""
        code = declared.opcode
        if code == Op.TYPE_BOOL:
            return _BOOL_SIZE
        if code in (Op.TYPE_INT, Op.TYPE_FLOAT):
            return (declared.require(2)[1] + 7) // 8
        if code == Op.TYPE_POINTER:
            return _POINTER_SIZE
        if code == Op.TYPE_STRUCT:
            return sum(self._part(part, declared) for part in declared.operands[1:])
        if code in (Op.TYPE_VECTOR, Op.TYPE_MATRIX):
            _, part, count = declared.require(3)[:3]
            return self._part(part, declared) * count
        if code == Op.TYPE_ARRAY:
            _, part, count = declared.require(3)[:3]
            return self._part(part, declared) * self._length(count, declared)
        return 0

    def _part(self, type_id: int, user: Instruction) -> int:
        if type_id in self._sizes:
            return self._sizes[type_id]
        declared = self._tables.types.get(type_id)
        if declared is None:
            return 0  # has no layout, as a cooperative matrix
        if declared.opcode == Op.TYPE_POINTER:
            return _POINTER_SIZE  # the one type that may be declared later
        raise user.error(f"%{type_id} is part of a type, but is declared after it")

    def _length(self, constant_id: int, user: Instruction) -> int:
        length = self._constants.get(constant_id)
        if length is None or length < 1:
            raise user.error(
                f"the length of an array, %{constant_id}, is"
                f" {'not known' if length is None else length}; it must be a constant"
                " of 1 or more"
            )
        return length


def _in_order(*tables: Mapping[int, Instruction]) -> Iterable[Instruction]:
    rows = [row for table in tables for row in table.values()]
    return sorted(rows, key=lambda row: row.offset)
