import struct

import pytest

from vkbackend.errors import ShaderError
from vkbackend.shader.spirv_reader import FORMATS, MAGIC, Instruction, Op, instructions

pytestmark = pytest.mark.null


def module(*words: int) -> bytes:
    return struct.pack(f"<{5 + len(words)}I", MAGIC, 0x00010500, 0, 10, 0, *words)


def test_instructions_in_order() -> None:
    words = module(
        2 << 16 | Op.CAPABILITY, 1, 1 << 16 | 0, 3 << 16 | Op.TYPE_FLOAT, 7, 32
    )
    assert list(instructions(words)) == [
        Instruction(5, Op.CAPABILITY, (1,)),
        Instruction(7, 0, ()),
        Instruction(8, Op.TYPE_FLOAT, (7, 32)),
    ]


def test_header_alone_has_none() -> None:
    assert list(instructions(module())) == []


def test_name_ends_at_its_zero_byte() -> None:
    raw = struct.unpack("<2I", b"tile\0\0\0\0")
    assert Instruction(5, Op.NAME, (1, *raw)).text(1) == "tile"
    utf8 = struct.unpack("<2I", "größ".encode() + b"\0\0")
    assert Instruction(5, Op.NAME, (1, *utf8)).text(1) == "größ"


def test_errors_tell_the_word() -> None:
    instruction = Instruction(17, Op.NAME, (1,))
    with pytest.raises(ShaderError, match=r"^SPIR-V word 17: operation 5 is cut short"):
        instruction.require(2)


def test_sizes_of_kinds() -> None:
    sizes = {kind: struct.calcsize(f"<{code}") for kind, code in FORMATS.items()}
    assert sizes["address"] == sizes["uint64"] == sizes["double"] == 8
    assert sizes["uint"] == sizes["int"] == sizes["float"] == 4
    assert sizes["float16"] == sizes["int16"] == sizes["uint16"] == 2
    assert sizes["int8"] == sizes["uint8"] == 1
