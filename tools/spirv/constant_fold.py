"""Constant folding of SPIR-V operations."""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .types import Type

Scalar = bool | int | float
Value: TypeAlias = "Scalar | tuple[Value, ...] | None"


def pseudo(seed: int, kind: Type, odd: bool = False) -> Value:
    """Return a number that stands for an unknown one: the same for the same seed.

    Numbers are far apart, so that different unknowns never look like neighbours. They
    are multiples of 64, as if all sizes were round, or one more if `odd`.
    """
    if kind.operation == "Vector":
        return tuple(pseudo(seed * 7 + i, _INTEGER, odd) for i in range(kind.length))
    if kind.operation == "Bool":
        return True
    if kind.operation == "Int":
        return (seed * 2654435761 % 8191 + 64) * 64 + odd
    return None


_INTEGER = Type("uint", "Int")


def _divide(a: int, b: int) -> int | None:
    """Divide as C does, towards zero."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int | None:
    quotient = _divide(a, b)
    return None if quotient is None else a - quotient * b


def _modulo(a: int, b: int) -> int | None:
    return a % b if b else None


def _shift(a: int, b: int) -> int:
    return a << (b & 63)


def _shift_right(a: int, b: int) -> int:
    return a >> (b & 63)


_INTEGERS: dict[str, Callable[..., int | None]] = {
    "IAdd": operator.add,
    "ISub": operator.sub,
    "IMul": operator.mul,
    "SNegate": operator.neg,
    "UDiv": _divide,
    "SDiv": _divide,
    "UMod": _modulo,
    "SRem": _remainder,
    "SMod": _modulo,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
    "Not": operator.invert,
    "ShiftLeftLogical": _shift,
    "ShiftRightLogical": _shift_right,
    "ShiftRightArithmetic": _shift_right,
    "UMin": min,
    "SMin": min,
    "UMax": max,
    "SMax": max,
    "SAbs": abs,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "IEqual": operator.eq,
    "INotEqual": operator.ne,
    "ULessThan": operator.lt,
    "SLessThan": operator.lt,
    "ULessThanEqual": operator.le,
    "SLessThanEqual": operator.le,
    "UGreaterThan": operator.gt,
    "SGreaterThan": operator.gt,
    "UGreaterThanEqual": operator.ge,
    "SGreaterThanEqual": operator.ge,
    "LogicalEqual": operator.eq,
    "LogicalNotEqual": operator.ne,
}
_LOGIC: dict[str, Callable[..., bool]] = {
    "LogicalAnd": lambda a, b: a and b,
    "LogicalOr": lambda a, b: a or b,
    "LogicalNot": operator.not_,
}
# The same number, in another type.
_CASTS = ("UConvert", "SConvert", "Bitcast", "CopyObject", "CopyLogical")
_UNSIGNED = ("UDiv", "UMod", "ShiftRightLogical", "UMin", "UMax", "UMulExtended")


def apply(operation: str, kind: Type, operands: Sequence[Value]) -> Value:
    """Return the result of an operation, or None if it cannot be known.

    Parameters
    ----------
    operation : str
        Name, without `Opcode`; of GLSL.std.450 as well.
    kind : Type
        Of the result.
    operands : sequence of Value
        Numbers for scalars, tuples for what has parts, None for what is not known.
    """
    if operation == "CompositeConstruct":
        return _flat(operands) if kind.operation == "Vector" else tuple(operands)
    if operation == "Select":
        condition, *sides = operands
        return sides[0 if condition else 1] if isinstance(condition, bool) else None
    if operation == "CompositeExtract":
        return pick(operands[0], operands[1:])
    if operation == "VectorShuffle":
        return _shuffle(operands)
    if any(operand is None for operand in operands):
        return _partial(operation, operands)
    if operation == "UMulExtended":
        a, b = operands
        product = a * b if type(a) is int and type(b) is int else None
        return None if product is None else (product & _MASK, product >> 32 & _MASK)
    if any(isinstance(operand, tuple) for operand in operands):
        return _each(operation, kind, operands)
    return _scalar(operation, kind, operands)


_MASK = (1 << 32) - 1


def _partial(operation: str, operands: Sequence[Value]) -> Value:
    """Return a result that one operand alone decides."""
    if operation == "LogicalAnd" and False in operands:
        return False
    if operation == "LogicalOr" and True in operands:
        return True
    return None


def _scalar(operation: str, kind: Type, operands: Sequence[Value]) -> Value:
    numbers = [n for n in operands if isinstance(n, bool | int | float)]
    if operation in _CASTS:
        return _wrap(numbers[0], kind) if type(numbers[0]) is int else numbers[0]
    if operation in _LOGIC:
        return bool(_LOGIC[operation](*numbers))
    integers = [n for n in numbers if type(n) is int]
    if operation in _COMPARISONS and len(numbers) == 2:
        return bool(_COMPARISONS[operation](numbers[0], numbers[1]))  # type: ignore[arg-type]
    if operation not in _INTEGERS or len(integers) != len(operands):
        return None
    if operation in _UNSIGNED:
        integers = [n & (1 << (kind.width or 32)) - 1 for n in integers]
    result = _INTEGERS[operation](*integers)
    return None if result is None else _wrap(result, kind)


def _each(operation: str, kind: Type, operands: Sequence[Value]) -> Value:
    """Apply an operation to the components of vectors."""
    length = max(len(n) for n in operands if isinstance(n, tuple))
    component = Type(kind.name, "Int", width=kind.width or 32)
    parts: list[Value] = []
    for i in range(min(length, 16)):
        row = [n[i] if isinstance(n, tuple) and i < len(n) else n for n in operands]
        parts.append(None if None in row else apply(operation, component, row))
    return tuple(parts)


def _wrap(value: int, kind: Type) -> int:
    """Return an integer as its type holds it."""
    width = kind.width or 32
    value &= (1 << width) - 1
    signed = kind.name.startswith(("int", "ivec", "i"))
    return value - (1 << width) if signed and value >> width - 1 else value


def _flat(operands: Sequence[Value]) -> Value:
    parts: list[Value] = []
    for operand in operands:
        parts += operand if isinstance(operand, tuple) else [operand]
    return tuple(parts)


def pick(whole: Value, path: Sequence[Value]) -> Value:
    """Return the part of a composite value that a path leads to."""
    for index in path:
        if type(index) is not int or not isinstance(whole, tuple):
            return None
        if not 0 <= index < len(whole):
            return None
        whole = whole[index]
    return whole


def _shuffle(operands: Sequence[Value]) -> Value:
    first, second, *picked = operands
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return None
    both = (*first, *second)
    return tuple(
        both[i] if type(i) is int and 0 <= i < len(both) else None for i in picked
    )
