import pytest

from vkbackend.tools.spirv.constant_fold import Value, apply, pseudo
from vkbackend.tools.spirv.types import Type

UINT = Type("uint", "Int", width=32)
INT = Type("int", "Int", width=32)
VECTOR = Type("uvec2", "Vector", width=32, length=2)


@pytest.mark.parametrize(
    ("operation", "kind", "operands", "expected"),
    [
        ("IAdd", UINT, (0xFFFFFFFF, 2), 1),
        ("ISub", INT, (1, 3), -2),
        ("ISub", UINT, (1, 3), 0xFFFFFFFE),
        ("SDiv", INT, (-7, 2), -3),
        ("SRem", INT, (-7, 2), -1),
        ("SMod", INT, (-7, 2), 1),
        ("UDiv", UINT, (7, 0), None),
        ("ShiftLeftLogical", UINT, (1, 31), 1 << 31),
        ("ShiftRightArithmetic", INT, (-8, 1), -4),
        ("UMulExtended", UINT, (1 << 31, 6), (0, 3)),
        ("IAdd", VECTOR, ((1, 2), (3, 4)), (4, 6)),
        ("IAdd", VECTOR, ((1, None), (3, 4)), (4, None)),
        ("ULessThan", Type("bool", "Bool"), (3, 4), True),
        ("LogicalAnd", Type("bool", "Bool"), (False, None), False),
        ("LogicalOr", Type("bool", "Bool"), (None, True), True),
        ("LogicalOr", Type("bool", "Bool"), (None, False), None),
        ("Select", UINT, (True, 5, 6), 5),
        ("Select", UINT, (None, 5, 6), None),
        ("CompositeConstruct", VECTOR, ((1,), 2), (1, 2)),
        ("CompositeExtract", UINT, ((1, (2, 3)), 1, 0), 2),
        ("CompositeExtract", UINT, ((1,), 4), None),
        ("VectorShuffle", VECTOR, ((1, 2), (3, 4), 3, 0), (4, 1)),
        ("UMin", UINT, (3, 4), 3),
        ("Bitcast", INT, (0xFFFFFFFF,), -1),
        ("FAdd", Type("float", "Float"), (1.0, 2.0), None),
    ],
)
def test_operations(
    operation: str, kind: Type, operands: tuple[Value, ...], expected: Value
) -> None:
    assert apply(operation, kind, operands) == expected


def test_numbers_for_the_unknown() -> None:
    first, second = pseudo(1, UINT), pseudo(2, UINT)
    assert isinstance(first, int)
    assert first == pseudo(1, UINT) != second
    assert first % 64 == 0
    assert pseudo(1, UINT, odd=True) == first + 1
    assert isinstance(pseudo(1, VECTOR), tuple)
    assert pseudo(1, Type("float", "Float")) is None
