import struct

import pytest

from vkbackend.errors import ShaderError
from vkbackend.shader.spirv_reader import (
    FORMATS,
    MAGIC,
    Opcode,
    SpirvInstruction,
    instructions,
)

pytestmark = pytest.mark.null


def module(*words: int) -> bytes:
    return struct.pack(f"<{5 + len(words)}I", MAGIC, 0x00010500, 0, 10, 0, *words)


def test_instructions_in_order() -> None:
    words = module(
        2 << 16 | Opcode.CAPABILITY, 1, 1 << 16 | 0, 3 << 16 | Opcode.TYPE_FLOAT, 7, 32
    )
    assert list(instructions(words)) == [
        SpirvInstruction(5, Opcode.CAPABILITY, (1,)),
        SpirvInstruction(7, 0, ()),
        SpirvInstruction(8, Opcode.TYPE_FLOAT, (7, 32)),
    ]


def test_header_alone_has_none() -> None:
    assert list(instructions(module())) == []


def test_name_ends_at_its_zero_byte() -> None:
    raw = struct.unpack("<2I", b"tile\0\0\0\0")
    assert SpirvInstruction(5, Opcode.NAME, (1, *raw)).text(1) == "tile"
    utf8 = struct.unpack("<2I", "größ".encode() + b"\0\0")
    assert SpirvInstruction(5, Opcode.NAME, (1, *utf8)).text(1) == "größ"


def test_errors_tell_the_word() -> None:
    instruction = SpirvInstruction(17, Opcode.NAME, (1,))
    with pytest.raises(ShaderError, match=r"^SPIR-V word 17: operation 5 is cut short"):
        instruction.require(2)


def test_sizes_of_kinds() -> None:
    sizes = {kind: struct.calcsize(f"<{code}") for kind, code in FORMATS.items()}
    assert sizes["address"] == sizes["uint64"] == sizes["double"] == 8
    assert sizes["uint"] == sizes["int"] == sizes["float"] == 4
    assert sizes["float16"] == sizes["int16"] == sizes["uint16"] == 2
    assert sizes["int8"] == sizes["uint8"] == 1
