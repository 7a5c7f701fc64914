import functools
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vkbackend.errors import ShaderError
from vkbackend.shader import compiler
from vkbackend.shader.reflection import (
    MAX_BLOCK_SIZE,
    BlockLayout,
    Field,
    ShaderModule,
    SpecConstant,
    StructArray,
    read_module,
)
from vkbackend.shader.spirv_reader import MAGIC, Opcode

pytestmark = pytest.mark.null

HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(buffer_reference, std430) buffer Floats { float at[]; };
"""
TAIL = """
layout(push_constant) uniform Push { Floats x; uint count; };
void main() { x.at[gl_LocalInvocationID.x] = count; }
"""


@functools.cache
def build(body: str) -> bytes:
    return compiler.compile_glsl(HEAD + body, name="test")


def test_plain_kernel() -> None:
    module = read_module(build("layout(local_size_x = 8, local_size_y = 4) in;" + TAIL))
    push = BlockLayout(12, (Field("x", 0, "address", 8), Field("count", 8, "uint", 4)))
    assert module == ShaderModule(
        entry_point="main",
        version=(1, 5),
        capabilities=module.capabilities,
        extensions=(),
        workgroup_size=(8, 4, 1),
        workgroup_ids=(None, None, None),
        spec_constants=(),
        push=push,
        arguments=push,
        indirect=False,
    )
    # Shader and PhysicalStorageBufferAddresses.
    assert {1, 5347} <= set(module.capabilities)


def test_kernel_without_arguments() -> None:
    module = read_module(build("void main() {}"))
    assert (module.push, module.arguments, module.indirect) == (None, None, False)
    assert module.workgroup_size == (1, 1, 1)


def test_every_kind_of_field() -> None:
    body = """
    struct Pair { float low; int high; };
    layout(push_constant) uniform Push {
        Floats address; uint a; int b; float c; uint64_t d; int64_t e; double f;
        uint16_t g; int16_t h; float16_t i; uint8_t j; int8_t k;
        uvec3 shape; float scale[2]; Pair pairs[2]; vec2 rows[2];
    };
    void main() { address.at[0] = c; }
    """
    push = read_module(build(body)).push
    assert push is not None
    assert [(f.name, f.offset, f.kind, f.size) for f in push.fields] == [
        ("address", 0, "address", 8),
        ("a", 8, "uint", 4),
        ("b", 12, "int", 4),
        ("c", 16, "float", 4),
        ("d", 24, "uint64", 8),
        ("e", 32, "int64", 8),
        ("f", 40, "double", 8),
        ("g", 48, "uint16", 2),
        ("h", 50, "int16", 2),
        ("i", 52, "float16", 2),
        ("j", 54, "uint8", 1),
        ("k", 55, "int8", 1),
        ("shape[0]", 64, "uint", 4),
        ("shape[1]", 68, "uint", 4),
        ("shape[2]", 72, "uint", 4),
        ("scale[0]", 76, "float", 4),
        ("scale[1]", 80, "float", 4),
        ("pairs[0].low", 84, "float", 4),
        ("pairs[0].high", 88, "int", 4),
        ("pairs[1].low", 92, "float", 4),
        ("pairs[1].high", 96, "int", 4),
        ("rows[0][0]", 104, "float", 4),
        ("rows[0][1]", 108, "float", 4),
        ("rows[1][0]", 112, "float", 4),
        ("rows[1][1]", 116, "float", 4),
    ]
    assert push.size == 120


def test_arguments_behind_one_address() -> None:
    body = """
    layout(buffer_reference, std430) readonly buffer Arguments {
        Floats x; Floats y; uint sizes[40];
    };
    layout(push_constant) uniform Push { Arguments args; };
    void main() { args.y.at[0] = args.x.at[args.sizes[3]]; }
    """
    module = read_module(build(body))
    assert module.indirect
    assert module.push == BlockLayout(8, (Field("args", 0, "address", 8),))
    assert module.arguments is not None
    assert module.arguments.size == 16 + 160
    names = [field.name for field in module.arguments.fields]
    assert names[:3] == ["x", "y", "sizes[0]"]


def test_rows_that_end_a_block() -> None:
    body = """
    struct Row { Floats x; float scale; };
    layout(buffer_reference, std430) readonly buffer Arguments {
        uint count; Row rows[];
    };
    layout(push_constant) uniform Push { Arguments args; };
    void main() { args.rows[args.count].x.at[0] = args.rows[3].scale; }
    """
    arguments = read_module(build(body)).arguments
    assert arguments is not None
    assert arguments.fields == (Field("count", 0, "uint", 4),)
    fields = (Field("x", 0, "address", 8), Field("scale", 8, "float", 4))
    assert arguments.rows == StructArray(8, 16, fields)


def test_one_address_of_another_name_is_a_plain_argument() -> None:
    body = """
    layout(push_constant) uniform Push { Floats x; };
    void main() { x.at[0] = 1; }
    """
    module = read_module(build(body))
    assert not module.indirect
    assert module.arguments == module.push


def test_constants() -> None:
    body = """
    layout(local_size_x_id = 0, local_size_y = 3, local_size_z_id = 2) in;
    layout(constant_id = 9) const bool CAUSAL = true;
    layout(constant_id = 5) const uint BLOCK = 4000000000;
    layout(constant_id = 6) const int SHIFT = -3;
    layout(constant_id = 7) const float SCALE = 0.125;
    layout(constant_id = 8) const double EPS = 0.1;
    layout(constant_id = 10) const uint64_t BIG = 1ul << 40;
    """
    module = read_module(build(body + TAIL))
    assert module.workgroup_size == (1, 3, 1)
    assert module.workgroup_ids == (0, None, 2)
    assert module.spec_constants == (
        SpecConstant("LOCAL_X", 0, "uint", 1),
        SpecConstant("LOCAL_Z", 2, "uint", 1),
        SpecConstant("BLOCK", 5, "uint", 4_000_000_000),
        SpecConstant("SHIFT", 6, "int", -3),
        SpecConstant("SCALE", 7, "float", 0.125),
        SpecConstant("EPS", 8, "double", 0.1),
        SpecConstant("CAUSAL", 9, "bool", True),
        SpecConstant("BIG", 10, "uint64", 1 << 40),
    )


def test_constant_that_is_also_the_workgroup_size_keeps_its_name() -> None:
    body = """
    layout(local_size_x_id = 0) in;
    layout(constant_id = 0) const uint ROWS = 64;
    shared float tile[ROWS];
    """
    tail = TAIL.replace("= count", "= tile[count]")
    module = read_module(build(body + tail))
    assert [constant.name for constant in module.spec_constants] == ["ROWS"]
    assert module.workgroup_ids == (0, None, None)


def test_workgroup_size_by_ids() -> None:
    """SPIR-V 1.6 has an execution mode where 1.5 has a built-in."""
    body = """#extension GL_KHR_cooperative_matrix : require
    layout(local_size_x_id = 0, local_size_y = 2) in;
    """
    module = read_module(build(body + TAIL))
    assert module.version == (1, 6)
    assert module.workgroup_size == (1, 2, 1)
    assert module.workgroup_ids == (0, None, None)
    assert [constant.name for constant in module.spec_constants] == ["LOCAL_X"]


def assemble(*instructions: tuple[int, ...]) -> bytes:
    words = [MAGIC, 0x00010500, 0, 1000, 0]
    for opcode, *operands in instructions:
        words += [(len(operands) + 1) << 16 | opcode, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def text(value: str) -> tuple[int, ...]:
    raw = value.encode() + b"\0" * (4 - len(value.encode()) % 4)
    return struct.unpack(f"<{len(raw) // 4}I", raw)


ENTRY = (Opcode.ENTRY_POINT, 5, 1, *text("main"))
UINT = (Opcode.TYPE_INT, 10, 32, 0)
# A push block, %20, behind the pointer type %21.
PUSH = ((Opcode.TYPE_POINTER, 21, 9, 20), (Opcode.VARIABLE, 21, 22, 9))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (b"", r"^SPIR-V word 0: the module is cut short: it has 0 bytes; it must be"),
        (b"\0" * 21, r"word 5: the module is cut short: it has 21 bytes"),
        (b"\0" * 20, r"word 0: the magic number is 0x00000000; it must be 0x07230203"),
        (
            assemble(),
            r"^SPIR-V word \d+: there is no compute entry point in the whole module",
        ),
        (assemble(ENTRY)[:-4], r"word 5: operation 15 is 5 words long; 1 to 4 are"),
        (
            assemble(ENTRY) + b"\0\0\0\0",
            r"word 10: operation 0 is 0 words long; 1 to 1 are left",
        ),
        (
            assemble((Opcode.DECORATE, 1)),
            r"word 5: operation 71 is cut short: it has 1 operands; at least 2 are",
        ),
        (
            assemble((Opcode.NAME, 1, 0x41414141)),
            r"word 5: a name has no end; it must close with a zero byte",
        ),
        (
            assemble((Opcode.MEMBER_NAME, 1, 0, *text("x" * 300))),
            r"word 5: a member's name has 300 characters; at most 256 are accepted",
        ),
        (
            assemble(ENTRY, *PUSH),
            r"word 10: %20 is not a type that a block or constant may have",
        ),
        (
            assemble(ENTRY, UINT, (Opcode.VARIABLE, 10, 22, 9)),
            r"word 14: %10 must be a pointer to a struct",
        ),
        (
            assemble(ENTRY, UINT, (Opcode.TYPE_STRUCT, 20, 10), *PUSH),
            r"word 14: block member `member_0` has no offset",
        ),
        (
            assemble(
                ENTRY,
                (Opcode.MEMBER_DECORATE, 20, 0, 35, 0),
                (Opcode.TYPE_BOOL, 10),
                (Opcode.TYPE_STRUCT, 20, 10),
                *PUSH,
            ),
            r"word 15: block member `member_0` has a type that the host cannot fill;",
        ),
        (
            assemble(
                ENTRY, (Opcode.DECORATE, 1, 1, 4), (Opcode.SPEC_CONSTANT, 9, 1, 5)
            ),
            r"word 14: %9 is not a type that a block or constant may have",
        ),
        (
            assemble(
                ENTRY, (Opcode.DECORATE, 1, 1, 4), UINT, (Opcode.SPEC_CONSTANT, 10, 1)
            ),
            r"word 18: uint constant %1 has 0 bytes",
        ),
        (
            assemble(ENTRY, (Opcode.EXECUTION_MODE_ID, 1, 38, 7, 7, 7)),
            r"word 10: %7 must be a constant integer, not negative",
        ),
    ],
)
def test_broken_modules(words: bytes, message: str) -> None:
    with pytest.raises(ShaderError, match=message):
        read_module(words)


def block(*types: tuple[int, ...]) -> bytes:
    """Return a module whose push block has one member of type %19."""
    return assemble(
        ENTRY,
        (Opcode.MEMBER_DECORATE, 20, 0, 35, 0),
        *types,
        (Opcode.TYPE_STRUCT, 20, 19),
        *PUSH,
    )


@pytest.mark.parametrize(
    "words",
    [
        # A struct that contains itself.
        block((Opcode.TYPE_STRUCT, 19, 19), (Opcode.MEMBER_DECORATE, 19, 0, 35, 0)),
        # Arrays of four billion words, and of nothing at all.
        block(
            UINT,
            (Opcode.CONSTANT, 10, 11, 0xFFFFFFFF),
            (Opcode.DECORATE, 19, 6, 4),
            (Opcode.TYPE_ARRAY, 19, 10, 11),
        ),
        block(
            UINT,
            (Opcode.CONSTANT, 10, 11, 0xFFFFFFFF),
            (Opcode.DECORATE, 19, 6, 0),
            (Opcode.TYPE_STRUCT, 18),
            (Opcode.TYPE_ARRAY, 19, 18, 11),
        ),
        # A member four billion bytes away.
        assemble(
            ENTRY,
            UINT,
            (Opcode.MEMBER_DECORATE, 20, 0, 35, 0xFFFFFFFF),
            (Opcode.TYPE_STRUCT, 20, 10),
            *PUSH,
        ),
    ],
)
def test_blocks_without_bounds(words: bytes) -> None:
    limit = rf"is too large: .+; at most {MAX_BLOCK_SIZE} bytes and 8 levels"
    with pytest.raises(ShaderError, match=limit):
        read_module(words)


FUZZED = """
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 3) const uint BLOCK = 64;
layout(constant_id = 4) const bool FLAG = true;
struct Pair { float low; uint64_t high; };
layout(buffer_reference, std430) readonly buffer Arguments {
    Floats x; uvec3 shape; Pair pairs[2]; float16_t half_scale;
};
layout(push_constant) uniform Push { Arguments args; };
void main() { if (FLAG) args.x.at[args.shape.y] = BLOCK; }
"""

WORD = st.integers(0, 2**32 - 1) | st.integers(0, 64)


def read_or_refuse(words: bytes) -> None:
    try:
        module = read_module(words)
    except ShaderError:
        return
    assert isinstance(module, ShaderModule)
    if module.arguments is not None:
        assert len(module.arguments.fields) <= MAX_BLOCK_SIZE


@given(changes=st.lists(st.tuples(st.integers(0, 600), WORD), min_size=1, max_size=4))
def test_changed_words_never_crash(changes: list[tuple[int, int]]) -> None:
    words = bytearray(build(FUZZED))
    for place, value in changes:
        at = place % (len(words) // 4) * 4
        words[at : at + 4] = struct.pack("<I", value)
    read_or_refuse(bytes(words))


@given(bit=st.integers(0, 600 * 32), end=st.integers(0, 3000))
@example(bit=0, end=0)
def test_flipped_bits_and_cut_ends_never_crash(bit: int, end: int) -> None:
    words = bytearray(build(FUZZED))
    at = bit % (len(words) * 8)
    words[at // 8] ^= 1 << at % 8
    read_or_refuse(bytes(words))
    read_or_refuse(bytes(words[:end]))


@given(words=st.lists(WORD, max_size=40))
def test_random_instructions_never_crash(words: list[int]) -> None:
    head = struct.pack("<5I", MAGIC, 0x00010500, 0, 100, 0)
    read_or_refuse(head + struct.pack(f"<{len(words)}I", *words))
