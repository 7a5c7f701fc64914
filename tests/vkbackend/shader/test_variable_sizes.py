"""Sizes of variables, as the host computes them."""

import pytest

from tests.vkbackend.shader.test_reflection import ENTRY, UINT, assemble
from vkbackend import ShaderError
from vkbackend.shader import compiler
from vkbackend.shader.reflection import read_module, read_tables
from vkbackend.shader.spirv_reader import Opcode, Storage
from vkbackend.shader.variable_sizes import TypeSizes

pytestmark = pytest.mark.null

HEAD = """#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x_id = 7, local_size_y = 4) in;
layout(constant_id = 0) const uint N = 6;
layout(constant_id = 1) const int M = -3;
layout(constant_id = 2) const bool WIDE = false;
layout(constant_id = 3) const float SCALE = 2.5;
layout(constant_id = 4) const uint64_t LONG = 5000000000ul;
layout(constant_id = 5) const int64_t DEEP = -5000000000l;
const uvec2 PAIR = uvec2(N, 3u);
const uvec3 MOVED = PAIR.yxy * 2u + uvec3(0u, 1u, N);
const ivec2 SIGNED = ivec2(M, 4) / 2;
const uvec2 CHOSEN = WIDE ? PAIR : PAIR.yx;
"""
BY_NAME = {"N": 0, "M": 1, "WIDE": 2, "SCALE": 3, "LOCAL_X": 7}


def shared_size(declarations: str, **constants: float) -> int:
    """Return the bytes of shared memory of a shader that declares and touches it."""
    names = [row.split("[")[0].split()[-1] for row in declarations.split(";")[:-1]]
    uses = "".join(f"{name}[0] = {name}[1];" for name in names)
    body = "".join(f"shared {row};\n" for row in declarations.split(";")[:-1])
    words = compiler.compile_glsl(
        f"{HEAD}{body}void main() {{ {uses} }}\n", name="sizes"
    )
    values = {BY_NAME[name]: value for name, value in constants.items()}
    return TypeSizes(read_tables(words), values).total(Storage.WORKGROUP)


@pytest.mark.parametrize(
    ("declarations", "size"),
    [
        ("uint a[5];", 20),
        ("uint a[5]; double b[3];", 44),
        ("uint8_t a[5];", 5),
        ("float16_t a[5];", 10),
        ("bool a[5];", 20),
        ("vec3 a[4];", 48),
        ("u16vec4 a[4];", 32),
        ("mat3x2 a[2];", 48),
        ("uint a[3][5][7];", 420),
        ("uint64_t a[N];", 48),
        ("uint a[N * N + 1];", 148),
        ("uint a[gl_WorkGroupSize.y * 8];", 128),
        ("uint a[N / 4]; uint b[N % 4];", 12),
        ("uint a[N << 3]; uint b[N >> 1];", 204),
        ("uint a[(N & 4u) | 1u]; uint b[N ^ 7u + 1u];", 76),
        ("uint a[-M]; uint b[-M / 2 + 4]; uint c[M % 2 + 8];", 68),
        ("uint a[WIDE ? 64 : 16];", 64),
        ("uint a[N > 5u && !WIDE ? N : 1u];", 24),
        ("uint a[WIDE == false ? N : 1u];", 24),
        ("uint a[~0u - N > 9u ? 2 : 3];", 8),
        ("uint a[uint(M) > 9u ? 2 : 3];", 8),
        ("uint a[LONG > 4000000000ul ? 2 : 3];", 8),
        ("uint a[LONG == 705032704ul ? 2 : 3];", 12),  # 5000000000 in 32 bits
        ("uint a[DEEP < -4000000000l ? 2 : 3];", 8),
        ("uint a[uint(LONG / 1000000000ul)];", 20),
        ("uint a[uint(LONG >> 32) + 1u];", 8),
        ("uint a[PAIR.x]; uint b[PAIR.y];", 36),
        ("uint a[MOVED.x]; uint b[MOVED.y]; uint c[MOVED.z];", 4 * (6 + 13 + 12)),
        ("uint a[SIGNED.x + 2]; uint b[SIGNED.y];", 12),
        ("uint a[CHOSEN.x];", 12),
    ],
)
def test_shared_memory(declarations: str, size: int) -> None:
    assert shared_size(declarations) == size


def test_shared_memory_with_constants() -> None:
    assert shared_size("uint a[N];", N=100) == 400
    assert shared_size("uint a[WIDE ? 64 : 16];", WIDE=True) == 256
    assert shared_size("uint a[gl_WorkGroupSize.x];", LOCAL_X=33) == 132
    assert shared_size("uint a[-M];", M=-9) == 36
    assert shared_size("uint a[N * 65536u];", N=65536 + 1) == 4 * 65536  # wraps
    assert shared_size("uint a[N];", N=(1 << 32) - 1) == 4 * ((1 << 32) - 1)


BOOL, INT, UINT64, UVEC2 = 11, 12, 13, 14
TYPES = (
    *(UINT, (Opcode.TYPE_BOOL, BOOL), (Opcode.TYPE_INT, INT, 32, 1)),
    *((Opcode.TYPE_INT, UINT64, 64, 0), (Opcode.TYPE_VECTOR, UVEC2, 10, 2)),
)
ONES = (1 << 32) - 1


