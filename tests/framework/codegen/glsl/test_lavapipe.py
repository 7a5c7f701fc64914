"""The pieces of kernels that read blocks: each as a kernel of its own."""

import numpy as np
import pytest

import vkbackend
from vkbackend.framework.codegen.glsl.group_reduce import SUBGROUP_EXTENSIONS
from vkbackend.framework.codegen.glsl.interface import interface
from vkbackend.framework.codegen.glsl.lavapipe import (
    load_vectors,
    store_vectors,
    uniform_load_functions,
)
from vkbackend.framework.codegen.ir.program import (
    DIGIT_FIELD,
    DIGIT_WORDS,
    DIGITS,
    MAX_UNIFORM,
    fields_size,
)
from vkbackend.framework.codegen.rowwise_kernel import subgroup_of

VECTORS = 4


def test_digits_are_a_power_of_two_so_that_they_are_bits_of_the_number() -> None:
    assert 1 << DIGITS.bit_length() - 1 == DIGITS
    assert MAX_UNIFORM == 1 << 24
    assert [value for _, value in DIGIT_WORDS] == list(range(DIGITS))
    assert len(DIGIT_WORDS) * 4 == fields_size([DIGIT_FIELD])


def kernel(lanes: int, lines: list[str]) -> str:
    """Return a kernel of one subgroup a workgroup; `x` is read and `y` written."""
    fields = [("x", "In_uvec4"), ("y", "Out_uint64_t"), ("first", "uint"), DIGIT_FIELD]
    kinds = {"x": "In_uvec4", "y": "Out_uint64_t"}
    return "\n".join(
        [
            "#version 460",
            "#extension GL_EXT_buffer_reference : require",
            "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require",
            *(f"#extension {name} : require" for name in SUBGROUP_EXTENSIONS),
            *interface(fields, kinds),
            *uniform_load_functions(lanes, VECTORS),
            f"layout(local_size_x = {lanes}) in;",
            "void main() {",
            "    Blocks blocks0 = Blocks(args.x);",
            "    Words words0 = Words(args.y);",
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
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_blocks_are_copied(device: vkbackend.Device, lanes: int, dtype: str) -> None:
    size = VECTORS * lanes
    data = np.random.default_rng(1).integers(0, 1 << 30, (600, size), np.uint32)
    lines = load_vectors(0, dtype, "blocks0.at[told(number)]", 0, lanes)
    lines += [f"{line.split()[0]} y0_{k} = x0_{k};" for k, line in enumerate(lines)]
    lines += store_vectors(0, dtype, f"number * {size // 2}u", lanes)
    found = np.frombuffer(run(device, kernel(lanes, lines), data), np.uint32)
    np.testing.assert_array_equal(found.reshape(data.shape), data)


@pytest.mark.core
def test_a_vector_has_one_element_for_each_lane(
    device: vkbackend.Device, lanes: int
) -> None:
    data = np.arange(2 * VECTORS * lanes, dtype=np.uint32).reshape(2, -1)
    lines = load_vectors(0, "uint32", "blocks0.at[told(number)]", 0, lanes)
    lines.append(
        f"words0.at[number * {VECTORS * lanes // 2}u + gl_SubgroupInvocationID]"
        " = uint64_t(x0_1);"
    )
    found = np.frombuffer(run(device, kernel(lanes, lines), data), np.uint64)
    blocks = found.reshape(2, -1)[:, :lanes]
    np.testing.assert_array_equal(blocks, data[:, lanes : 2 * lanes])


@pytest.mark.core
@pytest.mark.parametrize("first", [0, 7, 8, 4095, 1 << 15, MAX_UNIFORM - 40])
def test_numbers_are_told(device: vkbackend.Device, lanes: int, first: int) -> None:
    data = np.zeros((40, 2 * lanes), np.uint32)
    place = f"number * {lanes}u + gl_SubgroupInvocationID"
    lines = [f"words0.at[{place}] = uint64_t(told(args.first + number));"]
    found = np.frombuffer(run(device, kernel(lanes, lines), data, first), np.uint64)
    expected = np.repeat(np.arange(first, first + 40, dtype=np.uint64), lanes)
    np.testing.assert_array_equal(found, expected)
