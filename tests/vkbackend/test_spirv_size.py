"""Sizes of variables, as the host computes them."""

import pytest

from tests.vkbackend.test_spirv import ENTRY, UINT, assemble
from vkbackend import ShaderError, shader
from vkbackend.spirv import read_module, read_tables
from vkbackend.spirv_binary import Op, Storage
from vkbackend.spirv_size import Sizes

pytestmark = pytest.mark.null

HEAD = """#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x_id = 7, local_size_y = 4) in;
layout(constant_id = 0) const uint N = 6;
layout(constant_id = 1) const int M = -3;
layout(constant_id = 2) const bool WIDE = false;
layout(constant_id = 3) const float SCALE = 2.5;
"""
BY_NAME = {"N": 0, "M": 1, "WIDE": 2, "SCALE": 3, "LOCAL_X": 7}


def shared_size(declarations: str, **constants: float) -> int:
    """Return the bytes of shared memory of a shader that declares and touches it."""
    names = [row.split("[")[0].split()[-1] for row in declarations.split(";")[:-1]]
    uses = "".join(f"{name}[0] = {name}[1];" for name in names)
    body = "".join(f"shared {row};\n" for row in declarations.split(";")[:-1])
    words = shader.compile_glsl(f"{HEAD}{body}void main() {{ {uses} }}\n", name="sizes")
    values = {BY_NAME[name]: value for name, value in constants.items()}
    return Sizes(read_tables(words), values).total(Storage.WORKGROUP)


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
        ("uint a[~0u - N > 9u ? 2 : 3];", 8),
        ("uint a[uint(M) > 9u ? 2 : 3];", 8),
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


def test_structs() -> None:
    body = "struct S { uint a[N]; double b; vec3 c; };\nshared S it[3];\n"
    source = f"{HEAD}{body}void main() {{ it[0].b = it[1].c.x; }}\n"
    words = shader.compile_glsl(source, name="structs")
    assert Sizes(read_tables(words), {}).total(Storage.WORKGROUP) == 3 * (24 + 8 + 12)
    assert Sizes(read_tables(words), {0: 10}).total(Storage.WORKGROUP) == 3 * 60
    assert read_module(words).spec_constants[0].name == "N"


@pytest.mark.parametrize(
    "operands", [(134, 5, 6), (137, 5, 6), (139, 5, 6), (138, 5, 6)]
)
def test_a_division_by_nothing_has_no_result(operands: tuple[int, ...]) -> None:
    words = assemble(
        ENTRY,
        UINT,
        *((Op.CONSTANT, 10, 5, 7), (Op.CONSTANT, 10, 6, 0)),
        (Op.SPEC_CONSTANT_OP, 10, 9, *operands),
        (Op.TYPE_ARRAY, 20, 10, 9),
    )
    with pytest.raises(ShaderError, match="the length of an array, %9, is not known"):
        Sizes(read_tables(words), {})
