import pytest

from vkbackend import ShaderError
from vkbackend.shader.spirv_reader import SpirvInstruction
from vkbackend.tools.spirv import instruction


def kinds(opcode: int, *operands: int) -> list[str]:
    """Return the kinds of an instruction's operands."""
    return [
        row.kind
        for row in instruction.decode(SpirvInstruction(7, opcode, operands), {})
    ]


def test_names_and_numbers() -> None:
    assert instruction.operation(61) == "Load"
    assert instruction.operation(9) == "9"
    assert instruction.enumerant("StorageClass", 5349) == "PhysicalStorageBuffer"
    assert instruction.enumerant("StorageClass", 77) == "77"
    assert instruction.extended()[50] == "Fma"


@pytest.mark.parametrize(
    ("opcode", "operands", "expected"),
    [
        (253, (), []),
        (61, (1, 2, 3), ["IdResultType", "IdResult", "IdRef"]),
        (
            61,
            (1, 2, 3, 2, 16),
            ["IdResultType", "IdResult", "IdRef", "MemoryAccess", "LiteralInteger"],
        ),
        (71, (1, 35, 8), ["IdRef", "Decoration", "LiteralInteger"]),
        (5, (1, 0x6E69616D, 0), ["IdRef", "LiteralString"]),
        (251, (1, 2, 7, 3), ["IdRef", "IdRef", "LiteralInteger", "IdRef"]),
        (
            52,
            (1, 2, 128, 3, 4),
            [
                *("IdResultType", "IdResult", "LiteralSpecConstantOpInteger"),
                *("IdRef", "IdRef"),
            ],
        ),
    ],
)
def test_decoding(opcode: int, operands: tuple[int, ...], expected: list[str]) -> None:
    assert kinds(opcode, *operands) == expected


def test_literals_are_as_long_as_their_type() -> None:
    operands = instruction.decode(SpirvInstruction(7, 43, (1, 2, 3, 4)), {1: 2})
    assert operands[-1].words == (3, 4)


@pytest.mark.parametrize(
    ("opcode", "operands", "problem"),
    [
        (9, (), "operation 9 is unknown; it must be one of SPIR-V 1.6"),
        (61, (1, 2), "OpLoad is cut short: IdRef is missing at operand 2"),
        (253, (1,), "OpReturn is too long: it has 1 words of operands; 0 are allowed"),
        (17, (9999,), "OpCapability has an unknown Capability: 9999"),
        (61, (1, 2, 3, 1 << 30), "OpLoad has unknown bits in MemoryAccess: 0x40000000"),
        (61, (1, 2, 3, 2), "OpLoad is cut short: LiteralInteger is missing"),
        (5, (1, 0x61616161), "OpName has a string without an end"),
        (52, (1, 2, 9), "OpSpecConstantOp wraps an unknown operation: 9"),
        (43, (1, 2, 3, 4), "OpConstant is too long"),
    ],
)
def test_what_the_grammar_refuses(
    opcode: int, operands: tuple[int, ...], problem: str
) -> None:
    with pytest.raises(ShaderError, match=f"^SPIR-V word 7: {problem}"):
        instruction.decode(SpirvInstruction(7, opcode, operands), {})


def test_widths_are_learnt() -> None:
    widths: dict[int, int] = {}
    instruction.learn_width(SpirvInstruction(0, 21, (4, 64, 0)), widths)
    instruction.learn_width(SpirvInstruction(0, 43, (4, 9, 1, 2)), widths)
    instruction.learn_width(SpirvInstruction(0, 22, (5, 16)), widths)
    assert widths == {4: 2, 9: 2, 5: 1}
