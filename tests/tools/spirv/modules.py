"""Modules made word by word."""

import struct
from collections.abc import Sequence

from vkbackend.shader.spirv_reader import MAGIC

Row = tuple[int, Sequence[int]]

SHADER = (
    (17, (1,)),  # OpCapability Shader
    (14, (0, 1)),  # OpMemoryModel Logical GLSL450
    (15, (5, 1, 0x6E69616D, 0)),  # OpEntryPoint GLCompute %1 "main"
    (19, (2,)),  # %2 = OpTypeVoid
    (33, (3, 2)),  # %3 = OpTypeFunction %2
)
MAIN = (
    (54, (2, 1, 0, 3)),  # %1 = OpFunction %2 None %3
    (248, (4,)),  # %4 = OpLabel
    (253, ()),  # OpReturn
    (56, ()),  # OpFunctionEnd
)


def assemble(*rows: Row, bound: int = 1000) -> bytes:
    """Return a module of these instructions, each a number and its operands."""
    values = [MAGIC, 0x10500, 0, bound, 0]
    for opcode, operands in rows:
        values += [len(operands) + 1 << 16 | opcode, *operands]
    return struct.pack(f"<{len(values)}I", *values)


def numbers() -> bytes:
    """Return a module with constants of every kind and awkward values."""
    floats = (0.0, -0.0, 1.0, 0.1, 1e20, 1e-20, 3.4028234e38, 1e-45, float("inf"))
    rows: list[Row] = [*SHADER]
    rows += [(22, (10, 32)), (22, (11, 16)), (22, (12, 64))]
    rows += [(21, (13, 32, 1)), (21, (14, 64, 0)), (21, (15, 16, 1)), (21, (16, 8, 0))]
    number = 100
    constants: list[tuple[int, tuple[int, ...]]] = []
    for value in (*floats, float("nan"), -float("inf"), 88.722839, 16777216.0, 1e6):
        constants.append((10, struct.unpack("<I", struct.pack("<f", value))))
        constants.append((12, struct.unpack("<2I", struct.pack("<d", value))))
    for bits in (0, 0x8000, 1, 0x3C00, 0x2E66, 0x7BFF, 0x7C00, 0x7E00, 0x83FF):
        constants.append((11, (bits,)))
    constants += [(13, (0xFFFFFFFF,)), (13, (7,)), (14, (5, 1 << 31))]
    constants += [(15, (0xFFFFFFFD,)), (16, (200,))]
    for kind, words in constants:
        rows.append((43, (kind, number, *words)))
        number += 1
    return assemble(*rows, *MAIN)
