"""The pieces of kernels that read blocks: each as a kernel of its own."""

import numpy as np
import pytest

import vkbackend
from vkbackend.framework.codegen.glsl.group_reduce import SUBGROUP_EXTENSIONS
from vkbackend.framework.codegen.glsl.interface import interface
from vkbackend.framework.codegen.glsl.lavapipe import (
    uniform_load_functions,
    uniform_words,
)
from vkbackend.framework.codegen.ir.program import (
    DIGIT_FIELD,
    DIGIT_WORDS,
    DIGITS,
    MAX_UNIFORM,
    fields_size,
)
from vkbackend.framework.codegen.rowwise_kernel import subgroup_of

ROUNDS = 2


def test_digits_are_a_power_of_two_so_that_they_are_bits_of_the_number() -> None:
    assert 1 << DIGITS.bit_length() - 1 == DIGITS
    assert MAX_UNIFORM == 1 << 24
    assert [value for _, value in DIGIT_WORDS] == list(range(DIGITS))
    assert len(DIGIT_WORDS) * 4 == fields_size([DIGIT_FIELD])


def kernel(lanes: int, lines: list[str]) -> str:
    """Return a kernel of one subgroup a workgroup; `x` is read and `y` written."""
    fields = [("x", "In_uvec4"), ("y", "Out_uint"), ("first", "uint"), DIGIT_FIELD]
    kinds = {"x": "In_uvec4", "y": "Out_uint"}
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require",
            *(f"#extension {name} : require" for name in SUBGROUP_EXTENSIONS),
            *interface(fields, kinds),
            *uniform_load_functions(lanes, ROUNDS, [1, 2, 4, 8]),
            f"layout(local_size_x = {lanes}) in;",
            "void main() {",
            *(
                f"    Blocks{size} blocks{size} = Blocks{size}(args.x);"
                for size in (1, 2, 4, 8)
            ),
            "    Out_uint out0 = args.y;",
            "    uint number = gl_WorkGroupID.x;",
            *(f"    {line}" for line in lines),
            "}",
        ]
    )


@pytest.fixture
def lanes(device: vkbackend.Device) -> int:
    """Return the size of the device's subgroups."""
    size = subgroup_of(device.info)
    if not size or size % 4 or not device.info.shader_int64:
        pytest.skip("the device's subgroups are of no one size, or it has no int64")
    return size


def run(
    device: vkbackend.Device, source: str, data: np.ndarray, first: int = 0
) -> bytes:
    """Return what the kernel writes, one workgroup for each block of `data`."""
    x, y = device.allocate(data.nbytes), device.allocate(data.nbytes)
    device.upload(data, x)
    pipeline = device.pipeline("blocks", source=source)
    values = {"x": x, "y": y, "first": first, **dict(DIGIT_WORDS)}
    batch = device.batch()
    batch.dispatch(pipeline, (data.shape[0], 1, 1), values, [x], [y])
    batch.submit()
    return bytes(device.read(y))


@pytest.mark.core
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_a_lane_has_the_words_of_four_neighbours(
    device: vkbackend.Device, lanes: int, itemsize: int
) -> None:
    size = ROUNDS * lanes * itemsize
    data = np.random.default_rng(1).integers(0, 1 << 30, (600, size), np.uint32)
    parts = min(itemsize, 4)
    lines = []
    for number in range(ROUNDS):
        block = f"blocks{itemsize}.at[told(number)]"
        body = uniform_words(0, itemsize, block, number, lanes)
        first = f"number * {size}u + {number * lanes * itemsize}u"
        for word in range(itemsize):
            value = f"w0_{word // 4}{'' if parts == 1 else '.' + 'xyzw'[word % 4]}"
            place = f"{itemsize}u * gl_SubgroupInvocationID + {word}u"
            body.append(f"out0.at[{first} + {place}] = {value};")
        lines += ["{", *body, "}"]
    found = np.frombuffer(run(device, kernel(lanes, lines), data), np.uint32)
    np.testing.assert_array_equal(found.reshape(data.shape), data)


@pytest.mark.core
@pytest.mark.parametrize("first", [0, 7, 8, 4095, 1 << 15, MAX_UNIFORM - 40])
def test_numbers_are_told(device: vkbackend.Device, lanes: int, first: int) -> None:
    data = np.zeros((40, lanes), np.uint32)
    place = f"number * {lanes}u + gl_SubgroupInvocationID"
    lines = [f"out0.at[{place}] = told(args.first + number);"]
    found = np.frombuffer(run(device, kernel(lanes, lines), data, first), np.uint32)
    expected = np.repeat(np.arange(first, first + 40, dtype=np.uint32), lanes)
    np.testing.assert_array_equal(found, expected)
