"""The request to keep special values: where it stands, and that it is heeded."""

import numpy as np
import pytest

from tests.tools.spirv.variants import once
from tests.vkbackend.kernels import HEAD, words
from tests.vkbackend.shader.test_spirv_reader import module
from vkbackend import Device
from vkbackend.errors import ShaderError
from vkbackend.shader.compiler import compile_glsl, validate_spirv
from vkbackend.shader.float_controls import forbid_contraction, keep_special_values
from vkbackend.shader.reflection import read_module
from vkbackend.shader.spirv_reader import Opcode, instructions

SHADER = (2 << 16 | Opcode.CAPABILITY, 1)
FLOAT16 = (2 << 16 | Opcode.CAPABILITY, 9)
FLOAT64 = (2 << 16 | Opcode.CAPABILITY, 10)
PRESERVE = (2 << 16 | Opcode.CAPABILITY, 4466)
ENTRY = (5 << 16 | Opcode.ENTRY_POINT, 5, 3, 0x6E69616D, 0)
LOCAL_SIZE = (6 << 16 | Opcode.EXECUTION_MODE, 3, 17, 1, 1, 1)


def mode(width: int) -> tuple[int, ...]:
    return (4 << 16 | Opcode.EXECUTION_MODE, 3, 4461, width)


@pytest.mark.parametrize(
    ("declared", "widths", "modes"),
    [
        ((), (16, 32, 64), mode(32)),
        (FLOAT16, (16, 32, 64), mode(16) + mode(32)),
        (FLOAT64, (64, 32, 16), mode(32) + mode(64)),
        (FLOAT16 + FLOAT64, (16,), mode(16)),
    ],
)
def test_request_stands_in_its_place(
    declared: tuple[int, ...], widths: tuple[int, ...], modes: tuple[int, ...]
) -> None:
    given = module(*SHADER, *declared, *ENTRY, *LOCAL_SIZE)
    wanted = module(*PRESERVE, *SHADER, *declared, *ENTRY, *modes, *LOCAL_SIZE)
    assert keep_special_values(given, widths) == wanted
    assert keep_special_values(wanted, widths) == wanted


@pytest.mark.parametrize("widths", [(), (64,), (16, 64)])
def test_no_request_for_what_is_not_used(widths: tuple[int, ...]) -> None:
    given = module(*SHADER, *ENTRY, *LOCAL_SIZE)
    assert keep_special_values(given, widths) == given


def test_broken_modules() -> None:
    assert keep_special_values(module(*SHADER), (32,)) == module(*SHADER)
    with pytest.raises(ShaderError, match="word 5: operation 17 is 2 words long"):
        keep_special_values(module(SHADER[0]), (32,))


@pytest.mark.wide
def test_library_stays_valid() -> None:
    seen: set[int] = set()
    for target in once():
        kept = keep_special_values(target.words, (16, 32, 64))
        assert validate_spirv(kept) is None, target.name
        before, after = read_module(target.words), read_module(kept)
        assert after.capabilities == (4466, *before.capabilities)
        assert (after.push, after.workgroup_ids) == (before.push, before.workgroup_ids)
        operations = [row.opcode for row in instructions(kept)]
        added = len(operations) - sum(1 for _ in instructions(target.words))
        assert added == 2 + (9 in before.capabilities) + (10 in before.capabilities)
        seen.update(before.capabilities)
    assert {9, 10} <= seen


@pytest.mark.core
def test_special_values_are_told_apart(device: Device) -> None:
    if 32 not in device.info.special_value_widths:
        pytest.skip("the driver does not say that it keeps special values")
    source = (
        HEAD
        + """
layout(push_constant) uniform Push { Words x; Words y; } push;
void main() {
    float x = uintBitsToFloat(push.x.at[gl_GlobalInvocationID.x]);
    uint said = uint(x != x) | uint(isnan(x)) << 1 | uint(isinf(x)) << 2;
    said |= uint(!(x < 0.0) && !(x >= 0.0)) << 3;
    push.y.at[gl_GlobalInvocationID.x] = said;
}
"""
    )
    pipeline = device.pipeline("special", source=source)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, 2.5], np.float32)
    x, y = device.allocate(values.nbytes), device.allocate(values.nbytes)
    device.upload(values, x)
    batch = device.batch()
    batch.dispatch(pipeline, (len(values), 1, 1), {"x": x, "y": y}, [x], [y])
    batch.submit()
    assert words(device, y).tolist() == [0b1011, 0b100, 0b100, 0, 0]


ARITHMETIC = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 4) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Push { Floats x; Floats y; uint count; };
float part(float a, float b) { return a * b; }
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= count) return;
    float sum = part(x.at[i], x.at[i]) + x.at[i] / 3.0;
    y.at[i] = sum - fma(2.0, y.at[i], 1.0);
}
"""


def test_each_result_of_float_arithmetic_is_left_apart() -> None:
    given = compile_glsl(ARITHMETIC, name="arithmetic")
    found = forbid_contraction(given)
    assert validate_spirv(found) is None
    marked = [
        each.operands[0]
        for each in instructions(found)
        if each.opcode == Opcode.DECORATE and each.operands[1] == 42
    ]
    made = {129: 0, 131: 0, 133: 0, 136: 0}
    for each in instructions(found):
        if each.opcode in made:
            made[each.opcode] += 1
            assert marked.count(each.operands[1]) == 1
    assert made == {129: 1, 131: 1, 133: 1, 136: 1}
    assert len(marked) == 4
    assert forbid_contraction(found) == found


MATRICES = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Push { Floats x; };
void main() {
    vec4 v = vec4(x.at[0]);
    mat4 m = outerProduct(v, v * x.at[1]);
    vec4 w = m * v + v * (m * m * x.at[2]) - v / mod(v, m[1]);
    x.at[3] = dot(v, w);
}
"""


def test_matrices_and_remainders_are_left_apart() -> None:
    found = forbid_contraction(compile_glsl(MATRICES, name="matrices"))
    assert validate_spirv(found) is None
    rows = list(instructions(found))
    marked = [
        row.operands[0]
        for row in rows
        if row.opcode == Opcode.DECORATE and row.operands[1] == 42
    ]
    made = [row for row in rows if 129 <= row.opcode <= 148]
    assert {row.opcode for row in made} == {129, 131, 136, *range(141, 149)}
    assert sorted(marked) == sorted(row.operands[1] for row in made)


def test_kernels_with_and_without_contraction_are_two(device: Device) -> None:
    twice = [device.pipeline("part", source=ARITHMETIC, contract=False) for _ in "ab"]
    assert twice[0] is twice[1]
    assert device.pipeline("part", source=ARITHMETIC) is not twice[0]