def length(*rows: tuple[int, ...]) -> int:
    """Return the elements of a shared array as long as %9, which rows declare."""
    words = assemble(
        *(ENTRY, *TYPES, *rows, (Opcode.TYPE_ARRAY, 20, 10, 9)),
        *((Opcode.TYPE_POINTER, 21, 4, 20), (Opcode.VARIABLE, 21, 22, 4)),
    )
    return TypeSizes(read_tables(words), {}).total(Storage.WORKGROUP) // 4


@pytest.mark.parametrize(
    ("operation", "made", "kinds", "values", "expected"),
    [
        pytest.param(113, UINT64, (INT,), (ONES,), ONES, id="UConvert"),
        pytest.param(114, UINT64, (10,), (ONES,), (1 << 64) - 1, id="SConvert"),
        pytest.param(134, 10, (INT, 10), (ONES, 2), ONES // 2, id="UDiv"),
        pytest.param(135, INT, (10, 10), (ONES - 8, 3), ONES - 2, id="SDiv"),
        pytest.param(170, BOOL, (INT, 10), (ONES, ONES), True, id="IEqual"),
        pytest.param(172, BOOL, (INT, INT), (ONES, 0), True, id="UGreaterThan"),
        pytest.param(173, BOOL, (10, 10), (ONES, 0), False, id="SGreaterThan"),
        pytest.param(194, 10, (INT, 10), (ONES, 28), 15, id="ShiftRightLogical"),
        pytest.param(195, 10, (10, 10), (ONES, 28), ONES, id="ShiftRightArithmetic"),
    ],
)
def test_operations_say_how_their_operands_are_read(
    operation: int,
    made: int,
    kinds: tuple[int, ...],
    values: tuple[int, ...],
    expected: int,
) -> None:
    names = (30, 31)[: len(kinds)]
    operands = [(Opcode.CONSTANT, *row) for row in zip(kinds, names, values)]
    result = (Opcode.SPEC_CONSTANT_OP, made, 40, operation, *names)
    literal = (expected & ONES, expected >> 32)[: 1 + (made == UINT64)]
    wanted = (Opcode.CONSTANT, made, 41, *literal)
    if made == BOOL:
        wanted = (Opcode.CONSTANT_TRUE if expected else Opcode.CONSTANT_FALSE, BOOL, 41)
    equal = (Opcode.SPEC_CONSTANT_OP, BOOL, 42, 164 if made == BOOL else 170, 40, 41)
    sizes = ((Opcode.CONSTANT, 10, 50, 5), (Opcode.CONSTANT, 10, 51, 7))
    chosen = (Opcode.SPEC_CONSTANT_OP, 10, 9, 169, 42, 50, 51)
    assert length(*operands, result, wanted, equal, *sizes, chosen) == 5


def test_parts_are_replaced_and_those_undefined_have_no_value() -> None:
    numbers = tuple((Opcode.CONSTANT, 10, 30 + k, k) for k in range(10))
    pair = (Opcode.SPEC_CONSTANT_COMPOSITE, UVEC2, 40, 33, 34)
    insert = (Opcode.SPEC_CONSTANT_OP, UVEC2, 41, 82, 38, 40, 1)
    for at, expected in ((0, 3), (1, 8)):
        extract = (Opcode.SPEC_CONSTANT_OP, 10, 9, 81, 41, at)
        assert length(*numbers, pair, insert, extract) == expected
    zeros = (Opcode.CONSTANT_NULL, UVEC2, 40)
    assert length(*numbers, zeros, insert, extract) == 8
    shuffle = (Opcode.SPEC_CONSTANT_OP, UVEC2, 41, 79, 40, 40, 2, ONES)
    assert length(*numbers, pair, shuffle, (*extract[:-1], 0)) == 3
    with pytest.raises(ShaderError, match="of an array, %9, cannot be computed here"):
        length(*numbers, pair, shuffle, extract)


def test_structs() -> None:
    body = "struct S { uint a[N]; double b; vec3 c; };\nshared S it[3];\n"
    source = f"{HEAD}{body}void main() {{ it[0].b = it[1].c.x; }}\n"
    words = compiler.compile_glsl(source, name="structs")
    assert TypeSizes(read_tables(words), {}).total(Storage.WORKGROUP) == 3 * (
        24 + 8 + 12
    )
    assert TypeSizes(read_tables(words), {0: 10}).total(Storage.WORKGROUP) == 3 * 60
    assert read_module(words).spec_constants[0].name == "N"


@pytest.mark.parametrize(
    "operands", [(134, 5, 6), (137, 5, 6), (139, 5, 6), (138, 5, 6)]
)
def test_a_division_by_nothing_has_no_result(operands: tuple[int, ...]) -> None:
    words = assemble(
        ENTRY,
        UINT,
        *((Opcode.CONSTANT, 10, 5, 7), (Opcode.CONSTANT, 10, 6, 0)),
        (Opcode.SPEC_CONSTANT_OP, 10, 9, *operands),
        (Opcode.TYPE_ARRAY, 20, 10, 9),
    )
    with pytest.raises(
        ShaderError, match="the length of an array, %9, cannot be computed"
    ):
        TypeSizes(read_tables(words), {})
